//! Readahead while the program goes over what it was given (`page_cache_async_ra` in mm/readahead.c).
//!
//! A fault in sequence brings a whole window before the program goes on. What comes next is brought right after it, while the program
//! reads: a window ahead, never more, so that a sequence that ends has cost one. The program catches up as a rule, since reading is faster
//! than decompressing; its fault is then for a page that is there when it is looked at, wakes nobody but says that the sequence goes on.
//!
//! ```text
//! program   fault N        | reads N        fault N+1 | waits   | reads N+1     fault N+2 ...
//! server    begin_load N   | load_ahead N+1           |         | (N+1 is there) load_ahead N+2
//! ```
//! It is a load as any other ([`bring`](crate::bring)), by a server between two rounds, so no change is applied meanwhile. What cannot be brought is left
//! to its fault.

use lock_api::RawMutex;

use crate::bring::{Bring, Load};
use crate::machine::Machine;
use crate::page::Vpn;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Bring what comes after the window that this worker's last fault brought, if that was of a sequence. How many pages came.
    ///
    /// To be called as [`fault`](Self::fault) is, when nobody waits: it takes as long as one.
    pub fn load_ahead(&self, worker: &mut Worker<M>) -> u64 {
        let Some(vpn) = worker.take_ahead() else { return 0 };
        let begun = self.with_for_fault(|inner| {
            let load = inner.begin_load_ahead(self, worker, vpn)?;
            inner.underway.begin(worker.server(), Bring::Load(load));
            Some(load)
        });
        let Some(load) = begun else { return 0 };
        let brought = self.bring(worker, Bring::Load(load));
        self.with_for_fault(|inner| {
            inner.underway.end(worker.server());
            inner.publish_loaded(self, worker, brought.pages(), false);
        });
        brought.pages() as u64
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// What is in the pool of the window that `vpn` begins. `None`: it is not to be brought, or begins none.
    fn begin_load_ahead<M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Option<Load>
    where
        M: Machine<Arena = A>,
    {
        if self.frozen.is_some() || self.leaving.contains(vpn) || !self.is_at(vpn, false) {
            return None;
        }
        let ahead = self.follow(vpn, mm.config.load_order_max());
        if !ahead.is_expected() {
            return None;
        }
        let window = ahead.window(vpn);
        self.take_along(worker, vpn, window);
        self.streams.advance(ahead, window);
        Some(Load {
            window,
            read: None,
            wanted: vpn,
            is_last: false,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sim::{BASE, PAGES, World};
    use crate::swap_table::entry::Slot;
    use crate::{Effort, Fault};

    fn page(n: u64) -> Vpn {
        Vpn::new(BASE + n)
    }

    /// A world whose pages are all in the pool.
    fn stored() -> World<parking_lot::RawMutex> {
        let mut world = World::new(0, crate::sim::ARENA_PAGES);
        (0..PAGES).for_each(|n| world.write(page(n), n * 8 + 5));
        while world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0 {}
        world
    }

    fn is_mapped(world: &World<parking_lot::RawMutex>, n: u64) -> bool {
        let slot = world.mm.with(|inner| inner.table.lookup(page(n)));
        matches!(slot, Slot::Resident { .. } | Slot::Cached(_))
    }

    #[test]
    fn a_window_is_brought_ahead_and_the_next_when_that_is_reached() {
        let mut world = stored();
        let (mut n, mut ahead) = (0, 0);
        // Until faults get whole windows, nothing is brought ahead of them.
        while ahead == 0 {
            assert_eq!(world.mm.fault(&mut world.worker, page(n)), Fault::Served);
            n = (n..PAGES).find(|n| !is_mapped(&world, *n)).unwrap();
            ahead = world.mm.load_ahead(&mut world.worker);
        }
        assert!(is_mapped(&world, n) && is_mapped(&world, n + ahead - 1));
        assert_eq!(
            world.mm.load_ahead(&mut world.worker),
            0,
            "one window ahead, never more"
        );
        // The program catches up: its page is there already.
        assert_eq!(world.mm.fault(&mut world.worker, page(n)), Fault::Served);
        assert_eq!(world.mm.load_ahead(&mut world.worker), ahead);
        assert!(is_mapped(&world, n + 2 * ahead - 1));
        (0..PAGES).for_each(|n| world.check(page(n)));
    }

    #[test]
    fn nothing_is_brought_ahead_of_faults_out_of_sequence() {
        let mut world = stored();
        for n in [3, 40, 21, 9, 33] {
            assert_eq!(world.mm.fault(&mut world.worker, page(n)), Fault::Served);
            assert_eq!(world.mm.load_ahead(&mut world.worker), 0);
        }
        (0..PAGES).for_each(|n| world.check(page(n)));
    }
}
