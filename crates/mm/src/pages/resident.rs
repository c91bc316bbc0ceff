//! Which folio leaves next (`mm/swap.c`, `mm/vmscan.c`, `mm/workingset.c`).
//!
//! Five lists, each oldest first:
//! * *inactive*: pages that were touched for the first time, adopted, or loaded after so many
//!   others were stored that no memory that there is would have kept them;
//! * *cached*: of the latter, those that were loaded in sequence and whose stored block is kept
//!   (`swap_cache`). They leave first if they are many (`victims.cached_share`), else in the order
//!   of their age;
//! * *active*: pages that proved that they are wanted: faulted while they were staged, or so soon
//!   after they were stored that the resident pages could have held them. Where active pages fill
//!   the memory, few of the latter are ([`Policy::wants`](crate::policy::Policy)). Active pages
//!   leave when the others are few (`victims.active_share`), oldest first;
//! * *shared*: pages that refused to leave because a forked relative has them (`shared`);
//! * *unevictable*: pages that do not compress while there is no device to send them to, and those
//!   that must stay (`Stop::Needed`). One is looked at now and then (it may have been written
//!   since), all when nothing else is left. A program whose other pages come and go would pass by
//!   them at every fault, and look as if nothing could be reclaimed.
//!
//! So a scan of much memory passes through the second and leaves the others alone. There is no
//! accessed bit in user space: that a page is wanted shows when it is faulted, and staging keeps
//! that cheap.
//!
//! That is `--policy workingset`. Others put what is wanted elsewhere, or ask the lists in another
//! order ([`Replacement`](crate::policy::replacement::Replacement)).

use lock_api::RawMutex;

use crate::page::{MAX_ORDER, PageRange, Vpn};
use crate::pages::Pages;
use crate::pages::list_lru::{LruEntry, Tags};
use crate::pages::swap_table::entry::{CTAG_BITS, Slot, TAG_BITS};
use crate::zpool::Arena;

/// All lists but the cached one divide the tags of a RESIDENT word among them.
const INACTIVE_TAGS: Tags = Tags {
    bits: TAG_BITS,
    first: 0,
    stride: 4,
};
const ACTIVE_TAGS: Tags = Tags {
    first: 1,
    ..INACTIVE_TAGS
};
const SHARED_TAGS: Tags = Tags {
    first: 2,
    ..INACTIVE_TAGS
};
const UNEVICTABLE_TAGS: Tags = Tags {
    first: 3,
    ..INACTIVE_TAGS
};
const CACHED_TAGS: Tags = Tags {
    bits: CTAG_BITS,
    first: 0,
    stride: 1,
};

/// The lists, in the order of [`Lru`].
pub(crate) const TAGS: [Tags; 5] = [INACTIVE_TAGS, CACHED_TAGS, ACTIVE_TAGS, SHARED_TAGS, UNEVICTABLE_TAGS];

/// A list of resident folios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lru {
    Inactive,
    Cached,
    Active,
    Shared,
    Unevictable,
}

impl Lru {
    /// The list that a RESIDENT word with this tag belongs to.
    pub(crate) fn of_resident(tag: u32) -> Self {
        match tag % INACTIVE_TAGS.stride {
            tag if tag == ACTIVE_TAGS.first => Self::Active,
            tag if tag == SHARED_TAGS.first => Self::Shared,
            tag if tag == UNEVICTABLE_TAGS.first => Self::Unevictable,
            _ => Self::Inactive,
        }
    }

    /// Whether `slot` is that of a page of `entry`, which was taken off this list.
    pub(crate) fn holds(self, slot: Slot, entry: LruEntry) -> bool {
        match self {
            Self::Inactive | Self::Active | Self::Shared | Self::Unevictable => {
                slot.is_resident_as(entry.order, entry.tag)
            }
            Self::Cached => slot.is_cached_as(entry.tag),
        }
    }
}

impl<R: RawMutex, A: Arena> Pages<R, A> {
    /// Put a resident folio on a list as its youngest; returns the tag for its words.
    pub(crate) fn lru_add(&mut self, lru: Lru, vpn: Vpn, order: u32) -> u32 {
        let (table, list) = (&self.table, &mut self.lru[lru as usize]);
        if list.needs_sweep() {
            list.sweep(|entry| entry.pages().any(|vpn| lru.holds(table.lookup(vpn), entry)));
        }
        list.add_tail(vpn, order)
    }

    /// The pages `[vpn, vpn + 2^order)` are mapped: one entry on a list but the cached, its tag in
    /// every word.
    pub(crate) fn publish_folio(&mut self, lru: Lru, vpn: Vpn, order: u32) {
        let tag = self.lru_add(lru, vpn, order);
        for page in PageRange::new(vpn, 1 << order).iter() {
            // A frame that comes back from staging holds what it held.
            let note = self.table.lookup(page).note();
            self.publish(page, Slot::Resident { order, tag, note });
        }
    }

    /// A page is mapped.
    pub(crate) fn publish_resident(&mut self, vpn: Vpn) {
        self.publish_folio(Lru::Inactive, vpn, 0);
    }

    /// `pages` pages from `vpn` on are mapped: as many whole aligned folios as they make, on a list
    /// but the cached.
    pub(crate) fn publish_run(&mut self, lru: Lru, vpn: Vpn, pages: u64) {
        for (vpn, order) in PageRange::new(vpn, pages).folios(MAX_ORDER) {
            self.publish_folio(lru, vpn, order);
        }
    }

    /// The same, for pages of which nothing is known.
    pub(crate) fn publish_resident_run(&mut self, vpn: Vpn, pages: u64) {
        self.publish_run(Lru::Inactive, vpn, pages);
    }
}
