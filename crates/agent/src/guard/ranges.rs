//! Which parts of the address space may be registered, in units of 64 KiB: a bit each.
//!
//! Set before anything is registered there, and cleared only where nothing is any more. Where a bit
//! says too much, a call only takes longer. A gibibyte that is registered as a whole has one bit: a
//! program may reserve terabytes. Most calls reach nothing but stacks and the data of
//! libraries, which are not registered.
//!
//! ```text
//! gibibyte: ANY? WHOLE?    chunk of 16 MiB -> hash -> INDEX -> CHUNKS: number, a bit a unit
//! ```
//! Programs choose addresses at random, and new ones for ever (V8): a chunk costs bytes, not pages,
//! and there are so many at most. What has none then makes its gibibyte whole. Nobody allocates:
//! threads of the program note what has grown.

use core::ops::Range;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// log2 of the bytes of a unit, of a chunk, of what one bit says whether it is whole, and of those
/// that there are addresses for.
const UNIT: u32 = 16;
const CHUNK: u32 = 24;
const BIG: u32 = 30;
const ALL: u32 = 47;
/// Units of a chunk, and of what one bit says whether it is whole.
const CHUNK_UNITS: usize = 1 << (CHUNK - UNIT);
const BIG_UNITS: usize = 1 << (BIG - UNIT);
/// Chunks that have bits of their own, and places to look for their numbers: half of them are used.
const CHUNKS_MAX: usize = 4096;
const PLACES: usize = 2 * CHUNKS_MAX;
/// Places that are looked at in a row.
const PROBES: usize = 64;

/// Of each gibibyte: whether any unit of it has its bit, and whether all have, as far as one bit
/// can say.
static ANY: [AtomicU64; 1 << (ALL - BIG - 6)] = [const { AtomicU64::new(0) }; 1 << (ALL - BIG - 6)];
static WHOLE: [AtomicU64; 1 << (ALL - BIG - 6)] = [const { AtomicU64::new(0) }; 1 << (ALL - BIG - 6)];

struct Chunk {
    /// Which it is. Written before anybody finds it.
    number: AtomicU32,
    units: [AtomicU64; CHUNK_UNITS / 64],
}

static CHUNKS: [Chunk; CHUNKS_MAX] = [const {
    Chunk {
        number: AtomicU32::new(0),
        units: [const { AtomicU64::new(0) }; CHUNK_UNITS / 64],
    }
}; CHUNKS_MAX];
/// Those of them that somebody has taken, or more.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// One more than the place in [`CHUNKS`], by the hash of the number; 0: none.
static INDEX: [AtomicU16; PLACES] = [const { AtomicU16::new(0) }; PLACES];

/// Where the number of a chunk may be found.
fn places(number: u32) -> impl Iterator<Item = &'static AtomicU16> {
    const GOLDEN: u32 = 0x9e37_79b9;
    let first = (number.wrapping_mul(GOLDEN) >> 16) as usize;
    (first..first + PROBES).map(|place| &INDEX[place % PLACES])
}

/// The chunk that a place leads to, if it is of that number.
fn chunk_at(place: u16, number: u32) -> Option<&'static Chunk> {
    let chunk = CHUNKS.get(usize::from(place).wrapping_sub(1))?;
    (chunk.number.load(Ordering::Relaxed) == number).then_some(chunk)
}

fn number_of(unit: usize) -> u32 {
    (unit / CHUNK_UNITS) as u32
}

/// The bits of a unit's chunk.
fn find(unit: usize) -> Option<&'static Chunk> {
    let number = number_of(unit);
    // Acquire pairs with the exchange in `find_or_take`: the number is there.
    places(number)
        .map(|place| place.load(Ordering::Acquire))
        .take_while(|place| *place != 0)
        .find_map(|place| chunk_at(place, number))
}

/// As [`find`], for a unit whose chunk has bits from now on. `None`: there are no more. Two threads
/// may take one for the same chunk: whoever comes second goes on with the first one's.
fn find_or_take(unit: usize) -> Option<&'static Chunk> {
    let number = number_of(unit);
    if let Some(chunk) = find(unit) {
        return Some(chunk);
    }
    let taken = TAKEN.fetch_add(1, Ordering::Relaxed).min(CHUNKS_MAX);
    let chunk = CHUNKS.get(taken)?;
    chunk.number.store(number, Ordering::Relaxed);
    for place in places(number) {
        match place.compare_exchange(0, taken as u16 + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(chunk),
            Err(other) => {
                if let Some(chunk) = chunk_at(other, number) {
                    return Some(chunk);
                }
            }
        }
    }
    None
}

/// The word that has the bit of a unit's gibibyte, and that bit.
fn big(words: &'static [AtomicU64], unit: usize) -> (&'static AtomicU64, u64) {
    let big = unit / BIG_UNITS;
    (&words[big / 64], 1 << (big % 64))
}

fn is_set((word, bit): (&AtomicU64, u64)) -> bool {
    word.load(Ordering::SeqCst) & bit != 0
}

fn set((word, bit): (&AtomicU64, u64)) {
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::SeqCst);
    }
}

fn units(start: usize, end: usize) -> Range<usize> {
    start >> UNIT..end.div_ceil(1 << UNIT).min(1 << (ALL - UNIT))
}

/// Call `f` with the parts of `units` that lie in a gibibyte each, or in a chunk: in `most` units.
fn for_each_part(units: Range<usize>, most: usize, mut f: impl FnMut(Range<usize>)) {
    let mut at = units.start;
    while at < units.end {
        let limit = (at / most + 1).saturating_mul(most).min(units.end);
        f(at..limit);
        at = limit;
    }
}

/// `[start, end)` is about to be registered, or what is has grown to it.
pub(super) fn note(start: usize, end: usize) {
    for_each_part(units(start, end), BIG_UNITS, |part| {
        if part.len() == BIG_UNITS {
            set(big(&WHOLE, part.start));
        } else if !is_set(big(&WHOLE, part.start)) {
            for_each_part(part, CHUNK_UNITS, note_part);
        }
    });
}

/// As [`note`], of a part of a chunk. Whoever reads finds the gibibyte's bit last.
fn note_part(part: Range<usize>) {
    let Some(chunk) = find_or_take(part.start) else {
        return set(big(&WHOLE, part.start));
    };
    let any = big(&ANY, part.start);
    for unit in part.map(|unit| unit % CHUNK_UNITS) {
        set((&chunk.units[unit / 64], 1 << (unit % 64)));
    }
    set(any);
}

/// Nothing is registered any more. In the only thread of a forked child.
pub(super) fn forget() {
    let units = CHUNKS.iter().take(TAKEN.load(Ordering::Relaxed));
    let units = units.flat_map(|chunk| &chunk.units);
    units
        .chain(&ANY)
        .chain(&WHOLE)
        .filter(|word| word.load(Ordering::Relaxed) != 0)
        .for_each(|word| word.store(0, Ordering::SeqCst));
}

/// Whether units may be registered, from one on, and the first that need not be alike.
fn alike(unit: usize) -> (bool, usize) {
    let next = |most: usize| (unit / most + 1) * most;
    if is_set(big(&WHOLE, unit)) {
        return (true, next(BIG_UNITS));
    }
    if !is_set(big(&ANY, unit)) {
        return (false, next(BIG_UNITS));
    }
    let Some(chunk) = find(unit) else {
        return (false, next(CHUNK_UNITS));
    };
    let at = unit % CHUNK_UNITS;
    let word = chunk.units[at / 64].load(Ordering::SeqCst);
    (word & 1 << (at % 64) != 0, unit + 1)
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
    const GIB: usize = 1 << BIG;

    /// In one test: they are all of one table.
    #[test]
    fn what_is_noted_is_found() {
        let at = 40 * GIB;
        note(at + UNITS, at + 3 * UNITS);
        assert_eq!(next(at, at + GIB), Some((at + UNITS, at + 3 * UNITS)));
        assert_eq!(
            next(at + 2 * UNITS + 5, at + GIB),
            Some((at + 2 * UNITS + 5, at + 3 * UNITS))
        );
        assert_eq!(next(at + 3 * UNITS, at + 10 * GIB), None);
        // Whole gibibytes, and parts on both sides.
        let big = 100 * GIB;
        note(big - UNITS, big + 8000 * GIB + UNITS);
        assert_eq!(next(0, at), None);
        assert_eq!(next(big - GIB, 1 << ALL), Some((big - UNITS, big + 8000 * GIB + UNITS)));
        assert_eq!(TAKEN.load(Ordering::Relaxed), 3);
        // Up to the border of a gibibyte, and beyond it.
        let border = 9000 * GIB;
        note(border - UNITS, border);
        note(border - UNITS, border + GIB / 2);
        assert_eq!(next(border, border + GIB), Some((border, border + GIB / 2)));
        forget();
        assert_eq!(next(0, 1 << ALL), None);
        // More chunks at random than have bits of their own: each is found, and little else.
        let chunks: alloc::vec::Vec<usize> = (1..10_000usize)
            .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ALL)) & !(4 * UNITS - 1))
            .collect();
        for chunk in &chunks {
            note(*chunk, chunk + 4 * UNITS);
        }
        for chunk in &chunks {
            let (start, end) = next(*chunk, chunk + 4 * UNITS).expect("it is noted");
            assert_eq!((start, end), (*chunk, chunk + 4 * UNITS));
        }
        let whole: u32 = WHOLE.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
        assert!((1..10_000 - 3_500).contains(&whole), "{whole}");
        forget();
        assert_eq!(next(0, 1 << ALL), None);
    }
}
