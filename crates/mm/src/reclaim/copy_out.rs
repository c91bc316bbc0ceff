//! Pages that were copied out are dropped ([`leaving`](crate::flight::leaving)).

use lock_api::RawMutex;

use crate::machine::{Machine, Stop};
use crate::page::{PageRange, Vpn};
use crate::pages::swap_table::entry::Slot;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

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
    /// Pages that are leaving and have lost nothing but their frames: what lost its word meanwhile
    /// is not ours to drop.
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
    /// A page that refused to be dropped, or was dropped at first and refused then: its copy is
    /// given back unless it is there. False: not now.
    fn settle_kept(&mut self, vpn: Vpn) -> bool {
        let machine = &self.mm.machine;
        let Slot::Staged { slot, .. } = self.pages.table.lookup(vpn) else {
            return true;
        };
        match machine
            .with_staged(&[slot], |pages| machine.copy_in(vpn, pages[0], true))
            .stop
        {
            // It may be mapped: were it left staged, nobody would ever fault it, and what is
            // written to it would be lost.
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
