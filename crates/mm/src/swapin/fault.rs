//! Faults: give a page back.

use lock_api::RawMutex;

use crate::flight::underway::{Bring, Load, Read, Underway, Zeros};
use crate::machine::{Done, Machine, Stop};
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::pages::stored;
use crate::pages::swap_table::SwapTable;
use crate::pages::swap_table::entry::{Blob, Slot, ZswapEntry};
use crate::policy::Event;
use crate::policy::bring::{FaultFacts, Fetch, Way, Whereabouts};
use crate::policy::readahead::{Ahead, Window};
use crate::swapin::bring::ZEROS;
use crate::vmstat::{Item, OrderItem};
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The page is mapped, or is no longer ours to map; whoever waited was woken.
    Served,
    /// The mappings are changing: read the events, then try again.
    Retry,
    /// The contents are lost.
    Lost,
}

/// Where a page is for the fault of one on the device, or of another.
fn place(table: &SwapTable, underway: &Underway, page: Vpn, on_device: bool) -> Whereabouts {
    let slot = table.lookup(page);
    match slot {
        Slot::Resident { .. } | Slot::Cached(_) => Whereabouts::Here,
        _ if underway.holds(page, slot) => Whereabouts::Here,
        Slot::Zswap(_) | Slot::Filled { .. } if !on_device => Whereabouts::Alike,
        Slot::Swap(_) if on_device => Whereabouts::Alike,
        _ => Whereabouts::Elsewhere,
    }
}

/// The next thing to do for a fault.
pub(crate) enum Step {
    Done(Fault),
    /// Without the lock: [`Mm::bring`], then [`Mm::publish_brought`].
    Bring(Bring),
}

impl Step {
    /// What this server brings next is underway: other threads leave it alone.
    pub(crate) fn begin(&self, underway: &mut Underway, server: usize) {
        if let Self::Bring(bring) = self {
            underway.begin(server, *bring);
        }
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Give back the page at `vpn`, and what comes next if faults follow a pattern.
    ///
    /// Several threads may do this at a time, each with a worker of its own
    /// ([`Worker::for_server`]). Changes of the mappings are applied only while none does: a page
    /// that is brought without the lock would land on what is there by then.
    pub fn fault(&self, worker: &mut Worker<M>, vpn: Vpn) -> Fault {
        let (started, was_out) = (self.machine.now_ns(), self.is_out(vpn));
        let mut step = self.begin_fault(worker, vpn);
        let outcome = loop {
            match step {
                Step::Done(fault) => break fault,
                Step::Bring(bring) => {
                    let brought = self.bring(worker, bring);
                    step = self.publish_brought(worker, brought);
                }
            }
        };
        self.note_served(was_out, started);
        outcome
    }

    /// As [`fault`](Self::fault), in the thread that faults, which has no device at hand. `None`:
    /// it takes the device, or a fork is under way, or the contents are lost. Somebody else is to
    /// serve it then.
    pub fn fault_without_device(&self, worker: &mut Worker<M>, vpn: Vpn) -> Option<Fault> {
        let (started, was_out) = (self.machine.now_ns(), self.is_out(vpn));
        let mut step = self.with_for_fault(|inner| {
            let needs_device = matches!(inner.pages.table.lookup(vpn), Slot::Swap(_) | Slot::Bad);
            if needs_device || inner.flight.frozen.is_some() {
                return None;
            }
            let step = inner.serve(worker, vpn);
            step.begin(&mut inner.flight.underway, worker.server());
            Some(step)
        })?;
        let outcome = loop {
            match step {
                Step::Done(Fault::Lost) => return None,
                Step::Done(fault) => break fault,
                // Written back meanwhile.
                Step::Bring(Bring::Load(Load { read: Some(_), .. })) => {
                    self.with_for_fault(|inner| inner.flight.underway.end(worker.server()));
                    return None;
                }
                Step::Bring(bring) => {
                    let brought = self.bring(worker, bring);
                    step = self.publish_brought(worker, brought);
                }
            }
        };
        self.stat.add(Item::PgFault, 1);
        self.note_served(was_out, started);
        Some(outcome)
    }

    /// Whether a page was taken out, so that a thread stalls for it that would not have otherwise.
    fn is_out(&self, vpn: Vpn) -> bool {
        let slot = self.lookup(vpn);
        !matches!(slot, Slot::None | Slot::Resident { .. } | Slot::Cached(_))
    }

    /// A fault that came at `started` is served.
    fn note_served(&self, was_out: bool, started: u64) {
        let took = self.machine.now_ns().saturating_sub(started);
        self.stat.record_load(took);
        if was_out {
            self.stat.add(Item::StalledNs, took + self.tunables().stall.outside_ns);
        }
    }

    /// The first step of a fault.
    pub(crate) fn begin_fault(&self, worker: &mut Worker<M>, vpn: Vpn) -> Step {
        self.stat.add(Item::PgFault, 1);
        self.with_for_fault(|inner| {
            let step = inner.serve(worker, vpn);
            step.begin(&mut inner.flight.underway, worker.server());
            step
        })
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// How far a fault on `vpn` goes on with others.
    fn follow(&mut self, vpn: Vpn, order_max: u32) -> Ahead {
        let Self { pages, policy, flight } = self;
        policy.follow(vpn, order_max, |page| {
            place(&pages.table, &flight.underway, page, false)
        })
    }

    /// Where a page is for the fault of one on the device, or of another.
    fn place(&self, page: Vpn, on_device: bool) -> Whereabouts {
        place(&self.pages.table, &self.flight.underway, page, on_device)
    }

    /// Whether a page has no word, and is neither being brought by another thread nor leaving.
    fn is_untouched(&self, page: Vpn) -> bool {
        let slot = self.pages.table.lookup(page);
        slot == Slot::None && !self.flight.underway.holds(page, slot) && !self.flight.leaving.contains(page)
    }

    /// Whether a page is on the device, or in the pool or of one word, and no other thread brings
    /// it.
    fn is_at(&self, page: Vpn, on_device: bool) -> bool {
        self.place(page, on_device) == Whereabouts::Alike
    }

    /// The pages of the window around `vpn` that are read with it from the device, as their range,
    /// and the slots to be read, at most `most`. They lie so near to it there that reading all of
    /// them costs no more than a slot for each.
    fn swap_run(&self, vpn: Vpn, blob: Blob, window: Window, most: u32) -> (PageRange, Read) {
        let needed = Read::of(&blob);
        let (mut range, mut read, mut pages) = (PageRange::new(vpn, 1), needed, 1);
        // What may lie elsewhere comes by whole segments, and who waits in vain for one has lost
        // it: none is fetched for a guess.
        let any_segment = !self.pages.slots.may_set_aside();
        let mut grow = |page: Vpn| {
            let Slot::Swap(blob) = self.pages.table.lookup(page) else {
                return None;
            };
            let more = read.with(&blob)?;
            let is_near = more.slots() <= pages + 2 && more.slots() <= most;
            let is_near = is_near && (any_segment || more.is_in_segments_of(needed));
            (range, read, pages) = is_near.then(|| {
                let (start, end) = (range.start.min(page), range.end.max(page.add(1)));
                (PageRange { start, end }, more, pages + 1)
            })?;
            Some(())
        };
        let is_on_device = |page: &Vpn| self.is_at(*page, true);
        let _ = window.above(vpn).filter(is_on_device).try_for_each(&mut grow);
        let _ = window.below(vpn).filter(is_on_device).try_for_each(&mut grow);
        (range, read)
    }

    /// Pages stored since a page that is faulted was: its word is its shadow (mm/workingset.c). As
    /// many more frames would have kept it resident. `None`: it came to rest or went to the device,
    /// so it was out for long.
    pub(crate) fn refault_distance(&self, slot: Slot) -> Option<u64> {
        match slot {
            Slot::Zswap(entry) if entry.tag % stored::TAGS.stride == stored::TAGS.first => {
                Some(self.pages.stored.recent.distance(entry.tag))
            }
            _ => None,
        }
    }

    /// The stored neighbourhood of a page that is loaded is warmer than the rest: writeback passes
    /// it over once.
    fn reference_neighbours(&mut self, vpn: Vpn) {
        let unit = u64::from(crate::UNIT);
        let base = Vpn::new(vpn.number() / unit * unit);
        for page in PageRange::new(base, unit).iter() {
            if let Slot::Zswap(entry) = self.pages.table.lookup(page) {
                self.pages.remark(
                    page,
                    Slot::Zswap(ZswapEntry {
                        referenced: true,
                        ..entry
                    }),
                );
            }
        }
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Have the worker load `vpn` and what else of the window is where it is: in the pool, or near
    /// it on the device. Pages that another thread brings are left out. Nothing is loaded if `vpn`
    /// is not stored, or if it alone is wanted and another thread brings it. Returns what is to be
    /// read, if it is on the device.
    pub(crate) fn take_along(&self, worker: &mut Worker<M>, vpn: Vpn, window: Window) -> Option<Read> {
        worker.begin_loads();
        let read = match self.pages.table.lookup(vpn) {
            Slot::Zswap(_) | Slot::Filled { .. } => None,
            Slot::Swap(blob) => Some(self.swap_run(vpn, blob, window, worker.io_pages() as u32)),
            Slot::None | Slot::Resident { .. } | Slot::Cached(_) | Slot::Staged { .. } | Slot::Bad => return None,
        };
        let range = read.map_or(window.range(), |(range, _)| range);
        let start = window
            .below(vpn)
            .take_while(|page| *page >= range.start)
            .last()
            .unwrap_or(vpn);
        let pages = core::iter::once(start).chain(window.above(start));
        let pages = pages.take_while(|page| *page < range.end);
        for page in pages.filter(|page| self.is_at(*page, read.is_some())) {
            match self.pages.table.lookup(page) {
                Slot::Zswap(entry) => self
                    .pages
                    .pool
                    .with_block(entry.handle, entry.len, |block| worker.push_load(page, block)),
                Slot::Filled { word } => worker.push_filled(page, word),
                Slot::Swap(blob) => worker.push_read(page, blob),
                // Not stored, so not there.
                Slot::None | Slot::Resident { .. } | Slot::Cached(_) | Slot::Staged { .. } | Slot::Bad => {}
            }
        }
        read.map(|(_, read)| read)
    }

    fn serve(&mut self, worker: &mut Worker<M>, vpn: Vpn) -> Step {
        if self.flight.underway.holds(vpn, self.pages.table.lookup(vpn)) {
            // Another thread brings it.
            return Step::Done(Fault::Retry);
        }
        if self.flight.frozen.is_some() {
            return Step::Done(self.serve_frozen(worker, vpn));
        }
        if self.flight.leaving.contains(vpn) {
            // Wanted for writing, or dropped already. Whichever: its copy may be given back once
            // the page is certainly gone.
            return Step::Done(Fault::Retry);
        }
        Step::Done(match self.pages.table.lookup(vpn) {
            Slot::None => return self.first_touch(vpn),
            Slot::Resident { .. } | Slot::Cached(_) => self.map_zero_page(vpn),
            Slot::Staged { .. } => self.take_back(vpn),
            Slot::Zswap(_) | Slot::Filled { .. } | Slot::Swap(_) => return self.begin_load(worker, vpn),
            Slot::Bad => Fault::Lost,
        })
    }

    /// A page that was never touched: zeros, as many as a run of first touches is worth.
    fn first_touch(&mut self, vpn: Vpn) -> Step {
        let mm = self.mm;
        if !self.pages.managed.covers(PageRange::new(vpn, 1)) {
            return Step::Done(self.map_zero_page(vpn));
        }
        let order_max = match mm.machine.may_have_guards() {
            true => 0,
            false => mm.portions().folio_order,
        };
        let ahead = self.follow(vpn, order_max);
        let untouched = |inner: &Self, range: PageRange| {
            inner.pages.managed.covers(range) && range.iter().all(|page| inner.is_untouched(page))
        };
        let mut order = ahead.folio_order().max(mm.machine.unit_order());
        while order > 0 && !untouched(self, Window::around(vpn, order).range()) {
            order -= 1;
        }
        let range = Window::around(vpn, order).range();
        self.policy.went_on(ahead, Window::of(range));
        Step::Bring(Bring::Zeros(Zeros { range, wanted: vpn }))
    }

    /// Map zeros at a page whose word stays as it is. Two kinds of page come here:
    /// 1. registered but not (yet) under our care, a mapping that grew or one that is being looked
    ///    at: without a word it is never reclaimed, and only the scan decides what may be;
    /// 2. RESIDENT or CACHED, so it should be mapped. Another thread's fault was served first, and
    ///    zeros are refused. Or the page was dropped in the moment between an event and the drop
    ///    itself, and zeros are right.
    fn map_zero_page(&mut self, vpn: Vpn) -> Fault {
        let mm = self.mm;
        match mm.machine.copy_in(vpn, &ZEROS[..PAGE_SIZE], true).stop {
            None => Fault::Served,
            Some(stop) => self.not_mapped(vpn, stop, false),
        }
    }

    /// What a refused mapping means for the fault. `adopt`: the page has no RESIDENT word yet.
    pub(crate) fn not_mapped(&mut self, vpn: Vpn, stop: Stop, adopt: bool) -> Fault {
        let mm = self.mm;
        match stop {
            Stop::Again | Stop::NoMemory => return Fault::Retry,
            Stop::Present if adopt => self.pages.publish_resident(vpn),
            // Unmapped or replaced since: the thread looks again and finds what is there now.
            Stop::Present | Stop::Unmovable | Stop::Missing | Stop::Busy | Stop::Needed => {}
        }
        mm.machine.wake(vpn, 1);
        Fault::Served
    }

    /// A staged page: its second chance. A busy frame is being read by the compressor, so it is
    /// copied; otherwise it moves, and so do those above it if faults come in sequence.
    fn take_back(&mut self, vpn: Vpn) -> Fault {
        let mm = self.mm;
        let Slot::Staged { slot, busy, .. } = self.pages.table.lookup(vpn) else {
            return Fault::Retry;
        };
        let ahead = self.follow(vpn, mm.portions().folio_order);
        // What moves is one run, from `vpn` on.
        let order = ahead.folio_order().min(vpn.alignment());
        let wanted = |inner: &Self, i: u64| {
            let page = vpn.add(i);
            inner.pages.table.lookup(page).is_staged_at(slot + i as u32, false) && !inner.flight.leaving.contains(page)
        };
        let pages = (0..1u64 << order).take_while(|i| !busy && wanted(self, *i)).count() as u64;
        let done = match pages {
            0 => Done::none(Stop::Busy),
            _ => mm.machine.move_in(slot, vpn, pages as u32),
        };
        for i in 0..done.pages {
            self.pages.staging.taken_back(slot + i);
        }
        let lru = self.readmits_to();
        self.pages.publish_run(lru, vpn, u64::from(done.pages));
        if done.pages == 0 && matches!(done.stop, Some(Stop::Again | Stop::NoMemory)) {
            return Fault::Retry;
        }
        let pages = u64::from(done.pages.max(1));
        self.policy.went_on(ahead, Window::of(PageRange::new(vpn, pages)));
        mm.stat.add(Item::PgMajFault, 1);
        mm.stat.add(Item::RestoreAnon, pages);
        if done.pages == 0 {
            // Busy with us, shared after a fork, or the mapping is read-only now: copy. The frame
            // goes with its run.
            let copied = mm
                .machine
                .with_staged(&[slot], |pages| mm.machine.copy_in(vpn, pages[0], true));
            if let Some(stop) = copied.stop {
                return self.not_mapped(vpn, stop, true);
            }
            self.pages.publish_folio(lru, vpn, 0);
        }
        self.weigh_restored(pages);
        Fault::Served
    }

    /// A stored page and what is stored of its window, taken along as it is. The window grows while
    /// faults follow a pattern, up to a whole folio.
    fn begin_load(&mut self, worker: &mut Worker<M>, vpn: Vpn) -> Step {
        let mm = self.mm;
        mm.stat.add(Item::PgMajFault, 1);
        let slot = self.pages.table.lookup(vpn);
        let is_swapped = matches!(slot, Slot::Swap(_));
        let fetch = self.decide(vpn, is_swapped);
        if fetch.way == Way::Probe {
            self.take_along(worker, vpn, fetch.window);
            let view = self.view();
            self.policy.watch(vpn, worker.load_pages(), &view);
        }
        let window = self.widened(vpn, fetch.mapped(vpn));
        let read = self.take_along(worker, vpn, window);
        self.policy.fetched(vpn, fetch);
        if worker.loads() < window.pages() {
            mm.stat.add_folio(OrderItem::SwpInFallback, window.pages().ilog2());
        }
        let distance = self.refault_distance(slot);
        self.policy.note(Event::Refaulted(distance));
        if let Some(distance) = distance {
            mm.stat
                .add(Item::ActivateAnon, u64::from(distance <= self.reclaimable()));
        }
        self.weigh(slot);
        if !is_swapped && self.drains() {
            self.reference_neighbours(vpn);
        }
        Step::Bring(Bring::Load(Load {
            window,
            read,
            keep: self.keep_of_load(worker.load_pages().len(), read.is_none()),
            wanted: vpn,
            is_last: false,
        }))
    }

    /// As many pages as the machine wants to be brought at a time, and a worker has room for.
    fn widened(&self, vpn: Vpn, window: Window) -> Window {
        let order = self.mm.machine.unit_order().min(self.mm.load_order_max());
        match window.pages() < 1 << order {
            true => Window::around(vpn, order),
            false => window,
        }
    }

    /// What comes with a stored page.
    fn decide(&mut self, vpn: Vpn, is_on_device: bool) -> Fetch {
        let mm = self.mm;
        let fault = FaultFacts {
            vpn,
            is_on_device,
            order_max: mm.load_order_max(),
            cluster: mm.cluster(is_on_device),
        };
        let view = self.view();
        let Inner { pages, policy, flight } = &mut **self;
        policy.bring(fault, &view, |page| {
            place(&pages.table, &flight.underway, page, is_on_device)
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Effort;
    use crate::sim::{ARENA_PAGES, BASE, World};

    #[test]
    fn a_first_touch_is_no_stall_and_a_page_that_was_out_is() {
        let mut world = World::<parking_lot::RawMutex>::new(0, ARENA_PAGES);
        (0..16).for_each(|page| world.write(Vpn::new(BASE + page), 5));
        let stalled = |world: &World<_>| world.mm.stat().get(Item::StalledNs);
        assert_eq!(stalled(&world), 0);
        // It waits for its second chance as long as so many may.
        world.mm.shrink(&mut world.worker, 16, Effort::Cold { waits: 16 });
        assert_eq!((world.mm.gauges().staged, world.mm.gauges().stored), (16, 0));
        assert_eq!(world.mm.store_staged_beyond(&mut world.worker, 16), 0);
        world.check(Vpn::new(BASE + 3));
        let restored = stalled(&world);
        assert!(restored > 0);
        while world.mm.store_staged_beyond(&mut world.worker, 0) > 0 {}
        assert_eq!((world.mm.gauges().staged, world.mm.gauges().stored), (0, 15));
        world.check(Vpn::new(BASE + 4));
        assert!(stalled(&world) > restored);
    }
}
