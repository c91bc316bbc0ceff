//! What `uzswap reclaim` asks for.

use uzswap_ctl::Notice;
use uzswap_mm::Effort;
use uzswap_mm::page::PAGE_SIZE;

use super::Kswapd;
use crate::memcg::deferral;

/// Piece of a request that a process takes on at a time.
const REQUEST_BYTES: u64 = 1 << 20;

impl Kswapd {
    /// `uzswap reclaim`: take on pieces of what is asked for, as long as something comes of it.
    pub(super) fn reclaim_on_request(&mut self) {
        let pager = self.pager;
        let group = pager.memcg.group();
        if group.get(Notice::ReclaimAsked) > 0 && group.get(Notice::ReclaimZswap) == 0 && deferral::is_deferred() {
            self.scan(true);
        }
        if group.get(Notice::ReclaimAsked) > 0 {
            // What was set before it was asked holds for it.
            self.obey();
        }
        while group.get(Notice::ReclaimAsked) > 0 && !self.is_waited_for() {
            // Busy before taken: whoever waits for the end must see one or the other.
            group.add(Notice::ReclaimBusy, 1);
            let asked = group.take(Notice::ReclaimAsked, REQUEST_BYTES);
            let pages = asked / PAGE_SIZE as u64;
            let mut done = 0;
            while done < pages {
                let want = (pages - done).min(u64::from(self.batch())) as u32;
                let n = if group.is_on(Notice::ReclaimZswap) {
                    pager.mm.writeback(&mut self.worker, want)
                } else {
                    pager.shrink(&mut self.worker, want, Effort::Requested).reclaimed
                };
                if n == 0 {
                    break;
                }
                done += n;
            }
            group.add(Notice::ReclaimDone, done * PAGE_SIZE as u64);
            group.add(Notice::ReclaimBusy, u64::MAX);
            self.quiet = 0;
            if done < pages {
                // Nothing more here.
                break;
            }
        }
    }
}
