//! How old stored pages are among each other: of each tag of the lists of stored folios, how many words carry it.
//!
//! A list says how many pages were stored since one of them was; most of those may be gone. Which ones are the next to be sent to the
//! device follows from how many are left.

use alloc::vec;
use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::Inner;
use crate::list_lru::LruList;
use crate::swap_table::entry::{Slot, ZTAG_BITS, ZswapEntry};
use crate::zpool::Arena;
use crate::{ZSWAP_COLD_TAGS, ZSWAP_TAGS};

/// Stored pages by tag.
pub(crate) struct Ages(Vec<u32>);

impl Default for Ages {
    fn default() -> Self {
        Self(vec![0; 1 << ZTAG_BITS])
    }
}

impl Ages {
    /// The word of a page changes.
    pub(crate) fn note(&mut self, before: Slot, after: Slot) {
        if let Slot::Zswap(ZswapEntry { tag, .. }) = before {
            self.0[tag as usize] -= 1;
        }
        if let Slot::Zswap(ZswapEntry { tag, .. }) = after {
            self.0[tag as usize] += 1;
        }
    }

    /// Pages of one list: all, and those older than `tag`.
    fn of(&self, list: &LruList, first: u32, tag: u32) -> (u64, u64) {
        let stride = ZSWAP_TAGS.stride as usize;
        let tags = (first..)
            .step_by(stride)
            .zip(self.0.iter().skip(first as usize).step_by(stride));
        tags.fold((0, 0), |(all, older), (each, pages)| {
            let pages = u64::from(*pages);
            let is_older = list.age(each) > list.age(tag);
            (all + pages, older + if is_older { pages } else { 0 })
        })
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Whether a stored page with this tag is among the oldest: of so many pages, one. Those that came to rest are older than the others.
    pub(crate) fn is_among_oldest(&self, tag: u32, one_in: u64) -> bool {
        let (rested, older_rested) = self.ages.of(&self.zswap_cold, ZSWAP_COLD_TAGS.first, tag);
        let (recent, older_recent) = self.ages.of(&self.zswap_lru, ZSWAP_TAGS.first, tag);
        let older = match tag % ZSWAP_TAGS.stride == ZSWAP_TAGS.first {
            true => rested + older_recent,
            false => older_rested,
        };
        older * one_in < rested + recent
    }
}
