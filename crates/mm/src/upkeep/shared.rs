//! Pages that a forked relative has as well.
//!
//! Such a page does not move (EBUSY), and taking it frees nothing until each relative has taken its
//! own. That costs each a copy, a compression and room in its pool: of two, next to all of what is
//! gained. A child that writes a snapshot is gone before that pays. So a page that refuses is put
//! on a list of its own, and what is not shared leaves first. Those of the list have their sharing
//! broken and leave
//! * when nothing else could be taken;
//! * when they have been there for `sharing.patience_ns`, a few at a time (`sharing.drain_ns`):
//!   relatives that stay are no snapshots, and what is cold may go to the device;
//! * when nothing is shared any more: then they are pages like others, and the oldest.
//!
//! Where relatives are many (`sharing.many`), or pages compress badly, what one has taken goes
//! straight to the device. In the pools of all, it would take more than it frees.
//!
//! The pool is shared as well, and after a fork its pages are not written, or they would be copied
//! (`Zpool::inherit`); to free a block in them frees nothing. So the block of a page that is loaded
//! from there is kept (`swap_cache`), however it was loaded: a child that only reads goes over all
//! its memory without storing a page anew. They are written again, a few at a time,
//! `sharing.patience_ns` after the fork once no resident page is left that is known to be shared,
//! or the pool has reached its limit.
//!
//! That the program has written to a page, which ends its sharing, is not seen: it waits with the
//! others.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::page::{PageRange, extend_last};
use crate::pages::resident::Lru;
use crate::zpool::{Arena, PoolRef};
use crate::{Held, Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// A forked child has our pages, those of the pool among them.
    pub fn forked(&self) {
        let now = self.machine.now_ns();
        self.with(|inner| inner.begin_sharing(now));
    }

    /// No relative has pages of ours any more. By the thread that [`compact`](Self::compact)s.
    pub fn end_sharing(&self) {
        self.with(|inner| inner.policy.sharing.shares = false);
        while self.reopen_some() {}
    }

    /// So many others that live may have pages of ours. To be said now and then.
    pub fn set_relatives(&self, relatives: u64) {
        self.relatives.store(relatives, Ordering::Relaxed);
    }

    /// Whether what is shared is for the device: relatives are many, or all pools together would
    /// have more for a page than it is. What has been stored says how pages compress.
    pub(crate) fn is_shared_for_device(&self) -> bool {
        let relatives = self.relatives.load(Ordering::Relaxed);
        let outgrows = |inner: &mut Held<'_, R, M>| {
            let (pages, stored) = (inner.pages.pool.pages(), inner.pages.pool.objects());
            stored >= self.tunables().sharing.judged_least && pages * (relatives + 1) > stored
        };
        relatives > 0 && (relatives >= self.tunables().sharing.many || self.with(outgrows))
    }

    /// To be called now and then, by the thread that [`compact`](Self::compact)s: relatives that
    /// stay must not keep the pool from being written for ever.
    pub fn settle_sharing(&self) {
        let now = self.machine.now_ns();
        let is_full = self.pool_reached_full.load(Ordering::Relaxed);
        let patience = self.tunables().sharing.patience_ns;
        let is_due = |inner: &mut Held<'_, R, M>| {
            let shared = inner
                .policy
                .sharing
                .pool_since
                .filter(|_| inner.flight.frozen.is_none());
            let is_needed = is_full || !inner.has_shared();
            is_needed && shared.is_some_and(|since| now.saturating_sub(since) >= patience)
        };
        if self.with(is_due) {
            self.reopen_some();
        }
    }

    /// Have some of the pool written again, under the lock of a class alone; false: that was all of
    /// it.
    fn reopen_some(&self) -> bool {
        let pools = self.with(|inner| inner.pages.pool.get_all());
        let goes_on = pools.iter().any(PoolRef::reopen_some);
        self.with(|inner| {
            if !goes_on {
                inner.policy.sharing.pool_since = None;
            }
            pools.into_iter().for_each(|pool| inner.pages.pool.put(pool));
        });
        goes_on
    }

    /// Shared pages whose turn it is to leave, or with `need` in any case. The caller breaks their
    /// sharing, without the lock, and calls [`isolate_range`](Self::isolate_range); until then they
    /// are on the list that leaves last.
    pub fn take_shared(&self, need: bool) -> Vec<PageRange> {
        let now = self.machine.now_ns();
        self.with_for_reclaim(|inner| inner.take_shared(need, now))
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    pub(crate) fn begin_sharing(&mut self, now: u64) {
        self.policy.sharing.shares = true;
        // Of the first, while forks go on: the pool must be written now and then.
        self.policy.sharing.pool_since.get_or_insert(now);
        self.pages.pool.inherit();
    }

    /// Whether what leaves the pool frees nothing, since a relative has it too.
    pub(crate) fn shares_pool(&self) -> bool {
        self.policy.sharing.pool_since.is_some()
    }

    /// Whether resident pages are left that only breaking their sharing gets at.
    pub(crate) fn has_shared(&self) -> bool {
        self.policy.sharing.shares && !self.pages.lru[Lru::Shared as usize].is_empty()
    }

    fn take_shared(&mut self, need: bool, now: u64) -> Vec<PageRange> {
        let (mut ranges, mut pages): (Vec<PageRange>, u64) = (Vec::new(), 0);
        while self.flight.frozen.is_none() && pages < self.policy.tunables.sharing.at_once {
            let Some((entry, since)) = self.pages.lru[Lru::Shared as usize].oldest() else {
                break;
            };
            if !need
                && (now.saturating_sub(since) < self.policy.tunables.sharing.patience_ns
                    || now < self.policy.sharing.due)
            {
                break;
            }
            self.pages.lru[Lru::Shared as usize].pop_oldest();
            for vpn in entry.pages() {
                if Lru::Shared.holds(self.pages.table.lookup(vpn), entry) {
                    self.pages.publish_folio(Lru::Active, vpn, 0);
                    pages += 1;
                    if !extend_last(&mut ranges, vpn) {
                        ranges.push(PageRange::new(vpn, 1));
                    }
                }
            }
        }
        if pages > 0 {
            self.policy.sharing.due = now
                + (self.policy.tunables.sharing.drain_ns / self.pages.counts.shared.max(1))
                    .min(self.policy.tunables.sharing.drain_page_ns_max)
                    * pages;
        }
        ranges
    }
}
