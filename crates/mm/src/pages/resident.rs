//! Which folio leaves next (`mm/swap.c`, `mm/vmscan.c`, `mm/workingset.c`).
//!
//! Five lists, each oldest first:
//! * *inactive*: pages that were touched for the first time, adopted, or loaded after so many others were stored that no memory
//!   that there is would have kept them;
//! * *cached*: of the latter, those that were loaded in sequence and whose stored block is kept (`swap_cache`). They leave first if
//!   they are many ([`CACHED_SHARE`]), else in the order of their age;
//! * *active*: pages that proved that they are wanted: faulted while they were staged, or so soon after they were stored that the
//!   resident pages could have held them. They leave when the others are few ([`ACTIVE_SHARE`]), oldest first;
//! * *shared*: pages that refused to leave because a forked relative has them (`shared`);
//! * *unevictable*: pages that do not compress while there is no device to send them to, and those
//!   that must stay (`Stop::Needed`). One is looked at now and then (it may have been written
//!   since), all when nothing else is left: a program whose other pages come and go would pass by
//!   them at every fault, and look as if nothing could be reclaimed.
//!
//! So a scan of much memory passes through the second and leaves the others alone. There is no accessed bit in user space: that a
//! page is wanted shows when it is faulted, and staging keeps that cheap.

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::page::{MAX_ORDER, PageRange, Vpn};
use crate::pages::list_lru::{LruEntry, LruList, Tags};
use crate::pages::swap_table::entry::{CTAG_BITS, Slot, TAG_BITS};
use crate::zpool::Arena;
use crate::{Inner, Mm};

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

/// Active pages leave when the others are fewer than one in so many of the resident pages.
const ACTIVE_SHARE: u64 = 16;
/// Cached ones leave first when they are more than one in so many.
const CACHED_SHARE: u64 = 8;

/// Of so many folios that leave, one is looked for among those that did not compress.
const UNEVICTABLE_SHARE: u32 = 64;

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

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// When the resident pages that would leave next came, or proved that they are wanted, by the clock of the machine.
    pub fn oldest(&self) -> Option<u64> {
        self.with(|inner| inner.oldest())
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Put a resident folio on a list as its youngest; returns the tag for its words.
    pub(crate) fn lru_add(&mut self, lru: Lru, vpn: Vpn, order: u32) -> u32 {
        let (table, list) = (&self.pages.table, &mut self.pages.lru[lru as usize]);
        if list.needs_sweep() {
            list.sweep(|entry| entry.pages().any(|vpn| lru.holds(table.lookup(vpn), entry)));
        }
        list.add_tail(vpn, order)
    }

    /// Entries that [`pop_coldest`](Self::pop_coldest) gets at, stale ones included.
    pub(crate) fn lru_len(&self) -> usize {
        let all: usize = self.pages.lru.iter().map(LruList::len).sum();
        match self.policy.sharing.shares {
            true => all - self.pages.lru[Lru::Shared as usize].len(),
            false => all,
        }
    }

    /// Resident pages but for those that do not leave because a relative has them: what memory there is to work with.
    pub(crate) fn reclaimable(&self) -> u64 {
        match self.policy.sharing.shares {
            true => self.pages.counts.resident - self.pages.counts.shared,
            false => self.pages.counts.resident,
        }
    }

    /// Whether active pages leave next: the others are few.
    fn is_active_due(&self) -> bool {
        let evictable = self.reclaimable() - self.pages.counts.unevictable;
        (evictable - self.pages.counts.active) * ACTIVE_SHARE < evictable
    }

    /// When what [`pop_coldest`](Self::pop_coldest) takes next was added.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        let is_active_due = self.is_active_due();
        let mut of = |lru: Lru| self.pages.lru[lru as usize].oldest().map(|(_, time)| time);
        match is_active_due {
            true => of(Lru::Active),
            false => [of(Lru::Inactive), of(Lru::Cached)].into_iter().flatten().min(),
        }
    }

    /// Take the folio whose turn it is to leave off its list; one that does not compress if nothing else is left and the caller
    /// is desperate. The caller checks its words.
    pub(crate) fn pop_coldest(&mut self, is_desperate: bool) -> Option<(Lru, LruEntry)> {
        if !self.policy.sharing.shares
            && let Some(entry) = self.pages.lru[Lru::Shared as usize].pop_oldest()
        {
            return Some((Lru::Shared, entry));
        }
        self.policy.victims.pops = self.policy.victims.pops.wrapping_add(1);
        // With a device there is a place for what does not compress, but not for what must stay.
        let leaves = self.drains() && !self.policy.victims.is_last_needed;
        if (leaves || self.policy.victims.pops.is_multiple_of(UNEVICTABLE_SHARE))
            && let Some(entry) = self.pages.lru[Lru::Unevictable as usize].pop_oldest()
        {
            self.policy.victims.is_last_needed = false;
            return Some((Lru::Unevictable, entry));
        }
        let [first, last] = if self.is_active_due() {
            [Lru::Active, Lru::Inactive]
        } else {
            [Lru::Inactive, Lru::Active]
        };
        self.pop_from(first)
            .or_else(|| self.pop_from(last))
            .or_else(|| is_desperate.then(|| self.pop_from(Lru::Unevictable))?)
    }

    /// As [`pop_coldest`](Self::pop_coldest), from the active list or from the other two.
    fn pop_from(&mut self, lru: Lru) -> Option<(Lru, LruEntry)> {
        let lru = match lru {
            Lru::Active | Lru::Shared | Lru::Unevictable => lru,
            Lru::Inactive | Lru::Cached if self.pages.counts.cached * CACHED_SHARE > self.reclaimable() => Lru::Cached,
            Lru::Inactive | Lru::Cached => {
                let [inactive, cached] = [Lru::Inactive, Lru::Cached].map(|lru| self.pages.lru[lru as usize].oldest());
                match (inactive, cached) {
                    (Some((_, inactive)), Some((_, cached))) if cached < inactive => Lru::Cached,
                    (None, _) => Lru::Cached,
                    (Some(_), _) => Lru::Inactive,
                }
            }
        };
        self.pages.lru[lru as usize].pop_oldest().map(|entry| (lru, entry))
    }

    /// Whether a page is resident and in the older half of a list whose pages leave first.
    pub(crate) fn is_old(&self, vpn: Vpn) -> bool {
        match self.pages.table.lookup(vpn) {
            Slot::Resident { tag, .. } => match Lru::of_resident(tag) {
                Lru::Inactive | Lru::Cached => self.pages.lru[Lru::Inactive as usize].is_old(tag),
                Lru::Shared => !self.policy.sharing.shares,
                Lru::Active | Lru::Unevictable => false,
            },
            Slot::Cached(entry) => self.pages.lru[Lru::Cached as usize].is_old(entry.tag),
            _ => false,
        }
    }

    /// The pages `[vpn, vpn + 2^order)` are mapped: one entry on a list but the cached, its tag in every word.
    pub(crate) fn publish_folio(&mut self, lru: Lru, vpn: Vpn, order: u32) {
        let tag = self.lru_add(lru, vpn, order);
        for page in PageRange::new(vpn, 1 << order).iter() {
            // A frame that comes back from staging holds what it held.
            let note = self.pages.table.lookup(page).note();
            self.pages.publish(page, Slot::Resident { order, tag, note });
        }
    }

    /// A page is mapped.
    pub(crate) fn publish_resident(&mut self, vpn: Vpn) {
        self.publish_folio(Lru::Inactive, vpn, 0);
    }

    /// `pages` pages from `vpn` on are mapped: as many whole aligned folios as they make.
    pub(crate) fn publish_resident_run(&mut self, vpn: Vpn, pages: u64) {
        for (vpn, order) in PageRange::new(vpn, pages).folios(MAX_ORDER) {
            self.publish_folio(Lru::Inactive, vpn, order);
        }
    }

    /// As [`publish_resident_run`](Self::publish_resident_run), for pages that proved that they are wanted.
    pub(crate) fn publish_active_run(&mut self, vpn: Vpn, pages: u64) {
        for (vpn, order) in PageRange::new(vpn, pages).folios(MAX_ORDER) {
            self.publish_folio(Lru::Active, vpn, order);
        }
    }
}
