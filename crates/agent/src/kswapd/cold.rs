//! What the automatic limit gives back: cold memory, while nobody is short of any.
//!
//! There is no accessed bit, so what is cold is found by trial. A page that was taken out waits in
//! the staging range for one to two windows; only one that nobody has asked for by then is stored.
//! A page that is hot comes back meanwhile for the price of a move, and counts as active.

use uzswap_ctl::{Limit, Notice};
use uzswap_mm::Effort;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::time;

use super::Kswapd;
use crate::memcg::{deferral, oldest};

/// Most that one round takes out: the next looks first whether somebody waits for us.
const PIECE_BYTES: u64 = 1 << 20;
/// Pages taken at a time.
const BATCH: u32 = 128;
/// How long a page has to come back, at least. Nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// Less is not worth the pager's care where that is deferred.
const DEFERRED_LEAST: u64 = 8 << 20;

/// How much was taken out lately.
#[derive(Default)]
pub(super) struct Lately {
    /// When this window began.
    since_ns: u64,
    /// Pages that were taken out in this window, and in the one before.
    pages_now: u64,
    pages_before: u64,
}

impl Lately {
    /// A new window begins, if it is time.
    fn set_time(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.since_ns) / WINDOW_NS;
        if passed > 0 {
            let pages_before = if passed == 1 { self.pages_now } else { 0 };
            *self = Self {
                since_ns: now_ns,
                pages_now: 0,
                pages_before,
            };
        }
    }

    /// Pages that wait for their second chance.
    fn waits(&self) -> u64 {
        self.pages_now + self.pages_before
    }
}

impl Kswapd {
    /// Take out what the automatic limit asks for, and store what has waited.
    pub(super) fn give_back_cold(&mut self) {
        let group = self.pager.memcg.group();
        if !group.is_on(Limit::Stall) {
            return;
        }
        self.lately.set_time(time::now_ns());
        if group.get(Notice::ColdAsked) > 0 && self.is_ours_to_give() {
            self.take_cold(group.take(Notice::ColdAsked, PIECE_BYTES));
        }
        while self.pager.mm.gauges().staged > self.lately.waits() && !self.is_waited_for() {
            if self.pager.store_staged_beyond(&mut self.worker, self.lately.waits()) == 0 {
                break;
            }
        }
    }

    /// Whether no other process has much older pages.
    fn is_ours_to_give(&mut self) -> bool {
        let pager = self.pager;
        if deferral::is_deferred() {
            if pager.memcg.charge(pager) < DEFERRED_LEAST {
                return false;
            }
            self.scan(true);
        }
        let ours = oldest::tell(pager, false);
        !ours.is_some_and(|ours| oldest::is_elsewhere(pager, ours))
    }

    fn take_cold(&mut self, bytes: u64) {
        let (pager, pages) = (self.pager, bytes / PAGE_SIZE as u64);
        let mut taken = 0;
        while taken < pages && !self.is_waited_for() {
            let waits = self.lately.waits();
            let want = (pages - taken).min(BATCH.into()) as u32;
            let scan = pager.shrink(&mut self.worker, want, Effort::Cold { waits });
            let more = u64::from(scan.isolated) + self.copy_out(&scan.unmovable);
            if more == 0 {
                break;
            }
            taken += more;
            self.lately.pages_now += more;
        }
        pager.memcg.group().add(Notice::ColdTaken, taken * PAGE_SIZE as u64);
    }
}
