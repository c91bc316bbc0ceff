//! The word of a page, replaced: the only code that changes words.
//!
//! What is counted of the old word and the new one changes with it. Under the engine's lock, when
//! the new word's contents are where it says ([Order](crate#order)).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::page::{PageRange, Vpn};
use crate::pages::Pages;
use crate::pages::block::BlockRef;
use crate::pages::counts::Counts;
use crate::pages::devices::Devices;
use crate::pages::swap_table::entry::{Blob, CachedEntry, Slot, ZswapEntry};
use crate::zpool::Arena;

impl<R: RawMutex, A: Arena> Pages<R, A> {
    /// Replace the word of a page; what the old word pointed to is given up, but for a block that
    /// the new one keeps.
    pub(crate) fn publish(&mut self, vpn: Vpn, slot: Slot) {
        let block = match self.replace(vpn, slot) {
            stored @ (Slot::Cached(_) | Slot::Zswap(_)) => BlockRef::of(stored),
            Slot::Swap(blob) if blob.device == 0 => {
                self.slots.free(&blob);
                None
            }
            // The frame of a staged page stays in its slot until the run is stored; the run finds
            // the word changed.
            Slot::Staged { slot, .. } => self.staging.take_kept(slot),
            Slot::Resident { .. } | Slot::Swap(_) | Slot::None | Slot::Filled { .. } | Slot::Bad => None,
        };
        match (block, slot) {
            (Some(kept), Slot::Staged { slot, .. }) => self.staging.keep(slot, kept),
            (Some(kept), slot) if BlockRef::of(slot) != Some(kept) => {
                self.pool.free(kept.handle(), kept.len() as usize);
            }
            (Some(_) | None, _) => {}
        }
    }

    /// The page's frame is in staging slot `slot`; what is known of its contents stays known.
    pub(crate) fn publish_staged(&mut self, vpn: Vpn, slot: u32, busy: bool) {
        let note = self.table.lookup(vpn).note();
        self.publish(vpn, Slot::Staged { slot, busy, note });
    }

    /// Say something else of a page whose contents stay where they are: a mark, a tag, a note.
    pub(crate) fn remark(&mut self, vpn: Vpn, slot: Slot) {
        let before = self.replace(vpn, slot);
        debug_assert!(
            is_same_place(before, slot),
            "{vpn:?}: {before:?} is not where {slot:?} is"
        );
    }

    /// Take the words of a range away, and what they say with them: to be published elsewhere.
    pub(crate) fn take(&mut self, range: PageRange, mut taken: impl FnMut(Vpn, Slot)) {
        let Self {
            table, counts, stored, ..
        } = self;
        table.for_each(range, |table, vpn, slot| {
            table.publish(vpn, Slot::None);
            *counts -= Counts::of(slot);
            stored.ages.note(slot, Slot::None);
            taken(vpn, slot);
        });
    }

    /// The blocks of a range are where compaction moved them to.
    pub(crate) fn relocate(&mut self, range: PageRange) {
        let Self { table, pool, .. } = self;
        table.for_each(range, |table, vpn, slot| {
            let relocate = |handle, len| pool.relocate(handle, len as usize);
            let moved = match slot {
                Slot::Zswap(entry) => {
                    relocate(entry.handle, entry.len).map(|handle| Slot::Zswap(ZswapEntry { handle, ..entry }))
                }
                Slot::Cached(entry) => {
                    relocate(entry.handle, entry.len).map(|handle| Slot::Cached(CachedEntry { handle, ..entry }))
                }
                _ => None,
            };
            if let Some(moved) = moved {
                table.publish(vpn, moved);
            }
        });
    }

    /// The swap devices that words name. All words are walked for it.
    pub(crate) fn devices(&mut self) -> BTreeSet<u8> {
        let mut named = BTreeSet::new();
        self.table.for_each(PageRange::ALL, |_, _, slot| {
            if let Slot::Swap(blob) = slot {
                named.insert(blob.device);
            }
        });
        named
    }

    /// What is on a device that has another name by now is found there, and our own is empty. All
    /// words are walked for it, unless no name has changed.
    pub(crate) fn rename_devices(&mut self, devices: &Devices) {
        if !devices.are_as_before() {
            let mut renamed = Vec::new();
            self.table.for_each(PageRange::ALL, |_, vpn, slot| {
                if let Slot::Swap(blob) = slot {
                    let device = devices.name_of(blob.device);
                    renamed.push((vpn, Slot::Swap(Blob { device, ..blob })));
                }
            });
            for (vpn, slot) in renamed {
                self.table.publish(vpn, slot);
            }
        }
        self.slots.start_over();
    }

    fn replace(&mut self, vpn: Vpn, slot: Slot) -> Slot {
        let before = self.table.publish(vpn, slot);
        self.counts += Counts::of(slot);
        self.counts -= Counts::of(before);
        self.stored.ages.note(before, slot);
        before
    }
}

/// Whether two words say that the contents are at the same place.
fn is_same_place(before: Slot, after: Slot) -> bool {
    match (before, after) {
        (Slot::Resident { .. }, Slot::Resident { .. }) => true,
        (Slot::Zswap(before), Slot::Zswap(after)) => (before.handle, before.len) == (after.handle, after.len),
        _ => before == after,
    }
}
