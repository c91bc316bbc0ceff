//! Where kswapd is breaking copy-on-write sharing.
//!
//! It does so as a program would, by writing. A page of the range that has left meanwhile is a
//! fault of kswapd's own, which would wait for room that only kswapd makes. So faults of the range
//! are served over the limit, and no others.

use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_mm::vmstat::Item;
use uzswap_sys::mapping::unshare;

use super::Kswapd;

/// A range of addresses. While it changes a fault may be taken for one of it that is none, or the
/// other way round: what has to wait is tried again.
#[derive(Default)]
pub(crate) struct Unsharing {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Unsharing {
    /// By kswapd, before it writes.
    pub(crate) fn begin(&self, range: PageRange) {
        self.start.store(range.start.addr(), Ordering::SeqCst);
        self.end.store(range.end.addr(), Ordering::SeqCst);
    }

    /// kswapd waits for no fault any more, or a forked child has no such thread.
    pub(crate) fn end(&self) {
        self.end.store(0, Ordering::SeqCst);
    }

    /// Whether kswapd is breaking the sharing of a range.
    pub(crate) fn is_active(&self) -> bool {
        self.end.load(Ordering::SeqCst) != 0
    }

    /// Whether kswapd may be waiting for a fault at `addr`.
    pub(crate) fn holds(&self, addr: usize) -> bool {
        (self.start.load(Ordering::SeqCst)..self.end.load(Ordering::SeqCst)).contains(&addr)
    }
}

impl Kswapd {
    /// The turn has come to shared pages: break the sharing and take them.
    pub(super) fn unshare(&mut self, shared: &[PageRange]) {
        let pager = self.pager;
        for range in shared {
            pager.reclaim.unsharing.begin(*range);
            // To break the sharing is a write to the kernel.
            pager.mm.unprotect(*range);
            let is_unshared = unshare(range.start.addr(), range.pages() as usize * PAGE_SIZE).is_ok();
            if is_unshared {
                pager.mm.stat().add(Item::Unshared, range.pages());
            }
            if !is_unshared || pager.mm.isolate_range(*range) == 0 {
                self.copy_out(&[*range]);
            }
        }
        pager.reclaim.unsharing.end();
        if !shared.is_empty() {
            // The copies are ours alone.
            self.sample();
        }
    }
}
