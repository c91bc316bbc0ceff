//! The process's way to devices that compress: `deflate-iaa` by hardware, or by the model that the
//! launcher runs (`uzswap_ctl::accel`).
//!
//! All of it is taken when the pager starts: what a thread does with a device allocates nothing, so
//! it may do so while the engine is frozen. kswapd sees to the queues ([`Accel::tend`]): it opens
//! them, probes those that failed, and begins again with all of them when one has come or gone.
//! What it takes out of use it keeps until no thread holds it any more, so that no other thread is
//! the one to free it.
//!
//! A forked child makes its own. What its parent's threads were doing with theirs is forgotten, not
//! dropped: the descriptors and the queues are the parent's.

mod hardware;
mod model;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use lock_api::Mutex;
use uzswap_acomp::{Algorithm, Codec, Codes, Counts, Device, Op, Outcome};
use uzswap_acomp_iaa::{Bounce, DeflateIaa, FALLBACK};
use uzswap_ctl::accel::{self, MEMORY_BYTES, PAGE_COUNTS, Source};
use uzswap_ctl::{Group, Tunable};
use uzswap_iaa::driver::Driver;
use uzswap_iaa::portal::Portal;
use uzswap_iaa::queue::Queue;
use uzswap_iaa::resident::{Resident, Room};
use uzswap_iaa::settings::{CompressionMode, Settings, SyncMode};
use uzswap_iaa::statistics::Statistics;
use uzswap_iaa::table::{Fleet, Layout, Table};
use uzswap_iaa::topology::{Topology, WorkQueue};
use uzswap_mm::machine::Accelerators;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::affinity::current_core;
use uzswap_sys::futex::RawLock;
use uzswap_sys::shared::SharedWords;
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, thread};

use hardware::Hardware;
use model::Opening;

use crate::machine::AgentMachine;
use crate::pager::Pager;

/// Descriptors under way, and pages. A device has 128 entries.
const ROOM: Room = Room {
    slots: 128,
    pairs: 64,
    buffer: PAGE_SIZE as u32,
};
const _: () = assert!(ROOM.bytes() <= MEMORY_BYTES);
/// Descriptors that have been late for so long, nanoseconds, for which all queues are opened anew:
/// which brings their buffers back. Most come back by themselves.
const LATE_MAX: usize = ROOM.pairs as usize / 4;
const LATE_NS: u64 = 100_000_000;
/// How often queues that failed are probed, nanoseconds.
const PROBE_NS: u64 = 100_000_000;

type IaaDriver = Driver<RawLock, Resident>;

/// Where the queues lead.
enum Way {
    Model(Opening),
    Hardware(Hardware),
}

/// The devices of this process.
pub(crate) struct Accel {
    file: accel::Accel,
    source: Source,
    codes: Codes,
    driver: Arc<IaaDriver>,
    bounce: Arc<Bounce<RawLock, Resident>>,
    queues: Mutex<RawLock, Queues>,
}

/// What kswapd sees to.
struct Queues {
    way: Way,
    fleet: Fleet,
    /// Out of use, and perhaps under way still.
    retired: Vec<Arc<Queue>>,
    tables: Vec<Arc<Table>>,
    /// Not probed before then, nanoseconds.
    probe_at: u64,
    /// Since when more than [`LATE_MAX`] have been late.
    late_since: Option<u64>,
}

/// The codes that a group's devices compress with.
fn codes(group: Group) -> Codes {
    match group.is_on(Tunable::IaaDynamic) {
        true => Codes::Dynamic,
        false => Codes::Fixed,
    }
}

impl Accel {
    /// The devices of a group, for the process in this slot. `None`: it has none, or this process
    /// does not get at them, and software does what they would.
    fn of_group(group: Group, slot: usize) -> Option<Self> {
        let source = Source::from_word(group.get(Tunable::Iaa))?;
        let [pid, fd] = [Tunable::IaaPid, Tunable::IaaFd].map(|key| group.get(key) as i32);
        let words = SharedWords::open_of_process(pid, fd, accel::WORDS).ok()?;
        let file = accel::Accel::open(words.words())?;
        Self::new(group, file, source, slot, None)
    }

    /// Those of a forked child, which has the parent's mappings.
    fn of_child(&self, group: Group, slot: usize) -> Option<Self> {
        let source = Source::from_word(group.get(Tunable::Iaa))?;
        Self::new(group, self.file, source, slot, Some(self))
    }

    fn new(group: Group, file: accel::Accel, source: Source, slot: usize, parent: Option<&Self>) -> Option<Self> {
        let (way, memory) = match source {
            Source::Model => {
                let region = file.region(slot)?;
                let memory = Resident::new(region.memory(), ROOM, region.address());
                (Way::Model(Opening::ask(file, slot)?), memory)
            }
            Source::Hardware => {
                let memory = match parent {
                    // Zeros in the child, whatever the parent's devices do.
                    Some(parent) => *parent.driver.buffers(),
                    None => hardware::memory(ROOM).ok()?,
                };
                (Way::Hardware(Hardware::new(file)), memory)
            }
        };
        let codes = codes(group);
        let settings = Settings {
            mode: match codes {
                Codes::Fixed => CompressionMode::Fixed,
                Codes::Dynamic => CompressionMode::Dynamic,
            },
            verify: group.is_on(Tunable::IaaVerify),
            sync_mode: match group.is_on(Tunable::IaaSync) {
                true => SyncMode::Sync,
                false => SyncMode::Async,
            },
            deadline_ns: match source {
                Source::Model => model::DEADLINE_NS,
                Source::Hardware => Settings::default().deadline_ns,
            },
            ..Settings::default()
        };
        let driver = Driver::new(settings, memory, ROOM.slots, Table::default()).ok()?;
        let driver = Arc::new(driver.counting_in(Statistics::kept_in(file.driver(Statistics::COUNTERS))));
        let bounce = Bounce::new(driver.clone(), ROOM.pairs(), ROOM.buffer as usize).ok()?;
        let accel = Self {
            file,
            source,
            codes,
            driver,
            bounce: Arc::new(bounce),
            queues: Mutex::new(Queues {
                way,
                fleet: Fleet::default(),
                retired: Vec::new(),
                tables: Vec::new(),
                probe_at: 0,
                late_since: None,
            }),
        };
        accel.tend();
        Some(accel)
    }

    /// A thread's way to the devices, if they do what `algorithm` does.
    fn device(&self, algorithm: Algorithm) -> Option<Box<IaaDevice>> {
        (algorithm.codes() == Some(self.codes)).then(|| {
            Box::new(IaaDevice {
                inner: DeflateIaa::new(self.bounce.clone(), current_core()),
                file: self.file,
                is_model: self.source == Source::Model,
                polls: 0,
                noted: Counts::default(),
            })
        })
    }

    /// See to the queues: called by kswapd, now and then, and by whoever makes this.
    fn tend(&self) {
        let queues = &mut *self.queues.lock();
        if self.driver.late() > 0 {
            self.bounce.sweep();
        }
        queues.forget();
        let suspects = queues.has_suspects() && !self.probe(queues);
        let lacks = suspects || queues.misses(self.driver.late());
        match &mut queues.way {
            Way::Model(_) => self.tend_model(queues, lacks),
            Way::Hardware(_) => self.tend_hardware(queues, lacks),
        }
    }

    /// Ask queues that failed whether they answer. False: one does not.
    fn probe(&self, queues: &mut Queues) -> bool {
        let now = now_ns();
        if now < queues.probe_at {
            return true;
        }
        queues.probe_at = now + PROBE_NS;
        let mut suspects = queues.fleet.queues().filter(|queue| queue.is_suspect());
        suspects.all(|queue| self.driver.probe(queue, now_ns).is_ok())
    }

    /// Have threads submit to the queues that there are, from now on.
    fn publish(&self, queues: &mut Queues) {
        // All cores are of one package: so they are where a process may run anywhere.
        let table = queues
            .fleet
            .table(&CORES[..thread::cores().min(CORES.len())], Layout::default());
        let before = self.driver.current().replace(table);
        queues.tables.push(before);
    }

    /// Take all queues out of use that `topology` has not.
    fn retire(&self, queues: &mut Queues, topology: &Topology) -> Vec<Arc<Queue>> {
        let taken = queues.fleet.retain(topology);
        if !taken.is_empty() {
            self.publish(queues);
            queues.retired.extend(taken.iter().cloned());
        }
        taken
    }

    fn open(
        &self,
        queues: &mut Queues,
        topology: &Topology,
        open: impl FnMut(&WorkQueue) -> Result<Box<dyn Portal>, Errno>,
    ) {
        // Those that cannot be opened are not used.
        let _ = queues.fleet.open(topology, open);
        self.publish(queues);
    }
}

impl AgentMachine {
    /// The devices that compress, if this process has any.
    fn accel(&self) -> Option<&'static Accel> {
        self.accel.get()?.as_ref()
    }

    /// Bytes of memory that these reach.
    pub(crate) fn accel_bytes(&self) -> u64 {
        self.accel().map_or(0, |_| ROOM.bytes() as u64)
    }

    /// Look for devices that compress, for the process in this slot of the group: at the start, and
    /// in a forked child. They are there before anybody works with the machine.
    pub(crate) fn look_for_devices(&self, group: Group, slot: usize) {
        let accel = match self.accel() {
            Some(parent) => parent.of_child(group, slot),
            None => Accel::of_group(group, slot),
        };
        self.accel.set(accel);
    }

    /// See to their queues. Called by kswapd.
    pub(crate) fn tend_devices(&self) {
        if let Some(accel) = self.accel() {
            accel.tend();
        }
    }
}

impl Accelerators for AgentMachine {
    type Acomp = Box<IaaDevice>;

    fn acomp(&self, algorithm: Algorithm) -> Option<Self::Acomp> {
        // No device, and no look for one, where this processor compresses.
        algorithm.codes()?;
        self.accel()?.device(algorithm)
    }
}

/// In a forked child, before any of its threads works: have devices of its own.
pub(crate) fn renew(pager: &Pager) {
    let machine = pager.mm.machine();
    machine.look_for_devices(pager.memcg.group(), pager.memcg.slot());
    pager.seats.renew_devices(machine);
    for worker in [&pager.reclaim.worker].into_iter().chain(&pager.kcompressd.workers) {
        worker.lock().renew_devices(machine);
    }
}

/// The package of each core.
const CORES: [u32; 256] = [0; 256];

impl Queues {
    fn has_suspects(&self) -> bool {
        self.fleet.queues().any(|queue| queue.is_suspect())
    }

    /// Whether so many descriptors have been late for long that they are missed.
    fn misses(&mut self, late: usize) -> bool {
        if late <= LATE_MAX {
            self.late_since = None;
            return false;
        }
        let now = now_ns();
        let is_long = now - *self.late_since.get_or_insert(now) >= LATE_NS;
        if is_long {
            self.late_since = None;
        }
        is_long
    }

    /// Free what nobody holds any more.
    fn forget(&mut self) {
        self.tables.retain(|table| Arc::strong_count(table) > 1);
        self.retired.retain(|queue| Arc::strong_count(queue) > 1);
    }
}

/// One thread's way to the devices.
pub(crate) struct IaaDevice {
    inner: DeflateIaa<RawLock, Resident>,
    file: accel::Accel,
    is_model: bool,
    /// Looks at the request so far.
    polls: u32,
    /// What was told the group before.
    noted: Counts,
}

impl Device for IaaDevice {
    fn codec(&self) -> Codec {
        FALLBACK.codec()
    }

    fn batch_size(&self) -> usize {
        self.inner.batch_size()
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, now: u64) {
        self.polls = 0;
        self.inner.set_core(current_core());
        self.inner.submit(op, src, unit, now);
    }

    fn poll(&mut self, now: u64) {
        self.inner.poll(now);
        if self.is_model {
            self.polls += 1;
            model::give_way(self.polls);
        }
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        self.inner.collect(page, out)
    }

    fn cancel(&mut self) {
        self.inner.cancel();
    }

    fn note(&mut self, counts: &Counts) {
        let [before, now] = [&self.noted, counts].map(in_order);
        for ((word, before), now) in self.file.pages().iter().zip(before).zip(now) {
            if now > before {
                word.fetch_add(now - before, Ordering::Relaxed);
            }
        }
        self.noted = *counts;
    }
}

/// In the order of [`PAGE_COUNTS`].
fn in_order(counts: &Counts) -> [u64; PAGE_COUNTS.len()] {
    let Counts {
        pages,
        done,
        poor,
        refused,
        wrong,
        late,
        cancelled,
    } = *counts;
    [pages, done, poor, refused, wrong, late, cancelled]
}

/// The counters of a queue.
fn counters(file: accel::Accel, queue: &WorkQueue) -> [&'static AtomicU64; 4] {
    file.queue(queue.id.device, queue.id.queue)
}
