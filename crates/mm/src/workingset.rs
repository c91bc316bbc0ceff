//! Balance between the resident pages and the pool (`mm/workingset.c`; `lru_note_cost` in `mm/swap.c`).
//!
//! Pages that are faulted again say that more memory would have kept them: a little more if it was soon after they were stored. There is
//! such memory: what the pool holds coldest can go to the device. So each such fault lets reclaim send on a few entries of the pool instead of
//! taking resident pages; of faults in sequence only those that are soon, since a scan of more than there is would want all there is. A page that is
//! read from the device says the opposite, and many refaults have to speak against it: a read costs as much as many loads from the
//! pool. So a pool whose entries are as warm as the resident pages stays as it is; one full of what nobody needs gives way until
//! the hot pages fit. Whether it was for this that the page had been sent on does not matter: a heap that was just filled has hot pages
//! on the device, and until those are back nobody knows which of the pool's are cold.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::Mm;
use crate::machine::Machine;
use crate::vmstat::Item;
use crate::worker::Worker;

/// Entries that a refault is good for: about twice as many as a page of the pool holds.
const ENTRIES_PER_REFAULT: i64 = 4;
/// Entries that a read from the device takes back.
const ENTRIES_PER_READ: i64 = 256;
/// Of the memory that there is, the part that a refault may be away.
const NEAR: u64 = 2;
/// Entries sent on in a round (SWAP_CLUSTER_MAX).
const ROUND: i64 = 32;
/// The balance stays within this: what was long ago counts little.
const MOST: i64 = 1024;
const LEAST: i64 = -4 * ENTRIES_PER_READ;

/// Entries that may be sent on.
#[derive(Default)]
pub(crate) struct Balance {
    owed: i64,
}

impl Balance {
    /// A page was faulted in sequence that `distance` more frames would have kept; resident pages and the pool are `memory`.
    pub(crate) fn note_refault_in_sequence(&mut self, distance: u64, memory: u64) {
        // The pool could hardly spare more.
        if distance <= memory / NEAR {
            self.note_refault();
        }
    }

    /// A page was faulted that had been taken out before.
    pub(crate) fn note_refault(&mut self) {
        self.owed = (self.owed + ENTRIES_PER_REFAULT).min(MOST);
    }

    /// A page is read from the device.
    pub(crate) fn note_read(&mut self) {
        self.owed = (self.owed - ENTRIES_PER_READ).max(LEAST);
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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_read_outweighs_many_refaults() {
        let mut balance = Balance::default();
        assert_eq!(balance.take(), 0);
        (0..8).for_each(|_| balance.note_refault());
        assert_eq!((balance.take(), balance.take()), (32, 0));
        (0..1000).for_each(|_| balance.note_refault());
        assert_eq!(balance.take(), 32);
        (0..8).for_each(|_| balance.note_read());
        (0..100).for_each(|_| balance.note_refault());
        assert_eq!(balance.take(), 0);
    }

    #[test]
    fn a_scan_of_more_than_there_is_memory_sends_nothing_on() {
        let mut balance = Balance::default();
        (0..1000).for_each(|_| balance.note_refault_in_sequence(3, 4));
        assert_eq!(balance.take(), 0);
        (0..8).for_each(|_| balance.note_refault_in_sequence(1, 4));
        assert_eq!(balance.take(), 32);
    }
}
