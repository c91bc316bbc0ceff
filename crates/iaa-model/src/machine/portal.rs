//! What a process has: the character device of a queue, and its portal (data sheet A3, A4).

use std::sync::Arc;

use super::core::Core;
use super::state::Target;
use crate::descriptor;
use crate::device::queue::OpenFile;
use crate::device::{Acceptance, Device, Mode, QueueState};

/// A process, by a number that a test chooses. A child has another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process(pub u64);

/// Why a call of the character device fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Errno {
    /// EPERM: no CAP_SYS_RAWIO, or not the process that opened the file.
    NotPermitted = 1,
    /// EAGAIN: the queue refused ENQCMDS as often as the kernel tries.
    Again = 11,
    /// EBUSY: the dedicated queue is open already.
    Busy = 16,
    /// ENODEV: no device, or the queue is not enabled.
    NoDevice = 19,
    /// EINVAL: a completion record's address is no multiple of 64.
    Invalid = 22,
}

/// What ENQCMD says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submission {
    /// ZF = 0. A queue or device that is not there swallows the descriptor all the same.
    Accepted,
    /// ZF = 1: try again.
    Retry,
}

/// What a file and its mappings share. The last of them to go releases the queue: as in the
/// kernel, a mapping survives `close` and keeps the file alive.
struct Open {
    core: Arc<Core>,
    target: Target,
    process: Process,
    number: u32,
}

/// An open character device.
pub struct File(Arc<Open>);

fn find<'a>(devices: &'a mut std::collections::BTreeMap<u32, Device>, target: &Target) -> Option<&'a mut Device> {
    devices
        .get_mut(&target.device)
        .filter(|device| device.serial == target.serial)
}

impl File {
    pub(super) fn open(core: &Arc<Core>, process: Process, device: u32, queue: u8) -> Result<Self, Errno> {
        let mut state = core.lock();
        let next = state.pasids.len() as u32 + 1;
        let pasid = *state.pasids.entry(process.0).or_insert(next);
        let number = state.fresh() as u32;
        let device = state.devices.get_mut(&device).ok_or(Errno::NoDevice)?;
        let target = Target {
            device: device.id,
            serial: device.serial,
            queue,
            pasid,
        };
        let queue = device.queues.get_mut(usize::from(queue)).ok_or(Errno::NoDevice)?;
        if queue.state != QueueState::On {
            return Err(Errno::NoDevice);
        }
        if queue.config.mode == Mode::Dedicated {
            if queue.owner.is_some() {
                return Err(Errno::Busy);
            }
            queue.owner = Some(pasid);
        }
        let file = OpenFile {
            process: process.0,
            pasid,
            record_faults: 0,
            record_fault_failures: 0,
        };
        queue.files.insert(number, file);
        drop(state);
        Ok(Self(Arc::new(Open {
            core: Arc::clone(core),
            target,
            process,
            number,
        })))
    }

    fn check(&self, caller: Process) -> Result<(), Errno> {
        if caller == self.0.process {
            Ok(())
        } else {
            Err(Errno::NotPermitted)
        }
    }

    /// `mmap` of one page at offset 0: the limited portal.
    pub fn map(&self, caller: Process) -> Result<Portal, Errno> {
        self.check(caller)?;
        let mut state = self.0.core.lock();
        if !state.config.may_map {
            return Err(Errno::NotPermitted);
        }
        find(&mut state.devices, &self.0.target).ok_or(Errno::NoDevice)?;
        drop(state);
        Ok(Portal(Arc::clone(&self.0)))
    }

    /// `write` of descriptors. The kernel copies and submits each; how many bytes it took is
    /// returned, or why it took none.
    pub fn write(&self, caller: Process, descriptors: &[[u8; descriptor::LEN]]) -> Result<usize, Errno> {
        self.check(caller)?;
        for (taken, raw) in descriptors.iter().enumerate() {
            match self.write_one(raw) {
                Err(error) if taken == 0 => return Err(error),
                Err(_) => return Ok(taken * descriptor::LEN),
                Ok(()) => {}
            }
        }
        Ok(descriptors.len() * descriptor::LEN)
    }

    fn write_one(&self, raw: &[u8; descriptor::LEN]) -> Result<(), Errno> {
        if !raw[8].is_multiple_of(64) {
            return Err(Errno::Invalid);
        }
        let mut state = self.0.core.lock();
        let device = find(&mut state.devices, &self.0.target).ok_or(Errno::NoDevice)?;
        let queue = &device.queues[usize::from(self.0.target.queue)];
        if queue.state != QueueState::On {
            return Err(Errno::NoDevice);
        }
        let (dedicated, retries) = (queue.config.mode == Mode::Dedicated, queue.config.enqcmds_retries);
        drop(state);
        if dedicated {
            self.0.core.submit(self.0.target, raw, true);
            return Ok(());
        }
        let refused = |_| self.0.core.submit(self.0.target, raw, false) == Acceptance::Refused;
        if (0..=retries).all(refused) {
            Err(Errno::Again)
        } else {
            Ok(())
        }
    }

    /// `poll`: whether a software error of this queue is latched (EPOLLIN).
    pub fn poll(&self, caller: Process) -> Result<bool, Errno> {
        self.check(caller)?;
        let mut state = self.0.core.lock();
        let device = find(&mut state.devices, &self.0.target).ok_or(Errno::NoDevice)?;
        Ok(device
            .sw_error
            .as_ref()
            .is_some_and(|error| error.queue == self.0.target.queue))
    }

    /// Descriptors of this file's process that the device may still answer: those that the queue
    /// or an engine has, and those whose record the kernel has yet to copy from the event log.
    ///
    /// `close` of the kernel drains: it returns once there are none. Who closes a file here waits
    /// by himself, since only he knows how time passes.
    pub fn held(&self) -> usize {
        let mut state = self.0.core.lock();
        let Some(device) = find(&mut state.devices, &self.0.target) else {
            return 0;
        };
        let Target {
            queue: number, pasid, ..
        } = self.0.target;
        let queue = &device.queues[usize::from(number)];
        let entries = queue.waiting.iter().chain(queue.in_flight.values());
        let logged = device.event_log.entries();
        entries.filter(|entry| entry.pasid == pasid).count()
            + logged
                .filter(|entry| entry.pasid == pasid && entry.queue == number)
                .count()
    }
}

impl Drop for Open {
    /// What is in flight completes all the same. The kernel's drain is not waited for: see
    /// [`File::held`].
    fn drop(&mut self) {
        let mut state = self.core.lock();
        if let Some(device) = find(&mut state.devices, &self.target) {
            let queue = &mut device.queues[usize::from(self.target.queue)];
            queue.files.remove(&self.number);
            if queue.config.mode == Mode::Dedicated {
                queue.owner = None;
            }
        }
    }
}

/// A mapped portal. Every 64-byte slot of its page is as good as another, so there is one only.
#[derive(Clone)]
pub struct Portal(Arc<Open>);

impl Portal {
    /// ENQCMD: to a shared queue.
    pub fn enqcmd(&self, raw: &[u8; descriptor::LEN]) -> Submission {
        match self.0.core.submit(self.0.target, raw, false) {
            Acceptance::Refused => Submission::Retry,
            Acceptance::Accepted | Acceptance::Gone | Acceptance::Dropped => Submission::Accepted,
        }
    }

    /// MOVDIR64B: to a dedicated queue. Nothing comes back; beyond the queue's size the descriptor
    /// is lost and SWERR latched.
    pub fn movdir64b(&self, raw: &[u8; descriptor::LEN]) {
        self.0.core.submit(self.0.target, raw, true);
    }
}
