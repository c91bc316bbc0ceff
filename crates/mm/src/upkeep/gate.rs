//! The gate: who writes to a page that a forked relative has too waits until there is room for the
//! copy.
//!
//! The kernel copies such a page without asking, and as fast as a thread can write; nothing that is
//! sampled could keep up with it. So where the copies that relatives may make do not fit below the
//! limit, kswapd protects all pages that are mapped from writing, after the fork. Each write is a
//! fault then ([`Mm::write_fault`]): room is made, then that one page is unprotected. It is the
//! writer's alone from then on, and can leave like any other.
//!
//! A page whose block is kept (`swap_cache`) says by its protection that it was not written to. One
//! that is not protected any more may have been: its block goes before it is protected again.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::{Machine, Stop};
use crate::page::{PageRange, Vpn, extend_last};
use crate::pages::resident::Lru;
use crate::pages::swap_table::entry::Slot;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Have every write to a page at `from` or behind it that is mapped now reported. Called by the
    /// thread that frees blocks; between two pieces `goes_on` is asked.
    ///
    /// # Errors
    /// The first page that could not be protected now.
    pub fn protect_mapped(&self, from: Vpn, mut goes_on: impl FnMut() -> bool) -> Result<(), Vpn> {
        for range in self.managed() {
            let start = range.start.max(from);
            for piece in (PageRange { start, ..range }).pieces(self.tunables().hold.protected) {
                let is_done = goes_on() && self.with_for_reclaim(|inner| inner.protect(piece));
                if !is_done {
                    return Err(piece.start);
                }
            }
        }
        Ok(())
    }

    /// Have no write to a page reported any more. What is refused, as it is mapped in pieces, is
    /// served when it is written to.
    pub fn unprotect_mapped(&self) {
        for range in self.managed() {
            range
                .pieces(self.tunables().hold.protected)
                .for_each(|piece| self.unprotect(piece));
        }
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// A page that was shared is about to be its writer's alone: it leaves like others.
    pub(crate) fn note_copied(&mut self, vpn: Vpn) {
        if let Slot::Resident { tag, .. } = self.pages.table.lookup(vpn)
            && Lru::of_resident(tag) == Lru::Shared
            && self.flight.frozen.is_none()
        {
            self.pages.publish_resident(vpn);
        }
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// False: not now.
    fn protect(&mut self, piece: PageRange) -> bool {
        let mm = self.mm;
        if self.flight.frozen.is_some() {
            return false;
        }
        let (mut runs, mut written): (Vec<PageRange>, Vec<Vpn>) = (Vec::new(), Vec::new());
        self.pages.table.for_each(piece, |_, vpn, slot| {
            match slot {
                Slot::Resident { .. } => {}
                // Asked of each by itself: of a piece there may be more runs than an answer holds.
                Slot::Cached(_) if mm.machine.unwritten(PageRange::new(vpn, 1)).holds(vpn) => return,
                Slot::Cached(_) => written.push(vpn),
                _ => return,
            }
            if !extend_last(&mut runs, vpn) {
                runs.push(PageRange::new(vpn, 1));
            }
        });
        written.into_iter().for_each(|vpn| self.pages.publish_resident(vpn));
        // What is refused otherwise is not one mapping of ours any more.
        runs.into_iter()
            .all(|run| !matches!(mm.machine.protect(run), Some(Stop::Again | Stop::NoMemory)))
    }
}
