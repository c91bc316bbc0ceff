//! What relatives share with us, and what becomes of it when they end.
//!
//! Each process is charged for its share of a page as the kernel reckons it, so a page that a forked child gives back becomes ours alone. A
//! child that ends gives back all it has, page by page, and is charged until it has: a share that is looked at meanwhile counts twice
//! what is given back already. So the share stays what it was until then, for [`UNSEEN_NS`] at most; the look and the end of the dead one's
//! charge come together. Where several relatives live on, the first to look returns the charge, and the others have their part of it after
//! their next look. Under a filter of system calls nobody learns who is ending (`uzswap_sys::robust`): then it counts twice.

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::time;

use super::Kswapd;

/// How long an ending process keeps others from looking: what they write to meanwhile is copied, and not counted. Nanoseconds.
const UNSEEN_NS: u64 = 100_000_000;

impl Kswapd {
    /// How much relatives share with us now; with that the dead are charged nothing any more.
    pub(super) fn look_at_shares(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() || self.is_to_wait() {
            return;
        }
        // Before the look, and asked again after it: whoever ends during the look has given back some of what was looked at.
        let dead = memcg.dead(pager);
        let shared = pager.fds().proc.shared_anon().unwrap_or(self.shared);
        if self.is_to_wait() {
            return;
        }
        self.unseen_since = None;
        self.shared = shared;
        if shared == 0 {
            memcg.end_sharing();
            pager.mm.end_sharing();
        }
        self.sample();
        // Ours is told first: nobody may take for room what we inherit.
        memcg.charge(pager);
        memcg.return_charges_of(&dead);
    }

    /// Whether a process is ending, and has not been for long.
    fn is_to_wait(&mut self) -> bool {
        let pager = self.pager;
        if !pager.memcg.is_one_ending(pager) {
            return false;
        }
        let now = time::now_ns();
        now - *self.unseen_since.get_or_insert(now) < UNSEEN_NS
    }

    pub(super) fn sample(&self) {
        let pager = self.pager;
        let before = pager.mm.usage_pages();
        if let Ok(sizes) = pager.fds().proc.sizes() {
            let counted = before.max(pager.mm.usage_pages()) as usize * PAGE_SIZE;
            pager.memcg.sample(sizes.anon, counted, self.shared);
        }
    }

    /// What the dead were charged is nobody's, or ours, if they shared it with us.
    pub(super) fn return_charges(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() {
            memcg.return_charges(pager);
        } else if !memcg.dead(pager).is_empty() {
            self.look_at_shares();
        }
    }
}
