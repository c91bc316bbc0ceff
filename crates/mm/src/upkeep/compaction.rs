//! Compaction: objects leave the zspages that are emptiest, so that their pages return to the
//! system.
//!
//! A handle is kept in one place only: the word of its page or, of a staged page, beside its slot.
//! So objects move by a walk over the words, a piece of the table at a time, with the lock given up
//! in between. Which zspages are to be emptied is decided without it, under the locks of the
//! classes. What is loaded, written back or dropped meanwhile needs no care: its object is freed
//! where the word says that it is.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::page::PageRange;
use crate::pages::block::BlockRef;
use crate::policy::Event;
use crate::vmstat::Item;
use crate::zpool::{Arena, PoolRef};
use crate::{Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Compact the pools if that frees at least `worthwhile` pages, unless something else has to be
    /// done (`is_over`) before it is. Returns how many were freed. To be called by one thread.
    pub fn compact(&self, worthwhile: u64, is_over: impl Fn() -> bool) -> u64 {
        let (pools, before, ranges) = self.with(|inner| {
            let ranges: Vec<PageRange> = inner.pages.managed.iter().collect();
            inner.policy.note(Event::Compacted);
            (inner.pages.pool.get_all(), inner.pages.pool.pages(), ranges)
        });
        // Class by class, under its lock alone.
        let gain: u64 = pools.iter().map(PoolRef::begin_compaction).sum();
        if gain >= worthwhile.max(1) && !ranges.into_iter().any(|range| self.compact_range(range, &is_over)) {
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

    /// True: a freeze began, or it is over. Of terabytes that are reserved only what was touched is
    /// gone through.
    fn compact_range(&self, range: PageRange, is_over: &impl Fn() -> bool) -> bool {
        let most = self.tunables().hold.compacted;
        let mut rest = range;
        loop {
            let is_frozen = self.with_for_reclaim(|inner| {
                let start = inner.pages.table.first_near(rest).unwrap_or(rest.end);
                let end = start.add(most).min(rest.end);
                inner.relocate(PageRange { start, end });
                rest.start = end;
                inner.flight.frozen.is_some()
            });
            if is_frozen || is_over() {
                return true;
            }
            if rest.start >= rest.end {
                return false;
            }
        }
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
