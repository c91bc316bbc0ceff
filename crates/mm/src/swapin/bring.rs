//! What a fault wants is brought without the lock: read, decompressed, mapped. Then it is
//! published.
//!
//! ```text
//! begin_fault      lock: blocks copied out, those pages are UNDERWAY for this server
//! bring            no lock: read the device, decompress, copy_in (never over what is there)
//! publish_brought  lock: they are at rest, their words RESIDENT or CACHED, or as before
//! ```
//! Meanwhile reclaim may write an entry back, which changes where its contents are but not the
//! contents. A freeze may begin, which [`Inner::publish_mapped`] heeds. Pages without a RESIDENT
//! word are not isolated.
//!
//! Another server leaves a page that is underway alone. Windows may overlap: the server that took
//! a page of both along first brings it, and no other does before that window is given up. Were
//! the other to bring it too, the page could be written, stored anew and gone by then. The older
//! contents would arrive and fill its place.

use lock_api::RawMutex;

use crate::flight::underway::{Bring, Load, Read, Zeros};
use crate::machine::{Done, Machine, Stop};
use crate::page::{MAX_ORDER, PAGE_SIZE, PageRange, Vpn};
use crate::pages::swap_table::entry::Slot;
use crate::policy::Event;
use crate::policy::readahead::Window;
use crate::swapin::fault::{Fault, Step};
use crate::vmstat::{Item, OrderItem};
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

/// What was brought, and how far that came.
pub(crate) enum Brought {
    /// So many were mapped, from the first page on.
    Zeros(Zeros, Done),
    /// The worker says what was mapped, if all could be read. And how long that took, in
    /// nanoseconds.
    Load(Load, bool, u64),
}

/// Zeros to map for first touches, one staging unit of them.
pub(crate) static ZEROS: [u8; crate::UNIT as usize * PAGE_SIZE] = [0; crate::UNIT as usize * PAGE_SIZE];

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Without the lock.
    pub(crate) fn bring(&self, worker: &mut Worker<M>, bring: Bring) -> Brought {
        match bring {
            Bring::Zeros(zeros) => Brought::Zeros(zeros, self.map_zeros(zeros.range)),
            Bring::Load(load) => {
                let began = self.machine.now_ns();
                let is_read = self.load(worker, load);
                Brought::Load(load, is_read, self.machine.now_ns().saturating_sub(began))
            }
        }
    }

    /// Map zeros at `range`, which has no words, a unit at a time.
    fn map_zeros(&self, range: PageRange) -> Done {
        let (mut mapped, mut stop) = (0, None);
        while mapped < range.pages() && stop.is_none() {
            let pages = (range.pages() - mapped).min(u64::from(crate::UNIT));
            let zeros = &ZEROS[..pages as usize * PAGE_SIZE];
            let done = self.machine.copy_in(range.start.add(mapped), zeros, true);
            mapped += u64::from(done.pages);
            stop = done.stop.or((done.pages == 0).then_some(Stop::Again));
        }
        Done {
            pages: mapped as u32,
            stop,
        }
    }

    /// Read, decompress, map. False: it cannot be read.
    fn load(&self, worker: &mut Worker<M>, load: Load) -> bool {
        let is_read = load.read.is_none_or(|read| self.read(worker, read));
        match is_read {
            true => worker.bring_loads(&self.machine, self.may_spread(load), |machine, run, bytes, is_piece| {
                // Whoever waits for another page will be told that it is there; but who goes on
                // while other pieces are brought waits for those next.
                let wake = is_piece || run.contains(load.wanted);
                match load.keep.protects {
                    true => machine.copy_in_protected(run.start, bytes, wake),
                    false => machine.copy_in(run.start, bytes, wake),
                }
            }),
            false => worker.bring_nothing(),
        }
        is_read
    }

    /// Whether other threads may help with a load. Of two cores the other one has enough to do,
    /// with compressing what was loaded again, or comparing it, unless it is kept and protected.
    fn may_spread(&self, load: Load) -> bool {
        load.keep.protects || self.machine.lanes() > 2
    }

    /// Read from the device what the worker is to load.
    fn read(&self, worker: &mut Worker<M>, read: Read) -> bool {
        let is_read = worker.read_slots(&self.machine, read.device, read.first, read.last);
        if is_read {
            worker.take_reads(&self.machine, read.device, read.first);
            self.stat
                .add(Item::SwapReadBytes, u64::from(read.slots()) * PAGE_SIZE as u64);
        }
        is_read
    }

    /// What was brought is published; what is next.
    pub(crate) fn publish_brought(&self, worker: &mut Worker<M>, brought: Brought) -> Step {
        self.with_for_fault(|inner| {
            inner.flight.underway.end(worker.server());
            let step = match brought {
                Brought::Zeros(zeros, done) => inner.publish_zeros(zeros, done),
                Brought::Load(load, is_read, ns) => {
                    if is_read {
                        let is_from_device = load.read.is_some();
                        inner.policy.note(Event::Took { is_from_device, ns });
                    }
                    inner.publish_load(worker, load, is_read)
                }
            };
            step.begin(&mut inner.flight.underway, worker.server());
            step
        })
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Pages were mapped without the lock: publish them, or leave that to the thaw if a fork's
    /// freeze began meanwhile.
    fn publish_mapped(&mut self, run: PageRange) {
        match &mut self.flight.frozen {
            Some(log) => run.iter().for_each(|vpn| log.push_served(vpn)),
            None => self.pages.publish_resident_run(run.start, run.pages()),
        }
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    fn publish_zeros(&mut self, zeros: Zeros, done: Done) -> Step {
        let Zeros { range, wanted } = zeros;
        self.publish_mapped(PageRange::new(range.start, done.pages.into()));
        if range.start.add(done.pages.into()) > wanted {
            return Step::Done(Fault::Served);
        }
        // A window that spans two mappings is refused as a whole. Or something is mapped in front
        // of the page that is no longer (or not yet) under our care. Next time it is one page.
        self.policy.note(Event::Narrowed(wanted));
        let is_frozen = self.flight.frozen.is_some();
        match done.stop {
            // What kswapd has found and copied meanwhile (`leaving`) stays protected. Not adopted
            // when it turns out to be mapped: a madvise whose event was applied may be about to
            // drop it.
            Some(stop) if range.pages() == 1 && !self.flight.leaving.contains(wanted) => {
                Step::Done(self.not_mapped(wanted, stop, false))
            }
            // Every window may have so many pages here: now, then.
            Some(Stop::Present | Stop::Unmovable) if self.mm.machine.unit_order() > 0 && !is_frozen => {
                let range = PageRange::new(wanted, 1);
                Step::Bring(Bring::Zeros(Zeros { range, wanted }))
            }
            _ => Step::Done(Fault::Retry),
        }
    }

    /// If the run cannot be read or mapped, only the page that is wanted is tried again, read anew:
    /// what was torn on the way may be whole then.
    fn publish_load(&mut self, worker: &mut Worker<M>, load: Load, is_read: bool) -> Step {
        let mm = self.mm;
        let wanted = load.wanted;
        self.publish_loaded(worker, load);
        if worker.has_brought(wanted) {
            return Step::Done(Fault::Served);
        }
        let piece = worker.piece_of(wanted);
        Step::Done(match piece.and_then(|piece| piece.stop) {
            _ if self.flight.frozen.is_some() => Fault::Retry,
            Some(Stop::Again | Stop::NoMemory) => Fault::Retry,
            // Something in front of it stands in the way or is damaged, or the run spans two
            // mappings, which the kernel refuses as a whole.
            _ if !load.is_last => return self.load_alone(worker, wanted),
            _ if piece.is_none_or(|piece| piece.loaded == 0) => {
                let item = if is_read {
                    Item::DecompressFail
                } else {
                    Item::SwapReadFail
                };
                mm.stat.add(item, 1);
                self.pages.publish(wanted, Slot::Bad);
                Fault::Lost
            }
            Some(stop) => self.not_mapped(wanted, stop, true),
            None => Fault::Retry,
        })
    }

    fn load_alone(&mut self, worker: &mut Worker<M>, wanted: Vpn) -> Step {
        self.policy.note(Event::Narrowed(wanted));
        let window = Window::around(wanted, 0);
        let read = self.take_along(worker, wanted, window);
        if worker.loads() == 0 {
            // It lies in the window of another thread: when that is over.
            return Step::Done(Fault::Retry);
        }
        Step::Bring(Bring::Load(Load {
            window,
            read,
            keep: self.keep_of_load(1, read.is_none()),
            wanted,
            is_last: true,
        }))
    }

    /// Pages of a load are mapped.
    fn publish_loaded(&mut self, worker: &mut Worker<M>, load: Load) {
        let mm = self.mm;
        let keep = load.keep.and(self.keep_now());
        let mut loaded = 0;
        for pages in worker.brought() {
            for run in worker.load_runs(pages.clone()) {
                match self.flight.frozen {
                    Some(_) => self.publish_mapped(run),
                    None => self.publish_loaded_run(run, keep),
                }
                for (_, order) in run.folios(MAX_ORDER) {
                    mm.stat.add_folio(OrderItem::SwpIn, order);
                }
            }
            if self.flight.frozen.is_none() {
                for (page, note) in worker.raw_among(pages.clone()) {
                    if let Slot::Resident { order, tag, .. } = self.pages.table.lookup(page) {
                        self.pages.remark(page, Slot::Resident { order, tag, note });
                    }
                }
            }
            let (zeros, filled) = worker.filled_among(pages.clone());
            let item = if load.read.is_some() {
                Item::PswpIn
            } else {
                Item::ZswpIn
            };
            mm.stat.add(Item::SwpInZero, zeros);
            mm.stat.add(item, pages.len() as u64 - filled);
            loaded += pages.len() as u64;
        }
        let read = if load.read.is_some() { loaded } else { 0 };
        self.policy.note(Event::SwappedIn(read));
        mm.stat.add(Item::RefaultAnon, loaded);
        mm.stat.add(Item::SwapRa, loaded.saturating_sub(1));
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Effort;
    use crate::sim::{BASE, PAGES, World};

    fn page(n: u64) -> Vpn {
        Vpn::new(BASE + n)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes more pages than the world has there")]
    fn a_page_that_lies_in_the_window_of_another_thread_is_not_taken_for_a_damaged_one() {
        let mut world = World::<parking_lot::RawMutex>::new(0, crate::sim::ARENA_PAGES);
        (0..PAGES).for_each(|n| world.write(page(n), n * 8 + 5));
        while world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0 {}
        let [mut first, mut second] = [1, 2].map(|n| Worker::for_server(world.mm.config(), world.mm.machine(), n));
        let bring = |step| match step {
            Step::Bring(bring) => bring,
            Step::Done(fault) => panic!("{fault:?}"),
        };
        for n in [16, 20, 22, 24] {
            assert_eq!(world.mm.fault(&mut first, page(n)), Fault::Served);
        }
        // The window of the second thread holds the pages that the first one brings, and passes
        // them over.
        let one = bring(world.mm.begin_fault(&mut first, page(44)));
        let other = bring(world.mm.begin_fault(&mut second, page(32)));
        assert_eq!((first.load_pages().len(), second.load_pages().len()), (4, 12));
        world.mm.machine().boundary.set(Some(page(46)));
        let brought = world.mm.bring(&mut first, one);
        let step = world.mm.publish_brought(&mut first, brought);
        assert!(matches!(step, Step::Done(Fault::Retry)));
        let brought = world.mm.bring(&mut second, other);
        world.mm.publish_brought(&mut second, brought);
        (0..PAGES).for_each(|n| world.check(page(n)));
    }
}
