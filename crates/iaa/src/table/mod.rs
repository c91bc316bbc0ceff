//! Which work queues a core submits to.
//!
//! A [`Table`] is made as a whole from all [`DeviceQueues`], and never changes. When a queue or a
//! device comes or goes, who noticed makes a new one and swaps it in ([`Fleet`], [`Current`]).
//! Threads look at the table through a [`Reader`], which costs one load; old queues are let go when
//! nobody holds them.
//!
//! - **Roles.** The last [`Layout::compress_queues`] of a device compress only, the others
//!   decompress only. A device with too few queues has generic ones, which do both.
//! - **Packages.** A core uses the devices of its package; if there are none, all devices.
//! - **Mapped or distributed.** The cores of a package are mapped to its devices evenly, in blocks.
//!   A core uses its own device, or, where jobs are distributed, all of the package in turn.

mod current;
mod fleet;

pub use current::{Current, Reader};
pub use fleet::Fleet;

use crate::completion::Direction;
use crate::queue::Queue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How queues are given to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Queues of each device that compress only (`g_comp_wqs_per_iaa`). 0: all are generic.
    pub compress_queues: usize,
    /// Compressions go to all devices of the package in turn (`distribute_comps`).
    pub distribute_compress: bool,
    /// Decompressions do (`distribute_decomps`).
    pub distribute_decompress: bool,
}

impl Default for Layout {
    /// The defaults of the kernel's batching series.
    fn default() -> Self {
        Self {
            compress_queues: 1,
            distribute_compress: true,
            distribute_decompress: false,
        }
    }
}

/// A device's queues that are in use.
#[derive(Clone, Debug)]
pub struct DeviceQueues {
    /// Its number.
    pub number: u32,
    /// Its package.
    pub package: u32,
    /// Its queues, by number.
    pub queues: Vec<Arc<Queue>>,
}

/// What a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Compressions only.
    Compress,
    /// Decompressions only.
    Decompress,
    /// Both.
    Generic,
}

/// The queues of one core, and whose turn it is, by direction. A line of its own, so that cores do
/// not wait for each other's turns.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Core {
    queues: [Vec<Arc<Queue>>; 2],
    turns: [AtomicUsize; 2],
}

/// The queues of all cores.
#[derive(Debug, Default)]
pub struct Table {
    cores: Vec<Core>,
    roles: Vec<(Arc<Queue>, Role)>,
}

impl Table {
    /// The table of cores whose packages are `packages`, by the core's number.
    #[must_use]
    pub fn new(devices: &[DeviceQueues], packages: &[u32], layout: Layout) -> Self {
        let mut devices: Vec<&DeviceQueues> = devices.iter().filter(|device| !device.queues.is_empty()).collect();
        devices.sort_by_key(|device| device.number);
        let core = |(core, &package): (usize, &u32)| {
            let near: Vec<&DeviceQueues> = devices
                .iter()
                .filter(|device| device.package == package)
                .copied()
                .collect();
            let near = if near.is_empty() { &devices } else { &near };
            let before = packages[..core].iter().filter(|&&other| other == package).count();
            let all = packages.iter().filter(|&&other| other == package).count();
            // In blocks: of 56 cores and 4 devices, the first 14 have the first device.
            let own = before * near.len() / all;
            let queues = |direction, distribute| queues_of(near, own, direction, distribute, layout);
            Core {
                queues: [
                    queues(Direction::Compress, layout.distribute_compress),
                    queues(Direction::Decompress, layout.distribute_decompress),
                ],
                // Cores of a device start at different queues, lest all begin with the first.
                turns: [const { 0 }; 2].map(|turn: usize| AtomicUsize::new(turn + before)),
            }
        };
        let roles = devices.iter().flat_map(|device| roles_of(device, layout)).collect();
        Self {
            cores: packages.iter().enumerate().map(core).collect(),
            roles,
        }
    }

    /// The queues that a job of `core` may go to, the one whose turn it is first. Those that are
    /// gone or suspect are left out.
    pub fn queues(&self, core: usize, direction: Direction) -> impl Iterator<Item = &Arc<Queue>> {
        let core = (!self.cores.is_empty()).then(|| &self.cores[core % self.cores.len()]);
        let queues = core.map_or(&[][..], |core| &core.queues[direction as usize]);
        // Relaxed: a turn only spreads jobs.
        let turn = core.map_or(0, |core| core.turns[direction as usize].fetch_add(1, Ordering::Relaxed));
        let (before, from) = queues.split_at(turn.checked_rem(queues.len()).unwrap_or(0));
        from.iter().chain(before).filter(|queue| queue.is_usable())
    }

    /// All queues with their roles.
    #[must_use]
    pub fn roles(&self) -> &[(Arc<Queue>, Role)] {
        &self.roles
    }
}

/// A device's queues with their roles.
fn roles_of(device: &DeviceQueues, layout: Layout) -> impl Iterator<Item = (Arc<Queue>, Role)> {
    let count = device.queues.len();
    let are_generic = layout.compress_queues == 0 || layout.compress_queues >= count;
    let first_compress = count.saturating_sub(layout.compress_queues);
    let role = move |i: usize| match i {
        _ if are_generic => Role::Generic,
        i if i >= first_compress => Role::Compress,
        _ => Role::Decompress,
    };
    device
        .queues
        .iter()
        .enumerate()
        .map(move |(i, queue)| (queue.clone(), role(i)))
}

/// A device's queues for a direction. If none of that role supports it, any that does.
fn queues_for(device: &DeviceQueues, direction: Direction, layout: Layout) -> Vec<Arc<Queue>> {
    let wanted = match direction {
        Direction::Compress => Role::Compress,
        Direction::Decompress => Role::Decompress,
    };
    let able = || roles_of(device, layout).filter(|(queue, _)| queue.supports(direction));
    let mut queues: Vec<_> = able()
        .filter(|&(_, role)| role == wanted || role == Role::Generic)
        .map(|(queue, _)| queue)
        .collect();
    if queues.is_empty() {
        queues.extend(able().map(|(queue, _)| queue));
    }
    queues
}

/// The queues of a core whose own device is `near[own]`, one of each device before the second of
/// any.
fn queues_of(
    near: &[&DeviceQueues],
    own: usize,
    direction: Direction,
    distribute: bool,
    layout: Layout,
) -> Vec<Arc<Queue>> {
    let own_first = (0..near.len()).map(|i| near[(own + i) % near.len()]);
    let mut of_devices: Vec<Vec<Arc<Queue>>> = own_first
        .map(|device| queues_for(device, direction, layout))
        .filter(|queues| !queues.is_empty())
        .collect();
    if !distribute {
        of_devices.truncate(1);
    }
    let most = of_devices.iter().map(Vec::len).max().unwrap_or(0);
    let nth = |n: usize| of_devices.iter().filter_map(move |queues| queues.get(n).cloned());
    (0..most).flat_map(nth).collect()
}

#[cfg(test)]
mod test;
