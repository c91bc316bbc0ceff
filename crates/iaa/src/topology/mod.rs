//! Devices, their work queues and the cores near them, as sysfs tells (data sheet A2).
//!
//! A work queue is of use if its device and itself are enabled, its type is `user`, and the device
//! has PASIDs. Each that is of no use gives a [`Refusal`], which names the value and the rule.

mod cores;
mod device;
mod parse;

pub use cores::Cores;
pub use device::{Device, Mode, WorkQueue, WorkQueueId};
pub use parse::{Opcodes, Refusal};

use alloc::string::String;
use alloc::vec::Vec;
use parse::numbers;

/// Where the kernel lists the devices.
pub const DEVICES: &str = "/sys/bus/dsa/devices";
/// Where the character devices of work queues are.
pub const NODES: &str = "/dev/iax";

/// The files that discovery reads.
pub trait Sysfs {
    /// The content of a file, if it can be read.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a directory, in any order; none if it does not exist.
    fn list(&self, path: &str) -> Vec<String>;
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Devices with at least one work queue of use, by number.
    pub devices: Vec<Device>,
    /// The packages of cores.
    pub cores: Cores,
    /// What is not of use, and why.
    pub refusals: Vec<Refusal>,
}

impl Topology {
    /// Read all devices, work queues and cores.
    #[must_use]
    pub fn discover(sysfs: &(impl Sysfs + ?Sized)) -> Self {
        let cores = Cores::discover(sysfs);
        let mut found = Self::default();
        let mut names = sysfs.list(DEVICES);
        names.sort_by_key(|name| numbers::<1>(name, "iax"));
        for number in names.iter().filter_map(|name| numbers::<1>(name, "iax")) {
            match Device::discover(sysfs, number[0], &cores, &mut found.refusals) {
                Ok(device) if device.queues.is_empty() => {}
                Ok(device) => found.devices.push(device),
                Err(refusal) => found.refusals.push(refusal),
            }
        }
        found.cores = cores;
        found
    }

    /// All work queues of use.
    pub fn queues(&self) -> impl Iterator<Item = &WorkQueue> {
        self.devices.iter().flat_map(|device| &device.queues)
    }
}

#[cfg(test)]
mod test;
