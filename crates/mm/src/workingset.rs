//! Balance between the resident pages and the pool (`mm/workingset.c`; `lru_note_cost` in `mm/swap.c`).
//!
//! What the pool holds oldest can go to the device, and the memory that it took to the resident pages. Whether that pays is seen at both
//! ends of the list of stored pages. A fault of one of the youngest would not have been if a part of the pool had been resident
//! memory instead; a fault of one of the oldest would have had to wait for the device, which takes as long as many loads from the
//! pool ([`READ_COST`]). So the former lets reclaim send on a few entries of the pool instead of taking resident pages, and the latter
//! takes many back. A pool whose oldest entries are as warm as the youngest stays as it is, in a scan as well as at random; one full of what
//! nobody needs gives way until the hot pages fit. Reads from the device say nothing here: they are of pages that were sent on
//! before it was known what is hot, or that are met once in a while.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm};

/// Entries that a fault of one of the youngest is good for: about twice as many as a page of the pool holds.
const ENTRIES_PER_REFAULT: i64 = 8;
/// Loads from the pool that a read from the device costs.
const READ_COST: i64 = 6;
/// Of the pool, the part that is weighed at either end: one in so many.
const PART: u64 = 8;
/// Entries sent on in a round (SWAP_CLUSTER_MAX).
const ROUND: i64 = 32;
/// The balance stays within this: what was long ago counts little.
const MOST: i64 = 1024;
const LEAST: i64 = -4 * MOST;

/// Entries that may be sent on.
#[derive(Default)]
pub(crate) struct Balance {
    owed: i64,
}

impl Balance {
    /// A page of the pool is faulted, which is one of the youngest, one of the oldest, or both.
    fn note_load(&mut self, is_youngest: bool, is_oldest: bool) {
        let gain = ENTRIES_PER_REFAULT * i64::from(is_youngest);
        let loss = ENTRIES_PER_REFAULT * READ_COST * i64::from(is_oldest);
        self.owed = (self.owed + gain - loss).clamp(LEAST, MOST);
    }

    /// Entries to send on in this round of reclaim.
    fn take(&mut self) -> u32 {
        if self.owed < ROUND {
            return 0;
        }
        self.owed -= ROUND;
        ROUND as u32
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Whether the pool gives way.
    pub fn set_balance(&self, enabled: bool) {
        self.balances.store(enabled, Ordering::Relaxed);
    }

    /// Have the pool give way to the working set. Returns how many entries went to the device.
    pub(crate) fn give_way(&self, worker: &mut Worker<M>) -> u64 {
        if !self.balances.load(Ordering::Relaxed) {
            return 0;
        }
        let owed = self.with_for_reclaim(|inner| match inner.drains() && !inner.shares_pool() {
            true => inner.balance.take(),
            // What a relative has too frees nothing when it goes to the device.
            false => 0,
        });
        if owed == 0 {
            return 0;
        }
        let written = self.writeback(worker, owed);
        self.stat.add(Item::WorkingsetWb, written);
        written
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// A page is faulted.
    pub(crate) fn weigh(&mut self, slot: Slot) {
        let Slot::Zswap(entry) = slot else { return };
        let gained = self.pool.pages() / PART;
        let is_youngest = self.refault_distance(slot).is_some_and(|distance| distance <= gained);
        let is_oldest = self.is_among_oldest(entry.tag, PART);
        self.balance.note_load(is_youngest, is_oldest);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn faults_of_the_oldest_outweigh_many_of_the_youngest() {
        let mut balance = Balance::default();
        assert_eq!(balance.take(), 0);
        (0..ROUND / ENTRIES_PER_REFAULT).for_each(|_| balance.note_load(true, false));
        assert_eq!((balance.take(), balance.take()), (32, 0));
        (0..1000).for_each(|_| balance.note_load(true, false));
        assert_eq!(balance.take(), 32);
        (0..100).for_each(|_| balance.note_load(false, true));
        (0..100).for_each(|_| balance.note_load(true, false));
        assert_eq!(balance.take(), 0);
    }

    #[test]
    fn where_every_page_is_as_warm_as_the_others_nothing_is_sent_on() {
        let mut balance = Balance::default();
        // At random, and a scan of a little more than there is memory, whose next page is the oldest and was stored lately.
        (0..1000).for_each(|n| balance.note_load(n % 8 == 0, n % 8 == 1));
        (0..1000).for_each(|_| balance.note_load(true, true));
        assert_eq!(balance.take(), 0);
    }
}
