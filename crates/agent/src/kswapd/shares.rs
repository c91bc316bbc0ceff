//! What relatives share with us, and what becomes of it when they end.
//!
//! Each process is charged for its share of a page as the kernel reckons it, so a page that a forked child gives back becomes ours alone. A
//! child that ends gives back all it has, page by page, and is charged until it has: a share that is looked at meanwhile counts twice
//! what is given back already. So the share stays what it was until then; the look and the end of the dead one's charge come together.

use uzswap_mm::page::PAGE_SIZE;

use super::Kswapd;

impl Kswapd {
    /// How much relatives share with us now; with that the dead are charged nothing any more.
    pub(super) fn look_at_shares(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() {
            return;
        }
        let shared = pager.fds().proc.shared_anon().unwrap_or(self.shared);
        // Asked after the look: an end that begins later gave nothing back before it.
        if memcg.is_one_ending(pager) {
            return;
        }
        self.shared = shared;
        if shared == 0 {
            memcg.end_sharing();
            pager.mm.end_sharing();
        }
        self.sample();
        memcg.return_charges(pager);
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
        } else if memcg.has_dead(pager) {
            self.look_at_shares();
        }
    }
}
