//! Devices of this machine, by their character devices.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use uzswap_ctl::accel;
use uzswap_iaa::portal::{Portal, Submitted};
use uzswap_iaa::resident::{Resident, Room};
use uzswap_iaa::topology::{Mode, Sysfs, Topology};
use uzswap_sys::portal::{Answer, Instructions, WorkQueue};
use uzswap_sys::time::now_ns;
use uzswap_sys::words::{lock, words_wiped_on_fork};
use uzswap_sys::{Errno, sysfs};

use super::{Accel, Queues, Way, counters};

/// How often sysfs is read for devices that come and go, nanoseconds.
const LOOK_NS: u64 = 1_000_000_000;

/// How they are got at.
pub(super) struct Hardware {
    file: accel::Accel,
    instructions: Instructions,
    /// Sysfs is not read before then, nanoseconds.
    look_at: u64,
}

impl Hardware {
    pub(super) fn new(file: accel::Accel) -> Self {
        Self {
            file,
            instructions: Instructions::detect(),
            look_at: 0,
        }
    }
}

/// Memory that stays where it is, and that a child gets as zeros: what the parent's devices write
/// is the parent's.
///
/// # Errors
/// What `mmap` and `madvise` answer.
pub(super) fn memory(room: Room) -> Result<Resident, Errno> {
    let words = words_wiped_on_fork(room.bytes())?;
    // Without, a device may find a page missing: software does what it was to do.
    let _ = lock(words);
    // The device is given the address of the words as this process has it.
    Ok(Resident::new(words, room, words.as_ptr().expose_provenance() as u64))
}

/// Sysfs of this machine.
struct System;

impl Sysfs for System {
    fn read(&self, path: &str) -> Option<String> {
        sysfs::read(path)
    }

    fn list(&self, path: &str) -> Vec<String> {
        sysfs::list(path)
    }
}

impl Accel {
    /// Open what has come, close what has gone. `lacks`: a queue does not answer, or much is late.
    pub(super) fn tend_hardware(&self, queues: &mut Queues, lacks: bool) {
        let Way::Hardware(hardware) = &mut queues.way else {
            return;
        };
        let now = now_ns();
        if now < hardware.look_at && !lacks {
            return;
        }
        hardware.look_at = now + LOOK_NS;
        let (file, instructions) = (hardware.file, hardware.instructions);
        let topology = Topology::discover(&System);
        let keeps = if lacks { &Topology::default() } else { &topology };
        // The kernel waits for what was submitted as each is closed.
        for queue in self.retire(queues, keeps) {
            queue.drain();
        }
        self.bounce.sweep();
        self.open(queues, &topology, |work_queue| {
            let path = CString::new(work_queue.id.node()).map_err(|_| Errno::INVAL)?;
            let is_shared = work_queue.mode == Mode::Shared;
            Ok(Box::new(Door {
                queue: WorkQueue::open(&path, is_shared, instructions)?,
                counters: counters(file, work_queue),
            }) as Box<dyn Portal>)
        });
    }
}

/// A work queue that is open.
struct Door {
    queue: WorkQueue,
    counters: [&'static AtomicU64; 4],
}

impl Portal for Door {
    fn submit(&self, descriptor: &[u8; 64]) -> Submitted {
        match self.queue.submit(descriptor) {
            Answer::Accepted => Submitted::Accepted,
            Answer::Full => Submitted::Full,
            Answer::Gone => Submitted::Gone,
        }
    }

    fn drain(&self) -> bool {
        self.queue.close();
        true
    }

    fn counters(&self) -> Option<[&'static AtomicU64; 4]> {
        Some(self.counters)
    }
}
