//! Room for a child, before a fork.
//!
//! What a fork shares frees nothing for a while when it leaves, in neither process. So what both
//! are to work with leaves before, where the limit is near.

use uzswap_mm::Effort;
use uzswap_sys::time;

use super::Kswapd;
use crate::memcg;
use crate::pager::Pager;

/// How long a fork waits at most for what is to wait in staging, and as long for room.
const ROOM_NS: u64 = 2_000_000;
/// How long it waits for what the child has alone at once.
const OWN_ROOM_NS: u64 = 20_000_000;
/// Pages taken at a time.
const BATCH: u32 = 64;

impl Kswapd {
    pub(super) fn make_room_for_child(&mut self) {
        let lacks_room = |pager: &Pager| pager.memcg.lacks_room_for_child(pager);
        // As many frames as wait in staging while pages are shared wait there from the fork on.
        let waits = self.pager.mm.config().staged_target;
        self.shrink_while(ROOM_NS, Effort::Cold { waits }, |pager| {
            lacks_room(pager) && pager.mm.gauges().staged < waits
        });
        self.shrink_while(ROOM_NS, Effort::Requested, lacks_room);
        // What it has alone from the first moment on must fit in any case.
        let children = if self.pager.memcg.shares() { 1 } else { memcg::CHILDREN };
        let lacks_own = |pager: &Pager| pager.memcg.excess(pager, memcg::CHILD_OWN * children) > 0;
        self.shrink_while(OWN_ROOM_NS, Effort::Urgent, lacks_own);
    }

    /// Have pages leave while that is wanted, for `ns` nanoseconds at most.
    fn shrink_while(&mut self, ns: u64, effort: Effort, is_wanted: impl Fn(&Pager) -> bool) {
        let (pager, began) = (self.pager, time::now_ns());
        while is_wanted(pager) && time::now_ns().saturating_sub(began) < ns {
            let scan = pager.shrink(&mut self.worker, BATCH, effort);
            if scan.again || scan.reclaimed == 0 && scan.isolated == 0 {
                break;
            }
        }
    }
}
