//! Compressed pages that stayed cold go to the device: what the [shrinker](crate::policy::shrinker)
//! owes.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::Mm;
use crate::machine::Machine;
use crate::reclaim::writeback::Until;
use crate::vmstat::Item;
use crate::worker::Worker;

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
        let owed = self.with_for_reclaim(|inner| {
            let view = inner.view();
            inner.policy.shrinks(&view, reclaimed)
        });
        match owed {
            0 => 0,
            owed => {
                let written = self.writeback_until(worker, owed, Until::Warm);
                self.stat.add(Item::ShrinkerWb, written);
                written
            }
        }
    }
}
