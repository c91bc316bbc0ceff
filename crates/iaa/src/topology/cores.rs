//! Which package a core and a NUMA node belong to.
//!
//! Devices are shared by package, not by node: some packages have more nodes than one.

use super::Sysfs;
use super::parse::{CORES_MAX, list, numbers};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

const CORES: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Packages by core and by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    packages: Vec<u32>,
    nodes: BTreeMap<u32, u32>,
}

impl Cores {
    /// Read the packages of all cores, and the cores of all nodes. A core whose package cannot be
    /// read, such as one that is offline, counts to package 0.
    #[must_use]
    pub fn discover(sysfs: &(impl Sysfs + ?Sized)) -> Self {
        let names = sysfs.list(CORES);
        let cores = names.iter().filter_map(|name| numbers::<1>(name, "cpu"));
        let last = cores.map(|[core]| core).filter(|&core| core < CORES_MAX).max();
        let package_of = |core: u32| {
            let text = sysfs.read(&format!("{CORES}/cpu{core}/topology/physical_package_id"));
            text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let packages: Vec<u32> = (0..last.map_or(0, |last| last + 1)).map(package_of).collect();
        let mut nodes = BTreeMap::new();
        for [node] in sysfs.list(NODES).iter().filter_map(|name| numbers::<1>(name, "node")) {
            let text = sysfs.read(&format!("{NODES}/node{node}/cpulist"));
            let cores = text.and_then(|text| list(text.trim())).unwrap_or_default();
            if let Some(&package) = cores.first().and_then(|&core| packages.get(core as usize)) {
                nodes.insert(node, package);
            }
        }
        Self { packages, nodes }
    }

    /// The package of each core, by the core's number.
    #[must_use]
    pub fn packages(&self) -> &[u32] {
        &self.packages
    }

    /// The package of a NUMA node that has cores.
    #[must_use]
    pub fn package_of_node(&self, node: u32) -> Option<u32> {
        self.nodes.get(&node).copied()
    }
}
