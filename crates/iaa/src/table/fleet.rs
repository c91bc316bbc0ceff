//! The queues in use, kept from one discovery to the next.
//!
//! When a queue or a device has come or gone, its owner does four things. Each is short, and
//! batches go on meanwhile.
//!
//! 1. [`Fleet::retain`]: take out what is gone, changed or not of use any more.
//! 2. [`Current::replace`](super::Current::replace) with [`Fleet::table`]: nobody new submits to
//!    it.
//! 3. [`Queue::drain`] what was taken out. Its late descriptors come back at the next sweep.
//! 4. [`Fleet::open`], and replace the table again. A dedicated queue can be opened only now, since
//!    the kernel lets one opener in.

use super::{DeviceQueues, Layout, Table};
use crate::portal::Portal;
use crate::queue::Queue;
use crate::topology::{Topology, WorkQueue, WorkQueueId};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The queues in use, by device.
#[derive(Debug, Default)]
pub struct Fleet(Vec<DeviceQueues>);

impl Fleet {
    /// Take out the queues that `topology` has no more, or has otherwise, and those that are gone.
    /// They are returned.
    pub fn retain(&mut self, topology: &Topology) -> Vec<Arc<Queue>> {
        let mut taken = Vec::new();
        for device in &mut self.0 {
            let found = topology.devices.iter().find(|found| found.number == device.number);
            device.queues.retain(|queue| {
                let is_found = found.is_some_and(|found| found.queues.contains(queue.work_queue()));
                if !is_found || queue.is_gone() {
                    taken.push(queue.clone());
                    return false;
                }
                true
            });
        }
        self.0.retain(|device| !device.queues.is_empty());
        taken
    }

    /// Open the queues of `topology` that are not in use yet. Returns those that `open` has failed
    /// for, with its errors.
    pub fn open<E>(
        &mut self,
        topology: &Topology,
        mut open: impl FnMut(&WorkQueue) -> Result<Box<dyn Portal>, E>,
    ) -> Vec<(WorkQueueId, E)> {
        let mut errors = Vec::new();
        for found in &topology.devices {
            let device = self.device(found.number, found.package);
            for work_queue in &found.queues {
                if device.queues.iter().any(|queue| queue.work_queue().id == work_queue.id) {
                    continue;
                }
                match open(work_queue) {
                    Ok(portal) => device.queues.push(Arc::new(Queue::new(work_queue.clone(), portal))),
                    Err(error) => errors.push((work_queue.id, error)),
                }
            }
            device.queues.sort_by_key(|queue| queue.work_queue().id);
        }
        self.0.retain(|device| !device.queues.is_empty());
        errors
    }

    fn device(&mut self, number: u32, package: u32) -> &mut DeviceQueues {
        let i = self
            .0
            .iter()
            .position(|device| device.number == number)
            .unwrap_or_else(|| {
                self.0.push(DeviceQueues {
                    number,
                    package,
                    queues: Vec::new(),
                });
                self.0.len() - 1
            });
        &mut self.0[i]
    }

    /// The table of these queues for cores of `packages`.
    #[must_use]
    pub fn table(&self, packages: &[u32], layout: Layout) -> Table {
        Table::new(&self.0, packages, layout)
    }

    /// All queues.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.0.iter().flat_map(|device| &device.queues)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::aecs::DecompressAecs;
    use crate::completion::Direction;
    use crate::portal::Submitted;
    use crate::queue::test::work_queue;
    use crate::topology::{Device, Mode, Opcodes};
    use alloc::string::{String, ToString};

    struct Drained;

    impl Portal for Drained {
        fn submit(&self, _descriptor: &[u8; 64]) -> Submitted {
            Submitted::Accepted
        }

        fn drain(&self) -> bool {
            true
        }
    }

    /// Devices of these numbers, two queues each.
    fn topology(numbers: &[u32]) -> Topology {
        let device = |&number: &u32| Device {
            number,
            version: 0x100,
            numa_node: None,
            package: 0,
            op_cap: Opcodes::default(),
            iaa_cap: 0,
            gen_cap: 0,
            max_transfer_size: 2 << 20,
            max_work_queues_size: 128,
            queues: (0..2).map(|i| work_queue(number, i, Mode::Shared)).collect(),
        };
        Topology {
            devices: numbers.iter().map(device).collect(),
            ..Topology::default()
        }
    }

    fn names<'a>(queues: impl IntoIterator<Item = &'a Arc<Queue>>) -> Vec<String> {
        queues
            .into_iter()
            .map(|queue| queue.work_queue().id.to_string())
            .collect()
    }

    fn open(fleet: &mut Fleet, topology: &Topology) -> usize {
        let mut opened = 0;
        let errors = fleet.open(topology, |_| {
            opened += 1;
            Ok::<_, ()>(Box::new(Drained) as Box<dyn Portal>)
        });
        assert_eq!(errors, []);
        opened
    }

    #[test]
    fn devices_come_and_go() {
        let mut fleet = Fleet::default();
        assert_eq!(open(&mut fleet, &topology(&[3, 1])), 4);
        assert_eq!(names(fleet.queues()), ["wq3.0", "wq3.1", "wq1.0", "wq1.1"]);
        assert_eq!(open(&mut fleet, &topology(&[1, 3])), 0);
        assert_eq!(names(&fleet.retain(&topology(&[1]))), ["wq3.0", "wq3.1"]);
        let table = fleet.table(&[0], Layout::default());
        assert_eq!(names(table.queues(0, Direction::Compress)), ["wq1.1"]);
        assert_eq!(names(table.queues(0, Direction::Decompress)), ["wq1.0"]);
        assert_eq!(open(&mut fleet, &topology(&[1, 5])), 2);
        assert_eq!(fleet.queues().count(), 4);
    }

    #[test]
    fn a_queue_that_changed_is_opened_again() {
        let mut fleet = Fleet::default();
        let mut found = topology(&[1]);
        open(&mut fleet, &found);
        found.devices[0].queues[0].aecs = DecompressAecs::Format1;
        let taken = fleet.retain(&found);
        assert_eq!(names(&taken), ["wq1.0"]);
        assert!(taken[0].drain());
        assert_eq!(open(&mut fleet, &found), 1);
        assert_eq!(names(fleet.queues()), ["wq1.0", "wq1.1"]);
    }

    #[test]
    fn a_queue_that_is_gone_is_opened_again() {
        let mut fleet = Fleet::default();
        let found = topology(&[1]);
        open(&mut fleet, &found);
        assert!(fleet.queues().next().unwrap().drain());
        assert_eq!(names(&fleet.retain(&found)), ["wq1.0"]);
        assert_eq!(open(&mut fleet, &found), 1);
    }

    #[test]
    fn a_queue_that_does_not_open_is_named() {
        let mut fleet = Fleet::default();
        let errors = fleet.open(&topology(&[1]), |_| Err::<Box<dyn Portal>, _>("EBUSY"));
        let says: Vec<_> = errors
            .iter()
            .map(|(id, error)| alloc::format!("{id}: {error}"))
            .collect();
        assert_eq!(says, ["wq1.0: EBUSY", "wq1.1: EBUSY"]);
        assert_eq!(fleet.queues().count(), 0);
    }
}
