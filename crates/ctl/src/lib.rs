//! The group file: an array of 64-bit words that the launcher and every agent of a run map.
//!
//! ```text
//! words    0 .. 167     header: magic, version, limits, tunables, peak, the record of an OOM kill
//! words  168 .. 255     where the swap file goes (bytes of a path)
//! words  256 .. 1087    counters and histograms (uzswap_mm::vmstat)
//! words 1088 .. 1151    for tests: which failures are made to happen, and how often each was
//! words 1152 ..         one slot of 32 words for each process
//! then                  the last words of a pager that had to stop its process, as text
//! ```
//! Each word stands alone and is read and written atomically; a process that scribbles over them can spoil the
//! numbers but nobody's memory. Which slots are in use is decided by leases on the file (`uzswap_sys::shared`),
//! not by what is written here: a lease ends when its process does, however that happens.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod fail_kind;
mod inner;
mod relatives;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_acomp::{Algorithm, Compressor};
use uzswap_mm::SwapOut;
use uzswap_mm::vmstat::{self, Vmstat};
use uzswap_mm::zpool::{PoolKind, ZpoolType};

pub use fail_kind::FailKind;
pub use inner::Launcher;

/// First word of a group file.
const MAGIC: u64 = u64::from_le_bytes(*b"uzswap01");
/// Changes whenever the layout does: an agent of another version must not touch the file.
const VERSION: u64 = 16;
/// The environment variable that names the group file.
pub const ENV_GROUP: &str = "UZSWAP_GROUP";
/// Set: what cannot be managed runs on ([`Key::AllowUnmanaged`]), also where the group file cannot
/// be read.
pub const ENV_ALLOW_UNMANAGED: &str = "UZSWAP_ALLOW_UNMANAGED";

/// Where the launcher of the group of this file (a path) keeps descriptors for its processes (`uzswap_sys::keep`).
pub fn keeper_path(group: &[u8]) -> Vec<u8> {
    let stem = group.strip_suffix(b".group").unwrap_or(group);
    [stem, b".keep"].concat()
}

/// Of [`Key::Swap`].
pub const SWAP_ENCRYPTED: u64 = 2;

const PATH: usize = 168;
const PATH_WORDS: usize = 88;
const STAT: usize = 256;
const FAILURES: usize = 1088;
const SLOTS: usize = 1152;
const SLOT_WORDS: usize = 32;
/// Processes that a group can hold at a time.
pub const PROCESSES: usize = 1024;
/// The byte of the file that members lock, all together, as long as they have it mapped
/// (`uzswap_sys::shared`). The leases on the slots come first, and the launcher's.
pub const MEMBERSHIP: usize = PROCESSES + 1;
const LAST_WORDS: usize = SLOTS + PROCESSES * SLOT_WORDS;
const LAST_WORDS_WORDS: usize = 64;
/// Words of a group file.
pub const WORDS: usize = LAST_WORDS + LAST_WORDS_WORDS;
const _: () = assert!(STAT + vmstat::WORDS <= FAILURES);
const _: () = assert!(Key::FailKinds as usize == FAILURES && FAILURES + 1 + FailKind::ALL.len() <= SLOTS);

/// Limits and tunables: one word each. Sizes are bytes; `u64::MAX` is "max".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Key {
    /// `memory.max`
    MemoryMax = 2,
    /// `memory.high`: reclaim starts here.
    MemoryHigh = 3,
    /// `memory.swap.max`
    SwapMax = 4,
    /// `memory.zswap.max`
    ZswapMax = 5,
    /// A [`Compressor`] as a word.
    Compressor = 6,
    /// Of `memory.max`.
    MaxPoolPercent = 7,
    /// Of the pool limit.
    AcceptThresholdPercent = 8,
    /// log2 of pages.
    FolioOrder = 9,
    /// log2 of pages.
    PageCluster = 10,
    /// Pages.
    StoreBatch = 11,
    /// 0: no swap file is used; [`SWAP_ENCRYPTED`]: what is written to it is encrypted; 1: it is not.
    Swap = 12,
    /// 1: the path is a file to create, 0: a directory.
    SwapPathIsFile = 13,
    /// Highest sum of charges seen.
    MemoryPeak = 14,
    /// Process killed because nothing was left to reclaim; 0: none.
    OomPid = 15,
    /// What the group used then.
    OomUsage = 16,
    /// 1 + errno of a swap file that could not be made; 0: none failed.
    SwapError = 17,
    /// A [`ZpoolType`] as a word.
    Zpool = 19,
    /// `memory.zswap.writeback`: 0: compressed pages are never written back.
    ZswapWriteback = 20,
    /// `memory.reclaim`: bytes that `uzswap reclaim` asks for and nobody has taken on.
    ReclaimAsked = 21,
    /// 1: only from zswap to the device.
    ReclaimZswap = 22,
    /// Bytes reclaimed for that request.
    ReclaimDone = 23,
    /// Processes at work on it.
    ReclaimBusy = 24,
    /// `enabled`: 1: zswap takes pages.
    Enabled = 25,
    /// A [`SwapOut`] as a word.
    SwapOut = 26,
    /// 1: pages are written back as they were, not as they are compressed.
    SwapPlain = 27,
    /// An [`Algorithm`] as a word; 0: idle pages stay as they are.
    Recompress = 28,
    /// Background compression threads of each process.
    Kcompressd = 29,
    /// `shrinker_enabled`: 1: cold compressed pages go to the device under pressure, before the pool is full.
    ShrinkerEnabled = 30,
    /// For tests: of 1000 steps of the machine so many fail.
    FailPerMille = 31,
    /// 1: pages are copied out even where the kernel can move them, and nothing newer than Linux 5.7 is used.
    Copies = 32,
    /// `balance`: 1: the pool gives way to the working set.
    Balance = 33,
    /// `swap_cache`: 1: stored copies are kept of pages that were loaded and are expected to leave again.
    SwapCache = 34,
    /// Threads of each process that serve faults.
    FaultThreads = 35,
    /// Whether threads may keep a core awake for a fault that is expected: 1: they may.
    Spin = 36,
    /// How often relatives found that they share other pages than they thought.
    Unshared = 37,
    /// Bytes of members that charge nothing themselves, having no agent or one that is idle. The
    /// launcher's census keeps it.
    Census = 38,
    /// Of those, the bytes of members without an agent.
    Unmanaged = 39,
    /// The most that they ever had.
    UnmanagedPeak = 40,
    /// Members without an agent that were seen, ever.
    UnmanagedProcesses = 41,
    /// Shared memory that all members have mapped: not charged.
    Shmem = 42,
    /// The most that they ever had.
    ShmemPeak = 43,
    /// What the group that this launcher runs in leaves to this one, and 1; 0: it runs in none.
    OuterMax = 44,
    /// Process that was chosen to be killed and is not gone yet; 0: none.
    OomVictim = 45,
    /// When it was, nanoseconds of CLOCK_MONOTONIC.
    OomSince = 46,
    /// What the last victim had.
    OomSize = 47,
    /// The first half of its name, as bytes; the other follows.
    OomName = 48,
    /// When the census last looked, nanoseconds of CLOCK_MONOTONIC.
    CensusAt = 50,
    /// A process asks the census to apply the OOM rule, which it may not do itself: bytes that it
    /// lacks; 0: none asks.
    OomAsked = 51,
    // 52 .. 63 are the census's.
    /// 1: what cannot be managed runs on without limit.
    AllowUnmanaged = 64,
    /// How many programs have been loaded with the agent, ever.
    Joined = 65,
    // 66 .. 71 are the launcher's, 72 .. 79 of leases and charges, 80 .. 87 of threads, 88 .. 95 of
    // scale, 96 .. 103 of hooks and swap files, 104 .. 135 are of groups inside this one (`inner`),
    // 136 .. 167 nobody's.
    /// How they fail: a set of [`FailKind`]s.
    FailKinds = 1088,
}

/// Words of a process slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Field {
    /// Process id, 0: the slot was never used or was cleared.
    Pid = 0,
    /// Bytes charged to the group.
    Charge = 1,
    /// Bytes mapped.
    Resident = 2,
    /// Bytes staged.
    Staged = 3,
    /// Bytes of the pool.
    Pool = 4,
    /// Pages stored.
    Stored = 5,
    /// Pages stored as they are.
    Incompressible = 6,
    /// Pages on the swap device.
    Swapped = 7,
    /// Bytes of the agent's own memory.
    Agent = 8,
    /// Bytes mapped whose stored copy is kept.
    Cached = 9,
    /// Slots of the swap device charged to the group: those in use and those that are about to be.
    SwapCharge = 10,
    /// Pages of the pool charged to the group: what a relative has put there is charged to it.
    PoolCharge = 11,
    /// Bytes mapped that are known to be wanted.
    Active = 12,
    /// Bytes that must be free for a fault that waits; 0: none waits.
    Lacks = 13,
    /// When that was said last, nanoseconds of CLOCK_MONOTONIC.
    LackedAt = 14,
    /// Bytes that a process may touch unseen, as nothing of it is under its pager's care.
    Unseen = 15,
    /// Since when the pages that would leave next have been where they are, nanoseconds of CLOCK_MONOTONIC; 0: there are none.
    Oldest = 16,
    /// When that was said last.
    OldestAt = 17,
    /// The thread that tells all this; says when it has ended (`uzswap_sys::robust`).
    Teller = 18,
    /// What tells those who may share memory from others: a child has its parent's.
    Family = 19,
    /// When a process that shares memory with relatives last began to look at what it shares,
    /// nanoseconds of CLOCK_MONOTONIC; 1: it has not looked; 0: it shares nothing.
    LookedAt = 20,
    /// Up to which of its looks it is charged for what it found.
    RaisedAt = 21,
    /// Bytes charged to relatives that would be charged here if the process wrote to them.
    Copyable = 22,
    /// When somebody first saw that the process is dead and its memory gone, nanoseconds of
    /// CLOCK_MONOTONIC; 0: nobody has.
    DeadAt = 23,
    /// Where the stack of its program begins: another image begins elsewhere; 0: nobody knows.
    Image = 24,
    /// When somebody first saw that the process has no pager any more, nanoseconds of
    /// CLOCK_MONOTONIC; 0: nobody has.
    LingersSince = 25,
    /// Bytes of what the process has found to be its own that relatives are charged for still: it
    /// is not, yet.
    Twice = 26,
    /// When the look began in which it found the first of that, nanoseconds of CLOCK_MONOTONIC.
    TwiceSince = 27,
    /// Up to which of its looks the process has given up what it found to be relatives'.
    SettledAt = 28,
}

/// A group file's words, with names.
#[derive(Clone, Copy)]
pub struct Group(&'static [AtomicU64]);

impl Group {
    /// Initialise a new group file.
    pub fn create(words: &'static [AtomicU64]) -> Self {
        let group = Self(words);
        group.0[1].store(VERSION, Ordering::Relaxed);
        // Release: whoever sees the magic sees what was set up before (pairs with `open`).
        group.0[0].store(MAGIC, Ordering::Release);
        group
    }

    /// An existing group file. `None`: it is not one, or of another version.
    pub fn open(words: &'static [AtomicU64]) -> Option<Self> {
        let is_ours = words.len() >= WORDS
            && words[0].load(Ordering::Acquire) == MAGIC
            && words[1].load(Ordering::Relaxed) == VERSION;
        is_ours.then_some(Self(words))
    }

    /// A limit or tunable.
    pub fn get(&self, key: Key) -> u64 {
        self.0[key as usize].load(Ordering::Relaxed)
    }

    /// Set a limit or tunable.
    pub fn set(&self, key: Key, value: u64) {
        self.0[key as usize].store(value, Ordering::Relaxed);
    }

    /// Raise a word to `value` if it is lower.
    pub fn raise(&self, key: Key, value: u64) {
        self.0[key as usize].fetch_max(value, Ordering::Relaxed);
    }

    /// Add to a word (wrapping).
    pub fn add(&self, key: Key, value: u64) {
        self.0[key as usize].fetch_add(value, Ordering::AcqRel);
    }

    /// Take at most `most` off a word; returns how much.
    pub fn take(&self, key: Key, most: u64) -> u64 {
        take(&self.0[key as usize], most)
    }

    /// Allocator and compressor that pages are to be stored with.
    pub fn pool(&self) -> PoolKind {
        PoolKind {
            zpool: ZpoolType::from_word(self.get(Key::Zpool)),
            compressor: Compressor::from_word(self.get(Key::Compressor)),
        }
    }

    /// What idle pages are compressed with again, if anything.
    pub fn recompress(&self) -> Option<Algorithm> {
        match self.get(Key::Recompress) {
            0 => None,
            word => Some(Algorithm::from_word(word)),
        }
    }

    /// How folios leave.
    pub fn swap_out(&self) -> SwapOut {
        SwapOut::from_word(self.get(Key::SwapOut))
    }

    /// A failure was made to happen.
    pub fn count_failure(&self, kind: FailKind) {
        self.0[FAILURES + 1 + kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was.
    pub fn failures(&self, kind: FailKind) -> u64 {
        self.0[FAILURES + 1 + kind as usize].load(Ordering::Relaxed)
    }

    /// The counters.
    pub fn vmstat(&self) -> Vmstat {
        Vmstat::new(&self.0[STAT..STAT + vmstat::WORDS])
    }

    fn set_text(&self, at: usize, words: usize, text: &[u8]) {
        for (i, chunk) in text.chunks(8).take(words).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.0[at + i].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// The text up to its first zero byte.
    fn text(&self, at: usize, words: usize) -> Vec<u8> {
        let words = self.0[at..at + words].iter();
        words
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .take_while(|b| *b != 0)
            .collect()
    }

    /// A pager's thread has no stderr: what it says before it stops its process is printed by the launcher.
    pub fn set_last_words(&self, line: &str) {
        self.set_text(LAST_WORDS, LAST_WORDS_WORDS, line.as_bytes());
    }

    /// What was said last, if anything.
    pub fn last_words(&self) -> Vec<u8> {
        self.text(LAST_WORDS, LAST_WORDS_WORDS)
    }

    /// Where the swap file goes. At most [`PATH_MAX`](Self::PATH_MAX) bytes are kept.
    pub fn set_swap_path(&self, path: &[u8]) {
        self.set_text(PATH, PATH_WORDS, path);
    }

    /// Longest path that fits, with its terminating zero.
    pub const PATH_MAX: usize = PATH_WORDS * 8 - 1;

    /// The path set, up to its first zero byte.
    pub fn swap_path(&self) -> Vec<u8> {
        self.text(PATH, PATH_WORDS)
    }

    /// A process's word, for whoever has to write more to it than a value.
    pub fn word(&self, slot: usize, field: Field) -> &'static AtomicU64 {
        &self.0[SLOTS + slot % PROCESSES * SLOT_WORDS + field as usize]
    }

    /// A process's word.
    pub fn field(&self, slot: usize, field: Field) -> u64 {
        self.word(slot, field).load(Ordering::Relaxed)
    }

    /// Set a process's word.
    pub fn set_field(&self, slot: usize, field: Field, value: u64) {
        self.word(slot, field).store(value, Ordering::Relaxed);
    }

    /// Forget a process: its charge is returned.
    pub fn clear_slot(&self, slot: usize) {
        for word in 0..SLOT_WORDS {
            self.0[SLOTS + slot % PROCESSES * SLOT_WORDS + word].store(0, Ordering::Relaxed);
        }
    }

    /// Slots that are or were used. They are handed out from the first on, so these end at the first that never was.
    fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.high_water()).filter(|slot| self.field(*slot, Field::Pid) != 0)
    }

    /// Sum of one field over all processes.
    pub fn sum(&self, field: Field) -> u64 {
        self.used()
            .map(|slot| self.field(slot, field))
            .fold(0, u64::saturating_add)
    }

    /// The process in this slot waits, at `now`, until so many bytes are free.
    pub fn lack(&self, slot: usize, bytes: u64, now: u64) {
        self.set_field(slot, Field::LackedAt, now);
        self.set_field(slot, Field::Lacks, bytes);
    }

    /// The most bytes that any process has waited for since `then`.
    pub fn lacked(&self, then: u64) -> u64 {
        let is_late = |slot: &usize| self.field(*slot, Field::LackedAt) >= then;
        self.used()
            .filter(is_late)
            .map(|slot| self.field(slot, Field::Lacks))
            .max()
            .unwrap_or(0)
    }

    /// The pages of the process in this slot that would leave next are so old, at `now`.
    pub fn set_oldest(&self, slot: usize, oldest: u64, now: u64) {
        self.set_field(slot, Field::Oldest, oldest);
        self.set_field(slot, Field::OldestAt, now);
    }

    /// The oldest that any process but the one in `slot` has said since `then`.
    pub fn oldest_of_others(&self, slot: usize, then: u64) -> Option<u64> {
        self.used()
            .filter(|other| *other != slot && self.field(*other, Field::OldestAt) >= then)
            .map(|other| self.field(other, Field::Oldest))
            .filter(|oldest| *oldest != 0)
            .min()
    }

    /// `memory.current`: the charges of all processes, and what the census charges for others.
    pub fn current(&self) -> u64 {
        let charges = self.sum(Field::Charge);
        charges
            .saturating_add(self.get(Key::Census))
            .saturating_add(self.inner())
    }

    /// The limit that holds now: `memory.max`, or what the group around this one leaves if that is
    /// less.
    pub fn memory_max(&self) -> u64 {
        match self.get(Key::OuterMax) {
            0 => self.get(Key::MemoryMax),
            outer => self.get(Key::MemoryMax).min(outer - 1),
        }
    }

    /// One more than the highest slot ever used.
    pub fn high_water(&self) -> usize {
        (self.0[18].load(Ordering::Relaxed) as usize).min(PROCESSES)
    }

    /// A process took `slot`.
    pub fn take_slot(&self, slot: usize, pid: i32) {
        self.clear_slot(slot);
        self.set_field(slot, Field::Pid, pid as u64);
        self.0[18].fetch_max(slot as u64 + 1, Ordering::Relaxed);
    }

    /// The most pages that the pool may take.
    pub fn pool_limit_bytes(&self) -> u64 {
        let share = u128::from(self.memory_max()) * u128::from(self.get(Key::MaxPoolPercent)) / 100;
        u64::try_from(share).unwrap_or(u64::MAX).min(self.get(Key::ZswapMax))
    }

    /// To how many bytes a pool that reached its limit is drained before it takes more.
    pub fn pool_accept_bytes(&self) -> u64 {
        let percent = self.get(Key::AcceptThresholdPercent).min(100);
        (u128::from(self.pool_limit_bytes()) * u128::from(percent) / 100) as u64
    }
}

/// Take at most `most` off a word; returns how much.
fn take(word: &AtomicU64, most: u64) -> u64 {
    let rest = |word: u64| (word > 0 && most > 0).then(|| word.saturating_sub(most));
    let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, rest);
    before.map_or(0, |before| before.min(most))
}

#[cfg(test)]
mod test {
    use alloc::boxed::Box;

    use super::*;

    #[test]
    fn who_no_longer_says_that_it_waits_is_not_waited_for() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let group = Group::create(Box::leak(words.into_boxed_slice()));
        (0..3).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        assert_eq!(group.lacked(0), 0);
        group.lack(0, 9 << 20, 10);
        group.lack(2, 1 << 20, 20);
        assert_eq!(
            (group.lacked(5), group.lacked(15), group.lacked(25)),
            (9 << 20, 1 << 20, 0)
        );
        group.lack(0, 0, 30);
        assert_eq!(group.lacked(5), 1 << 20);
    }

    #[test]
    fn a_group_inside_another_has_what_that_leaves() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let group = Group::create(Box::leak(words.into_boxed_slice()));
        group.set(Key::MemoryMax, 50);
        assert_eq!(group.memory_max(), 50);
        group.set(Key::OuterMax, 1 + 20);
        assert_eq!(group.memory_max(), 20);
        group.set(Key::OuterMax, 1 + 70);
        assert_eq!(group.memory_max(), 50);
        group.take_slot(0, 100);
        group.set_field(0, Field::Charge, 10);
        group.set(Key::Census, 5);
        assert_eq!(group.current(), 15);
    }

    #[test]
    fn the_oldest_pages_are_those_of_processes_that_say_so_still() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let group = Group::create(Box::leak(words.into_boxed_slice()));
        (0..4).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        group.set_oldest(0, 3, 50);
        group.set_oldest(1, 5, 100);
        group.set_oldest(2, 0, 100);
        group.set_oldest(3, 9, 100);
        assert_eq!(
            (group.oldest_of_others(3, 40), group.oldest_of_others(3, 60)),
            (Some(3), Some(5))
        );
        assert_eq!(
            (group.oldest_of_others(1, 60), group.oldest_of_others(3, 101)),
            (Some(9), None)
        );
    }
}
