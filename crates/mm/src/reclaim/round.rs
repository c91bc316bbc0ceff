//! What a round of reclaim does before it takes resident pages: the
//! [policy](crate::policy::Policy::round) decides, from one snapshot.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::page::PageRange;
use crate::policy::round::{Plan, RoundFacts};
use crate::reclaim::vmscan::{Effort, Scan};
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::{Held, Mm};

/// The first step of a round.
enum First {
    /// Compact the pool, which must free so many pages, then plan.
    Compact(u64),
    Go(Plan),
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Begin a round. False: that was it.
    pub(crate) fn open_round(&self, worker: &mut Worker<M>, effort: Effort, bypasses: bool, scan: &mut Scan) -> bool {
        let is_background = effort == Effort::Background;
        let first = self.with_for_reclaim(|inner| inner.first(is_background, bypasses));
        let mut plan = match first {
            First::Go(plan) => plan,
            First::Compact(worthwhile) => {
                self.compact(worthwhile, || false);
                self.with(|inner| inner.plan(is_background, bypasses))
            }
        };
        if let Plan::Drain(entries) = plan {
            self.stat.add(Item::PoolLimitHit, 1);
            self.with(|inner| inner.drop_cached(entries.into()));
            scan.reclaimed += self.writeback(worker, entries);
            plan = self.with(|inner| inner.plan(is_background, bypasses));
        }
        match plan {
            // Full still.
            Plan::Drain(_) => return false,
            Plan::SendOn(entries) => scan.reclaimed += self.send_on(worker, entries),
            Plan::Isolate => {}
        }
        !is_background || scan.reclaimed == 0
    }

    /// Whether the pool takes nothing now.
    pub(crate) fn is_pool_full(&self) -> bool {
        self.with(|inner| inner.is_pool_full())
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    fn first(&self, is_background: bool, bypasses: bool) -> First {
        let worthwhile = is_background.then(|| self.worth_compacting()).flatten();
        match worthwhile {
            Some(worthwhile) => First::Compact(worthwhile),
            None => First::Go(self.plan(is_background, bypasses)),
        }
    }

    /// The pages that a compaction must free, if it is due.
    fn worth_compacting(&self) -> Option<u64> {
        let words = || self.pages.managed.iter().map(PageRange::pages).sum();
        self.policy.worth_compacting(&self.view(), words)
    }

    /// What a round begins with.
    fn plan(&self, is_background: bool, bypasses: bool) -> Plan {
        let round = RoundFacts {
            is_background,
            bypasses,
            is_full: !bypasses && self.is_pool_full(),
            balances: self.mm.balances.load(Ordering::Relaxed),
        };
        self.policy.round(round, &self.view())
    }

    /// Whether the pool takes nothing now. With a device to drain it to, it is full from its limit
    /// down to the threshold; without one it drains only by loads, and waiting for those could be
    /// for ever.
    fn is_pool_full(&self) -> bool {
        let (mm, pages) = (self.mm, self.pages.pool.pages());
        let was_full = self.drains() && mm.pool_reached_full.load(Ordering::Relaxed);
        let is_full = pages >= mm.pool_limit.load(Ordering::Relaxed)
            || was_full && pages > mm.pool_accept.load(Ordering::Relaxed);
        mm.pool_reached_full.store(is_full, Ordering::Relaxed);
        is_full
    }
}
