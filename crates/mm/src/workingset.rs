//! Balance between the resident pages and the pool (`mm/workingset.c`; `lru_note_cost` in `mm/swap.c`).
//!
//! Pages that are faulted again say that more memory would have kept them: a little more if it was soon after they were stored. There is
//! such memory: what the pool holds coldest can go to the device. So each such fault lets reclaim send on a few entries of the pool instead of
//! taking resident pages; of faults in sequence only those that are soon, since a scan of more than there is would want all there is. If one of those is read back while it is remembered, the pool was not that cold, and many refaults
//! have to speak for it before more is sent on: a read costs as much as many loads from the pool. So a pool whose entries are
//! as warm as the resident pages stays as it is; one full of what nobody needs gives way until the hot pages fit.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::Mm;
use crate::machine::Machine;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::writeback::Reach;

/// Entries that a refault is good for: about twice as many as a page of the pool holds.
const ENTRIES_PER_REFAULT: i64 = 4;
/// Entries that the read of one that was sent on takes back.
const ENTRIES_PER_READ: i64 = 256;
/// Of the memory that there is, the part that a refault may be away.
const NEAR: u64 = 2;
/// Entries sent on in a round (SWAP_CLUSTER_MAX), and rounds that are remembered.
const ROUND: i64 = 32;
const ROUNDS: usize = 256;
/// The balance stays within this: what was long ago counts little.
const MOST: i64 = 1024;
const LEAST: i64 = -4 * ENTRIES_PER_READ;

/// Entries that may be sent on.
pub(crate) struct Balance {
    owed: i64,
    /// Where those of the last rounds went: first slot of our device and end.
    sent: [(u32, u32); ROUNDS],
    hand: usize,
}

impl Default for Balance {
    fn default() -> Self {
        Self {
            owed: 0,
            sent: [(0, 0); ROUNDS],
            hand: 0,
        }
    }
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

    /// A page is read from `slot` of our device. Whether it was sent there for the working set.
    pub(crate) fn note_read(&mut self, slot: u32) -> bool {
        let was_sent = self.sent.iter().any(|(first, end)| (*first..*end).contains(&slot));
        if was_sent {
            self.owed = (self.owed - ENTRIES_PER_READ).max(LEAST);
        }
        was_sent
    }

    /// Entries that were sent on went to `slots` slots.
    pub(crate) fn note_sent(&mut self, first: u32, slots: u32) {
        self.sent[self.hand] = (first, first + slots);
        self.hand = (self.hand + 1) % ROUNDS;
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
        let written = self.writeback_to(worker, owed, Reach::Surplus);
        self.stat.add(Item::WorkingsetWb, written);
        written
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_read_of_what_was_sent_on_outweighs_refaults() {
        let mut balance = Balance::default();
        assert_eq!(balance.take(), 0);
        (0..8).for_each(|_| balance.note_refault());
        assert_eq!((balance.take(), balance.take()), (32, 0));
        balance.note_sent(100, 8);
        (0..1000).for_each(|_| balance.note_refault());
        assert!(!balance.note_read(108), "not sent");
        assert_eq!(balance.take(), 32);
        (0..8).for_each(|_| assert!(balance.note_read(107)));
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
