//! Finding the program's memory: what was mapped comes under our care, if its time has come.

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::procfs::Sizes;

use super::Kswapd;
use crate::memcg::deferral;
use crate::pager::pause;
use crate::vma;

impl Kswapd {
    /// Take what was mapped under our care, unless that is deferred still.
    pub(super) fn scan_unless_deferred(&mut self, sizes: Sizes) {
        let pager = self.pager;
        let ticket = pager.scan_ticket();
        if !(deferral::is_deferred() && self.defers(sizes)) {
            return self.scan();
        }
        self.unknown = sizes.anon;
        pager.finish_scan(ticket);
    }

    /// Whether there is room for all that the program may touch unseen.
    fn defers(&mut self, sizes: Sizes) -> bool {
        let pager = self.pager;
        let own = pager.mm.gauges().table_bytes as usize + crate::HEAP.live_bytes();
        // What relatives share may be written to, and is ours then.
        pager
            .memcg
            .note_touched(sizes.anon.saturating_sub(own + self.known_shared()));
        pager.memcg.claim_unseen(pager) || {
            // Perhaps it is the dead that have it.
            self.return_charges();
            pager.memcg.claim_unseen(pager)
        }
    }

    /// Go through the mappings.
    pub(super) fn scan(&mut self) {
        let pager = self.pager;
        let mut is_complete = false;
        for _ in 0..8 {
            let ticket = pager.scan_ticket();
            deferral::begin_scan();
            let scanned = vma::scan(pager, pager.fds());
            is_complete = !scanned.again;
            if is_complete {
                pager.finish_scan(ticket);
                break;
            }
            // Whoever has the turn may be waiting for us.
            self.is_waited_for();
            pause(50_000);
        }
        pager.memcg.note_seen();
        if !is_complete {
            deferral::scan_again();
        }
        pager.finish_scan(pager.scan_ticket());
        let anon = pager.fds().proc.sizes().map_or(0, |sizes| sizes.anon);
        self.unknown = anon.saturating_sub(pager.mm.usage_pages() as usize * PAGE_SIZE);
    }
}
