//! Where the table's leaves and nodes are: units of 16 words, in slabs that are a page each.
//!
//! A unit that nobody has is all zeros. The lowest slab with room gives the next one, so that those
//! behind it come to be empty; an empty one is given back to the system. In front of the slabs is
//! what is known of them, touched only as far as there are slabs.

use super::TableMemory;
use super::atomic::{AtomicU64, Ordering};

/// log2 of the words of a unit: few in the model checker, which follows every word.
pub(super) const UNIT_ORDER: u32 = if cfg!(loom) { 1 } else { 4 };
/// Words of a unit.
pub(super) const UNIT: usize = 1 << UNIT_ORDER;
const SLAB_UNITS: usize = if cfg!(loom) { 2 } else { 32 };
/// Words of a slab.
pub const SLAB_WORDS: usize = SLAB_UNITS * UNIT;
const FULL: u64 = (1 << SLAB_UNITS) - 1;

/// All units. Whoever takes or gives one holds the lock that the tree is changed under.
pub(super) struct Units {
    words: &'static [AtomicU64],
    /// For each slab a word, in which a bit is a unit that somebody has.
    used: &'static [AtomicU64],
    /// For each slab a bit: it has no room.
    full: &'static [AtomicU64],
    release: fn(&'static [AtomicU64]),
    /// Slabs with a unit that somebody has.
    slabs: AtomicU64,
    /// No word of `full` before this one has room.
    lowest: AtomicU64,
}

/// Words in front of so many slabs.
const fn head(slabs: usize) -> usize {
    (slabs + slabs.div_ceil(64)).next_multiple_of(SLAB_WORDS)
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

impl Units {
    /// Words that so many slabs take.
    pub(super) const fn words_of(slabs: usize) -> usize {
        head(slabs) + slabs * SLAB_WORDS
    }

    pub(super) fn new(memory: TableMemory) -> Self {
        let all = memory.words.len() / SLAB_WORDS;
        let slabs = all - head(all) / SLAB_WORDS;
        assert!(
            slabs * SLAB_UNITS < 1 << super::tree::UNIT_BITS,
            "a link holds the number of a unit"
        );
        let (head, words) = memory.words.split_at(head(all));
        let (used, full) = head.split_at(slabs);
        Self {
            words: &words[..slabs * SLAB_WORDS],
            used,
            full,
            release: memory.release,
            slabs: AtomicU64::new(0),
            lowest: AtomicU64::new(0),
        }
    }

    /// The words of a unit. Of a number that was read where there is no unit any more: none.
    pub(super) fn words(&self, unit: usize) -> &'static [AtomicU64] {
        let start = |unit: usize| unit.wrapping_mul(UNIT);
        self.words.get(start(unit)..start(unit.wrapping_add(1))).unwrap_or(&[])
    }

    /// Have a unit.
    pub(super) fn take(&self) -> usize {
        let lowest = get(&self.lowest) as usize;
        let found = (lowest..)
            .zip(&self.full[lowest.min(self.full.len())..])
            .find(|(_, full)| get(full) != u64::MAX);
        let at = found.map_or(self.full.len(), |(at, _)| at);
        set(&self.lowest, at as u64);
        let slab = at * 64 + found.map_or(0, |(_, full)| get(full).trailing_ones() as usize);
        let Some(used) = self.used.get(slab) else {
            panic!(
                "no room in the swap table for more than {} units",
                self.used.len() * SLAB_UNITS
            );
        };
        let before = get(used);
        let after = before | (before + 1);
        set(used, after);
        if before == 0 {
            set(&self.slabs, get(&self.slabs) + 1);
        }
        if after == FULL {
            let full = &self.full[at];
            set(full, get(full) | 1 << (slab % 64));
        }
        slab * SLAB_UNITS + before.trailing_ones() as usize
    }

    /// Give one back that is all zeros again.
    pub(super) fn give(&self, unit: usize) {
        let (slab, bit) = (unit / SLAB_UNITS, 1 << (unit % SLAB_UNITS));
        let (used, full) = (&self.used[slab], &self.full[slab / 64]);
        set(used, get(used) & !bit);
        set(full, get(full) & !(1 << (slab % 64)));
        set(&self.lowest, get(&self.lowest).min(slab as u64 / 64));
        if get(used) == 0 {
            set(&self.slabs, get(&self.slabs) - 1);
            (self.release)(&self.words[slab * SLAB_WORDS..(slab + 1) * SLAB_WORDS]);
        }
    }

    /// Bytes of memory: the slabs, and what is known of each.
    pub(super) fn bytes(&self) -> u64 {
        get(&self.slabs) * ((SLAB_WORDS + 1) * size_of::<u64>()) as u64
    }
}
