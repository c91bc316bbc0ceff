//! The pool gives way to the working set, as the [balance](crate::policy::workingset) says, and
//! what that is told.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::pages::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm};

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
            true => inner.policy.balance.due(),
            // What a relative has too frees nothing when it goes to the device.
            false => 0,
        });
        if owed == 0 {
            return 0;
        }
        let written = self.writeback(worker, owed);
        self.with(|inner| inner.policy.balance.note_sent(written));
        self.stat.add(Item::WorkingsetWb, written);
        written
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Stored pages but those of one word; those on the device are a guess.
    pub(crate) fn stored(&self) -> u64 {
        self.pages.pool.objects() + self.pages.slots.in_use() * self.policy.tunables.balance.pages_per_slot
    }

    /// Staged pages had their second chance.
    pub(crate) fn weigh_restored(&mut self, pages: u64) {
        if self.drains() && !self.shares_pool() {
            self.policy.balance.note_restored(pages);
        }
    }

    /// A stored page is faulted: `slot` says where it was.
    pub(crate) fn weigh(&mut self, slot: Slot) {
        if !self.drains() || self.shares_pool() {
            return;
        }
        let entry = match slot {
            Slot::Zswap(entry) => entry,
            Slot::Swap(_) => {
                return self
                    .policy
                    .balance
                    .note_read(self.pages.slots.in_use() * self.policy.tunables.balance.pages_per_slot);
            }
            Slot::None
            | Slot::Resident { .. }
            | Slot::Cached(_)
            | Slot::Staged { .. }
            | Slot::Filled { .. }
            | Slot::Bad => return,
        };
        let (part, looks) = (
            self.policy.tunables.balance.part,
            self.policy.tunables.victims.age_looks,
        );
        let Some(is_oldest) = self.pages.stored.is_among_oldest(entry.tag, part, looks) else {
            return;
        };
        let gained = self.pages.pool.pages() / part;
        let is_youngest = self.refault_distance(slot).is_some_and(|distance| distance <= gained);
        // One whose neighbour was loaded would have been passed over.
        self.policy
            .balance
            .note_load(is_youngest, is_oldest && !entry.referenced);
    }
}
