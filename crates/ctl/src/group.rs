//! The group file as an object: words by name, and what follows of them.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_acomp::{Algorithm, Compressor};
use uzswap_mm::vmstat::Vmstat;
use uzswap_mm::zpool::{PoolKind, ZpoolType};
use uzswap_mm::{Replacement, SwapOut};

use crate::key::place::At;
use crate::layout::{self, FAILURES, Head, LAST_WORDS, MAGIC, Part, SWAP_PATH, VERSION, WORDS};
use crate::{FailKind, Field, Key, Limit, Notice, Setting, Statistic, Tunable, defaults};

/// A group file's words, with names.
#[derive(Clone, Copy)]
pub struct Group(&'static [AtomicU64]);

impl Group {
    /// Initialise a new group file.
    pub fn create(words: &'static [AtomicU64]) -> Self {
        words[Head::Version.at()].store(VERSION, Ordering::Relaxed);
        // Release: whoever sees the magic sees what was set up before (pairs with `open`).
        words[Head::Magic.at()].store(MAGIC, Ordering::Release);
        Self(words)
    }

    /// An existing group file. `None`: it is not one, or of another version.
    pub fn open(words: &'static [AtomicU64]) -> Option<Self> {
        let is_ours = words.len() >= WORDS
            // Acquire: pairs with `create`.
            && words[Head::Magic.at()].load(Ordering::Acquire) == MAGIC
            && words[Head::Version.at()].load(Ordering::Relaxed) == VERSION;
        is_ours.then_some(Self(words))
    }

    /// One that nobody else has.
    #[cfg(test)]
    pub(crate) fn fresh() -> Self {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Self::create(words.leak())
    }

    pub(crate) fn words(&self) -> &'static [AtomicU64] {
        self.0
    }

    fn at(&self, key: impl Key) -> &'static AtomicU64 {
        &self.0[key.at()]
    }

    /// What a word says.
    pub fn get(&self, key: impl Key) -> u64 {
        self.at(key).load(Ordering::Relaxed)
    }

    /// Whether a flag is set.
    pub fn is_on(&self, key: impl Key) -> bool {
        self.get(key) != 0
    }

    pub(crate) fn raise_word(&self, key: impl Key, value: u64) {
        self.at(key).fetch_max(value, Ordering::Relaxed);
    }
}

/// Writing words: by their roles.
impl Group {
    /// Change a setting.
    pub fn set(&self, setting: impl Into<Setting>, value: u64) {
        self.at(setting.into()).store(value, Ordering::Relaxed);
    }

    /// Leave word.
    pub fn tell(&self, notice: Notice, value: u64) {
        self.at(notice).store(value, Ordering::Relaxed);
    }

    /// Add to a notice (wrapping).
    pub fn add(&self, notice: Notice, value: u64) {
        self.at(notice).fetch_add(value, Ordering::AcqRel);
    }

    /// Take at most `most` off a notice; returns how much.
    pub fn take(&self, notice: Notice, most: u64) -> u64 {
        take(self.at(notice), most)
    }

    /// Write down what is so now.
    pub fn note(&self, statistic: Statistic, value: u64) {
        self.at(statistic).store(value, Ordering::Relaxed);
    }

    /// Write it down if it is more than ever.
    pub fn raise(&self, statistic: Statistic, value: u64) {
        self.raise_word(statistic, value);
    }

    /// It has happened once more.
    pub fn count(&self, statistic: Statistic) {
        self.at(statistic).fetch_add(1, Ordering::Relaxed);
    }

    /// A failure was made to happen.
    pub fn count_failure(&self, kind: FailKind) {
        self.failure(kind).fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was.
    pub fn failures(&self, kind: FailKind) -> u64 {
        self.failure(kind).load(Ordering::Relaxed)
    }

    fn failure(&self, kind: FailKind) -> &'static AtomicU64 {
        &self.0[FAILURES.word(kind as usize)]
    }

    /// The counters.
    pub fn vmstat(&self) -> Vmstat {
        Vmstat::new(&self.0[layout::counters()])
    }
}

/// Texts.
impl Group {
    /// Longest path that fits, with its terminating zero.
    pub const PATH_MAX: usize = layout::PATH_MAX;

    fn set_text(&self, part: Part, text: &[u8]) {
        for (word, chunk) in self.0[part.range()].iter().zip(text.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// The text up to its first zero byte.
    fn text(&self, part: Part) -> Vec<u8> {
        let words = self.0[part.range()].iter();
        words
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .take_while(|b| *b != 0)
            .collect()
    }

    /// A pager's thread has no stderr: what it says before it stops its process is printed by the
    /// launcher.
    pub fn set_last_words(&self, line: &str) {
        self.set_text(LAST_WORDS, line.as_bytes());
    }

    /// What was said last, if anything.
    pub fn last_words(&self) -> Vec<u8> {
        self.text(LAST_WORDS)
    }

    /// Where the swap file goes. At most [`PATH_MAX`](Self::PATH_MAX) bytes are kept.
    pub fn set_swap_path(&self, path: &[u8]) {
        self.set_text(SWAP_PATH, path);
    }

    /// The path set, up to its first zero byte.
    pub fn swap_path(&self) -> Vec<u8> {
        self.text(SWAP_PATH)
    }
}

/// What follows of several words, or of one that is more than a number.
impl Group {
    /// Allocator and compressor that pages are to be stored with.
    pub fn pool(&self) -> PoolKind {
        PoolKind {
            zpool: ZpoolType::from_word(self.get(Tunable::Zpool)),
            compressor: Compressor::from_word(self.get(Tunable::Compressor)),
        }
    }

    /// What idle pages are compressed with again, if anything.
    pub fn recompress(&self) -> Option<Algorithm> {
        match self.get(Tunable::Recompress) {
            0 => None,
            word => Some(Algorithm::from_word(word)),
        }
    }

    /// How folios leave.
    pub fn swap_out(&self) -> SwapOut {
        SwapOut::from_word(self.get(Tunable::SwapOut))
    }

    /// log2 of the pages that are loaded together.
    pub fn page_cluster(&self) -> u32 {
        self.get(Tunable::PageCluster).min(defaults::PAGE_CLUSTER_MAX) as u32
    }

    /// In which order pages leave.
    pub fn replacement(&self) -> Replacement {
        Replacement::from_word(self.get(Tunable::Replacement))
    }

    /// `memory.current`: the charges of all processes, and what the census charges for others.
    pub fn current(&self) -> u64 {
        let charges = self.sum(Field::Charge);
        charges
            .saturating_add(self.get(Notice::Census))
            .saturating_add(self.inner())
    }

    /// The limit that holds now: `memory.max`, or what the group around this one leaves if that is
    /// less.
    pub fn memory_max(&self) -> u64 {
        match self.get(Notice::OuterMax) {
            0 => self.get(Limit::MemoryMax),
            outer => self.get(Limit::MemoryMax).min(outer - 1),
        }
    }

    /// The most bytes that the pools of the group may take: `max_pool_percent` of the limit, at
    /// most `memory.zswap.max`.
    pub fn pool_limit_bytes(&self) -> u64 {
        let share = u128::from(self.memory_max()) * u128::from(self.get(Tunable::MaxPoolPercent)) / 100;
        u64::try_from(share).unwrap_or(u64::MAX).min(self.get(Limit::ZswapMax))
    }

    /// To how many bytes a pool that reached its limit is drained before it takes more.
    pub fn pool_accept_bytes(&self) -> u64 {
        let percent = self.get(Tunable::AcceptThresholdPercent).min(100);
        (u128::from(self.pool_limit_bytes()) * u128::from(percent) / 100) as u64
    }
}

/// Take at most `most` off a word; returns how much.
pub(crate) fn take(word: &AtomicU64, most: u64) -> u64 {
    let rest = |word: u64| (word > 0 && most > 0).then(|| word.saturating_sub(most));
    let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, rest);
    before.map_or(0, |before| before.min(most))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_group_inside_another_has_what_that_leaves() {
        let group = Group::fresh();
        group.set(Limit::MemoryMax, 50);
        assert_eq!(group.memory_max(), 50);
        group.tell(Notice::OuterMax, 1 + 20);
        assert_eq!(group.memory_max(), 20);
        group.tell(Notice::OuterMax, 1 + 70);
        assert_eq!(group.memory_max(), 50);
        group.take_slot(0, 100);
        group.set_field(0, Field::Charge, 10);
        group.tell(Notice::Census, 5);
        assert_eq!(group.current(), 15);
    }

    #[test]
    fn a_file_of_another_version_is_not_opened() {
        let words = Group::fresh().words();
        assert!(Group::open(words).is_some());
        assert!(Group::open(&words[..WORDS - 1]).is_none());
        words[Head::Version.at()].store(VERSION - 1, Ordering::Relaxed);
        assert!(Group::open(words).is_none());
    }

    #[test]
    fn a_text_is_read_up_to_its_end() {
        let group = Group::fresh();
        group.set_swap_path(b"/var/tmp/a");
        group.set_last_words("stopped");
        assert_eq!(group.swap_path(), b"/var/tmp/a");
        assert_eq!(group.last_words(), b"stopped");
        let long = [b'a'; Group::PATH_MAX + 9];
        group.set_swap_path(&long);
        assert_eq!(group.swap_path().len(), Group::PATH_MAX + 1);
        assert_eq!(
            (group.get(Head::Version), group.vmstat().histograms()[0][0]),
            (VERSION, 0)
        );
    }

    #[test]
    fn what_changes_one_word_leaves_the_others() {
        let group = Group::fresh();
        group.set(Tunable::SwapPlain, 3);
        group.add(Notice::ReclaimAsked, 9);
        assert_eq!(
            (
                group.take(Notice::ReclaimAsked, 4),
                group.take(Notice::ReclaimAsked, 40)
            ),
            (4, 5)
        );
        group.raise(Statistic::MemoryPeak, 5);
        group.raise(Statistic::MemoryPeak, 4);
        group.count(Statistic::UnmanagedProcesses);
        group.count_failure(FailKind::HeapEnomem);
        let peak = group.get(Statistic::MemoryPeak);
        assert_eq!((peak, group.get(Statistic::UnmanagedProcesses)), (5, 1));
        assert_eq!(
            (group.get(Tunable::SwapPlain), group.failures(FailKind::HeapEnomem)),
            (3, 1)
        );
        assert!(!group.is_on(Notice::ReclaimAsked) && group.is_on(Tunable::SwapPlain));
        let used = group.words().iter().filter(|word| word.load(Ordering::Relaxed) != 0);
        // Magic and version as well.
        assert_eq!(used.count(), 2 + 4);
    }
}
