//! The table of a swap file's segments: what its agent and the mover say of each, a word for both.
//!
//! ```text
//! words 0 ..  7   0: whether the mover takes segments
//! words 8 ..      two for each segment: its state, and when it was last touched
//! ```
//! The low half of a state's word is the state and a count that each change raises, so that who saw
//! a segment twice in one state knows whether it has been in others. The kernel can wait on it.
//! docs/design/remote.md has who changes what.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::SEGMENT;
use uzswap_mm::page::PAGE_SIZE;

/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = SEGMENT as usize * PAGE_SIZE;
const HEAD: usize = 8;
const EACH: usize = 2;
const STATE_BITS: u32 = 3;

/// Where what lies in a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// In the file. Only such a segment is written.
    Local,
    /// In the file, for the mover to take.
    Offered,
    /// In the file and elsewhere.
    Both,
    /// Elsewhere.
    Remote,
    /// Elsewhere, and somebody waits for it.
    Wanted,
    /// Just being written to the file: nobody but the mover changes it.
    Arriving,
    /// Nobody needs it: the mover is to forget it.
    Dropped,
    /// Nowhere.
    Lost,
}

impl State {
    const ALL: [Self; 8] = [
        Self::Local,
        Self::Offered,
        Self::Both,
        Self::Remote,
        Self::Wanted,
        Self::Arriving,
        Self::Dropped,
        Self::Lost,
    ];

    /// Whether the file has what lies in the segment.
    pub fn is_here(self) -> bool {
        matches!(self, Self::Local | Self::Offered | Self::Both)
    }
}

/// What a segment's word said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u32);

impl Seen {
    /// The state.
    pub fn state(self) -> State {
        State::ALL[(self.0 & ((1 << STATE_BITS) - 1)) as usize]
    }

    /// As the kernel compares it.
    pub fn word(self) -> u32 {
        self.0
    }

    fn changed(self, to: State) -> Self {
        let count = (self.0 >> STATE_BITS).wrapping_add(1);
        Self(count << STATE_BITS | to as u32)
    }
}

/// A table.
#[derive(Clone, Copy)]
pub struct Segments<'a>(&'a [AtomicU64]);

impl<'a> Segments<'a> {
    /// Words of a table for so many slots.
    pub fn words_for(slots: u64) -> usize {
        HEAD + slots.div_ceil(u64::from(SEGMENT)) as usize * EACH
    }

    /// A table in these words. `None`: they are too few for any segment.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        (words.len() >= HEAD + EACH).then_some(Self(words))
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        ((self.0.len() - HEAD) / EACH) as u32
    }

    /// There is one at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the mover takes segments.
    pub fn is_open(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) != 0
    }

    /// The mover takes segments, or none for a while.
    pub fn set_open(&self, is_open: bool) {
        self.0[0].store(is_open.into(), Ordering::Relaxed);
    }

    /// The word of a segment.
    pub fn word(&self, segment: u32) -> &'a AtomicU64 {
        &self.0[HEAD + segment as usize * EACH]
    }

    /// What it says.
    pub fn look(&self, segment: u32) -> Seen {
        // Acquire: what was written to the file before it said so is there.
        Seen(self.word(segment).load(Ordering::Acquire) as u32)
    }

    /// Change a segment that was seen as `from`. `None`: somebody else has changed it since.
    pub fn change(&self, segment: u32, from: Seen, to: State) -> Option<Seen> {
        let now = from.changed(to);
        let word = self.word(segment);
        let changed = word.compare_exchange(from.0.into(), now.0.into(), Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok().then_some(now)
    }

    /// As [`change`](Self::change), of a segment in state `from`, whenever it came to it.
    pub fn change_from(&self, segment: u32, from: State, to: State) -> bool {
        let seen = self.look(segment);
        seen.state() == from && self.change(segment, seen, to).is_some()
    }

    /// The segments that these slots lie in.
    pub fn of_slots(slots: Range<u32>) -> Range<u32> {
        slots.start / SEGMENT..slots.end.div_ceil(SEGMENT)
    }

    /// What has changed if nothing of these segments has left the file in between. `None`: not all
    /// are there.
    pub fn stamp(&self, segments: Range<u32>) -> Option<u64> {
        segments.map(|segment| self.look(segment)).try_fold(0, |sum, seen| {
            seen.state().is_here().then_some(sum + u64::from(seen.0 >> STATE_BITS))
        })
    }

    fn touched_word(&self, segment: u32) -> &'a AtomicU64 {
        &self.0[HEAD + segment as usize * EACH + 1]
    }

    /// A segment was read or written at `now`, nanoseconds of CLOCK_MONOTONIC.
    pub fn touch(&self, segment: u32, now: u64) {
        self.touched_word(segment).store(now, Ordering::Relaxed);
    }

    /// When it was last.
    pub fn touched(&self, segment: u32) -> u64 {
        self.touched_word(segment).load(Ordering::Relaxed)
    }
}

/// A word of a datagram: which segment of which table is to be looked at.
pub fn ring(table: u32, segment: u32) -> u64 {
    u64::from(table) << 32 | u64::from(segment)
}

/// Table and segment.
pub fn rung(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;

    fn table(slots: u64) -> Segments<'static> {
        let words: Vec<AtomicU64> = (0..Segments::words_for(slots)).map(|_| AtomicU64::new(0)).collect();
        Segments::new(words.leak()).unwrap()
    }

    #[test]
    fn a_change_holds_only_for_what_was_seen() {
        let table = table(100);
        assert_eq!((table.len(), table.look(1).state()), (2, State::Local));
        let seen = table.look(1);
        let offered = table.change(1, seen, State::Offered).unwrap();
        assert_eq!(table.change(1, seen, State::Offered), None);
        // Withdrawn, written and offered again: what was read of it before is not what it holds.
        assert!(table.change_from(1, State::Offered, State::Local));
        assert!(table.change_from(1, State::Local, State::Offered));
        assert_eq!(
            (offered.state(), table.look(1).state()),
            (State::Offered, State::Offered)
        );
        assert_eq!(table.change(1, offered, State::Both), None);
        assert!(!table.change_from(1, State::Both, State::Remote));
        assert_eq!(table.look(0), seen);
    }

    #[test]
    fn who_read_while_a_segment_left_can_tell() {
        let table = table(1000);
        let segments = Segments::of_slots(60..130);
        assert_eq!(segments, 0..3);
        assert_eq!(Segments::of_slots(64..128), 1..2);
        let stamp = table.stamp(segments.clone());
        assert_eq!((stamp, table.stamp(segments.clone())), (Some(0), Some(0)));
        let go = |from, to| assert!(table.change_from(2, from, to));
        go(State::Local, State::Offered);
        go(State::Offered, State::Both);
        go(State::Both, State::Remote);
        assert_eq!(table.stamp(segments.clone()), None);
        go(State::Remote, State::Wanted);
        go(State::Wanted, State::Both);
        let later = table.stamp(segments.clone());
        assert!(later.is_some() && later != stamp);
        assert_eq!(table.stamp(0..2), stamp);
    }

    #[test]
    fn every_word_is_some_state() {
        let table = table(1);
        for (word, state) in (0..).zip(State::ALL) {
            table.word(0).store(word | 5 << STATE_BITS, Ordering::Relaxed);
            assert_eq!((table.look(0).state(), state as u64), (state, word));
        }
        assert!(Segments::new(&[]).is_none());
        assert_eq!(rung(ring(9, 7)), (9, 7));
        table.touch(0, 5);
        table.set_open(true);
        assert_eq!((table.touched(0), table.is_open()), (5, true));
    }
}
