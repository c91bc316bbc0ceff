//! A machine with IAA devices, the part of its kernel that they need, and a clock.
//!
//! [`Machine<Real>`] runs descriptors as fast as this processor does. [`Machine<Virtual>`] runs
//! them at moments of its own clock, by a table of latencies. The type says which, so that a time
//! measured on one is never mixed with a time of the other.
//!
//! | layer | what it does |
//! |---|---|
//! | [`Machine`] | what a test or a benchmark does to the machine |
//! | [`File`], [`Portal`] | what a process sees of it |
//! | `State` | submissions, completions, faults, outages: all behind one lock |

mod configure;
mod core;
mod kernel;
mod ledger;
mod perform;
mod portal;
mod real;
mod state;
mod virtual_time;

use std::sync::Arc;

use crate::device::QueueConfig;
use crate::device::caps::Caps;
use crate::fault::Fault;
use crate::latency::Latency;
use crate::memory::Memory;
use crate::sysfs::Tree;
use core::{Core, Pace};
pub use ledger::{Counters, Outcome};
pub use portal::{Errno, File, Portal, Process, Submission};
pub use real::Real;
pub use virtual_time::Virtual;

/// How a machine is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Devices at first.
    pub devices: u32,
    /// What each of them can do.
    pub caps: Caps,
    /// Engines of each that are in group 0.
    pub engines: u8,
    /// Queues of each.
    pub queues: Vec<QueueConfig>,
    /// NUMA nodes that the devices are spread over.
    pub nodes: u32,
    /// Decides which descriptors meet which faults.
    pub seed: u64,
    /// Of 1000 descriptors so many meet a fault.
    pub permille: u64,
    /// The kernel mends what is halted, disabled or removed after so long; `None`: never, and then
    /// no random fault breaks it.
    pub outage_ns: Option<u64>,
    /// How late a random late descriptor is.
    pub late_ns: u64,
    /// How long the kernel takes to copy a record from the event log.
    pub kernel_copy_ns: u64,
    /// Whether a process may map portals (CAP_SYS_RAWIO), or has `write` only.
    pub may_map: bool,
    /// Aborted descriptors get a record with status 22, else none.
    pub abort_records: bool,
    /// Repetitions in block headers may cross from one code to the other: see error codes 4 and 6.
    pub runs_cross: bool,
    /// Times on the virtual clock.
    pub latency: Latency,
    /// Keep the outcome of every descriptor.
    pub trace: bool,
}

impl Default for Config {
    /// One device of generation 2 with 8 engines and 2 shared queues; nothing fails.
    fn default() -> Self {
        let caps = Caps::generation_2();
        let queue = QueueConfig::user(caps.entries / 2, &caps);
        Self {
            devices: 1,
            engines: caps.engines,
            queues: vec![queue.clone(), queue],
            caps,
            nodes: 1,
            seed: 0,
            permille: 0,
            outage_ns: None,
            late_ns: 20_000_000,
            kernel_copy_ns: 10_000,
            may_map: true,
            abort_records: false,
            runs_cross: false,
            latency: Latency::default(),
            trace: false,
        }
    }
}

mod sealed {
    /// Who may be a clock.
    pub trait Sealed {}
}

/// What a machine's time is: [`Real`] or [`Virtual`].
pub trait Clock: sealed::Sealed {}

/// A machine. See the methods of [`Machine<Real>`] and [`Machine<Virtual>`] for how to make one.
pub struct Machine<C: Clock> {
    core: Arc<Core>,
    clock: C,
}

impl<C: Clock> Machine<C> {
    /// Numbers of the devices that are there: `<m>` of `iax<m>`.
    pub fn devices(&self) -> Vec<u32> {
        self.core.lock().devices.keys().copied().collect()
    }

    /// Add a device like the first ones, enabled; its number is returned.
    pub fn add_device(&self) -> u32 {
        let id = self.core.lock().add_device(None);
        self.core.kick();
        id
    }

    /// Add a device with the number of one that was removed. False: the number is taken.
    pub fn add_device_as(&self, id: u32) -> bool {
        let mut state = self.core.lock();
        let is_free = !state.devices.contains_key(&id);
        if is_free {
            state.add_device(Some(id));
        }
        drop(state);
        self.core.kick();
        is_free
    }

    /// Remove a device: what it holds is aborted, portals to it are dead for ever.
    pub fn remove_device(&self, id: u32) -> bool {
        self.core.lock().remove_device(id, &*self.core.memory)
    }

    /// Write `text` to an attribute below `/sys/bus/dsa/devices/`, such as `iax1/wq1.0/size`.
    ///
    /// EPERM: the queue is enabled, or the device is for an attribute of a group or an engine.
    /// ENODEV: no such file. EINVAL: no such value.
    pub fn write_attribute(&self, path: &str, text: &str) -> Result<(), Errno> {
        self.core.lock().write_attribute(path, text)
    }

    /// Write `name`, such as `iax1` or `wq1.0`, to its driver's `bind`: the device or queue is
    /// enabled. EINVAL: it cannot be; attribute `cmd_status` says why.
    pub fn bind(&self, name: &str) -> Result<(), Errno> {
        self.core.lock().bind(name)
    }

    /// Write `name` to its driver's `unbind`: what is in flight completes, then it is disabled.
    pub fn unbind(&self, name: &str) -> Result<(), Errno> {
        self.core.lock().unbind(name)
    }

    /// Configure a queue that is off. False: there is none, or it is not off.
    pub fn configure(&self, device: u32, queue: u8, config: QueueConfig) -> bool {
        self.core.lock().configure(device, queue, config)
    }

    /// Mend a device as the kernel would, or add it again. A halted one is reset, all queues are
    /// enabled, and op_config is as wide as it gets.
    pub fn restore(&self, device: u32) {
        self.core.lock().restore(device, &*self.core.memory);
        self.core.kick();
    }

    /// Open `/dev/iax/wq<device>.<queue>`.
    pub fn open(&self, process: Process, device: u32, queue: u8) -> Result<File, Errno> {
        File::open(&self.core, process, device, queue)
    }

    /// Read 8 bytes of a device's registers. No device reads as ones.
    ///
    /// # Panics
    /// When `offset` is no multiple of 8.
    pub fn read64(&self, device: u32, offset: u32) -> u64 {
        assert!(offset.is_multiple_of(8), "offset {offset:#x} is no multiple of 8");
        let state = self.core.lock();
        state
            .devices
            .get(&device)
            .map_or(u64::MAX, |device| device.read_register(offset))
    }

    /// Read 4 bytes of a device's registers.
    pub fn read32(&self, device: u32, offset: u32) -> u32 {
        (self.read64(device, offset & !7) >> (8 * (offset & 4))) as u32
    }

    /// Write 8 bytes of a device's registers. A write to no device vanishes.
    ///
    /// # Panics
    /// When `offset` is no multiple of 8.
    pub fn write64(&self, device: u32, offset: u32, value: u64) {
        assert!(offset.is_multiple_of(8), "offset {offset:#x} is no multiple of 8");
        self.core
            .lock()
            .write_register(device, offset, value, &*self.core.memory);
        self.core.kick();
    }

    /// Write 4 bytes of a device's registers.
    pub fn write32(&self, device: u32, offset: u32, value: u32) {
        let shift = 8 * (offset & 4);
        let keeps = !crate::device::cleared_by_ones(offset & !7);
        let kept = if keeps {
            self.read64(device, offset & !7) & !(0xffff_ffff << shift)
        } else {
            0
        };
        self.write64(device, offset & !7, kept | u64::from(value) << shift);
    }

    /// The event log's entries that the kernel has not served, as bytes.
    pub fn event_log(&self, device: u32) -> Vec<[u8; 128]> {
        let state = self.core.lock();
        let log = state.devices.get(&device).map(|device| &device.event_log);
        log.into_iter()
            .flat_map(|log| log.entries().map(crate::device::LogEntry::encode))
            .collect()
    }

    /// Sysfs as it is now.
    pub fn sysfs(&self) -> Tree {
        Tree::of(self.core.lock().devices.values())
    }

    /// The next descriptor that `fault` can happen to meets it.
    pub fn inject(&self, fault: Fault) {
        self.core.lock().injector.script(fault);
    }

    /// Change how many of 1000 descriptors meet a fault.
    pub fn set_permille(&self, permille: u64) {
        self.core.lock().injector.set_permille(permille);
    }

    /// How often each fault has met a descriptor, by [`Fault::name`].
    pub fn injected(&self) -> Vec<(&'static str, u64)> {
        let state = self.core.lock();
        state
            .injector
            .injected()
            .iter()
            .map(|(name, count)| (*name, *count))
            .collect()
    }

    /// What became of descriptors so far.
    pub fn counters(&self) -> Counters {
        self.core.lock().ledger.counters.clone()
    }

    /// The outcomes so far, if [`Config::trace`] asks for them: order of acceptance, outcome.
    pub fn outcomes(&self) -> Vec<(u64, Outcome)> {
        self.core.lock().ledger.trace.clone().unwrap_or_default()
    }

    fn with(config: Config, memory: Arc<dyn Memory>, pace: Pace, clock: impl FnOnce(&Arc<Core>) -> C) -> Self {
        let core = Arc::new(Core::new(config, memory, pace));
        let clock = clock(&core);
        Self { core, clock }
    }
}
