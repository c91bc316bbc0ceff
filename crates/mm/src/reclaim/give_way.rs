//! The pool gives way to the working set, as the [balance](crate::policy::workingset) says, and
//! what that is told.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::pages::swap_table::entry::Slot;
use crate::policy::{Depth, Event, Packing};
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Whether the pool gives way.
    pub fn set_balance(&self, enabled: bool) {
        self.balances.store(enabled, Ordering::Relaxed);
    }

    /// Have so many entries give way to the working set. Returns how many went to the device.
    pub(crate) fn send_on(&self, worker: &mut Worker<M>, entries: u32) -> u64 {
        let written = self.writeback(worker, entries);
        self.with(|inner| {
            let pool = inner.packing();
            inner.policy.note(Event::SentOn { entries: written, pool });
        });
        self.stat.add(Item::WorkingsetWb, written);
        written
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Staged pages had their second chance.
    pub(crate) fn weigh_restored(&mut self, pages: u64) {
        let may_give_way = self.drains() && !self.shares_pool();
        self.policy.note(Event::Restored { pages, may_give_way });
    }

    /// A stored page is faulted: `slot` says where it was.
    pub(crate) fn weigh(&mut self, slot: Slot) {
        if !self.drains() || self.shares_pool() {
            return;
        }
        let entry = match slot {
            Slot::Zswap(entry) => entry,
            Slot::Swap(_) => {
                let on_device = self.pages.slots.in_use();
                return self.policy.note(Event::Read { on_device });
            }
            Slot::None
            | Slot::Resident { .. }
            | Slot::Cached(_)
            | Slot::Staged { .. }
            | Slot::Filled { .. }
            | Slot::Bad => return,
        };
        let is_other_pool = self.pages.pool.is_current(entry.handle) == self.policy.stores_densely();
        if self.pages.pool.dense().is_some() && is_other_pool {
            // Nothing that is stored fills its hole.
            self.policy.note(Event::Emptied(1));
        }
        let looks = self.policy.tunables.victims.age_looks;
        let Some(part) = self.pages.stored.part_of(entry, looks) else {
            return;
        };
        let depth = Depth::new(self.refault_distance(slot), part, self.packing());
        self.policy.note(Event::Loaded(depth));
    }

    fn packing(&self) -> Packing {
        Packing {
            entries: self.pages.pool.objects(),
            pages: self.pages.pool.pages(),
        }
    }
}
