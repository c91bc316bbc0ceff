//! Which parts of the address space may be registered, in units of 64 KiB: a bit each.
//!
//! Set before anything is registered there, and cleared only where nothing is any more. Where a bit
//! says too much, a call only takes longer. A gibibyte that is registered as a whole has one bit: a
//! program may reserve terabytes. Most calls reach nothing but stacks and the data of
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
/// All units of a leaf have their bit, as far as one bit can say.
static WHOLE: [AtomicU64; 1 << (ALL - LEAF - 6)] = [const { AtomicU64::new(0) }; 1 << (ALL - LEAF - 6)];

fn leaf(unit: usize) -> &'static Leaked<[AtomicU64; WORDS]> {
    &LEAVES[unit >> (LEAF - UNIT)]
}

/// The word that says whether the leaf of a unit is whole, and its bit.
fn whole(unit: usize) -> (&'static AtomicU64, u64) {
    let leaf = unit >> (LEAF - UNIT);
    (&WHOLE[leaf >> 6], 1 << (leaf & 63))
}

fn is_whole(unit: usize) -> bool {
    let (word, bit) = whole(unit);
    word.load(Ordering::SeqCst) & bit != 0
}

fn units(start: usize, end: usize) -> Range<usize> {
    start >> UNIT..end.div_ceil(1 << UNIT).min(1 << (ALL - UNIT))
}

/// The unit at which the next leaf begins.
fn next_leaf(unit: usize) -> usize {
    ((unit >> (LEAF - UNIT)) + 1) << (LEAF - UNIT)
}

fn set(leaf: &[AtomicU64], unit: usize) {
    let (word, bit) = (&leaf[unit >> 6 & (WORDS - 1)], 1 << (unit & 63));
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::SeqCst);
    }
}

/// Call `f` with the parts of `units` that lie in a leaf each.
fn for_each_leaf(units: Range<usize>, mut f: impl FnMut(Range<usize>)) {
    let mut at = units.start;
    while at < units.end {
        let limit = next_leaf(at).min(units.end);
        f(at..limit);
        at = limit;
    }
}

/// `[start, end)` is about to be registered. In a thread of the pager.
///
/// What it may grow into has bits as well: whoever notes that may not allocate.
pub(super) fn note(start: usize, end: usize) {
    let beside = [
        (start.saturating_sub(1 << LEAF), start),
        (end, end.saturating_add(1 << LEAF)),
    ];
    for (from, to) in beside {
        for_each_leaf(units(from, to), |part| {
            if !is_whole(part.start) {
                leaf(part.start).get_or_set(|| [const { AtomicU64::new(0) }; WORDS]);
            }
        });
    }
    for_each_leaf(units(start, end), |part| {
        if part.len() == 1 << (LEAF - UNIT) {
            let (word, bit) = whole(part.start);
            word.fetch_or(bit, Ordering::SeqCst);
        } else if !is_whole(part.start) {
            let leaf = leaf(part.start).get_or_set(|| [const { AtomicU64::new(0) }; WORDS]);
            part.for_each(|unit| set(leaf, unit));
        }
    });
}

/// What is registered has grown to `[start, end)`. In a thread of the program, which may not
/// allocate: where there are no bits yet, nothing beside it is registered.
pub(super) fn note_grown(start: usize, end: usize) {
    for_each_leaf(units(start, end), |part| {
        let leaf = leaf(part.start).get();
        leaf.into_iter()
            .for_each(|leaf| part.clone().for_each(|unit| set(leaf, unit)));
    });
}

/// Nothing is registered any more. In the only thread of a forked child.
pub(super) fn forget() {
    let leaves = LEAVES.iter().filter_map(Leaked::get).flatten();
    leaves.chain(&WHOLE).for_each(|word| word.store(0, Ordering::SeqCst));
}

/// Whether units may be registered, from one on, and the first that need not be alike.
fn alike(unit: usize) -> (bool, usize) {
    match leaf(unit).get() {
        _ if is_whole(unit) => (true, next_leaf(unit)),
        None => (false, next_leaf(unit)),
        Some(leaf) => {
            let word = leaf[unit >> 6 & (WORDS - 1)].load(Ordering::SeqCst);
            (word & 1 << (unit & 63) != 0, unit + 1)
        }
    }
}

/// The first part of `[start, end)` that may be registered.
pub(super) fn next(start: usize, end: usize) -> Option<(usize, usize)> {
    let units = units(start, end);
    let skip = |is_registered: bool, from: usize| {
        let mut at = from;
        while at < units.end {
            let (is_set, next) = alike(at);
            if is_set != is_registered {
                break;
            }
            at = next;
        }
        at.min(units.end)
    };
    let first = skip(false, units.start);
    let limit = skip(true, first);
    (first < units.end).then(|| (start.max(first << UNIT), end.min(limit << UNIT)))
}

#[cfg(test)]
mod test {
    use super::*;

    const UNITS: usize = 1 << UNIT;
    const GIB: usize = 1 << LEAF;

    /// In one test: they are all of one table.
    #[test]
    fn what_is_noted_is_found_and_may_grow() {
        let at = 40 * GIB;
        note(at + UNITS, at + 3 * UNITS);
        assert_eq!(next(at, at + GIB), Some((at + UNITS, at + 3 * UNITS)));
        assert_eq!(
            next(at + 2 * UNITS + 5, at + GIB),
            Some((at + 2 * UNITS + 5, at + 3 * UNITS))
        );
        assert_eq!(next(at + 3 * UNITS, at + 10 * GIB), None);
        // Whole leaves, and parts on both sides.
        let big = 100 * GIB;
        note(big - UNITS, big + 8000 * GIB + UNITS);
        assert_eq!(next(0, at), None);
        assert_eq!(next(big - GIB, 1 << ALL), Some((big - UNITS, big + 8000 * GIB + UNITS)));
        assert!(LEAVES.iter().filter(|leaf| leaf.get().is_some()).count() < 10);
        // Up to the border of a leaf, and beyond it.
        let border = 9000 * GIB;
        note(border - UNITS, border);
        note_grown(border - UNITS, border + GIB / 2);
        assert_eq!(next(border, border + GIB), Some((border, border + GIB / 2)));
        note(border - 2 * GIB, border - GIB);
        note_grown(border - 2 * GIB, border - GIB + UNITS);
        assert_eq!(next(border - GIB, border), Some((border - GIB, border - GIB + UNITS)));
        forget();
        assert_eq!(next(0, 1 << ALL), None);
    }
}
