//! The command register: enable, disable, drain, abort and reset (data sheet A10).
//!
//! The data sheet gives command numbers and four result codes. Assumed are the other results, and
//! that the operand is the queue's number in every command that names one.

use super::queue::{Entry, QueueState};
use super::{Device, Mode, registers};

/// Bits 7:0 of CMDSTS. As the sysfs attribute shows them, bit 31 is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CommandError {
    /// Done.
    None = 0x00,
    /// No such command (assumed).
    InvalidCommand = 0x01,
    /// No such queue (assumed).
    InvalidQueue = 0x02,
    /// The device is enabled.
    DeviceEnabled = 0x10,
    /// Sizes or groups are wrong (assumed).
    Configuration = 0x11,
    /// The device is not enabled.
    DeviceNotEnabled = 0x20,
    /// The queue is enabled.
    QueueEnabled = 0x21,
    /// The queue is not enabled (assumed).
    QueueNotEnabled = 0x22,
}

/// CMDSTS: the command is not done yet.
const ACTIVE: u64 = 1 << 31;

/// A command that waits until what is in flight has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    DisableDevice,
    DrainAll,
    DisableQueue(usize),
    DrainQueue(usize),
}

impl Device {
    /// Run the command in `word`: operand in 19:0, command in 24:20. What it aborts is returned.
    pub fn command(&mut self, word: u32) -> Vec<Entry> {
        let (operand, command) = ((word & 0xf_ffff) as usize, word >> 20 & 31);
        let names_queue = (6..=10).contains(&command);
        if names_queue && operand >= self.queues.len() {
            return self.refuse(CommandError::InvalidQueue);
        }
        match command {
            1 => self.enable_device(),
            2 if self.is_enabled => self.wait_for(Command::DisableDevice),
            2 => self.refuse(CommandError::DeviceNotEnabled),
            3 | 11 => self.wait_for(Command::DrainAll),
            4 => self.abort_queues(|_| true),
            5 => self.reset(),
            6 => self.enable_queue(operand),
            7..=10 if self.queues[operand].state == QueueState::Off => self.refuse(CommandError::QueueNotEnabled),
            7 => self.wait_for(Command::DisableQueue(operand)),
            8 => self.wait_for(Command::DrainQueue(operand)),
            9 => self.abort_queues(|i| i == operand),
            10 => self.reset_queue(operand),
            // Only shared queues have descriptors of several processes.
            12 => self.abort_pasid(operand as u32),
            _ => self.refuse(CommandError::InvalidCommand),
        }
    }

    fn finish(&mut self, result: CommandError) {
        self.command_status = result as u64;
        self.interrupt_cause |= registers::CAUSE_COMMAND;
    }

    fn refuse(&mut self, result: CommandError) -> Vec<Entry> {
        self.finish(result);
        Vec::new()
    }

    fn enable_device(&mut self) -> Vec<Entry> {
        let entries: u32 = self.queues.iter().map(|queue| u32::from(queue.config.size)).sum();
        let result = match () {
            () if self.is_enabled => CommandError::DeviceEnabled,
            () if entries > u32::from(self.caps.entries) => CommandError::Configuration,
            () => CommandError::None,
        };
        self.is_enabled = true;
        self.refuse(result)
    }

    fn enable_queue(&mut self, at: usize) -> Vec<Entry> {
        let queue = &mut self.queues[at];
        let config = &queue.config;
        let threshold = config.mode == Mode::Dedicated || (1..=config.size).contains(&config.threshold);
        let result = match () {
            () if !self.is_enabled || self.is_halted => CommandError::DeviceNotEnabled,
            () if queue.state != QueueState::Off => CommandError::QueueEnabled,
            () if config.size == 0 || config.group.is_none() || !threshold => CommandError::Configuration,
            () => CommandError::None,
        };
        if result == CommandError::None {
            queue.state = QueueState::On;
        }
        self.refuse(result)
    }

    /// Queues that are disabled take nothing any more while they finish what they have.
    fn wait_for(&mut self, command: Command) -> Vec<Entry> {
        match command {
            Command::DisableDevice => self.queues.iter_mut().for_each(stop),
            Command::DisableQueue(at) => stop(&mut self.queues[at]),
            Command::DrainAll | Command::DrainQueue(_) => {}
        }
        self.command_status = ACTIVE;
        self.pending = Some(command);
        self.settle();
        Vec::new()
    }

    /// Complete the command that waits, if what it waits for is over.
    pub(super) fn settle(&mut self) {
        let held = match self.pending {
            None => return,
            Some(Command::DisableDevice | Command::DrainAll) => self.in_flight(),
            Some(Command::DisableQueue(at) | Command::DrainQueue(at)) => self.queues[at].held(),
        };
        if held > 0 {
            return;
        }
        match self.pending.take() {
            Some(Command::DisableDevice) => {
                self.queues.iter_mut().for_each(|queue| queue.state = QueueState::Off);
                self.is_enabled = false;
            }
            Some(Command::DisableQueue(at)) => self.queues[at].state = QueueState::Off,
            _ => {}
        }
        self.finish(CommandError::None);
    }

    fn abort_queues(&mut self, which: impl Fn(usize) -> bool) -> Vec<Entry> {
        let queues = self.queues.iter_mut().enumerate();
        let aborted = queues
            .filter(|(i, _)| which(*i))
            .flat_map(|(_, queue)| queue.abort())
            .collect();
        self.settle();
        self.finish(CommandError::None);
        aborted
    }

    fn abort_pasid(&mut self, pasid: u32) -> Vec<Entry> {
        let mut aborted = Vec::new();
        for queue in &mut self.queues {
            let (gone, kept) = queue
                .waiting
                .drain(..)
                .partition::<Vec<_>, _>(|entry| entry.pasid == pasid);
            aborted.extend(gone);
            queue.waiting = kept.into();
        }
        self.settle();
        self.finish(CommandError::None);
        aborted
    }

    /// Abort what a queue holds and take it out of service; its op_config is the device's again.
    pub fn reset_queue(&mut self, at: usize) -> Vec<Entry> {
        let aborted = self.abort_queues(|i| i == at);
        let queue = &mut self.queues[at];
        queue.state = QueueState::Off;
        queue.config.op_config = self.caps.op_cap;
        queue.refusals = 0;
        aborted
    }

    /// Abort everything; engines are idle, queues and device disabled, a halt is over.
    pub fn reset(&mut self) -> Vec<Entry> {
        self.pending = None;
        let aborted = self.abort_queues(|_| true);
        self.epoch += 1;
        self.engines.iter_mut().for_each(|engine| engine.is_busy = false);
        for queue in &mut self.queues {
            queue.state = QueueState::Off;
            queue.config.op_config = self.caps.op_cap;
            queue.refusals = 0;
        }
        self.is_enabled = false;
        self.is_halted = false;
        aborted
    }

    /// Abort what a queue holds and disable it.
    pub fn disable_at_once(&mut self, at: usize) -> Vec<Entry> {
        let aborted = self.abort_queues(|i| i == at);
        self.queues[at].state = QueueState::Off;
        aborted
    }
}

fn stop(queue: &mut super::Queue) {
    if queue.state == QueueState::On {
        queue.state = QueueState::Busy;
    }
}
