//! Which parts of the address space may be registered, in units of 64 KiB: a bit each.
//!
//! Set before anything is registered there, and cleared only where nothing is any more. Where a bit
//! says too much, a call only takes longer. Most calls reach nothing but stacks and the data of
//! libraries, which are not registered.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_sys::cell::Leaked;

/// log2 of the bytes of a unit.
const UNIT: u32 = 16;
/// log2 of the bytes that a leaf has bits for, and of those that there are addresses for. Small
/// leaves: programs that choose addresses at random have a chunk in each.
const LEAF: u32 = 30;
const ALL: u32 = 47;
/// Words of a leaf.
const WORDS: usize = 1 << (LEAF - UNIT - 6);

static LEAVES: [Leaked<[AtomicU64; WORDS]>; 1 << (ALL - LEAF)] = [const { Leaked::new() }; 1 << (ALL - LEAF)];

fn leaf(unit: usize) -> &'static Leaked<[AtomicU64; WORDS]> {
    &LEAVES[unit >> (LEAF - UNIT)]
}

fn units(start: usize, end: usize) -> Range<usize> {
    start >> UNIT..end.div_ceil(1 << UNIT).min(1 << (ALL - UNIT))
}

fn set(leaf: &[AtomicU64], unit: usize) {
    let (word, bit) = (&leaf[unit >> 6 & (WORDS - 1)], 1 << (unit & 63));
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::SeqCst);
    }
}

/// `[start, end)` is about to be registered. In a thread of the pager.
///
/// What it may grow into has bits as well: whoever notes that may not allocate.
pub(super) fn note(start: usize, end: usize) {
    let beside = start.saturating_sub(1 << LEAF)..end.saturating_add(1 << LEAF);
    for unit in units(beside.start, beside.end).step_by(1 << (LEAF - UNIT)) {
        leaf(unit).get_or_set(|| [const { AtomicU64::new(0) }; WORDS]);
    }
    for unit in units(start, end) {
        set(leaf(unit).get_or_set(|| [const { AtomicU64::new(0) }; WORDS]), unit);
    }
}

/// What is registered has grown to `[start, end)`. In a thread of the program, which may not
/// allocate: where there are no bits yet, nothing beside it is registered.
pub(super) fn note_grown(start: usize, end: usize) {
    for unit in units(start, end) {
        leaf(unit).get().into_iter().for_each(|leaf| set(leaf, unit));
    }
}

/// Nothing is registered any more. In the only thread of a forked child.
pub(super) fn forget() {
    for leaf in LEAVES.iter().filter_map(Leaked::get) {
        leaf.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }
}

/// The first part of `[start, end)` that may be registered.
pub(super) fn next(start: usize, end: usize) -> Option<(usize, usize)> {
    let is_set = |unit: &usize| {
        let word = leaf(*unit).get().map(|leaf| &leaf[unit >> 6 & (WORDS - 1)]);
        word.is_some_and(|word| word.load(Ordering::SeqCst) & 1 << (unit & 63) != 0)
    };
    let mut units = units(start, end).skip_while(|unit| !is_set(unit));
    let first = units.next()?;
    let more = units.take_while(is_set).count();
    Some((start.max(first << UNIT), end.min((first + more + 1) << UNIT)))
}
