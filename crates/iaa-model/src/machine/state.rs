//! Submissions, completions, faults and outages.

use std::collections::BTreeMap;

use super::Config;
use super::ledger::{Ledger, Outcome};
use super::perform::perform;
use crate::completion::Record;
use crate::descriptor::{Descriptor, LEN, flag};
use crate::device::queue::Entry;
use crate::device::{Acceptance, Device, Job, LogEntry, QueueConfig, QueueState, SwError};
use crate::fault::{Fault, Injector, KernelCopy};
use crate::memory::Memory;
use crate::operation::{Effects, apply};
use crate::status::Status;

/// What a portal leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub device: u32,
    /// A device of the same number that was added later is another one.
    pub serial: u64,
    pub queue: u8,
    pub pasid: u32,
}

/// What happens at a later time.
pub(super) enum Event {
    /// An engine is done: on the virtual clock only.
    Finish(Box<(Job, Effects)>),
    /// A late descriptor completes.
    Retire(Box<(Job, Effects)>),
    /// The kernel serves the oldest event of a device's log.
    Serve { device: u32, serial: u64 },
    /// The kernel mends a device.
    Restore { device: u32 },
}

pub(super) struct State {
    pub config: Config,
    pub devices: BTreeMap<u32, Device>,
    pub injector: Injector,
    pub ledger: Ledger,
    /// Nanoseconds since the start.
    pub now: u64,
    pub is_stopping: bool,
    pub pasids: BTreeMap<u64, u32>,
    /// By time and then in the order in which they were planned.
    events: BTreeMap<(u64, u64), Event>,
    /// Counts events, descriptors, devices and open files.
    last: u64,
    /// The device that had the last job: the next one comes first.
    turn: u32,
}

impl State {
    pub fn new(config: Config) -> Self {
        let outages = config.outage_ns.is_some();
        let mut state = Self {
            injector: Injector::new(config.seed, config.permille, outages, config.late_ns),
            devices: BTreeMap::new(),
            ledger: Ledger::default(),
            now: 0,
            is_stopping: false,
            pasids: BTreeMap::new(),
            events: BTreeMap::new(),
            last: 0,
            turn: 0,
            config,
        };
        state.ledger.trace = state.config.trace.then(Vec::new);
        for _ in 0..state.config.devices {
            state.add_device(None);
        }
        state
    }

    /// A number that was not used before.
    pub fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn plan(&mut self, after_ns: u64, event: Event) {
        let key = (self.now.saturating_add(after_ns), self.fresh());
        self.events.insert(key, event);
    }

    pub fn configure(&mut self, device: u32, queue: u8, config: QueueConfig) -> bool {
        let queues = self.devices.get_mut(&device).map(|device| &mut device.queues);
        let Some(queue) = queues.and_then(|queues| queues.get_mut(usize::from(queue))) else {
            return false;
        };
        let is_off = queue.state == QueueState::Off;
        if is_off {
            queue.config = config;
        }
        is_off
    }

    pub fn write_register(&mut self, device: u32, offset: u32, value: u64, memory: &dyn Memory) {
        if let Some(device) = self.devices.get_mut(&device) {
            let aborted = device.write_register(offset, value);
            self.abort(aborted, memory);
        }
    }

    /// A descriptor arrives at a portal. `posted`: by MOVDIR64B, else by ENQCMD.
    pub fn submit(&mut self, target: Target, raw: &[u8; LEN], posted: bool) -> Acceptance {
        self.ledger.counters.submitted += 1;
        let accepted = self.try_submit(target, raw, posted);
        let counters = &mut self.ledger.counters;
        match accepted {
            Acceptance::Accepted => {
                counters.accepted += 1;
                counters.in_flight += 1;
            }
            Acceptance::Refused => counters.refused += 1,
            Acceptance::Gone => counters.gone += 1,
            Acceptance::Dropped => counters.dropped += 1,
        }
        accepted
    }

    fn try_submit(&mut self, target: Target, raw: &[u8; LEN], posted: bool) -> Acceptance {
        let sequence = self.fresh();
        let device = self.devices.get_mut(&target.device);
        let Some(device) = device.filter(|device| device.serial == target.serial) else {
            return Acceptance::Gone;
        };
        let mut raw = *raw;
        if !posted {
            // ENQCMD takes the PASID from the processor and drops the privilege.
            let first = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]) & 0x7ff0_0000;
            raw[..4].copy_from_slice(&(first | target.pasid).to_le_bytes());
        }
        let d = Descriptor::decode(&raw);
        let mut fault = None;
        if device.has_room(target.queue, posted) {
            fault = self.injector.draw(&d);
        }
        match (fault, device.queues.get_mut(usize::from(target.queue))) {
            (Some(Fault::Full { tries }), Some(queue)) => queue.refusals = tries,
            (Some(Fault::OpConfigNarrowed), Some(queue)) => queue.config.op_config.remove(d.opcode),
            _ => {}
        }
        let entry = Entry {
            sequence,
            raw,
            pasid: target.pasid,
            fault,
        };
        device.accept(target.queue, entry, posted)
    }

    /// The devices take turns, so that the last one is not left to the end.
    pub fn next_job(&mut self) -> Option<Job> {
        let turn = self.turn;
        let (mut later, mut earlier) = (self.devices.range_mut(turn + 1..), None);
        let mut job = later.find_map(|(_, device)| device.next_job());
        if job.is_none() {
            earlier = Some(self.devices.range_mut(..=turn));
        }
        if let Some(mut earlier) = earlier {
            job = earlier.find_map(|(_, device)| device.next_job());
        }
        self.turn = job.as_ref().map_or(turn, |job| job.device);
        job
    }

    /// Whether an engine could take something.
    pub fn has_job(&self) -> bool {
        self.devices.values().any(Device::has_job)
    }

    /// When the next event is due.
    pub fn next_due(&self) -> Option<u64> {
        self.events.keys().next().map(|(due, _)| *due)
    }

    /// Virtual time: put on engines what they can take. They finish later.
    pub fn dispatch(&mut self, memory: &dyn Memory) {
        while let Some(job) = self.next_job() {
            let effects = perform(&job, memory, self.config.runs_cross);
            let ns = self.config.latency.ns(job.descriptor.opcode, effects.bytes);
            self.plan(ns, Event::Finish(Box::new((job, effects))));
        }
    }

    /// Run the events that are due.
    pub fn run_due(&mut self, memory: &dyn Memory) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            match entry.remove() {
                Event::Finish(done) => self.complete(done.0, done.1, memory),
                Event::Retire(done) => self.retire(&done.0, done.1, memory),
                Event::Serve { device, serial } => self.serve_event_log(device, serial, memory),
                Event::Restore { device } => self.restore(device, memory),
            }
        }
    }

    /// An engine is done with `job`.
    pub fn complete(&mut self, job: Job, effects: Effects, memory: &dyn Memory) {
        let Some(device) = self.devices.get_mut(&job.device) else {
            return;
        };
        device.free_engine(&job);
        if !device.is_current(&job) {
            return;
        }
        let id = job.device;
        match job.entry.fault {
            Some(Fault::Late { ns } | Fault::OutOfOrder { ns }) => {
                self.plan(ns, Event::Retire(Box::new((job, effects))));
            }
            Some(Fault::NeverCompletes) => {
                device.release(&job);
                self.ledger.end(job.entry.sequence, Outcome::Silent);
            }
            Some(Fault::HardwareError | Fault::ReadbackError) => {
                device.halt();
                self.retire(&job, effects, memory);
                self.outage(id);
            }
            Some(Fault::QueueDisabled) => {
                let aborted = device.disable_at_once(usize::from(job.queue));
                self.abort(aborted, memory);
                self.outage(id);
            }
            Some(Fault::QueueReset) => {
                let aborted = device.reset_queue(usize::from(job.queue));
                self.abort(aborted, memory);
                self.outage(id);
            }
            Some(Fault::DeviceRemoved) => {
                self.remove_device(id, memory);
                self.outage(id);
            }
            Some(Fault::DeviceAdded) => {
                self.add_device(None);
                self.retire(&job, effects, memory);
            }
            Some(Fault::OpConfigNarrowed) => {
                self.retire(&job, effects, memory);
                self.outage(id);
            }
            _ => self.retire(&job, effects, memory),
        }
    }

    /// Write what the descriptor made, then its record.
    fn retire(&mut self, job: &Job, mut effects: Effects, memory: &dyn Memory) {
        let device = self.devices.get_mut(&job.device);
        if device.is_none_or(|device| !device.is_current(job)) {
            return;
        }
        apply(&job.descriptor, &mut effects, memory);
        let outcome = self.report(job, &effects.record, memory);
        if let Some(device) = self.devices.get_mut(&job.device) {
            device.release(job);
        }
        self.ledger.end(job.entry.sequence, outcome);
    }

    /// Write the record, or say elsewhere what it would have said.
    fn report(&mut self, job: &Job, record: &Record, memory: &dyn Memory) -> Outcome {
        let d = &job.descriptor;
        let failed = record.status != Status::Success as u8;
        let possible = d.has(flag::CRAV) && d.completion_addr.is_multiple_of(64);
        if !possible || !(failed || d.has(flag::RCR)) {
            self.latch_failure(job, record);
            return Outcome::Unrecorded(record.status);
        }
        let kernel = match job.entry.fault {
            Some(Fault::RecordFault { kernel }) => Some(kernel),
            _ => record
                .write(memory, d.completion_addr)
                .err()
                .map(|_| KernelCopy::After {
                    ns: self.config.kernel_copy_ns,
                }),
        };
        let Some(kernel) = kernel else {
            return Outcome::Completed(record.status);
        };
        self.log(job, record, kernel);
        Outcome::Logged
    }

    /// An error that no record tells of is latched in SWERR.
    fn latch_failure(&mut self, job: &Job, record: &Record) {
        let d = &job.descriptor;
        let misaligned = record.status == Status::RecordMisaligned as u8;
        let device = self.devices.get_mut(&job.device);
        if let Some(device) = device.filter(|_| record.status != Status::Success as u8) {
            device.latch(SwError {
                error: record.status,
                queue: job.queue,
                operation: d.opcode,
                pasid: job.entry.pasid,
                invalid_flags: record.invalid_flags,
                fault_addr: if misaligned {
                    d.completion_addr
                } else {
                    record.fault_addr
                },
                ..SwError::default()
            });
        }
    }

    fn log(&mut self, job: &Job, record: &Record, kernel: KernelCopy) {
        let entry = LogEntry {
            record: record.clone(),
            addr: job.descriptor.completion_addr,
            pasid: job.entry.pasid,
            queue: job.queue,
            operation: job.descriptor.opcode,
            kernel,
        };
        let logged = self
            .devices
            .get_mut(&job.device)
            .is_some_and(|device| device.log(entry));
        let ns = match kernel {
            KernelCopy::After { ns } => ns,
            KernelCopy::Never => self.config.kernel_copy_ns,
        };
        match logged {
            true => self.plan(
                ns,
                Event::Serve {
                    device: job.device,
                    serial: job.life.0,
                },
            ),
            false => self.ledger.counters.record_fault_failures += 1,
        }
    }
}
