//! LRU lists as queues with lazy deletion.
//!
//! An entry names a folio (first page and order) and carries a tag which is also in the page's word. Taking a page
//! off a list costs nothing: its word changes, and the entry is recognised as stale when it reaches the front, or when a
//! sweep passes by, of which there are as many as keep the stale entries few. There
//! is one list of resident folios (oldest mapped first) and one of zswap entries (oldest stored first).

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::page::{PageRange, VPN_BITS, Vpn};

const SEGMENT: usize = 512;

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

    fn pack(self) -> u64 {
        self.vpn.number() | u64::from(self.order) << VPN_BITS | u64::from(self.tag) << (VPN_BITS + 4)
    }

    fn unpack(bits: u64) -> Self {
        Self {
            vpn: Vpn::new(bits & ((1 << VPN_BITS) - 1)),
            order: (bits >> VPN_BITS) as u32 & 0xf,
            tag: (bits >> (VPN_BITS + 4)) as u32,
        }
    }
}

struct Segment {
    entries: [u64; SEGMENT],
    /// Entries from `head` up to `len` are on the list.
    head: usize,
    len: usize,
    /// When the last one was added.
    time: u64,
}

impl Segment {
    fn new() -> Box<Self> {
        Box::new(Self {
            entries: [0; SEGMENT],
            head: 0,
            len: 0,
            time: 0,
        })
    }

    fn live(&self) -> usize {
        self.len - self.head
    }
}

/// A first-in first-out list in segments of about 4 KiB, so that it grows and shrinks without moving.
pub struct LruList {
    segments: VecDeque<Box<Segment>>,
    len: usize,
    /// Segment that the next sweep looks at.
    hand: usize,
    /// Entries added since the last sweep.
    unswept: usize,
    /// Entries below which no sweep is due.
    resume_at: usize,
    next_tag: u32,
    tag_bits: u32,
    /// What the clock said last.
    now: u64,
}

impl LruList {
    /// An empty list whose tags have `tag_bits` bits.
    pub fn new(tag_bits: u32) -> Self {
        assert!(tag_bits + 4 + VPN_BITS <= 64, "an entry is one word");
        Self {
            segments: VecDeque::new(),
            len: 0,
            hand: 0,
            unswept: 0,
            resume_at: 0,
            next_tag: 0,
            tag_bits,
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
        let tag = self.next_tag;
        self.next_tag = (self.next_tag + 1) & ((1 << self.tag_bits) - 1);
        if self.segments.back().is_none_or(|segment| segment.len == SEGMENT) {
            self.segments.push_back(Segment::new());
        }
        if let Some(segment) = self.segments.back_mut() {
            segment.entries[segment.len] = LruEntry { vpn, order, tag }.pack();
            segment.len += 1;
            segment.time = self.now;
        }
        self.len += 1;
        self.unswept += 1;
        tag
    }

    /// Whether a [`sweep`](Self::sweep) is due: while they find a quarter of the entries stale, four segments are swept for each
    /// one that is added, so the list stays at that; then not until it has grown by a quarter.
    pub fn needs_sweep(&self) -> bool {
        self.unswept >= SEGMENT / 4 && self.len > self.resume_at.max(2 * SEGMENT)
    }

    /// Drop the stale entries of one segment, and fill up the one before with what is left.
    pub fn sweep(&mut self, is_live: impl Fn(LruEntry) -> bool) {
        self.unswept = 0;
        self.hand += 1;
        if self.hand >= self.segments.len() {
            self.hand = 0;
        }
        let Some(segment) = self.segments.get_mut(self.hand) else {
            return;
        };
        let before = segment.live();
        let mut kept = 0;
        for i in segment.head..segment.len {
            let entry = segment.entries[i];
            if is_live(LruEntry::unpack(entry)) {
                segment.entries[kept] = entry;
                kept += 1;
            }
        }
        (segment.head, segment.len) = (0, kept);
        let stale = before - kept;
        self.len -= stale;
        self.resume_at = if stale * 4 >= before {
            0
        } else {
            self.len + self.len / 4
        };
        self.join(self.hand);
    }

    /// Move entries of segment `at` to the one before it, as many as fit: so all that were swept are full.
    fn join(&mut self, at: usize) {
        let Some(mut this) = (at > 0).then(|| self.segments.remove(at)).flatten() else {
            return;
        };
        let before = &mut self.segments[at - 1];
        let n = this.live().min(SEGMENT - before.len);
        before.entries[before.len..before.len + n].copy_from_slice(&this.entries[this.head..this.head + n]);
        before.len += n;
        before.time = this.time;
        this.head += n;
        if this.live() > 0 || at == self.segments.len() {
            self.segments.insert(at, this);
        } else {
            self.hand = at - 1;
        }
    }

    /// Whether the entry with this tag is in the older half of the list. Tags repeat after a while: a hint.
    pub fn is_old(&self, tag: u32) -> bool {
        let mask = (1 << self.tag_bits) - 1;
        let younger = self.next_tag.wrapping_sub(tag) & mask;
        younger as usize > self.len / 2
    }

    /// The oldest entry, which stays, and a time at which it was on the list already. The caller checks its tag against the words.
    pub fn oldest(&mut self) -> Option<(LruEntry, u64)> {
        while let Some(segment) = self.segments.front() {
            if segment.live() > 0 {
                return Some((LruEntry::unpack(segment.entries[segment.head]), segment.time));
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
            segment.head += 1;
            self.len -= 1;
        }
        Some(entry)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn keeps_order_over_segments() {
        let mut list = LruList::new(20);
        for round in 0..3u64 {
            let tags: alloc::vec::Vec<u32> = (0..1500).map(|i| list.add_tail(Vpn::new(i * 7 + round), 3)).collect();
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
    fn sweeps_keep_the_live_in_order_and_the_stale_few() {
        let mut list = LruList::new(20);
        let is_live = |entry: LruEntry| entry.vpn.number().is_multiple_of(100);
        let entries = if cfg!(miri) { 5_000 } else { 100_000 };
        for i in 0..entries {
            list.add_tail(Vpn::new(i), 0);
            if list.needs_sweep() {
                list.sweep(is_live);
            }
            let live = i as usize / 100;
            assert!(list.len() <= 2 * live + 4 * SEGMENT, "{} at {i}", list.len());
        }
        let left = core::iter::from_fn(|| list.pop_oldest()).filter(|entry| is_live(*entry));
        assert!(left.map(|entry| entry.vpn.number()).eq((0..entries).step_by(100)));
        assert_eq!(list.len(), 0);
    }
}
