//! Faults: give a page back.

use lock_api::RawMutex;

use crate::machine::{Done, IoBuffer, Machine, Stop};
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::zpool::Arena;
use crate::zswap::Worker;
use crate::{Inner, Mm};

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
    /// Decompress the blocks that the worker was given and map them from this page on.
    Load(Vpn),
    /// Read this run of pages from the device and map it.
    Read(SwapRun),
}

/// Neighbouring pages in neighbouring slots.
#[derive(Clone, Copy)]
struct SwapRun {
    first: Vpn,
    device: u8,
    slot: u32,
    pages: u32,
}

/// log2 of the pages that a load brings at least, if they are stored (and `page_cluster` is not lower).
const CLUSTER_MIN: u32 = 2;

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
            Step::Load(first) => self.load(worker, first, vpn),
            Step::Read(run) => self.read_in(worker, run, vpn),
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

    /// Decompress what [`Inner::begin_load`] put into the worker, map it, publish it.
    ///
    /// Without the lock, since only this caller faults and applies changes: meanwhile reclaim may write an entry back,
    /// which changes where its contents are but not the contents, and a freeze may begin, which
    /// [`publish_mapped`](Inner::publish_mapped) heeds. Pages without a RESIDENT word are not isolated.
    fn load(&self, worker: &mut Worker<M>, first: Vpn, wanted: Vpn) -> Fault {
        let pages = worker.decompress_loads();
        let damaged = pages < worker.loads();
        let done = match pages {
            0 => Done::none(Stop::Missing),
            _ => self.machine.copy_in(first, worker.io().bytes(pages * PAGE_SIZE), true),
        };
        let mapped = u64::from(done.pages);
        let max = self.config.page_cluster;
        self.with_for_fault(|inner| {
            inner.publish_mapped(first, mapped);
            inner.streams.advance(
                wanted,
                (first.number() + mapped).saturating_sub(wanted.number()).max(1),
                max,
            );
            let (zeros, filled) = worker.filled_among(done.pages as usize);
            self.stat.add(Item::SwpInZero, zeros);
            self.stat.add(Item::ZswpIn, mapped - filled);
            self.stat.add(Item::RefaultAnon, mapped);
            self.stat.add(Item::SwapRa, mapped.saturating_sub(1));
            if first.add(mapped) > wanted {
                return Fault::Served;
            }
            match done.stop {
                _ if inner.frozen.is_some() => Fault::Retry,
                Some(Stop::Again | Stop::NoMemory) => Fault::Retry,
                _ if pages == 0 && damaged && first == wanted => {
                    self.stat.add(Item::DecompressFail, 1);
                    inner.publish(wanted, Slot::Bad);
                    Fault::Lost
                }
                Some(stop) if worker.loads() == 1 => inner.not_mapped(self, wanted, stop, true),
                // Something in front of it stands in the way, or the run spans two mappings, which the kernel refuses
                // as a whole.
                _ => inner.load_alone(self, worker, wanted),
            }
        })
    }

    /// Read a run without the lock and map it. The words cannot change meanwhile: only this caller faults and
    /// applies changes, and reclaim does not touch pages that are on the device.
    fn read_in(&self, worker: &mut Worker<M>, run: SwapRun, wanted: Vpn) -> Fault {
        let bytes = run.pages as usize * PAGE_SIZE;
        let io = worker.io().bytes_mut(bytes);
        if self.machine.read_swap(run.device, run.slot, io).is_err() {
            if run.pages > 1 {
                let slot = run.slot + (wanted.number() - run.first.number()) as u32;
                return self.read_in(
                    worker,
                    SwapRun {
                        first: wanted,
                        slot,
                        pages: 1,
                        ..run
                    },
                    wanted,
                );
            }
            self.stat.add(Item::SwapReadFail, 1);
            return self.with(|inner| {
                if inner.frozen.is_some() {
                    return Fault::Retry;
                }
                inner.publish(wanted, Slot::Bad);
                Fault::Lost
            });
        }
        self.stat.add(Item::PswpIn, u64::from(run.pages));
        self.stat.add(Item::SwapRa, u64::from(run.pages) - 1);
        self.with_for_fault(|inner| {
            if inner.frozen.is_some() {
                return Fault::Retry;
            }
            inner.map_run(self, run, wanted, worker.io().bytes(bytes))
        })
    }
}

impl<A: Arena> Inner<A> {
    fn serve<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Step
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        if self.frozen.is_some() {
            return Step::Done(self.serve_frozen(mm, worker, vpn));
        }
        Step::Done(match self.table.lookup(vpn) {
            Slot::None => return self.first_touch(mm, vpn),
            Slot::Resident { .. } => self.map_zero_page(mm, vpn),
            Slot::Staged { .. } => self.take_back(mm, vpn),
            Slot::Zswap { .. } | Slot::Filled { .. } => return self.begin_load(mm, worker, vpn),
            Slot::Swap { device, slot } => return Step::Read(self.swap_run(mm, vpn, device, slot)),
            Slot::Bad => Fault::Lost,
        })
    }

    /// A page that was never touched: zeros, as many as a run of first touches is worth.
    fn first_touch<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Step
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        if !self.managed.covers(PageRange::new(vpn, 1)) {
            return Step::Done(self.map_zero_page(mm, vpn));
        }
        let mut order = self.streams.window(vpn, mm.config.folio_order_max);
        let untouched = |inner: &Self, range: PageRange| {
            inner.managed.covers(range) && range.iter().all(|page| inner.table.lookup(page) == Slot::None)
        };
        while order > 0 && !untouched(self, PageRange::new(vpn, 1 << order)) {
            order -= 1;
        }
        Step::Zeros(PageRange::new(vpn, 1 << order))
    }

    /// Map zeros at a page whose word stays as it is. Two kinds of page come here:
    /// 1. registered but not (yet) under our care, a mapping that grew or one that is being looked at: without a word it
    ///    is never reclaimed, and only the scan decides what may be;
    /// 2. RESIDENT, so it should be mapped: another thread's fault was served first (then zeros are refused), or the page was
    ///    dropped in the moment between an event and the drop itself (then zeros are right).
    fn map_zero_page<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        match mm.machine.copy_in(vpn, &ZEROS[..PAGE_SIZE], true).stop {
            None => Fault::Served,
            Some(stop) => self.not_mapped(mm, vpn, stop, false),
        }
    }

    /// What a refused mapping means for the fault. `adopt`: the page has no RESIDENT word yet.
    fn not_mapped<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn, stop: Stop, adopt: bool) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        match stop {
            Stop::Again | Stop::NoMemory => return Fault::Retry,
            Stop::Present if adopt => self.publish_resident(vpn, 0),
            // Unmapped or replaced since: the thread looks again and finds what is there now.
            Stop::Present | Stop::Unmovable | Stop::Missing | Stop::Busy => {}
        }
        mm.machine.wake(vpn, 1);
        Fault::Served
    }

    /// A staged page: its second chance. A busy frame is being read by the compressor, so it is copied; otherwise it
    /// moves, and so do its neighbours if faults come in sequence.
    fn take_back<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        mm.stat.add(Item::PgMajFault, 1);
        let Slot::Staged { slot, busy } = self.table.lookup(vpn) else {
            return Fault::Retry;
        };
        let order = self.streams.window(vpn, mm.config.folio_order_max);
        let wanted = |inner: &Self, i: u64| {
            inner.table.lookup(vpn.add(i))
                == Slot::Staged {
                    slot: slot + i as u32,
                    busy: false,
                }
        };
        let pages = (0..1u64 << order).take_while(|i| !busy && wanted(self, *i)).count() as u64;
        let done = match pages {
            0 => Done::none(Stop::Busy),
            _ => mm.machine.move_in(slot, vpn, pages as u32),
        };
        for i in 0..done.pages {
            self.staging.taken_back(slot + i);
        }
        self.publish_resident_run(vpn, u64::from(done.pages));
        self.streams
            .advance(vpn, u64::from(done.pages.max(1)), mm.config.folio_order_max);
        mm.stat.add(Item::RestoreAnon, u64::from(done.pages.max(1)));
        match (done.pages, done.stop) {
            (0, Some(Stop::Again | Stop::NoMemory)) => Fault::Retry,
            // Busy with us, shared after a fork, or the mapping is read-only now: copy. The frame goes with its run.
            (0, _) => match mm
                .machine
                .with_staged(slot, |page| mm.machine.copy_in(vpn, page, true))
                .stop
            {
                None => {
                    self.publish_resident(vpn, 0);
                    Fault::Served
                }
                Some(stop) => self.not_mapped(mm, vpn, stop, true),
            },
            _ => Fault::Served,
        }
    }

    /// A stored page and its stored neighbours in the aligned window, copied out of the pool as they are. The window is at
    /// least [`CLUSTER_MIN`] and grows while faults come in sequence.
    fn begin_load<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Step
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        mm.stat.add(Item::PgMajFault, 1);
        let max = mm.config.page_cluster;
        let order = self.streams.order(vpn, max).max(CLUSTER_MIN.min(max));
        let run = self.stored_run(vpn, order);
        self.copy_out(worker, run);
        Step::Load(run.start)
    }

    fn copy_out<M: Machine<Arena = A>>(&self, worker: &mut Worker<M>, run: PageRange) {
        worker.begin_loads();
        for vpn in run.iter() {
            match self.table.lookup(vpn) {
                Slot::Zswap { handle, len, .. } => {
                    worker.push_load(self.pool.algorithm(handle), self.pool.read(handle, len as usize));
                }
                Slot::Filled { word } => worker.push_filled(word),
                // Not stored, which the callers have looked at.
                _ => return,
            }
        }
    }

    /// The stored pages around `vpn` in its aligned window of `2^order` pages.
    fn stored_run(&self, vpn: Vpn, order: u32) -> PageRange {
        let is_stored = |n: &u64| {
            matches!(
                self.table.lookup(Vpn::new(*n)),
                Slot::Zswap { .. } | Slot::Filled { .. }
            )
        };
        let base = vpn.number() >> order << order;
        let below = (base..vpn.number()).rev().take_while(is_stored).count() as u64;
        let above = (vpn.number() + 1..base + (1 << order)).take_while(is_stored).count() as u64;
        PageRange::new(Vpn::new(vpn.number() - below), below + 1 + above)
    }

    /// Load one page under the lock.
    fn load_alone<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        if self.frozen.is_some() || !matches!(self.table.lookup(vpn), Slot::Zswap { .. } | Slot::Filled { .. }) {
            return Fault::Retry;
        }
        self.copy_out(worker, PageRange::new(vpn, 1));
        if worker.decompress_loads() == 0 {
            mm.stat.add(Item::DecompressFail, 1);
            self.publish(vpn, Slot::Bad);
            return Fault::Lost;
        }
        match mm.machine.copy_in(vpn, worker.io().bytes(PAGE_SIZE), true).stop {
            None => {
                mm.stat.add(Item::ZswpIn, 1);
                mm.stat.add(Item::RefaultAnon, 1);
                self.publish_resident(vpn, 0);
                Fault::Served
            }
            Some(stop) => self.not_mapped(mm, vpn, stop, true),
        }
    }

    /// Pages were mapped without the lock: publish them, or leave that to the thaw if a fork's freeze began meanwhile.
    fn publish_mapped(&mut self, vpn: Vpn, pages: u64) {
        match &mut self.frozen {
            Some(log) => PageRange::new(vpn, pages).iter().for_each(|vpn| log.push_served(vpn)),
            None => self.publish_resident_run(vpn, pages),
        }
    }

    /// The aligned window of neighbours that lie in neighbouring slots of the same device.
    fn swap_run<R, M>(&self, mm: &Mm<R, M>, vpn: Vpn, device: u8, slot: u32) -> SwapRun
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        mm.stat.add(Item::PgMajFault, 1);
        let window = 1u64 << mm.config.page_cluster;
        let base = vpn.number() / window * window;
        let at = |n: u64| {
            let expected = u64::from(slot) + n - vpn.number();
            self.table.lookup(Vpn::new(n))
                == Slot::Swap {
                    device,
                    slot: expected as u32,
                }
        };
        let below = (base..vpn.number())
            .rev()
            .take_while(|n| u64::from(slot) + n >= vpn.number() && at(*n))
            .count() as u64;
        let above = (vpn.number() + 1..base + window).take_while(|n| at(*n)).count() as u64;
        SwapRun {
            first: Vpn::new(vpn.number() - below),
            device,
            slot: slot - below as u32,
            pages: (below + 1 + above) as u32,
        }
    }

    fn map_run<R, M>(&mut self, mm: &Mm<R, M>, run: SwapRun, wanted: Vpn, bytes: &[u8]) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let mut outcome = Fault::Retry;
        for (i, page) in bytes.chunks_exact(PAGE_SIZE).enumerate() {
            let vpn = run.first.add(i as u64);
            if self.table.lookup(vpn)
                != (Slot::Swap {
                    device: run.device,
                    slot: run.slot + i as u32,
                })
            {
                continue;
            }
            let done = mm.machine.copy_in(vpn, page, vpn == wanted);
            let served = match done.stop {
                None => {
                    mm.stat.add(Item::RefaultAnon, 1);
                    self.publish_resident(vpn, 0);
                    Fault::Served
                }
                Some(stop) => self.not_mapped(mm, vpn, stop, true),
            };
            if vpn == wanted {
                outcome = served;
            }
        }
        outcome
    }
}
