//! Isolation where pages cannot move (Linux 5.7 to 6.7): protect, copy, drop.
//!
//! ```text
//!            under the lock: protected from writing,              without it: dropped,
//! RESIDENT   copied to a slot, and no change since    STAGED,     under it again      STAGED
//!            ------------------------------------->   leaving     --------------->
//!                                                                 refused: RESIDENT
//! ```
//! A page that is *leaving* is mapped and holds what its slot holds. The program may read it; whoever writes to it, or
//! finds it dropped, waits ([`crate::Fault::Retry`]), for giving the copy back before the drop is over would lose what is written
//! between the two. To drop a page raises an event, which must be read before the drop goes on, so it happens without the
//! lock. The event is known as ours (`Machine::give_up`) and drops no word.
//!
//! One thread isolates, in its turn to change mappings, so no mapping is replaced between the copy and the drop. The staged
//! run is not pushed before the end: nobody stores a page that is leaving. What the program drops meanwhile by raw
//! system calls loses its word as always; the drop then finds nothing, or zeros.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::Mm;
use crate::machine::Machine;
use crate::page::{PageRange, Vpn};
use crate::swap_table::entry::Slot;

/// Pages that are copied before they are dropped: they are resident twice meanwhile. And runs of them.
const PAGES_MAX: u64 = 64;
const RUNS_MAX: usize = 32;

/// The pages that are leaving.
#[derive(Default)]
pub(crate) struct Leaving {
    runs: Vec<PageRange>,
    pages: u64,
}

impl Leaving {
    /// Whether more may be isolated before these are gone.
    pub(crate) fn has_room(&self) -> bool {
        self.pages < PAGES_MAX && self.runs.len() < RUNS_MAX
    }

    pub(crate) fn add(&mut self, run: PageRange) {
        self.pages += run.pages();
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ if run.pages() > 0 => self.runs.push(run),
            _ => {}
        }
    }

    pub(crate) fn contains(&self, vpn: Vpn) -> bool {
        self.runs.iter().any(|run| run.start <= vpn && vpn < run.end)
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Have those that are leaving go.
    pub(crate) fn give_up_leaving(&self, isolation: &M::Isolation) {
        if !self.machine.copies() {
            return;
        }
        while let Some(run) = self.with(|inner| inner.leaving.runs.last().copied()) {
            let kept = self.machine.give_up(isolation, run);
            self.with(|inner| {
                self.machine.gave_up();
                inner.leaving.runs.pop();
                inner.leaving.pages -= run.pages();
                for vpn in kept {
                    if let Slot::Staged { slot, .. } = inner.table.lookup(vpn) {
                        self.machine.drop_staged(&[(slot, 1)]);
                        inner.staging.taken_back(slot);
                        inner.publish_resident(vpn, 0);
                    }
                }
            });
        }
    }
}
