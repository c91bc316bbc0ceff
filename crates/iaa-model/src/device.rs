//! One device: queues, groups, engines, registers, event log (data sheet A4, A10, A13).
//!
//! A device has no clock and runs nothing: a machine asks it for jobs and tells it what became of
//! them.

mod arbiter;
pub mod caps;
mod command;
mod event_log;
pub(crate) mod queue;
mod registers;
mod sw_error;

use crate::check::Rules;
use crate::descriptor::Descriptor;
use caps::Caps;
pub use command::CommandError;
pub use event_log::{EventLog, LogEntry};
pub use queue::{Mode, QueueConfig, QueueKind, QueueState};
pub use sw_error::SwError;

use queue::{Entry, Queue};

/// Whether ones that are written to the register at `offset` clear its bits.
pub(crate) fn cleared_by_ones(offset: u32) -> bool {
    Device::is_cleared_by_ones(offset)
}

/// A group's own settings: nothing that the model does depends on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupConfig {
    /// The register's flags: traffic classes, read buffers, progress limit.
    pub flags: u64,
}

/// One engine. Of those of a device the first few compress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Engine {
    pub group: Option<u8>,
    pub compresses: bool,
    pub is_busy: bool,
}

/// A descriptor on an engine.
pub(crate) struct Job {
    pub device: u32,
    /// Which device of that number it was, and how often it had been reset.
    pub life: (u64, u64),
    pub queue: u8,
    pub queue_epoch: u64,
    pub engine: u8,
    pub entry: Entry,
    pub descriptor: Descriptor,
    pub rules: Rules,
}

/// How a submission ended at the portal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acceptance {
    Accepted,
    /// ENQCMD only.
    Refused,
    /// Nothing will ever come of it: the queue or its device is not there, or not on.
    Gone,
    /// Nothing will ever come of it: MOVDIR64B to a queue without room, or to a shared one.
    Dropped,
}

/// A device.
pub(crate) struct Device {
    pub id: u32,
    /// Unique among all devices ever added.
    pub serial: u64,
    pub caps: Caps,
    pub numa_node: u32,
    pub queues: Vec<Queue>,
    pub groups: Vec<GroupConfig>,
    pub engines: Vec<Engine>,
    pub is_enabled: bool,
    pub is_halted: bool,
    pub sw_error: Option<SwError>,
    pub event_log: EventLog,
    /// Work that engines took before the last reset.
    epoch: u64,
    interrupt_cause: u64,
    general_config: u64,
    general_control: u64,
    command_status: u64,
    /// Why the kernel did not enable something: bits of cmd_status that no command sets.
    pub software_status: u32,
    pending: Option<command::Command>,
}

impl Device {
    /// A device with `configs` for its queues and `engines` in group 0, all enabled.
    pub fn new(id: u32, serial: u64, numa_node: u32, caps: Caps, configs: &[QueueConfig], engines: u8) -> Self {
        let engine = |i: u8| Engine {
            group: (i < engines).then_some(0),
            compresses: i < caps.compress_engines,
            is_busy: false,
        };
        let queue = |i: u8| {
            let config = configs.get(usize::from(i)).cloned();
            Queue::new(config.unwrap_or_else(|| QueueConfig::absent(&caps)))
        };
        let mut device = Self {
            id,
            serial,
            numa_node,
            queues: (0..caps.queues).map(queue).collect(),
            groups: vec![GroupConfig::default(); usize::from(caps.groups)],
            engines: (0..caps.engines).map(engine).collect(),
            is_enabled: true,
            is_halted: false,
            sw_error: None,
            event_log: EventLog::default(),
            epoch: 0,
            interrupt_cause: 0,
            general_config: 0,
            general_control: 0,
            command_status: 0,
            software_status: 0,
            pending: None,
            caps,
        };
        device.enable_configured();
        device
    }

    /// Enable every queue that has a size, as after `accel-config load-config -e`.
    pub fn enable_configured(&mut self) {
        self.is_enabled = true;
        for queue in &mut self.queues {
            if queue.config.size > 0 && queue.state == QueueState::Off {
                queue.state = QueueState::On;
            }
        }
    }

    pub fn life(&self) -> (u64, u64) {
        (self.serial, self.epoch)
    }

    pub fn is_running(&self) -> bool {
        self.is_enabled && !self.is_halted
    }

    /// Descriptors that wait or are on an engine.
    pub fn in_flight(&self) -> usize {
        self.queues.iter().map(Queue::held).sum()
    }

    /// Whether `queue` would take a descriptor now.
    pub fn has_room(&self, queue: u8, posted: bool) -> bool {
        let queue = self.queues.get(usize::from(queue)).filter(|_| self.is_running());
        queue.is_some_and(|queue| {
            let dedicated = queue.config.mode == Mode::Dedicated;
            let bound = !dedicated || queue.owner.is_some();
            let full = queue.waiting.len() >= queue.config.room();
            queue.state == QueueState::On && dedicated == posted && bound && queue.refusals == 0 && !full
        })
    }

    /// A descriptor arrives at the portal of `queue`. `posted`: by MOVDIR64B, else by ENQCMD.
    pub fn accept(&mut self, queue: u8, entry: Entry, posted: bool) -> Acceptance {
        let running = self.is_running();
        let at = usize::from(queue);
        let Some(target) = self
            .queues
            .get_mut(at)
            .filter(|target| target.state == QueueState::On && running)
        else {
            return Acceptance::Gone;
        };
        let dedicated = target.config.mode == Mode::Dedicated;
        if dedicated && target.owner.is_none() {
            return Acceptance::Gone;
        }
        let refused = target.refuses();
        if dedicated == posted && !refused && target.waiting.len() < target.config.room() {
            let group = target.config.group;
            let first = target.waiting.is_empty();
            target.waiting.push_back(entry);
            if first {
                self.join(at, group);
            }
            return Acceptance::Accepted;
        }
        if !posted {
            return Acceptance::Refused;
        }
        self.latch(SwError::lost(queue, &entry));
        Acceptance::Dropped
    }

    /// Latch a software error: only the first is kept, a second sets the overflow bit.
    pub fn latch(&mut self, error: SwError) {
        self.interrupt_cause |= registers::CAUSE_ERROR;
        match &mut self.sw_error {
            Some(latched) => latched.overflow = true,
            None => self.sw_error = Some(error),
        }
    }

    /// A hardware error: until a reset portals take nothing and engines take nothing. What other
    /// engines have already completes.
    pub fn halt(&mut self) {
        self.is_halted = true;
        self.interrupt_cause |= registers::CAUSE_HALT;
    }

    /// The job's engine is free again. What it worked on may have been aborted since.
    pub fn free_engine(&mut self, job: &Job) {
        if self.life() == job.life {
            self.engines[usize::from(job.engine)].is_busy = false;
        }
    }

    /// Whether the job still counts: neither its device nor its queue was reset.
    pub fn is_current(&self, job: &Job) -> bool {
        self.life() == job.life && self.queues[usize::from(job.queue)].epoch == job.queue_epoch
    }

    /// The job is over.
    pub fn release(&mut self, job: &Job) {
        self.queues[usize::from(job.queue)]
            .in_flight
            .remove(&job.entry.sequence);
        self.settle();
    }

    /// Note an event: the record that could not be written.
    pub fn log(&mut self, entry: LogEntry) -> bool {
        self.interrupt_cause |= registers::CAUSE_EVENT_LOG;
        self.event_log.push(entry)
    }
}
