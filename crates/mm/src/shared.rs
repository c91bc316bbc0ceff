//! Pages that a forked relative has as well.
//!
//! Such a page does not move (EBUSY), and taking it frees nothing until each relative has taken its own, which costs each a copy, a
//! compression and room in its pool. A child that writes a snapshot is gone before that pays. So a page that refuses is put on a list of
//! its own, and what is not shared leaves first. Those of the list have their sharing broken and leave
//! * when nothing else could be taken;
//! * when they have been there for [`PATIENCE_NS`]: relatives that stay are no snapshots;
//! * when nothing is shared any more: then they are pages like others, and the oldest.
//!
//! The pool is shared as well. Its pages are not written while it is, or they would be copied (`Zpool::inherit`), and to free a block in
//! them frees nothing. So the block of a page that is loaded from there is kept (`swap_cache`), however it was loaded: a child that only
//! reads goes over all its memory without storing a page anew.
//!
//! That the program has written to a page, which ends its sharing, is not seen: it waits with the others.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::lru::Lru;
use crate::machine::Machine;
use crate::page::PageRange;
use crate::zpool::Arena;
use crate::{Inner, Mm};

const PATIENCE_NS: u64 = 15_000_000_000;
/// Pages taken at once, but for those of a folio.
const AT_ONCE: u64 = 32;

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// A forked child has our pages, those of the pool among them.
    pub fn forked(&self) {
        self.with(Inner::begin_sharing);
    }

    /// No relative has pages of ours any more.
    pub fn end_sharing(&self) {
        self.with(|inner| {
            inner.shares = false;
            inner.pool.reopen();
        });
    }

    /// Shared pages whose turn it is to leave, or with `need` in any case. The caller breaks their sharing, without the lock, and calls
    /// [`isolate_range`](Self::isolate_range); until then they are on the list that leaves last.
    pub fn take_shared(&self, need: bool) -> Vec<PageRange> {
        let now = self.machine.now_ns();
        self.with_for_reclaim(|inner| inner.take_shared(need, now))
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    pub(crate) fn begin_sharing(&mut self) {
        self.shares = true;
        self.pool.inherit();
    }

    fn take_shared(&mut self, need: bool, now: u64) -> Vec<PageRange> {
        let (mut ranges, mut pages): (Vec<PageRange>, u64) = (Vec::new(), 0);
        while self.frozen.is_none() && pages < AT_ONCE {
            let Some((entry, since)) = self.lru[Lru::Shared as usize].oldest() else {
                break;
            };
            if !need && now.saturating_sub(since) < PATIENCE_NS {
                break;
            }
            self.lru[Lru::Shared as usize].pop_oldest();
            for vpn in entry.pages() {
                if Lru::Shared.holds(self.table.lookup(vpn), entry) {
                    self.publish_active_run(vpn, 1);
                    pages += 1;
                    match ranges.last_mut().filter(|last| last.end == vpn) {
                        Some(last) => last.end = vpn.add(1),
                        None => ranges.push(PageRange::new(vpn, 1)),
                    }
                }
            }
        }
        ranges
    }
}
