//! Compaction: objects leave the zspages that are emptiest, so that their pages return to the
//! system.
//!
//! A handle is kept in one place only, the word of its page (or, of a staged page, beside its
//! slot), so objects move by a walk over the words: a piece of the table at a time, with the lock
//! given up in between. Which zspages are to be emptied is decided without it, under the locks of
//! the classes. What is loaded, written back or dropped meanwhile needs no care: its object is
//! freed where the word says that it is.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::page::{PageRange, Vpn};
use crate::pages::block::BlockRef;
use crate::policy::Event;
use crate::vmstat::Item;
use crate::zpool::{Arena, PoolRef};
use crate::{Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Compact the pools if that frees at least `worthwhile` pages. Returns how many were freed. To
    /// be called by one thread.
    pub fn compact(&self, worthwhile: u64) -> u64 {
        let (pools, before, ranges) = self.with(|inner| {
            let ranges: Vec<PageRange> = inner.pages.managed.iter().collect();
            inner.policy.note(Event::Compacted);
            (inner.pages.pool.get_all(), inner.pages.pool.pages(), ranges)
        });
        // Class by class, under its lock alone.
        let gain: u64 = pools.iter().map(PoolRef::begin_compaction).sum();
        if gain >= worthwhile.max(1) && !ranges.into_iter().any(|range| self.compact_range(range)) {
            self.with(|inner| inner.relocate_kept());
        }
        // A freeze finds nothing half-way: victims are only passed over by stores, of which a
        // freeze has none.
        pools.iter().for_each(PoolRef::end_compaction);
        self.with(|inner| {
            pools.into_iter().for_each(|pool| inner.pages.pool.put(pool));
            let freed = match gain >= worthwhile.max(1) {
                true => before.saturating_sub(inner.pages.pool.pages()),
                false => 0,
            };
            self.stat.add(Item::PagesCompacted, freed);
            freed
        })
    }

    /// True: a freeze began.
    fn compact_range(&self, range: PageRange) -> bool {
        let pieces = (range.start.number()..range.end.number()).step_by(self.tunables().hold.compacted as usize);
        pieces.into_iter().any(|start| {
            let end = (start + self.tunables().hold.compacted).min(range.end.number());
            self.with_for_reclaim(|inner| {
                inner.relocate(PageRange {
                    start: Vpn::new(start),
                    end: Vpn::new(end),
                });
                inner.flight.frozen.is_some()
            })
        })
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Blocks that are kept for staged pages move as well.
    fn relocate_kept(&mut self) {
        if self.flight.frozen.is_some() {
            return;
        }
        for kept in self.pages.staging.kept_mut() {
            if let Some(handle) = self.pages.pool.relocate(kept.handle(), kept.len() as usize) {
                *kept = BlockRef::new(handle, kept.len());
            }
        }
    }

    fn relocate(&mut self, range: PageRange) {
        if self.flight.frozen.is_some() {
            return;
        }
        self.pages.relocate(range);
    }
}
