//! Out of memory: who says so, and who is there to hear it.

use uzswap_ctl::{Field, LAUNCHER, Limit, Notice, Statistic, Tunable};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;
use uzswap_sys::thread;
use uzswap_sys::time::now_ns;

use super::Memcg;
use crate::machine::remote;
use crate::pager::Pager;

/// A census that has looked since is not asked whether it is there.
const CENSUS_NS: u64 = 2_000_000_000;

/// Pools that have taken so much of the limit, while less than one part in so many is resident,
/// choke the group.
const CHOKED_POOL: (u64, u64) = (3, 4);
const CHOKED_SHARE: u64 = 12;

impl Memcg {
    /// Nothing is left to reclaim, and a fault waits. The launcher's census knows all who belong to
    /// the group, and chooses who is killed for it; the fault is tried again. Where there is no
    /// census this process dies, as the OOM killer would have it. Not while cold memory is on its
    /// way to another machine, and the disk is full of it.
    pub(crate) fn run_out(&self, pager: &Pager) {
        if remote::may_make_room(pager) {
            return;
        }
        if self.has_census(pager) {
            self.group.tell(Notice::OomAsked, now_ns());
            return;
        }
        self.group.note(Statistic::OomUsage, self.current(pager));
        self.group.note(Statistic::OomPid, thread::pid() as u64);
        pager.mm.stat().add(Item::OomKill, 1);
        thread::kill_self()
    }

    /// Whether pools have taken so much of the limit that next to nothing is left to work with, and
    /// nothing of them can be written to a device. What leaves then comes back at once, for ever.
    pub(crate) fn is_choked(&self) -> bool {
        let max = self.group.memory_max();
        let resident = self.group.sum(Field::Resident) + self.group.sum(Field::Staged);
        let is_full =
            self.group.sum(Field::Pool) >= max / CHOKED_POOL.1 * CHOKED_POOL.0 && resident < max / CHOKED_SHARE;
        let slots_left = self.group.get(Limit::SwapMax) / PAGE_SIZE as u64 > self.group.sum(Field::SwapCharge);
        let writes = self.group.is_on(Tunable::Swap) && self.group.is_on(Limit::ZswapWriteback) && slots_left;
        is_full && !writes
    }

    /// What a census counted that has ended is nobody's.
    pub(crate) fn expire_census(&self, pager: &Pager) {
        if !self.has_census(pager) {
            self.group.tell(Notice::Census, 0);
        }
    }

    /// Whether there is a launcher, or its keeper. On a loaded machine it may get no core for
    /// seconds; only its lease tells that it is gone.
    fn has_census(&self, pager: &Pager) -> bool {
        let is_late = now_ns().saturating_sub(self.group.get(Notice::CensusAt)) >= CENSUS_NS;
        !is_late || pager.fds().leases.is_held(LAUNCHER)
    }
}
