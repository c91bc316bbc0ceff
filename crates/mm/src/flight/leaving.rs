//! Isolation where pages cannot move, on old kernels (Linux 5.7 to 6.7) all, on others those of
//! read-only memory: protect, copy, drop.
//!
//! ```text
//!            under the lock: protected from writing,              without it: dropped,
//! RESIDENT   copied to a slot, and no change since    STAGED,     under it again      STAGED
//!            ------------------------------------->   leaving     --------------->
//!                                                                 refused: RESIDENT
//! ```
//! A page that is *leaving* is mapped and holds what its slot holds. The program may read it;
//! whoever writes to it, or finds it dropped, waits ([`crate::Fault::Retry`]), for giving the copy
//! back before the drop is over would lose what is written between the two. To drop a page raises
//! an event, which must be read before the drop goes on, so it happens without the lock. The event
//! is known as ours (`Mapper::give_up`) and drops no word.
//!
//! One thread isolates, in its turn to change mappings, so no mapping is replaced between the copy
//! and the drop. The staged run is not pushed before the end: nobody stores a page that is leaving.
//! What the program drops meanwhile by raw system calls loses its word as always, and is not
//! dropped unless that happens in the very moment of the drop.

use alloc::vec::Vec;

use crate::page::{PageRange, Vpn};
use crate::policy::tunables::Copied;

/// The pages that are leaving.
#[derive(Default)]
pub(crate) struct Leaving {
    pub(crate) runs: Vec<PageRange>,
    pub(crate) pages: u64,
}

impl Leaving {
    /// Whether more may be isolated before these are gone.
    pub(crate) fn has_room(&self, copied: &Copied) -> bool {
        self.pages < copied.pages_max && self.runs.len() < copied.runs_max
    }

    pub(crate) fn add(&mut self, run: PageRange) {
        self.pages += run.pages();
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ if run.pages() > 0 => self.runs.push(run),
            _ => {}
        }
    }

    /// Pages at the beginning of the last run.
    pub(crate) fn remove(&mut self, run: PageRange) {
        self.pages -= run.pages();
        if let Some(last) = self.runs.last_mut() {
            last.start = run.end;
            if last.start == last.end {
                self.runs.pop();
            }
        }
    }

    pub(crate) fn contains(&self, vpn: Vpn) -> bool {
        self.runs.iter().any(|run| run.start <= vpn && vpn < run.end)
    }
}
