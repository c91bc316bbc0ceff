//! Compressed pages that stayed cold go to the device: what the [shrinker](crate::policy::shrinker)
//! owes.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::reclaim::writeback::Reach;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// `shrinker_enabled`
    pub fn set_shrinker(&self, enabled: bool) {
        self.shrinker_enabled.store(enabled, Ordering::Relaxed);
    }

    /// Reclaim has taken `reclaimed` resident pages: the pool gives as large a part of what it can
    /// spare. Returns how many entries were written back.
    pub(crate) fn shrink_zswap(&self, worker: &mut Worker<M>, reclaimed: u64) -> u64 {
        if reclaimed == 0 || !self.shrinker_enabled.load(Ordering::Relaxed) {
            return 0;
        }
        match self.with_for_reclaim(|inner| inner.owed(reclaimed)) {
            0 => 0,
            owed => {
                let written = self.writeback_to(worker, owed.min(self.tunables().shrinker.round) as u32, Reach::Cold);
                self.stat.add(Item::ShrinkerWb, written);
                written
            }
        }
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Entries to write back for `reclaimed` resident pages.
    fn owed(&mut self, reclaimed: u64) -> u64 {
        // What is kept for mapped pages cannot be sent on.
        let objects = self.pages.pool.objects().saturating_sub(self.pages.counts.cached);
        if !self.drains() || objects == 0 || self.shares_pool() {
            return 0;
        }
        let (pool, resident) = (self.pages.pool.pages(), self.pages.counts.resident);
        self.policy.shrinker.owed(objects, pool, resident, reclaimed)
    }
}
