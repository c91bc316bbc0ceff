//! Room for a child, before a fork.
//!
//! What a fork shares frees nothing for a while when it leaves, in neither process. So what both
//! are to work with leaves before, where the limit is near.

use uzswap_mm::Effort;
use uzswap_sys::time;

use super::Kswapd;
use crate::memcg;
use crate::pager::Pager;

/// How long a fork waits at most until enough waits in staging, then until there is room, and then
/// for what the child has alone at once. Nanoseconds from the beginning on.
const STAGED_BY_NS: u64 = 2_000_000;
const ROOM_BY_NS: u64 = 4_000_000;
const OWN_ROOM_BY_NS: u64 = 20_000_000;
/// Pages taken at a time.
const BATCH: u32 = 64;

impl Kswapd {
    /// Have as much leave as a child needs, if that can be.
    pub(super) fn make_room_for_child(&mut self) {
        let began = time::now_ns();
        let lacks_room = |pager: &Pager| pager.memcg.lacks_room_for_child(pager);
        // What waits in staging when the fork comes is no relative's, so storing it frees memory.
        let waits = self.pager.mm.staged_once_shared();
        self.shrink_while(began + STAGED_BY_NS, Effort::Cold { waits }, |pager| {
            lacks_room(pager) && pager.mm.gauges().staged < waits
        });
        self.shrink_while(began + ROOM_BY_NS, Effort::Requested, lacks_room);
        // What it has alone from the first moment on must fit in any case.
        let children = if self.pager.memcg.shares() { 1 } else { memcg::CHILDREN };
        let lacks_own = |pager: &Pager| pager.memcg.excess(pager, memcg::CHILD_OWN * children) > 0;
        self.shrink_while(began + OWN_ROOM_BY_NS, Effort::Urgent, lacks_own);
    }

    /// Have pages leave while that is wanted, and comes to something, until `end` at most.
    fn shrink_while(&mut self, end: u64, effort: Effort, is_wanted: impl Fn(&Pager) -> bool) {
        let pager = self.pager;
        while is_wanted(pager) && time::now_ns() < end {
            let scan = pager.shrink(&mut self.worker, BATCH, effort);
            let stages = matches!(effort, Effort::Cold { .. }) && scan.isolated > 0;
            if scan.again || scan.reclaimed == 0 && !stages {
                break;
            }
        }
    }
}
