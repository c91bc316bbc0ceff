//! The swap cache (`mm/swap_state.c`): pages that were loaded and whose stored block stays. They
//! can leave again without being compressed.
//!
//! ```text
//!        loaded          isolated                  its turn comes: frame and block hold the same
//! ZSWAP --------> CACHED ---------> STAGED + kept --------------------------------------> ZSWAP
//!                   |                    |     it was written: block freed, page compressed
//!                   |                    |----------------------------------------------> ZSWAP
//!                   |                    | faulted: it is warm, the block is freed
//!                   | dropped, pool full v
//!                   v                RESIDENT
//!               NONE, RESIDENT
//! ```
//! A CACHED word promises nothing but that the block is a whole one of some page; what is mapped
//! may differ, and wins. Whether the block still holds what the page holds is seen when the page is
//! isolated:
//!
//! * Loads whose blocks are kept are mapped protected from writing (UFFDIO_COPY_MODE_WP), as long
//!   as that proves worth it ([`Worth`](crate::policy::worth::Worth)) and the machine can. A page
//!   that is protected still was not written to.
//!   * Reclaim asks that right before the page moves, under the engine's lock. Protection is taken
//!     away under that lock only ([`Mm::write_fault`], [`Mm::unprotect`]). So nobody writes to the
//!     page in between.
//!   * The kernel, not a word, says whether a page is protected. A page may lose its protection in
//!     other ways. A forked child's memory does when its parent's userfaultfd is closed, and KSM
//!     forgets it. Such a page was written to, as far as anybody knows.
//!   * Asynchronous write protection would spare the fault, but a write between the question and
//!     the move would go unseen.
//! * Any other page is compared when its turn comes: with the checksum behind the block and, if
//!   that holds, with what the block decompresses to. It is in staging meanwhile, where nobody
//!   writes to it. The block is compared in a copy made under the lock.
//!
//! A fault, an event or a full pool may take the block away meanwhile. Then it is gone from beside
//! the slot when, under the lock again, it would be published, and the page stays staged.
//!
//! Kept are the blocks of pages that are expected to leave again:
//! * pages that were loaded in sequence and are not wanted (`Policy::wants`);
//! * pages in a pool that a forked relative has too (`shared`).
//!
//! Pages that are touched at random are better off with the memory that their blocks would take.
//! Pages whose blocks are kept are a list of their own (`resident`). One that is faulted while it
//! is staged is RESIDENT from then on.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::{Machine, Stop};
use crate::page::{MAX_ORDER, PAGE_SIZE, PageRange, Vpn};
use crate::pages::block::BlockRef;
use crate::pages::resident::Lru;
use crate::pages::swap_table::entry::{CachedEntry, Slot, ZswapEntry};
use crate::policy::Event;
use crate::policy::admission::{Admit, Keep, LoadFacts};
use crate::policy::readahead::Window;
use crate::swapin::fault::Fault;
use crate::vmstat::Item;
use crate::zpool::{Arena, Handle};
use crate::{Held, Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Whether blocks are kept. If not, those that are kept go at once.
    pub fn set_swap_cache(&self, enabled: bool) {
        self.keeps_blocks.store(enabled, Ordering::Relaxed);
        while !enabled && self.with(|inner| inner.drop_cached(self.tunables().hold.dropped)) > 0 {}
    }

    /// A thread waits to write to a page that is mapped and protected. To be called like
    /// [`fault`](Mm::fault). `is_gated`: there is room for one copy (`gate`); else what is written
    /// takes no memory.
    pub fn write_fault(&self, vpn: Vpn, is_gated: bool) -> Fault {
        self.stat.add(Item::PgFault, 1);
        self.with_for_fault(|inner| {
            if inner.flight.leaving.contains(vpn) {
                // It is protected for having been copied: what is written now would be lost.
                return Fault::Retry;
            }
            let unprotected = match is_gated {
                true => self.machine.unprotect(PageRange::new(vpn, 1)),
                false => inner.unprotect_around(vpn),
            };
            match unprotected {
                None => {
                    inner.note_written(vpn);
                    inner.note_copied(vpn);
                }
                Some(Stop::Again | Stop::NoMemory) => return Fault::Retry,
                // Unmapped or replaced since: the thread looks again and finds what is there now.
                Some(_) => self.machine.wake(vpn, 1),
            }
            Fault::Served
        })
    }

    /// What comes next writes to these pages, or looks as if it did: nobody is to wait for each of
    /// them.
    pub fn unprotect(&self, run: PageRange) {
        // What is refused is asked for one by one.
        let _ = self.with(|_| self.machine.unprotect(run));
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Pages that were stored are mapped. Those that are wanted are active. The blocks of the
    /// others are kept if it is worth it ([`keep_of_load`](Held::keep_of_load)), and those of all
    /// that freeing would not free.
    pub(crate) fn publish_loaded_run(&mut self, run: PageRange, keep: Keep) {
        for (vpn, order) in run.folios(MAX_ORDER) {
            let (mut inactive, mut cached, mut active) = (None, None, None);
            for page in PageRange::new(vpn, 1 << order).iter() {
                let slot = self.pages.table.lookup(page);
                let kept = self.keepable(slot);
                let facts = LoadFacts {
                    distance: self.refault_distance(slot),
                    is_keepable: kept.is_some(),
                    is_inherited: kept.is_some_and(|kept| self.is_inherited(kept.handle(), kept.len())),
                };
                let admit = self.policy.admit(facts, keep, self.working());
                let mut add = |lru| self.pages.lru_add(lru, vpn, order);
                let word = match (admit, kept) {
                    (Admit::Cached, Some(kept)) => {
                        let (handle, len) = (kept.handle(), kept.len());
                        let tag = *cached.get_or_insert_with(|| add(Lru::Cached));
                        Slot::Cached(CachedEntry { handle, len, tag })
                    }
                    (Admit::Active, _) => {
                        let tag = *active.get_or_insert_with(|| add(Lru::Active));
                        Slot::Resident { order, tag, note: 0 }
                    }
                    (Admit::Inactive | Admit::Cached, _) => {
                        let tag = *inactive.get_or_insert_with(|| add(Lru::Inactive));
                        Slot::Resident { order, tag, note: 0 }
                    }
                };
                self.pages.publish(page, word);
            }
        }
    }

    /// A page is about to be written to: its block is of no use any more.
    fn note_written(&mut self, vpn: Vpn) {
        if self.flight.frozen.is_none() && matches!(self.pages.table.lookup(vpn), Slot::Cached(_)) {
            self.note_leaving(false);
            self.pages.publish_resident(vpn);
        }
    }

    /// A page whose block was kept leaves, or will have to: unwritten or not.
    pub(crate) fn note_leaving(&mut self, is_unwritten: bool) {
        self.policy.note(Event::Left { is_unwritten });
    }

    /// A page that was isolated is known not to have been written to.
    pub(crate) fn note_protected(&mut self) {
        self.policy.note(Event::Unwritten);
    }

    /// Whether a relative has a block too, so that freeing it frees nothing.
    fn is_inherited(&self, handle: Handle, len: u32) -> bool {
        self.policy.sharing.shares && self.pages.pool.is_inherited(handle, len as usize)
    }

    /// The block of a stored page, if it would be made in the same way again, or a relative has it
    /// too and freeing it frees nothing.
    fn keepable(&self, slot: Slot) -> Option<BlockRef> {
        let Slot::Zswap(ZswapEntry {
            handle,
            len,
            writeback: false,
            ..
        }) = slot
        else {
            return None;
        };
        let is_compressed = (len as usize) < PAGE_SIZE;
        let is_of_use = || self.pages.pool.is_current(handle) || self.is_inherited(handle, len);
        (is_compressed && is_of_use()).then(|| BlockRef::new(handle, len))
    }

    /// The blocks of the `pages` oldest pages that are mapped go, if no freeze forbids it; if there
    /// are none, those of staged pages. Returns how many of mapped pages went.
    pub(crate) fn drop_cached(&mut self, pages: u64) -> u64 {
        let mut dropped = 0;
        if self.flight.frozen.is_some() {
            return dropped;
        }
        while dropped < pages {
            let Some(entry) = self.pages.lru[Lru::Cached as usize].pop_oldest() else {
                break;
            };
            for vpn in entry.pages() {
                if self.pages.table.lookup(vpn).is_cached_as(entry.tag) {
                    self.pages.publish_resident(vpn);
                    dropped += 1;
                }
            }
        }
        if dropped == 0 {
            // Whoever compares one of them has a copy, and finds it gone when it is to be
            // published.
            for kept in self.pages.staging.take_all_kept() {
                self.pages.pool.free(kept.handle(), kept.len() as usize);
            }
        }
        dropped
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Whether blocks may be kept now.
    pub(crate) fn keep_now(&self) -> Keep {
        let mm = self.mm;
        let limit = mm.pool_limit.load(Ordering::Relaxed);
        let is_on = mm.keeps_blocks.load(Ordering::Relaxed);
        let is_full = mm.pool_reached_full.load(Ordering::Relaxed);
        let pool_pages = self.pages.pool.charged_pages();
        Keep {
            is_on,
            has_room: is_on && !is_full && pool_pages <= limit / 16 * self.policy.tunables.keeping.pool_sixteenths,
            protects: false,
        }
    }

    /// So many pages are loaded together, from the pool or not: whether their blocks are kept.
    pub(crate) fn keep_of_load(&mut self, pages: usize, of_pool: bool) -> Keep {
        let keep = self.keep_now();
        self.policy.keeps(pages, of_pool, keep)
    }

    /// Unprotect a page and what is protected around it. What stopped it, if anything did.
    fn unprotect_around(&mut self, vpn: Vpn) -> Option<Stop> {
        let mm = self.mm;
        let page = PageRange::new(vpn, 1);
        let order = self.policy.unprotect_order();
        // Another thread's fault may have been served for this one too.
        let is_cached = matches!(self.pages.table.lookup(vpn), Slot::Cached(_));
        if is_cached && mm.machine.unwritten(page).holds(vpn) {
            self.policy.note(Event::WriteWaited);
        }
        // The kernel does not ask whose protection it takes away: a program may have a userfaultfd
        // of its own for what lies beside.
        let around = Window::around(vpn, order).range();
        let is_ours =
            self.pages.managed.covers(around) && !around.iter().any(|page| self.flight.leaving.contains(page));
        let run = if is_ours { around } else { page };
        match mm.machine.unprotect(run) {
            // Not one mapping, or not any more.
            Some(Stop::Unmovable) if run != page => mm.machine.unprotect(page),
            stop => stop,
        }
    }
}
