//! Faults: give a page back.

use lock_api::RawMutex;

use crate::machine::{Done, IoBuffer, Machine, Stop};
use crate::page::{MAX_ORDER, PAGE_SIZE, PageRange, Vpn};
use crate::swap_table::entry::{Blob, Slot, ZswapEntry};
use crate::vmstat::{Item, OrderItem};
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Inner, Mm, ZSWAP_TAGS};

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

/// The next thing to do for a fault, without the lock.
enum Step {
    Done(Fault),
    /// Map zeros at these untouched pages, or at as many as can be.
    Zeros(PageRange),
    /// Decompress the blocks that the worker was given, after the device was read if there is a [`Read`], and map them
    /// from this page on.
    Load(Vpn, Option<Read>),
}

/// Slots of a device to be read.
#[derive(Clone, Copy)]
struct Read {
    device: u8,
    first: u32,
    last: u32,
}

impl Read {
    fn of(blob: &Blob) -> Self {
        let (first, last) = blob.slots();
        let device = blob.device;
        Self { device, first, last }
    }

    fn slots(self) -> u32 {
        self.last + 1 - self.first
    }

    /// What has to be read if `blob` is to be read as well. `None`: it is on another device.
    fn with(self, blob: &Blob) -> Option<Self> {
        let (first, last) = blob.slots();
        (blob.device == self.device).then_some(Self {
            device: self.device,
            first: self.first.min(first),
            last: self.last.max(last),
        })
    }
}

/// Zeros to map for first touches, one staging unit of them.
static ZEROS: [u8; crate::UNIT as usize * PAGE_SIZE] = [0; crate::UNIT as usize * PAGE_SIZE];

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Give back the page at `vpn`, and its neighbours if faults come in sequence.
    ///
    /// The caller is the only one that serves faults and applies changes of this process.
    pub fn fault(&self, worker: &mut Worker<M>, vpn: Vpn) -> Fault {
        let started = self.machine.now_ns();
        self.stat.add(Item::PgFault, 1);
        let outcome = match self.with_for_fault(|inner| inner.serve(self, worker, vpn)) {
            Step::Done(fault) => fault,
            Step::Zeros(range) => self.map_zeros(range),
            Step::Load(first, read) => self.load(worker, first, read, vpn),
        };
        self.stat.record_load(self.machine.now_ns().saturating_sub(started));
        outcome
    }

    /// Map zeros at `range`, which has no words, a unit at a time. Without the lock: see [`load`](Self::load).
    fn map_zeros(&self, range: PageRange) -> Fault {
        let (mut mapped, mut stop) = (0, None);
        while mapped < range.pages() && stop.is_none() {
            let pages = (range.pages() - mapped).min(u64::from(crate::UNIT));
            let zeros = &ZEROS[..pages as usize * PAGE_SIZE];
            let done = self.machine.copy_in(range.start.add(mapped), zeros, true);
            mapped += u64::from(done.pages);
            stop = done.stop.or((done.pages == 0).then_some(Stop::Again));
        }
        self.with_for_fault(|inner| match (mapped, stop) {
            (0, Some(stop)) => {
                // A window that spans two mappings is refused as a whole: next time it is one page.
                inner.streams.narrow(range.start);
                if range.pages() > 1 && stop == Stop::Unmovable {
                    return Fault::Retry;
                }
                // Not adopted when it turns out to be mapped: a madvise whose event was applied may be about to drop it.
                inner.not_mapped(self, range.start, stop, false)
            }
            _ => {
                inner.publish_mapped(range.start, mapped);
                inner.streams.advance(range.start, mapped, self.config.folio_order_max);
                Fault::Served
            }
        })
    }

    /// Bring in what [`Inner::begin_load`] put into the worker; if that cannot be read or mapped, only the page that is wanted, which
    /// is read anew: what was torn on the way may be whole then.
    fn load(&self, worker: &mut Worker<M>, first: Vpn, read: Option<Read>, wanted: Vpn) -> Fault {
        if let Some(fault) = self.load_run(worker, first, read, wanted, false) {
            return fault;
        }
        let alone = self.with_for_fault(|inner| match inner.frozen {
            Some(_) => None,
            None => inner.take_along(worker, wanted, 0),
        });
        let outcome = alone.and_then(|(first, read)| self.load_run(worker, first, read, wanted, true));
        outcome.unwrap_or(Fault::Retry)
    }

    /// Read, decompress, map, publish. `is_last`: it is the wanted page alone, for the second time. `None`: not yet.
    ///
    /// Without the lock, since only this caller faults and applies changes: meanwhile reclaim may write an entry back,
    /// which changes where its contents are but not the contents, and a freeze may begin, which
    /// [`publish_mapped`](Inner::publish_mapped) heeds. Pages without a RESIDENT word are not isolated.
    fn load_run(
        &self,
        worker: &mut Worker<M>,
        first: Vpn,
        read: Option<Read>,
        wanted: Vpn,
        is_last: bool,
    ) -> Option<Fault> {
        let is_read = read.is_none_or(|read| self.read(worker, read));
        let pages = if is_read { worker.decompress_loads() } else { 0 };
        let done = match pages {
            0 => Done::none(Stop::Missing),
            _ => self.machine.copy_in(first, worker.io().bytes(pages * PAGE_SIZE), true),
        };
        self.with_for_fault(|inner| {
            inner.publish_loaded(self, worker, PageRange::new(first, done.pages.into()), read.is_some());
            let next = first.add(done.pages.into()).max(wanted.add(1));
            let max = self.config.load_order_max();
            inner.streams.advance(wanted, next.number() - wanted.number(), max);
            if first.add(done.pages.into()) > wanted {
                return Some(Fault::Served);
            }
            match done.stop {
                _ if inner.frozen.is_some() => Some(Fault::Retry),
                Some(Stop::Again | Stop::NoMemory) => Some(Fault::Retry),
                // Something in front of it stands in the way or is damaged, or the run spans two mappings, which the kernel
                // refuses as a whole.
                _ if !is_last => None,
                _ if pages == 0 => {
                    let item = if is_read {
                        Item::DecompressFail
                    } else {
                        Item::SwapReadFail
                    };
                    self.stat.add(item, 1);
                    inner.publish(wanted, Slot::Bad);
                    Some(Fault::Lost)
                }
                Some(stop) => Some(inner.not_mapped(self, wanted, stop, true)),
                None => None,
            }
        })
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
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    fn serve<M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Step
    where
        M: Machine<Arena = A>,
    {
        if self.frozen.is_some() {
            return Step::Done(self.serve_frozen(mm, worker, vpn));
        }
        if self.leaving.contains(vpn) {
            // Wanted for writing, or dropped already. Whichever: its copy may be given back once the page is certainly gone.
            return Step::Done(Fault::Retry);
        }
        Step::Done(match self.table.lookup(vpn) {
            Slot::None => return self.first_touch(mm, vpn),
            Slot::Resident { .. } | Slot::Cached(_) => self.map_zero_page(mm, vpn),
            Slot::Staged { .. } => self.take_back(mm, vpn),
            Slot::Zswap(_) | Slot::Filled { .. } | Slot::Swap(_) => return self.begin_load(mm, worker, vpn),
            Slot::Bad => Fault::Lost,
        })
    }

    /// A page that was never touched: zeros, as many as a run of first touches is worth.
    fn first_touch<M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Step
    where
        M: Machine<Arena = A>,
    {
        if !self.managed.covers(PageRange::new(vpn, 1)) {
            return Step::Done(self.map_zero_page(mm, vpn));
        }
        let mut order = self.streams.window(vpn, mm.config.folio_order_max);
        let untouched = |inner: &Self, range: PageRange| {
            inner.managed.covers(range)
                && range
                    .iter()
                    .all(|page| inner.table.lookup(page) == Slot::None && !inner.leaving.contains(page))
        };
        while order > 0 && !untouched(self, PageRange::new(vpn, 1 << order)) {
            order -= 1;
        }
        Step::Zeros(PageRange::new(vpn, 1 << order))
    }

    /// Map zeros at a page whose word stays as it is. Two kinds of page come here:
    /// 1. registered but not (yet) under our care, a mapping that grew or one that is being looked at: without a word it
    ///    is never reclaimed, and only the scan decides what may be;
    /// 2. RESIDENT or CACHED, so it should be mapped: another thread's fault was served first (then zeros are refused), or the page was
    ///    dropped in the moment between an event and the drop itself (then zeros are right).
    fn map_zero_page<M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Fault
    where
        M: Machine<Arena = A>,
    {
        match mm.machine.copy_in(vpn, &ZEROS[..PAGE_SIZE], true).stop {
            None => Fault::Served,
            Some(stop) => self.not_mapped(mm, vpn, stop, false),
        }
    }

    /// What a refused mapping means for the fault. `adopt`: the page has no RESIDENT word yet.
    fn not_mapped<M>(&mut self, mm: &Mm<R, M>, vpn: Vpn, stop: Stop, adopt: bool) -> Fault
    where
        M: Machine<Arena = A>,
    {
        match stop {
            Stop::Again | Stop::NoMemory => return Fault::Retry,
            Stop::Present if adopt => self.publish_resident(vpn),
            // Unmapped or replaced since: the thread looks again and finds what is there now.
            Stop::Present | Stop::Unmovable | Stop::Missing | Stop::Busy => {}
        }
        mm.machine.wake(vpn, 1);
        Fault::Served
    }

    /// A staged page: its second chance. A busy frame is being read by the compressor, so it is copied; otherwise it
    /// moves, and so do its neighbours if faults come in sequence.
    fn take_back<M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Fault
    where
        M: Machine<Arena = A>,
    {
        let Slot::Staged { slot, busy, .. } = self.table.lookup(vpn) else {
            return Fault::Retry;
        };
        let order = self.streams.window(vpn, mm.config.folio_order_max);
        let wanted = |inner: &Self, i: u64| {
            let page = vpn.add(i);
            inner.table.lookup(page).is_staged_at(slot + i as u32, false) && !inner.leaving.contains(page)
        };
        let pages = (0..1u64 << order).take_while(|i| !busy && wanted(self, *i)).count() as u64;
        let done = match pages {
            0 => Done::none(Stop::Busy),
            _ => mm.machine.move_in(slot, vpn, pages as u32),
        };
        for i in 0..done.pages {
            self.staging.taken_back(slot + i);
        }
        self.publish_active_run(vpn, u64::from(done.pages));
        if done.pages == 0 && matches!(done.stop, Some(Stop::Again | Stop::NoMemory)) {
            return Fault::Retry;
        }
        let pages = u64::from(done.pages.max(1));
        self.streams.advance(vpn, pages, mm.config.folio_order_max);
        mm.stat.add(Item::PgMajFault, 1);
        mm.stat.add(Item::RestoreAnon, pages);
        match done.pages {
            // Busy with us, shared after a fork, or the mapping is read-only now: copy. The frame goes with its run.
            0 => match mm
                .machine
                .with_staged(&[slot], |pages| mm.machine.copy_in(vpn, pages[0], true))
                .stop
            {
                None => {
                    self.publish_active_run(vpn, 1);
                    Fault::Served
                }
                Some(stop) => self.not_mapped(mm, vpn, stop, true),
            },
            _ => Fault::Served,
        }
    }

    /// A stored page and its stored neighbours in the aligned window, taken along as they are. The window grows while faults come
    /// in sequence, up to a whole folio.
    fn begin_load<M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Step
    where
        M: Machine<Arena = A>,
    {
        mm.stat.add(Item::PgMajFault, 1);
        let slot = self.table.lookup(vpn);
        let is_swapped = matches!(slot, Slot::Swap(_));
        let in_sequence = self.streams.order(vpn, mm.config.load_order_max());
        let order = match in_sequence {
            0 => self.neighbours(mm, worker, vpn, is_swapped),
            order => order.max(mm.config.cluster(is_swapped)),
        };
        let Some((first, read)) = self.take_along(worker, vpn, order) else {
            return Step::Done(Fault::Retry);
        };
        if worker.loads() < 1 << order {
            mm.stat.add_folio(OrderItem::SwpInFallback, order);
        }
        if let Slot::Swap(blob) = slot {
            if blob.device == 0 && !self.balance.note_read(blob.slots().0) && in_sequence == 0 {
                self.balance.note_refault();
            }
        } else if let Some(distance) = self.refault_distance(slot) {
            mm.stat.add(Item::ActivateAnon, u64::from(distance <= self.resident));
            match in_sequence {
                0 => self.balance.note_refault(),
                _ => self
                    .balance
                    .note_refault_in_sequence(distance, self.resident + self.pool.pages()),
            }
        }
        if !is_swapped && self.drains() {
            self.reference_neighbours(vpn);
        }
        Step::Load(first, read)
    }

    /// The order of the window that is worth bringing with a page that continues no stream.
    fn neighbours<M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn, is_swapped: bool) -> u32
    where
        M: Machine<Arena = A>,
    {
        let order = mm.config.cluster(is_swapped);
        self.locality.note_load(vpn);
        if self.locality.is_probe() {
            if let Some((first, _)) = self.take_along(worker, vpn, order) {
                self.locality.watch(PageRange::new(first, worker.loads() as u64));
            }
            return 0;
        }
        if self.locality.is_worthwhile(is_swapped) {
            order
        } else {
            0
        }
    }

    /// Have the worker load `vpn` and its neighbours within the aligned window of `2^order` pages that are where it is: in the
    /// pool, or near it on the device. The first of them, and what is to be read. `None`: it is not stored.
    fn take_along<M: Machine<Arena = A>>(
        &self,
        worker: &mut Worker<M>,
        vpn: Vpn,
        order: u32,
    ) -> Option<(Vpn, Option<Read>)> {
        worker.begin_loads();
        let (run, read) = match self.table.lookup(vpn) {
            Slot::Zswap(_) | Slot::Filled { .. } => (self.stored_run(vpn, order), None),
            Slot::Swap(blob) => {
                let (run, read) = self.swap_run(vpn, blob, order, worker.io_pages() as u32);
                (run, Some(read))
            }
            Slot::None | Slot::Resident { .. } | Slot::Cached(_) | Slot::Staged { .. } | Slot::Bad => return None,
        };
        for page in run.iter() {
            match self.table.lookup(page) {
                Slot::Zswap(entry) => self.pool.with_block(&entry, |block| worker.push_load(block)),
                Slot::Filled { word } => worker.push_filled(word),
                Slot::Swap(blob) => worker.push_read(blob),
                // Not stored, which the run ends before.
                Slot::None | Slot::Resident { .. } | Slot::Cached(_) | Slot::Staged { .. } | Slot::Bad => break,
            }
        }
        Some((run.start, read))
    }

    /// The pages around `vpn` in its aligned window of `2^order` pages that are in the pool or of one word.
    fn stored_run(&self, vpn: Vpn, order: u32) -> PageRange {
        let is_stored = |n: &u64| matches!(self.table.lookup(Vpn::new(*n)), Slot::Zswap(_) | Slot::Filled { .. });
        let base = vpn.number() >> order << order;
        let below = (base..vpn.number()).rev().take_while(is_stored).count() as u64;
        let above = (vpn.number() + 1..base + (1 << order)).take_while(is_stored).count() as u64;
        PageRange::new(Vpn::new(vpn.number() - below), below + 1 + above)
    }

    /// The pages around `vpn` in its aligned window that lie so near to it on the device that reading all of them costs no more
    /// than a slot for each, and what has to be read: at most `most` slots.
    fn swap_run(&self, vpn: Vpn, blob: Blob, order: u32, most: u32) -> (PageRange, Read) {
        let base = vpn.number() >> order << order;
        let mut run = (PageRange::new(vpn, 1), Read::of(&blob));
        let grow = |run: (PageRange, Read), page: Vpn| {
            let Slot::Swap(blob) = self.table.lookup(page) else {
                return None;
            };
            let (start, end) = (run.0.start.min(page), run.0.end.max(page.add(1)));
            let (pages, read) = (PageRange { start, end }, run.1.with(&blob)?);
            let is_near = u64::from(read.slots()) <= pages.pages() + 1 && read.slots() <= most;
            is_near.then_some((pages, read))
        };
        for n in vpn.number() + 1..base + (1 << order) {
            let Some(more) = grow(run, Vpn::new(n)) else { break };
            run = more;
        }
        for n in (base..vpn.number()).rev() {
            let Some(more) = grow(run, Vpn::new(n)) else { break };
            run = more;
        }
        run
    }

    /// Pages stored since a page that is faulted was: its word is its shadow (mm/workingset.c). As many more frames would have kept
    /// it resident. `None`: it came to rest or went to the device, so it was out for long.
    pub(crate) fn refault_distance(&self, slot: Slot) -> Option<u64> {
        match slot {
            Slot::Zswap(entry) if entry.tag % ZSWAP_TAGS.stride == ZSWAP_TAGS.first => {
                Some(self.zswap_lru.distance(entry.tag))
            }
            _ => None,
        }
    }

    /// The stored neighbourhood of a page that is loaded is warmer than the rest: writeback passes it over once.
    fn reference_neighbours(&mut self, vpn: Vpn) {
        let unit = u64::from(crate::UNIT);
        let base = Vpn::new(vpn.number() / unit * unit);
        for page in PageRange::new(base, unit).iter() {
            if let Slot::Zswap(entry) = self.table.lookup(page) {
                self.table.publish(
                    page,
                    Slot::Zswap(ZswapEntry {
                        referenced: true,
                        ..entry
                    }),
                );
            }
        }
    }

    /// The first pages of a load are mapped.
    fn publish_loaded<M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, run: PageRange, is_swapped: bool)
    where
        M: Machine<Arena = A>,
    {
        let pages = run.pages() as usize;
        if self.frozen.is_some() {
            self.publish_mapped(run.start, run.pages());
        } else {
            self.publish_loaded_run(run, mm.keep(self.pool.charged_pages()));
            for (i, note) in worker.raw_among(pages) {
                let page = run.start.add(i);
                if let Slot::Resident { order, tag, .. } = self.table.lookup(page) {
                    self.table.publish(page, Slot::Resident { order, tag, note });
                }
            }
        }
        for (_, order) in run.folios(MAX_ORDER) {
            mm.stat.add_folio(OrderItem::SwpIn, order);
        }
        let (zeros, filled) = worker.filled_among(pages);
        let item = if is_swapped { Item::PswpIn } else { Item::ZswpIn };
        self.disk_swapins += if is_swapped { run.pages() } else { 0 };
        mm.stat.add(Item::SwpInZero, zeros);
        mm.stat.add(item, run.pages() - filled);
        mm.stat.add(Item::RefaultAnon, run.pages());
        mm.stat.add(Item::SwapRa, run.pages().saturating_sub(1));
    }

    /// Pages were mapped without the lock: publish them, or leave that to the thaw if a fork's freeze began meanwhile.
    fn publish_mapped(&mut self, vpn: Vpn, pages: u64) {
        match &mut self.frozen {
            Some(log) => PageRange::new(vpn, pages).iter().for_each(|vpn| log.push_served(vpn)),
            None => self.publish_resident_run(vpn, pages),
        }
    }
}
