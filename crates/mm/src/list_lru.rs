//! LRU lists as queues with lazy deletion.
//!
//! An entry names a folio (first page and order) and carries a tag which is also in the page's word. Taking a page
//! off a list costs nothing: its word changes, and the entry is recognised as stale when it reaches the front. There
//! is one list of resident folios (oldest mapped first) and one of zswap entries (oldest stored first).

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::page::{VPN_BITS, Vpn};

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

/// A first-in first-out list in segments of 4 KiB, so that it grows and shrinks without moving.
pub struct LruList {
    segments: VecDeque<Box<[u64; SEGMENT]>>,
    /// Index of the oldest entry in the first segment.
    head: usize,
    len: usize,
    next_tag: u32,
    tag_bits: u32,
}

impl LruList {
    /// An empty list whose tags have `tag_bits` bits.
    pub fn new(tag_bits: u32) -> Self {
        assert!(tag_bits + 4 + VPN_BITS <= 64, "an entry is one word");
        Self {
            segments: VecDeque::new(),
            head: 0,
            len: 0,
            next_tag: 0,
            tag_bits,
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

    /// Append a folio as the youngest; returns the tag to put into its words.
    pub fn add_tail(&mut self, vpn: Vpn, order: u32) -> u32 {
        let tag = self.next_tag;
        self.next_tag = (self.next_tag + 1) & ((1 << self.tag_bits) - 1);
        let at = self.head + self.len;
        if at / SEGMENT == self.segments.len() {
            self.segments.push_back(Box::new([0; SEGMENT]));
        }
        self.segments[at / SEGMENT][at % SEGMENT] = LruEntry { vpn, order, tag }.pack();
        self.len += 1;
        tag
    }

    /// Whether the entry with this tag is in the older half of the list. Tags repeat after a while: a hint.
    pub fn is_old(&self, tag: u32) -> bool {
        let mask = (1 << self.tag_bits) - 1;
        let younger = self.next_tag.wrapping_sub(tag) & mask;
        younger as usize > self.len / 2
    }

    /// Take the oldest entry. The caller checks its tag against the words.
    pub fn pop_oldest(&mut self) -> Option<LruEntry> {
        if self.len == 0 {
            return None;
        }
        let entry = LruEntry::unpack(self.segments[0][self.head]);
        self.head += 1;
        self.len -= 1;
        if self.head == SEGMENT {
            self.segments.pop_front();
            self.head = 0;
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
}
