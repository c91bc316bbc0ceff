//! How much of its time a process waits for pages: told to the group, for reports.
//!
//! The time runs while any fault is known, from when the fault thread has read the first until all
//! are served. What comes before and behind that is not seen from here: a constant stands for it.

use uzswap_mm::vmstat::Item;
use uzswap_sys::time;

use crate::pager::Pager;

/// What a thread waits besides the service: until the fault thread runs, and until it runs itself.
/// Nanoseconds, rather too few: a guess from what a fault costs whose service does next to nothing.
const SWITCHES_NS: u64 = 3_000;

/// How long some thread of the program waited for a page.
#[derive(Default)]
pub(crate) struct Waits {
    /// When the first of those that wait was read; `None`: none waits.
    since: Option<u64>,
}

impl Waits {
    /// So many faults were read.
    pub(crate) fn begin(&mut self, faults: usize) {
        if faults > 0 {
            self.since.get_or_insert_with(time::now_ns);
        }
    }

    /// All were served.
    pub(crate) fn end(&mut self, pager: &Pager) {
        let Some(since) = self.since.take() else { return };
        let waited = time::now_ns() - since + SWITCHES_NS;
        pager.memcg.note_waited(waited);
        pager.mm.stat().add(Item::WaitedNs, waited);
    }
}
