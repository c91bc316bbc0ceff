//! Isolation where pages cannot move, on old kernels (Linux 5.7 to 6.7) all, on others those of
//! read-only memory: protect, copy, drop.
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
//! system calls loses its word as always, and is not dropped unless that happens in the very moment of the drop.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::{Machine, Stop};
use crate::page::{PageRange, Vpn};
use crate::pages::swap_table::entry::Slot;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

/// Pages that are copied before they are dropped: they are resident twice meanwhile. And runs of them.
pub(crate) const PAGES_MAX: u64 = 64;
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

    /// Pages at the beginning of the last run.
    fn remove(&mut self, run: PageRange) {
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

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Have those that are leaving go. Returns how many refused.
    pub(crate) fn give_up_leaving(&self, isolation: &M::Isolation) -> u64 {
        let mut refused = 0;
        while let Some(run) = self.with(|inner| inner.next_leaving()) {
            let mut kept = self.machine.give_up(isolation, run);
            refused += kept.len() as u64;
            loop {
                self.with(|inner| {
                    self.machine.gave_up();
                    kept.retain(|vpn| !inner.settle_kept(*vpn));
                    if kept.is_empty() {
                        inner.flight.leaving.remove(run);
                    }
                });
                if kept.is_empty() {
                    break;
                }
            }
        }
        refused
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Pages that are leaving and have lost nothing but their frames: what lost its word meanwhile is not ours to drop.
    fn next_leaving(&mut self) -> Option<PageRange> {
        loop {
            let run = self.flight.leaving.runs.last().copied()?;
            let is_staged = |vpn: &Vpn| matches!(self.pages.table.lookup(*vpn), Slot::Staged { .. });
            let lost = run.iter().take_while(|vpn| !is_staged(vpn)).count() as u64;
            if lost > 0 {
                self.flight.leaving.remove(PageRange::new(run.start, lost));
                continue;
            }
            let staged = run.iter().take_while(is_staged).count() as u64;
            return Some(PageRange::new(run.start, staged));
        }
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// A page that refused to be dropped, or was dropped at first and refused then: its copy is given back unless it is there.
    /// False: not now.
    fn settle_kept(&mut self, vpn: Vpn) -> bool {
        let machine = &self.mm.machine;
        let Slot::Staged { slot, .. } = self.pages.table.lookup(vpn) else {
            return true;
        };
        match machine
            .with_staged(&[slot], |pages| machine.copy_in(vpn, pages[0], true))
            .stop
        {
            // It may be mapped: were it left staged, nobody would ever fault it, and what is written to it would be lost.
            Some(Stop::Again | Stop::NoMemory | Stop::Busy) => return false,
            Some(Stop::Present) | None => machine.drop_staged(&[(slot, 1)]),
            // Unmapped, which is about to be reported.
            Some(_) => return true,
        }
        self.pages.staging.taken_back(slot);
        self.pages.publish_resident(vpn);
        true
    }
}
