//! Neighbours of a page that is read from the device, which go to the pool as they are, compressed,
//! and are not mapped.
//!
//! They are warmer than what else is on the device, or they would not be read along
//! ([`locality`](crate::policy::locality)), but not warm enough for memory. The next one of them
//! that is wanted costs a load instead of a read, and since they are the youngest of the pool, what
//! is sent on in their place is colder. The slots that they lay in are free again.
//!
//! ```text
//! take_along      lock: their blobs are read with those of the load; they are in its window, so
//!                 no other thread brings them
//! take_reads      no lock: opened, and laid behind the blocks of the load
//! publish_along   lock: those whose word is still the same are stored and published; the others
//!                 stay on the device
//! ```
//! They stay there as well if they cannot be read or opened (whoever wants them will be told), or a
//! fork's freeze began meanwhile. Nothing is read along while the pool takes nothing or a relative
//! has it too, and never what is compressed in another way, or not at all: a whole page is no
//! bargain.

use core::sync::atomic::Ordering;

use lock_api::RawMutex;
use uzswap_acomp::Codec;

use crate::config::SwapOut;
use crate::machine::Machine;
use crate::pages::block::BlockRef;
use crate::pages::swap_table::entry::{Slot, ZswapEntry};
use crate::policy::Event;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Whether a pool of so many pages takes what is read along, and gives as many pages away for
    /// it.
    fn takes_along(&self, pages: u64) -> bool {
        let is_in_use =
            self.is_enabled() && self.swap_out() != SwapOut::Direct && self.balances.load(Ordering::Relaxed);
        let is_full = self.pool_reached_full.load(Ordering::Relaxed);
        is_in_use && !is_full && pages < self.pool_limit.load(Ordering::Relaxed)
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// How blocks are compressed that go into the pool now.
    pub(crate) fn pool_codec(&self) -> Codec {
        self.pages.pool.current().compressor.algorithm.codec()
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Whether what is read along could be put into the pool.
    pub(crate) fn reads_along(&self) -> bool {
        let mm = self.mm;
        // What a relative has too would stay on the device for it.
        self.flight.frozen.is_none() && !self.shares_pool() && self.drains() && mm.takes_along(self.pages.pool.pages())
    }

    /// What was read along with a load is put into the pool.
    pub(crate) fn publish_along(&mut self, worker: &Worker<M>) {
        let mm = self.mm;
        let (codec, mut stored) = (self.pool_codec(), 0);
        for (page, blob, block) in worker.along() {
            // Another pool may have become the current one.
            let is_there = blob.codec == codec && self.pages.table.lookup(page) == Slot::Swap(blob);
            if !is_there || !self.reads_along() {
                continue;
            }
            let Ok(handle) = self.pages.pool.store(block) else {
                break;
            };
            let tag = self.pages.add_stored(page, 0);
            let entry = BlockRef::new(handle, blob.len).entry();
            self.pages.publish(page, Slot::Zswap(ZswapEntry { tag, ..entry }));
            stored += 1;
        }
        self.policy.note(Event::ReadAlong(stored));
        mm.stat.add(Item::PswpIn, stored);
        mm.stat.add(Item::SwapRaZswap, stored);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Effort;
    use crate::flight::underway::{Bring, Load};
    use crate::page::Vpn;
    use crate::policy::readahead::Window;
    use crate::sim::{ARENA_PAGES, BASE, PAGES, World};
    use crate::swapin::fault::{Fault, Step};

    type Sim = World<parking_lot::RawMutex>;

    fn page(n: u64) -> Vpn {
        Vpn::new(BASE + n)
    }

    /// All pages on the device.
    fn written_back() -> Sim {
        let mut world = Sim::new(1000, ARENA_PAGES);
        (0..PAGES).for_each(|n| world.write(page(n), n * 12 + 5));
        while world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0 {}
        while world.mm.writeback(&mut world.worker, 64) > 0 {}
        world
    }

    /// Load page 17, and read the three beside it along.
    fn begin(world: &mut Sim) -> Bring {
        let window = Window::around(page(17), 2);
        world.mm.with(|inner| {
            let along = Some(inner.pool_codec());
            let read = inner.take_along(&mut world.worker, page(17), window, along);
            assert!(read.is_some() && world.worker.load_pages() == [page(17)]);
            let bring = Bring::Load(Load {
                window,
                read,
                keep: inner.keeps(1, false),
                wanted: page(17),
                is_last: false,
            });
            inner.flight.underway.begin(0, bring);
            bring
        })
    }

    fn finish(world: &mut Sim, bring: Bring) -> Fault {
        let brought = world.mm.bring(&mut world.worker, bring);
        match world.mm.publish_brought(&mut world.worker, brought) {
            Step::Done(fault) => fault,
            Step::Bring(again) => finish(world, again),
        }
    }

    fn in_pool(world: &Sim, pages: core::ops::Range<u64>) -> usize {
        let is_in_pool = |n: &u64| {
            world
                .mm
                .with(|inner| matches!(inner.pages.table.lookup(page(*n)), Slot::Zswap(_)))
        };
        pages.filter(is_in_pool).count()
    }

    #[test]
    fn neighbours_go_to_the_pool_and_are_what_they_were() {
        let mut world = written_back();
        assert_eq!(in_pool(&world, 0..PAGES), 0);
        let bring = begin(&mut world);
        assert_eq!(finish(&mut world, bring), Fault::Served);
        assert_eq!((in_pool(&world, 16..20), in_pool(&world, 0..PAGES)), (3, 3));
        (0..PAGES).for_each(|n| world.check(page(n)));
    }

    #[test]
    fn they_stay_where_they_are_if_the_pool_takes_nothing() {
        let mut world = written_back();
        world.mm.pool_limit.store(0, Ordering::Relaxed);
        let bring = begin(&mut world);
        assert_eq!(finish(&mut world, bring), Fault::Served);
        assert_eq!(in_pool(&world, 0..PAGES), 0);
        (0..PAGES).for_each(|n| world.check(page(n)));
    }

    #[test]
    fn no_other_thread_brings_them_meanwhile() {
        let mut world = written_back();
        let mut other = Worker::for_server(world.mm.config(), world.mm.machine(), 1);
        let bring = begin(&mut world);
        for n in [16, 18, 19] {
            assert_eq!(world.mm.fault(&mut other, page(n)), Fault::Retry);
        }
        assert_eq!(finish(&mut world, bring), Fault::Served);
        assert_eq!(world.mm.fault(&mut other, page(18)), Fault::Served);
        (0..PAGES).for_each(|n| world.check(page(n)));
    }
}
