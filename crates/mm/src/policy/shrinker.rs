//! The shrinker (`shrinker_enabled`, `mm/zswap.c`): under pressure, compressed pages that stayed cold go to the device before the
//! pool is full, in proportion to what reclaim takes from the resident pages.
//!
//! What it may take is scaled and protected as in the kernel:
//! * each page that had to be read back from the device spares one entry: whoever swaps in from the disk has been
//!   shrunk too far. The count is used up by the look that heeds it;
//! * entries count by what they free: the better they compress, the fewer are taken;
//! * it stops at the first entry whose neighbourhood was loaded since it was stored: from there on the list is warm.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::reclaim::writeback::Reach;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm};

/// Entries that one round of reclaim may send on (SWAP_CLUSTER_MAX).
const ROUND_MAX: u64 = 32;

/// What it has seen, and owes.
#[derive(Default)]
pub(crate) struct Shrinker {
    /// Pages read from the device that were not heeded yet.
    pub(crate) disk_swapins: u64,
    pub(crate) debt: u64,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// `shrinker_enabled`
    pub fn set_shrinker(&self, enabled: bool) {
        self.shrinker_enabled.store(enabled, Ordering::Relaxed);
    }

    /// Reclaim has taken `reclaimed` resident pages: the pool gives as large a part of what it can spare. Returns how many
    /// entries were written back.
    pub(crate) fn shrink_zswap(&self, worker: &mut Worker<M>, reclaimed: u64) -> u64 {
        if reclaimed == 0 || !self.shrinker_enabled.load(Ordering::Relaxed) {
            return 0;
        }
        match self.with_for_reclaim(|inner| inner.owed(reclaimed)) {
            0 => 0,
            owed => {
                let written = self.writeback_to(worker, owed.min(ROUND_MAX) as u32, Reach::Cold);
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
        let protected = self.policy.shrinker.disk_swapins.min(objects);
        self.policy.shrinker.disk_swapins -= protected;
        let freeable = (objects - protected) * self.pages.pool.pages().min(objects) / objects;
        let resident = self.pages.counts.resident.max(1);
        self.policy.shrinker.debt += freeable * reclaimed;
        let owed = self.policy.shrinker.debt / resident;
        self.policy.shrinker.debt %= resident;
        owed
    }
}
