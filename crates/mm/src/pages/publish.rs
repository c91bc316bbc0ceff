//! The word of a page, replaced: what is counted of the old one and the new one, and what the old one held, which is given up.
//!
//! Under the engine's lock, when the new word's contents are where it says ([Order](crate#order)).

use lock_api::RawMutex;

use crate::Inner;
use crate::page::{PAGE_SIZE, Vpn};
use crate::pages::resident::Lru;
use crate::pages::swap_table::entry::{CachedEntry, Slot, ZswapEntry};
use crate::swapin::swap_cache::Kept;
use crate::zpool::Arena;

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Replace the word of a page; what the old word pointed to is given up, but for a block that the new one keeps.
    pub(crate) fn publish(&mut self, vpn: Vpn, slot: Slot) {
        match slot {
            Slot::Resident { tag, .. } => {
                self.resident += 1;
                self.active += u64::from(Lru::of_resident(tag) == Lru::Active);
                self.shared += u64::from(Lru::of_resident(tag) == Lru::Shared);
                self.unevictable += u64::from(Lru::of_resident(tag) == Lru::Unevictable);
            }
            Slot::Cached(_) => {
                self.resident += 1;
                self.cached += 1;
            }
            Slot::Zswap(entry) => self.incompressible += u64::from(entry.len as usize == PAGE_SIZE),
            Slot::None | Slot::Staged { .. } | Slot::Filled { .. } | Slot::Swap(_) | Slot::Bad => {}
        }
        let block = match self.replace_word(vpn, slot) {
            Slot::Resident { tag, .. } => {
                self.resident -= 1;
                self.active -= u64::from(Lru::of_resident(tag) == Lru::Active);
                self.shared -= u64::from(Lru::of_resident(tag) == Lru::Shared);
                self.unevictable -= u64::from(Lru::of_resident(tag) == Lru::Unevictable);
                None
            }
            Slot::Cached(CachedEntry { handle, len, .. }) => {
                self.resident -= 1;
                self.cached -= 1;
                Some(Kept::new(handle, len))
            }
            Slot::Zswap(ZswapEntry { handle, len, .. }) => {
                self.incompressible -= u64::from(len as usize == PAGE_SIZE);
                Some(Kept::new(handle, len))
            }
            Slot::Swap(blob) if blob.device == 0 => {
                self.slots.free(&blob);
                None
            }
            // The frame of a staged page stays in its slot until the run is stored; the run finds the word changed.
            Slot::Staged { slot, .. } => self.staging.take_kept(slot),
            Slot::Swap(_) | Slot::None | Slot::Filled { .. } | Slot::Bad => None,
        };
        match (block, slot) {
            (Some(kept), Slot::Staged { slot, .. }) => self.staging.keep(slot, kept),
            (Some(kept), slot) if Kept::of(slot) != Some(kept) => {
                self.pool.free(kept.handle(), kept.len() as usize);
            }
            (Some(_) | None, _) => {}
        }
    }

    /// Replace a word. Whoever does so without [`publish`](Self::publish) keeps the contents where they are, and the page as resident as it was.
    pub(crate) fn replace_word(&mut self, vpn: Vpn, slot: Slot) -> Slot {
        let before = self.table.publish(vpn, slot);
        self.ages.note(before, slot);
        before
    }

    /// The page's frame is in staging slot `slot`; what is known of its contents stays known.
    pub(crate) fn publish_staged(&mut self, vpn: Vpn, slot: u32, busy: bool) {
        let note = self.table.lookup(vpn).note();
        self.publish(vpn, Slot::Staged { slot, busy, note });
    }
}
