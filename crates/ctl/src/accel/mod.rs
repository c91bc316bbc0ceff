//! The file of a group that compresses with IAA devices: an array of 64-bit words in memory, which
//! the launcher makes and every agent of the group maps.
//!
//! ```text
//! header    what file this is; the bell; what the model says of itself
//! counters  those of the driver and of the contract, of all processes
//! queues    a work queue's counters, by its device and number
//! sysfs     what the model's kernel says of its devices, as text
//! regions   one for each of the first processes: a door, and memory that the model reaches
//! ```
//!
//! Of hardware only the counters are used: it reaches the memory of each process by itself.
//!
//! # The model
//! The launcher is the machine that has the model's devices, and the kernel of that machine. Agents
//! submit descriptors at the door of their region ([`Region::submit`]). The launcher takes them
//! out, runs them, and writes records to the memory of the region. Whoever waits sees only that
//! memory, as with hardware. The file is no secret among the processes of a group, nor are the
//! pages that pass through it.
//!
//! # An opening
//! ```text
//! agent: wants an opening g -----> launcher: those before it are closed: their jobs have ended
//!                                  the door is emptied, the devices are opened, g is open
//! agent: opened() is g: submits
//! ```
//! So an opening is over, and no job of it is under way, once another one is open.

mod door;
mod sysfs;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

pub use door::{Job, Region};

const MAGIC: u64 = u64::from_le_bytes(*b"uziaa001");

/// Bytes that processor and devices map as a page.
const PAGE_WORDS: usize = 512;
const HEADER: usize = 0;
const COUNTERS: usize = HEADER + PAGE_WORDS;
const QUEUES: usize = COUNTERS + PAGE_WORDS;
/// Devices and queues of each that have counters; those beyond share them.
const DEVICES: usize = 256;
const QUEUES_EACH: usize = 8;
const QUEUE_WORDS: usize = 4;
const SYSFS: usize = QUEUES + DEVICES * QUEUES_EACH * QUEUE_WORDS;
const SYSFS_WORDS: usize = 1 << 17;
const FIRST_REGION: usize = SYSFS + SYSFS_WORDS;
/// Bytes of a region that the model's devices reach.
pub const MEMORY_BYTES: usize = 544 << 10;
const REGION_WORDS: usize = door::WORDS + MEMORY_BYTES / 8;
/// Processes that have a region: of the slots of the group, the first.
pub const REGIONS: usize = 128;
/// Words of the file.
pub const WORDS: usize = FIRST_REGION + REGIONS * REGION_WORDS;

/// What compresses where the compressor is a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Devices of this machine.
    Hardware,
    /// A model of them, in the launcher.
    Model,
}

impl Source {
    /// A word for the group file.
    pub const fn to_word(self) -> u64 {
        match self {
            Self::Hardware => 1,
            Self::Model => 2,
        }
    }

    /// The inverse; `None`: the group has no device.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Hardware),
            2 => Some(Self::Model),
            _ => None,
        }
    }
}

/// Words of the header.
#[derive(Clone, Copy)]
enum Head {
    Magic,
    /// 1 as long as somebody runs the model.
    IsOpen,
    /// Rung by who has submitted: the low half is a futex.
    Bell,
    /// 1: whoever runs the model sleeps until it is rung.
    Sleeps,
    /// Openings, ever.
    Openings,
    /// One more than the highest region ever used.
    Used,
    /// Of the text of sysfs: odd while it is being written.
    SysfsVersion,
    SysfsBytes,
    /// [`ModelCounts`] begin here.
    Model,
}

/// What the model says became of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCounts {
    /// That came to a portal.
    pub submitted: u64,
    /// Tries that a full queue refused.
    pub refused: u64,
    /// To a queue or a device that is not there, or beyond a queue's entries: lost.
    pub lost: u64,
    /// Taken by a queue.
    pub accepted: u64,
    /// Not ended yet.
    pub in_flight: u64,
    /// That met an injected fault.
    pub injected: u64,
}

impl ModelCounts {
    const NAMES: [&str; 6] = ["submitted", "refused", "lost", "accepted", "in_flight", "injected"];

    fn to_words(self) -> [u64; 6] {
        let Self {
            submitted,
            refused,
            lost,
            accepted,
            in_flight,
            injected,
        } = self;
        [submitted, refused, lost, accepted, in_flight, injected]
    }

    /// With their names.
    pub fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::NAMES.into_iter().zip(self.to_words())
    }
}

/// What became of the pages that the contract gave to devices, as words.
pub const PAGE_COUNTS: [&str; 7] = ["pages", "done", "poor", "refused", "wrong", "late", "cancelled"];
/// Of [`COUNTERS`], where those begin. The driver's are before them.
const PAGES_AT: usize = 64;

/// The file's words, with names.
#[derive(Clone, Copy)]
pub struct Accel(&'static [AtomicU64]);

impl Accel {
    /// Initialise a new file.
    pub fn create(words: &'static [AtomicU64]) -> Self {
        let accel = Self(words);
        // Release: as that of a group file.
        accel.head(Head::Magic).store(MAGIC, Ordering::Release);
        accel
    }

    /// An existing file. `None`: it is not one.
    pub fn open(words: &'static [AtomicU64]) -> Option<Self> {
        let accel = Self(words);
        let is_ours = words.len() >= WORDS && accel.head(Head::Magic).load(Ordering::Acquire) == MAGIC;
        is_ours.then_some(accel)
    }

    fn head(&self, head: Head) -> &'static AtomicU64 {
        &self.0[HEADER + head as usize]
    }

    /// The driver's counters, of all processes.
    pub fn driver(&self, count: usize) -> &'static [AtomicU64] {
        assert!(count <= PAGES_AT, "no room for {count} counters of the driver");
        &self.0[COUNTERS..][..count]
    }

    /// The contract's, in the order of [`PAGE_COUNTS`].
    pub fn pages(&self) -> &'static [AtomicU64] {
        &self.0[COUNTERS + PAGES_AT..][..PAGE_COUNTS.len()]
    }

    /// Counters of a work queue: `comp_calls`, `comp_bytes`, `decomp_calls`, `decomp_bytes`.
    pub fn queue(&self, device: u32, queue: u32) -> [&'static AtomicU64; QUEUE_WORDS] {
        let at = device as usize % DEVICES * QUEUES_EACH + queue as usize % QUEUES_EACH;
        core::array::from_fn(|i| &self.0[QUEUES + at * QUEUE_WORDS + i])
    }

    /// Work queues that were used, by device and number, with their counters.
    pub fn queues(&self) -> Vec<(u32, u32, [u64; QUEUE_WORDS])> {
        let all = (0..DEVICES as u32).flat_map(|device| (0..QUEUES_EACH as u32).map(move |queue| (device, queue)));
        all.map(|(device, queue)| {
            let counts = self.queue(device, queue).map(|word| word.load(Ordering::Relaxed));
            (device, queue, counts)
        })
        .filter(|(.., counts)| counts.iter().any(|count| *count != 0))
        .collect()
    }

    /// Set the counters to zero (`stats_reset`).
    pub fn reset_counters(&self) {
        self.0[COUNTERS..SYSFS]
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Whether somebody runs the model.
    pub fn is_open(&self) -> bool {
        self.head(Head::IsOpen).load(Ordering::Acquire) != 0
    }

    /// Say whether somebody does.
    pub fn set_open(&self, is_open: bool) {
        self.head(Head::IsOpen).store(u64::from(is_open), Ordering::Release);
    }

    /// What is rung when there is something to do.
    pub fn bell(&self) -> &'static AtomicU64 {
        self.head(Head::Bell)
    }

    /// Ring. True: whoever runs the model sleeps, and is to be woken.
    #[must_use]
    pub fn ring(&self) -> bool {
        // SeqCst, as `begin_sleep`: either it sees that the bell was rung, or we see that it
        // sleeps.
        self.bell().fetch_add(1, Ordering::SeqCst);
        self.head(Head::Sleeps).load(Ordering::SeqCst) != 0
    }

    /// About to sleep: what the bell says now. There is nothing to do if there was nothing before
    /// and the bell says so still.
    pub fn begin_sleep(&self) -> u32 {
        self.head(Head::Sleeps).store(1, Ordering::SeqCst);
        self.bell().load(Ordering::SeqCst) as u32
    }

    /// Awake again.
    pub fn end_sleep(&self) {
        self.head(Head::Sleeps).store(0, Ordering::SeqCst);
    }

    /// The region of the process in this slot of the group, if it has one.
    pub fn region(&self, slot: usize) -> Option<Region> {
        (slot < REGIONS).then(|| {
            let at = FIRST_REGION + slot * REGION_WORDS;
            Region::new(&self.0[at..at + REGION_WORDS], (at * 8) as u64)
        })
    }

    /// Ask for an opening of the region in this slot. Returns its number.
    pub fn ask(&self, slot: usize) -> Option<u64> {
        let region = self.region(slot)?;
        let opening = self.head(Head::Openings).fetch_add(1, Ordering::Relaxed) + 1;
        region.ask(opening);
        // Release: who looks at the region sees what was asked.
        self.head(Head::Used).fetch_max(slot as u64 + 1, Ordering::Release);
        Some(opening)
    }

    /// Openings that were asked for, ever.
    pub fn openings(&self) -> u64 {
        self.head(Head::Openings).load(Ordering::Relaxed)
    }

    /// Regions that were ever used: none beyond so many.
    pub fn used(&self) -> usize {
        (self.head(Head::Used).load(Ordering::Acquire) as usize).min(REGIONS)
    }

    /// The words that addresses of devices lead to, by their bytes in the file, if all of `len`
    /// bytes from `address` on are in the memory of one region.
    pub fn reach(&self, address: u64, len: usize) -> Option<(&'static [AtomicU64], usize)> {
        let at = usize::try_from(address).ok()?.checked_sub(FIRST_REGION * 8)?;
        let (region, at) = (at / (REGION_WORDS * 8), at % (REGION_WORDS * 8));
        let end = at.checked_add(len)?;
        let is_memory = region < REGIONS && at >= door::WORDS * 8 && end <= REGION_WORDS * 8;
        is_memory.then(|| (&self.0[FIRST_REGION + region * REGION_WORDS..][..REGION_WORDS], at))
    }

    /// Write down what the model says of descriptors.
    pub fn note_model(&self, counts: ModelCounts) {
        for (i, value) in counts.to_words().into_iter().enumerate() {
            self.0[Head::Model as usize + i].store(value, Ordering::Relaxed);
        }
    }

    /// What it said last.
    pub fn model(&self) -> ModelCounts {
        let [submitted, refused, lost, accepted, in_flight, injected] =
            core::array::from_fn(|i| self.0[Head::Model as usize + i].load(Ordering::Relaxed));
        ModelCounts {
            submitted,
            refused,
            lost,
            accepted,
            in_flight,
            injected,
        }
    }
}

#[cfg(test)]
mod test;
