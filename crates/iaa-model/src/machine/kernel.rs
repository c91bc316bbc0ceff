//! The kernel's part: devices that come and go, what is mended, and the event log.

use super::Config;
use super::ledger::Outcome;
use super::state::{Event, State};
use crate::completion::Record;
use crate::descriptor::{Descriptor, flag};
use crate::device::queue::Entry;
use crate::device::{Device, LogEntry};
use crate::fault::KernelCopy;
use crate::memory::{Memory, PageFault};
use crate::status::Status;

impl State {
    /// Devices have odd numbers, as on a machine where each has a DSA beside it.
    pub fn add_device(&mut self, id: Option<u32>) -> u32 {
        let next = (0..).map(|i| 2 * i + 1).find(|id| !self.devices.contains_key(id));
        let id = id.or(next).expect("a free number");
        let serial = self.fresh();
        let node = id / 2 % self.config.nodes.max(1);
        let Config {
            caps, queues, engines, ..
        } = &self.config;
        let device = Device::new(id, serial, node, caps.clone(), queues, *engines);
        self.devices.insert(id, device);
        id
    }

    /// Remove a device. An engine of it may still read; it writes nothing any more.
    pub fn remove_device(&mut self, id: u32, memory: &dyn Memory) -> bool {
        let Some(mut device) = self.devices.remove(&id) else {
            return false;
        };
        let aborted = device.reset();
        self.abort(aborted, memory);
        true
    }

    /// Mend whatever is wrong with a device.
    pub fn restore(&mut self, id: u32, memory: &dyn Memory) {
        let Some(device) = self.devices.get_mut(&id) else {
            self.add_device(Some(id));
            return;
        };
        let aborted = if device.is_halted { device.reset() } else { Vec::new() };
        device.enable_configured();
        let op_cap = device.caps.op_cap;
        device
            .queues
            .iter_mut()
            .for_each(|queue| queue.config.op_config = op_cap);
        self.abort(aborted, memory);
    }

    /// Something broke: the kernel mends it later, if the configuration says so.
    pub fn outage(&mut self, device: u32) {
        if let Some(ns) = self.config.outage_ns {
            self.plan(ns, Event::Restore { device });
        }
    }

    /// The kernel copies a record to the program's memory, its status last.
    pub fn serve_event_log(&mut self, id: u32, serial: u64, memory: &dyn Memory) {
        let device = self.devices.get_mut(&id).filter(|device| device.serial == serial);
        let Some((device, entry)) = device.and_then(|device| {
            let entry = device.event_log.pop()?;
            Some((device, entry))
        }) else {
            return;
        };
        let copied = entry.kernel != KernelCopy::Never && copy_record(&entry, memory);
        let counters = &mut self.ledger.counters;
        let files = &mut device.queues[usize::from(entry.queue)].files;
        let file = files.values_mut().find(|file| file.pasid == entry.pasid);
        match copied {
            true => counters.record_faults += 1,
            false => counters.record_fault_failures += 1,
        }
        if let Some(file) = file {
            file.record_faults += 1;
            file.record_fault_failures += u64::from(!copied);
        }
    }

    /// These descriptors are aborted. Their outputs are not written.
    pub fn abort(&mut self, entries: Vec<Entry>, memory: &dyn Memory) {
        for entry in entries {
            let d = Descriptor::decode(&entry.raw);
            let possible = d.has(flag::CRAV) && d.completion_addr.is_multiple_of(64);
            let record = Record::of(Status::Translation);
            let told = self.config.abort_records && possible && record.write(memory, d.completion_addr).is_ok();
            let outcome = match told {
                true => Outcome::Completed(record.status),
                false => Outcome::Aborted,
            };
            self.ledger.end(entry.sequence, outcome);
        }
    }
}

fn copy_record(entry: &LogEntry, memory: &dyn Memory) -> bool {
    let write = || entry.record.write(memory, entry.addr);
    let bring = |fault: PageFault| memory.page_request(fault) && write().is_ok();
    write().map_or_else(bring, |()| true)
}
