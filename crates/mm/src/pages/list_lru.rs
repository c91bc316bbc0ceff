//! LRU lists as queues with lazy deletion, in segments that are their clock.
//!
//! An entry names a folio (first page and order) and lies in a segment. The segment's tag is also
//! in the folio's words. Taking a page off a list costs nothing: its word changes. The entry is
//! recognised as stale when it reaches the front, or when a sweep passes by. There are as many
//! sweeps as keep the stale entries few. There are five lists of resident folios ([`resident`]) and
//! two of zswap entries (oldest stored first).
//!
//! [`resident`]: crate::pages::resident
//!
//! A segment takes entries until they are so many pages. So the tag of a word says whether an entry
//! holds, and also how many pages were added since, to within a segment. Of a stored page this is
//! the refault distance, and the word its shadow (mm/workingset.c). A page that is added twice to
//! one segment has two entries that hold; the second is found stale when the first was dealt with.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::page::{PageRange, Vpn};
use crate::policy::tunables::{SWEEP_EVERY, SWEEP_LEAST, SWEEP_LOOKS};

/// Pages added to a segment until the next one begins, where nobody asks for distances.
pub const SEGMENT_PAGES: u64 = 1024;

/// A folio on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruEntry {
    /// First page.
    pub vpn: Vpn,
    /// log2 of its pages.
    pub order: u32,
    /// What the words of its pages carry while the entry holds.
    pub tag: u32,
}

impl LruEntry {
    /// Its pages.
    pub fn pages(self) -> impl Iterator<Item = Vpn> {
        PageRange::new(self.vpn, 1 << self.order).iter()
    }
}

/// Entries one behind the other, each as its distance from the one before: three bytes for a page
/// within 2 GiB of the last one, two for the next folio.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    /// Those from here on are on the list.
    head: usize,
    /// First page of the entry before the one at `head`, and of the last one.
    before: u64,
    last: u64,
    entries: usize,
}

impl Packed {
    /// Sign at the bottom, so that what is near is small; below that, whether an order follows.
    fn push(&mut self, vpn: Vpn, order: u32) {
        let ahead = vpn.number().wrapping_sub(self.last) as i64;
        let mut rest = ((ahead << 1 ^ ahead >> 63) as u64) << 1 | u64::from(order > 0);
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
        if order > 0 {
            self.bytes.push(order as u8);
        }
        self.last = vpn.number();
        self.entries += 1;
    }

    /// The first entry, and what the list is once it has gone: `head` and `before`.
    fn peek(&self) -> Option<(Vpn, u32, (usize, u64))> {
        let (mut value, mut shift, mut at) = (0, 0, self.head);
        loop {
            let byte = *self.bytes.get(at)?;
            at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let zigzag = value >> 1;
        let ahead = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let vpn = self.before.wrapping_add(ahead as u64);
        let order = match value & 1 {
            0 => 0,
            _ => {
                at += 1;
                self.bytes[at - 1].into()
            }
        };
        Some((Vpn::new(vpn), order, (at, vpn)))
    }

    fn pop(&mut self) -> Option<(Vpn, u32)> {
        let (vpn, order, rest) = self.peek()?;
        (self.head, self.before) = rest;
        self.entries -= 1;
        Some((vpn, order))
    }
}

struct Segment {
    entries: Packed,
    tag: u32,
    /// When the last one was added.
    time: u64,
}

impl Segment {
    /// Keep what `is_live`. Returns how many entries went.
    fn sweep(&mut self, is_live: impl Fn(LruEntry) -> bool) -> usize {
        let mut kept = Packed {
            bytes: Vec::with_capacity(self.entries.bytes.len() - self.entries.head),
            ..Packed::default()
        };
        let (before, tag) = (self.entries.entries, self.tag);
        while let Some((vpn, order)) = self.entries.pop() {
            if is_live(LruEntry { vpn, order, tag }) {
                kept.push(vpn, order);
            }
        }
        kept.bytes.shrink_to_fit();
        self.entries = kept;
        before - self.entries.entries
    }
}

/// The tags of a list: every `stride`-th from `first` on, modulo 2^`bits`.
#[derive(Clone, Copy)]
pub struct Tags {
    /// Bits of a tag.
    pub bits: u32,
    /// The first one.
    pub first: u32,
    /// A power of two.
    pub stride: u32,
}

/// A first-in first-out list in segments, so that it grows and shrinks without moving.
pub struct LruList {
    segments: VecDeque<Segment>,
    len: usize,
    /// Segment that the next sweep looks at.
    hand: usize,
    /// Entries added since the last sweep.
    unswept: usize,
    /// Entries below which no sweep is due.
    resume_at: usize,
    tags: Tags,
    /// Pages of a segment.
    segment: u64,
    /// Of the youngest segment.
    tag: u32,
    /// Pages added to it.
    filled: u64,
    /// What the clock said last.
    now: u64,
}

impl LruList {
    /// An empty list in segments of so many pages. Distances are told apart up to as many segments
    /// as there are tags.
    pub fn new(tags: Tags, segment: u64) -> Self {
        Self {
            segments: VecDeque::new(),
            len: 0,
            hand: 0,
            unswept: 0,
            resume_at: 0,
            tags,
            segment,
            tag: tags.first,
            filled: 0,
            now: 0,
        }
    }

    /// Entries, stale ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is added from now on is added at `now`.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Append a folio as the youngest; returns the tag to put into its words.
    pub fn add_tail(&mut self, vpn: Vpn, order: u32) -> u32 {
        if self.filled >= self.segment {
            self.filled = 0;
            self.tag = self.tag.wrapping_add(self.tags.stride) & self.mask();
        }
        // The segment of this tag may be gone already, swept or popped empty.
        if self.segments.back().is_none_or(|segment| segment.tag != self.tag) {
            if let Some(full) = self.segments.back_mut() {
                full.entries.bytes.shrink_to_fit();
            }
            self.segments.push_back(Segment {
                entries: Packed::default(),
                tag: self.tag,
                time: self.now,
            });
        }
        if let Some(segment) = self.segments.back_mut() {
            segment.entries.push(vpn, order);
            segment.time = self.now;
        }
        self.filled += 1 << order;
        self.len += 1;
        self.unswept += 1;
        self.tag
    }

    fn mask(&self) -> u32 {
        (1 << self.tags.bits) - 1
    }

    /// Whether a [`sweep`](Self::sweep) is due. While sweeps find an eighth of the entries stale,
    /// each entry that is added has eight looked at, so the list stays at that. Then none is due
    /// until the list has grown by an eighth.
    pub fn needs_sweep(&self) -> bool {
        self.unswept >= SWEEP_EVERY && self.len > self.resume_at.max(SWEEP_LEAST)
    }

    /// Drop the stale ones among the next few entries, in whole segments.
    pub fn sweep(&mut self, is_live: impl Fn(LruEntry) -> bool) {
        self.unswept = 0;
        let (mut looked_at, mut stale) = (0, 0);
        for _ in 0..self.segments.len() {
            if looked_at >= SWEEP_LOOKS {
                break;
            }
            if self.hand >= self.segments.len() {
                self.hand = 0;
            }
            let segment = &mut self.segments[self.hand];
            looked_at += segment.entries.entries;
            stale += segment.sweep(&is_live);
            if segment.entries.entries == 0 {
                self.segments.remove(self.hand);
            } else {
                self.hand += 1;
            }
        }
        self.len -= stale;
        self.resume_at = if stale * 8 >= looked_at {
            0
        } else {
            self.len + self.len / 8
        };
    }

    /// How many segments were begun since that of this tag. Tags repeat after a while: a hint.
    pub fn age(&self, tag: u32) -> u64 {
        u64::from((self.tag.wrapping_sub(tag) & self.mask()) / self.tags.stride)
    }

    /// All tags, from that of the oldest segment that there may be to the youngest.
    pub fn tags_by_age(&self) -> impl Iterator<Item = u32> {
        let (youngest, mask, tags) = (self.tag, self.mask(), self.tags);
        let ages = (1 << tags.bits) / tags.stride;
        (0..ages)
            .rev()
            .map(move |age| youngest.wrapping_sub(age * tags.stride) & mask)
    }

    /// How many pages were added since the segment of this tag began, to within a segment. A hint.
    pub fn distance(&self, tag: u32) -> u64 {
        self.age(tag) * self.segment + self.filled
    }

    /// Whether the entry with this tag is in the older half of the list. A hint.
    pub fn is_old(&self, tag: u32) -> bool {
        let oldest = self.segments.front().map_or(0, |segment| self.age(segment.tag));
        self.age(tag) * 2 > oldest
    }

    /// The oldest entry, which stays, and a time at which it was on the list already. The caller
    /// checks its tag against the words.
    pub fn oldest(&mut self) -> Option<(LruEntry, u64)> {
        while let Some(segment) = self.segments.front() {
            if let Some((vpn, order, _)) = segment.entries.peek() {
                let tag = segment.tag;
                return Some((LruEntry { vpn, order, tag }, segment.time));
            }
            self.segments.pop_front();
            self.hand = self.hand.saturating_sub(1);
        }
        None
    }

    /// Take the oldest entry. The caller checks its tag against the words.
    pub fn pop_oldest(&mut self) -> Option<LruEntry> {
        let (entry, _) = self.oldest()?;
        if let Some(segment) = self.segments.front_mut() {
            segment.entries.pop();
            self.len -= 1;
        }
        Some(entry)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const TAGS: Tags = Tags {
        bits: 10,
        first: 1,
        stride: 2,
    };

    #[test]
    fn keeps_order_over_segments() {
        let mut list = LruList::new(TAGS, SEGMENT_PAGES);
        for round in 0..3u64 {
            let tags: Vec<u32> = (0..1500).map(|i| list.add_tail(Vpn::new(i * 7 + round), 3)).collect();
            for (i, tag) in tags.into_iter().enumerate() {
                let entry = list.pop_oldest().unwrap();
                assert_eq!(
                    entry,
                    LruEntry {
                        vpn: Vpn::new(i as u64 * 7 + round),
                        order: 3,
                        tag
                    }
                );
            }
            assert_eq!(list.pop_oldest(), None);
        }
    }

    #[test]
    fn entries_far_apart_come_back() {
        let pages = [0, 1, 1 << 19, 3, 0x7_ffff_ffff, 0x7_ffff_fe00, 512, 0x5_5555_5555, 0];
        let mut list = LruList::new(TAGS, SEGMENT_PAGES);
        let pages = pages.map(|n: u64| Vpn::new(n % PageRange::USER.end.number()));
        let folios: Vec<(Vpn, u32)> = pages.into_iter().zip((0..10).cycle()).collect();
        for (vpn, order) in &folios {
            list.add_tail(*vpn, *order);
        }
        list.sweep(|entry| entry.vpn.number() != 3);
        let left = core::iter::from_fn(|| list.pop_oldest()).map(|entry| (entry.vpn, entry.order));
        assert!(left.eq(folios.into_iter().filter(|(vpn, _)| vpn.number() != 3)));
    }

    #[test]
    fn a_random_page_within_two_gibibytes_takes_three_bytes() {
        let mut packed = Packed::default();
        let first = PageRange::USER.end.number() / 2;
        let pages = || (0..1000u64).map(|i| Vpn::new(first + i * 7_919 * 31 % (1 << 19)));
        pages().for_each(|vpn| packed.push(vpn, 0));
        assert!(packed.bytes.len() <= 3 * 1000 + 3, "{}", packed.bytes.len());
        assert!(pages().all(|vpn| packed.pop() == Some((vpn, 0))));
    }

    #[test]
    fn tags_are_a_clock() {
        let mut list = LruList::new(TAGS, SEGMENT_PAGES);
        let first = list.add_tail(Vpn::new(0), 0);
        assert!(!list.is_old(first));
        for pages in 1..3 * SEGMENT_PAGES {
            list.add_tail(Vpn::new(pages), 0);
            let distance = list.distance(first);
            assert!(
                (pages..=pages + 1).contains(&distance),
                "{distance} after {pages} pages"
            );
        }
        assert!(list.is_old(first));
        let folio = list.add_tail(Vpn::new(1 << 20), 9);
        assert_eq!(list.distance(folio), 512);
    }

    #[test]
    fn sweeps_keep_the_live_in_order_and_the_stale_few() {
        let mut list = LruList::new(TAGS, SEGMENT_PAGES);
        let is_live = |entry: LruEntry| entry.vpn.number().is_multiple_of(100);
        let entries = if cfg!(miri) { 5_000 } else { 100_000 };
        for i in 0..entries {
            list.add_tail(Vpn::new(i), 0);
            if list.needs_sweep() {
                list.sweep(is_live);
            }
            let live = i as usize / 100;
            assert!(list.len() <= 2 * live + 2 * SWEEP_LEAST, "{} at {i}", list.len());
        }
        let left = core::iter::from_fn(|| list.pop_oldest()).filter(|entry| is_live(*entry));
        assert!(left.map(|entry| entry.vpn.number()).eq((0..entries).step_by(100)));
        assert_eq!(list.len(), 0);
    }
}
