//! Whose pages are the oldest of the group. The kernel has one list of all pages of a group; here
//! each process has its own, and only its own kswapd gets at it. So each says how old the pages are
//! that would leave next, and reclaims in the background while no other process has much older
//! ones. Else a compiler that has just begun would give up what it works on, since it is the one
//! that allocates. One that is nearly done would keep what it is done with.
//!
//! The process with the oldest pages reclaims at its next tick. Its word is a hint:
//! * a process that is stopped says nothing new;
//! * a process that gets nothing for its work says that it has nothing to give;
//! * so do forked relatives until they know what they share, as that frees nothing.
//!
//! A fault that finds no room is served by direct reclaim of its own process's pages, whoever has
//! older ones.

use uzswap_sys::time::now_ns;

use crate::pager::Pager;

/// What a process says holds for so long: more than two ticks of an idle kswapd.
const HOLDS_NS: u64 = 50_000_000;
/// Pages are much older that are older by a quarter and this.
const OLDER_SHARE: u64 = 4;
const OLDER_NS: u64 = 20_000_000;

/// Tell the group how old our oldest pages are: since when they have been where they are.
/// `is_barren`: they do not leave. `None`: we have nothing to tell.
pub(crate) fn tell(pager: &Pager, is_barren: bool) -> Option<u64> {
    let may_tell = !is_barren && !pager.memcg.has_unsettled_shares();
    let oldest = may_tell.then(|| pager.mm.oldest()).flatten();
    let (group, slot) = (pager.memcg.group(), pager.memcg.slot());
    group.set_oldest(slot, oldest.unwrap_or(0), now_ns());
    oldest
}

/// Whether another process has pages that are much older than `ours`.
pub(crate) fn is_elsewhere(pager: &Pager, ours: u64) -> bool {
    let (group, slot, now) = (pager.memcg.group(), pager.memcg.slot(), now_ns());
    let age = |since: u64| now.saturating_sub(since);
    let others = group.oldest_of_others(slot, now.saturating_sub(HOLDS_NS));
    others.is_some_and(|others| age(others) > age(ours) + age(ours) / OLDER_SHARE + OLDER_NS)
}
