//! Addresses whose old contents are known to be leaving, by an event that was not read yet.
//!
//! The kernel changes a mapping, lets go of its lock and only then queues the event. Two threads'
//! events may therefore be read in the other order: one thread unmaps X (or moves it away) and is
//! preempted, another's mremap is given X, and *its* event is read first. Read literally, the late
//! departure would then take what has just landed.
//!
//! A program may only name addresses whose own mapping call has returned, so whose event was read.
//! So of all orders one matters: a departure from X, then a landing at X, read the other way round.
//! It shows:
//!
//! ```text
//! landing at X, X under our care still   what is there is moved to page numbers that no program
//!                                        has; it waits there for its departure, which is
//!                                        recognised by the address that it names
//! X was moved away, its Unmap not read   (the kernel reports both, one after the other:) nothing
//!                                        waits, but the Unmap that comes is of what was there
//! ```
//! A move away from an address that something has landed on since may be of either; whether
//! anything is mapped there now tells ([`Mapper::is_mapped`](crate::machine::Mapper::is_mapped)).
//! With MREMAP_DONTUNMAP the Unmap never comes: libc's is known
//! ([`Mapper::keeps_mapping`](crate::machine::Mapper::keeps_mapping)), raw ones are not. So
//! whenever no change is under way at all, which the agent sees now and then
//! ([`Changes::settle`](crate::Changes::settle)) and always before it takes a range under its care,
//! nothing is expected any more.
//!
//! What remains: X is registered and not under our care, so a landing there shows nothing. Either a
//! change began while X was registered, or a mapping under our care has grown to X, and no scan has
//! come by since.

use alloc::vec::Vec;

use crate::page::{PageRange, Vpn};
use crate::pages::range_set::RangeSet;

/// First page number that no program has.
const NOWHERE: Vpn = PageRange::USER.end;

/// A range that is to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// The addresses that its event will name.
    pub(crate) range: PageRange,
    /// Where its words wait for it. `None`: it has none, and only an Unmap will come.
    pub(crate) words: Option<Vpn>,
}

impl Departure {
    /// Where the words of the departure wait.
    pub(crate) fn waiting(self) -> Option<PageRange> {
        self.words.map(|start| PageRange::new(start, self.range.pages()))
    }

    fn part(self, range: PageRange) -> Self {
        let offset = range.start.number() - self.range.start.number();
        Self {
            range,
            words: self.words.map(|start| start.add(offset)),
        }
    }
}

/// All departures that are expected, in the order in which they became known.
pub(crate) struct Departing {
    expected: Vec<Departure>,
    /// Next page number for words that wait.
    free: Vpn,
}

impl Default for Departing {
    fn default() -> Self {
        Self {
            expected: Vec::new(),
            free: NOWHERE,
        }
    }
}

impl Departing {
    pub(crate) fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    /// Whether words of `range` wait for their departure.
    pub(crate) fn waits(&self, range: PageRange) -> bool {
        let overlaps = |other: PageRange| other.start < range.end && range.start < other.end;
        self.expected
            .iter()
            .any(|departure| departure.words.is_some() && overlaps(departure.range))
    }

    /// What is at `range` will be reported as leaving. Returns where its words are to wait.
    pub(crate) fn expect_words(&mut self, range: PageRange) -> Vpn {
        let at = self.free;
        self.free = at.add(range.pages());
        self.expected.push(Departure { range, words: Some(at) });
        at
    }

    /// `range` was moved away; its Unmap will be reported.
    pub(crate) fn expect_unmap(&mut self, range: PageRange) {
        self.expected.push(Departure { range, words: None });
    }

    /// An event says that `range` is left: what of it was expected, oldest first, and what was not,
    /// which is there now.
    pub(crate) fn depart(&mut self, range: PageRange, is_unmap: bool) -> (Vec<Departure>, Vec<PageRange>) {
        if self.expected.is_empty() {
            return (Vec::new(), Vec::from([range]));
        }
        let mut unexpected = RangeSet::default();
        unexpected.insert(range);
        let (mut left, mut still_expected) = (Vec::new(), Vec::new());
        for departure in self.expected.drain(..) {
            if !is_unmap && departure.words.is_none() {
                still_expected.push(departure);
                continue;
            }
            let mut kept = RangeSet::default();
            kept.insert(departure.range);
            for part in unexpected.parts_in(departure.range) {
                kept.remove(part);
                left.push(departure.part(part));
            }
            left.iter().for_each(|departure| unexpected.remove(departure.range));
            still_expected.extend(kept.iter().map(|part| departure.part(part)));
        }
        self.expected = still_expected;
        (left, unexpected.iter().collect())
    }

    /// No change is under way: what was expected has been read, or never comes.
    pub(crate) fn settle(&mut self) -> Vec<Departure> {
        self.free = NOWHERE;
        core::mem::take(&mut self.expected)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange {
            start: Vpn::new(start),
            end: Vpn::new(end),
        }
    }

    #[test]
    fn a_departure_takes_what_was_expected_first_and_leaves_the_rest() {
        let mut departing = Departing::default();
        assert_eq!(
            departing.depart(range(0, 9), true),
            (Vec::new(), Vec::from([range(0, 9)]))
        );
        let words = departing.expect_words(range(10, 20));
        departing.expect_unmap(range(18, 30));
        // Moved away: not what was moved before already.
        let (left, rest) = departing.depart(range(5, 12), false);
        assert_eq!(rest, [range(5, 10)]);
        assert_eq!(
            left,
            [Departure {
                range: range(10, 12),
                words: Some(words)
            }]
        );
        let (left, rest) = departing.depart(range(15, 40), true);
        assert_eq!(rest, [range(30, 40)]);
        let second = Departure {
            range: range(20, 30),
            words: None,
        };
        assert_eq!(
            left,
            [
                Departure {
                    range: range(15, 20),
                    words: Some(words.add(5))
                },
                second
            ]
        );
        let (left, rest) = departing.depart(range(18, 20), true);
        assert_eq!(
            (left, rest),
            (
                Vec::from([Departure {
                    range: range(18, 20),
                    words: None
                }]),
                Vec::new()
            )
        );
        assert_eq!(
            departing.settle(),
            [Departure {
                range: range(12, 15),
                words: Some(words.add(2))
            }]
        );
        assert!(departing.is_empty());
    }
}
