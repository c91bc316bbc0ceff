//! Faults: give a page back.

use lock_api::RawMutex;

use crate::machine::{IoBuffer, Machine, Stop};
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::zsmalloc::Arena;
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

/// The next thing to do for a fault.
enum Step {
    Done(Fault),
    /// Read this run of pages from the device, without the lock, and come back.
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
            Step::Read(run) => self.read_in(worker, run, vpn),
        };
        self.stat.record_load(self.machine.now_ns().saturating_sub(started));
        outcome
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
            self.with(|inner| inner.publish(wanted, Slot::Bad));
            return Fault::Lost;
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
            Slot::None => self.first_touch(mm, vpn),
            Slot::Resident { .. } => self.map_zero_page(mm, vpn),
            Slot::Staged { .. } => self.take_back(mm, vpn),
            Slot::Zswap { .. } | Slot::Zero => self.load(mm, worker, vpn),
            Slot::Swap { device, slot } => return Step::Read(self.swap_run(mm, vpn, device, slot)),
            Slot::Bad => Fault::Lost,
        })
    }

    /// A page that was never touched: zeros, as many as a run of first touches is worth.
    fn first_touch<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        if !self.managed.covers(PageRange::new(vpn, 1)) {
            return self.map_zero_page(mm, vpn);
        }
        let max = mm.config.folio_order_max;
        let mut order = self.streams.window(vpn, max);
        let untouched = |inner: &Self, range: PageRange| {
            inner.managed.covers(range) && range.iter().all(|page| inner.table.lookup(page) == Slot::None)
        };
        while order > 0 && !untouched(self, PageRange::new(vpn, 1 << order)) {
            order -= 1;
        }
        let (mut mapped, mut stop) = self.map_zeros(mm, vpn, order);
        if mapped == 0 && order > 0 && stop == Some(Stop::Unmovable) {
            // The window spans two mappings, which the kernel refuses as a whole.
            (mapped, stop) = self.map_zeros(mm, vpn, 0);
        }
        self.publish_resident_run(vpn, mapped);
        self.streams.advance(vpn, mapped.max(1), max);
        match (mapped, stop) {
            // Not adopted when it turns out to be mapped: a madvise whose event was applied may be about to drop it.
            (0, Some(stop)) => self.not_mapped(mm, vpn, stop, false),
            _ => Fault::Served,
        }
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

    /// Map zeros at the `2^order` pages from `vpn` on; how many, and what stopped the rest.
    fn map_zeros<R, M>(&self, mm: &Mm<R, M>, vpn: Vpn, order: u32) -> (u64, Option<Stop>)
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let mut mapped = 0u64;
        loop {
            let pages = ((1 << order) - mapped).min(u64::from(crate::UNIT));
            let done = mm
                .machine
                .copy_in(vpn.add(mapped), &ZEROS[..pages as usize * PAGE_SIZE], true);
            mapped += u64::from(done.pages);
            if done.stop.is_some() || mapped >= 1 << order {
                return (mapped, done.stop);
            }
            if done.pages == 0 {
                return (mapped, Some(Stop::Again));
            }
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
            0 => crate::machine::Done::none(Stop::Busy),
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

    /// A stored page and its stored neighbours in the aligned window: decompressed into one buffer, mapped in one go,
    /// published as folios. The window is at least [`CLUSTER_MIN`] and grows while faults come in sequence.
    fn load<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        mm.stat.add(Item::PgMajFault, 1);
        let max = mm.config.page_cluster;
        let order = self.streams.order(vpn, max).max(CLUSTER_MIN.min(max));
        let run = self.stored_run(vpn, order);
        if run.pages() == 1 {
            let fault = self.load_page(mm, worker, vpn);
            self.streams.advance(vpn, 1, max);
            return fault;
        }
        let loaded = self.load_run(mm, worker, run);
        self.streams
            .advance(vpn, loaded.saturating_sub(vpn.number() - run.start.number()).max(1), max);
        if run.start.add(loaded) > vpn {
            return Fault::Served;
        }
        // Something in front of it stands in the way.
        self.load_page(mm, worker, vpn)
    }

    /// The stored pages around `vpn` in its aligned window of `2^order` pages.
    fn stored_run(&self, vpn: Vpn, order: u32) -> PageRange {
        let is_stored = |n: &u64| matches!(self.table.lookup(Vpn::new(*n)), Slot::Zswap { .. } | Slot::Zero);
        let base = vpn.number() >> order << order;
        let below = (base..vpn.number()).rev().take_while(is_stored).count() as u64;
        let above = (vpn.number() + 1..base + (1 << order)).take_while(is_stored).count() as u64;
        PageRange::new(Vpn::new(vpn.number() - below), below + 1 + above)
    }

    /// Load a run of stored pages; returns how many from its start on are mapped now.
    fn load_run<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, run: PageRange) -> u64
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let (mut pages, mut zeros) = (0, 0);
        for vpn in run.iter() {
            let is_there = match self.table.lookup(vpn) {
                Slot::Zero => {
                    zeros += 1;
                    worker.zero_page()
                }
                Slot::Zswap { handle, len, .. } => worker.decompress(self.pool.read(handle, len as usize)),
                _ => false,
            };
            if !is_there {
                break;
            }
            worker.page_to_io(pages);
            pages += 1;
        }
        let bytes = worker.io().bytes(pages * PAGE_SIZE);
        let mapped = u64::from(mm.machine.copy_in(run.start, bytes, true).pages);
        self.publish_resident_run(run.start, mapped);
        let zeros = zeros.min(mapped);
        mm.stat.add(Item::SwpInZero, zeros);
        mm.stat.add(Item::ZswpIn, mapped - zeros);
        mm.stat.add(Item::RefaultAnon, mapped);
        mm.stat.add(Item::SwapRa, mapped.saturating_sub(1));
        mapped
    }

    /// Load one page from zswap: bytes out of the pool, page mapped, word published, stored bytes freed.
    fn load_page<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, vpn: Vpn) -> Fault
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let (done, item) = match self.table.lookup(vpn) {
            Slot::Zero => (mm.machine.copy_in(vpn, &ZEROS[..PAGE_SIZE], true), Item::SwpInZero),
            Slot::Zswap { handle, len, .. } => {
                let block = self.pool.read(handle, len as usize);
                if len as usize == PAGE_SIZE {
                    (mm.machine.copy_in(vpn, block, true), Item::ZswpIn)
                } else if worker.decompress(block) {
                    (mm.machine.copy_in(vpn, worker.page(), true), Item::ZswpIn)
                } else {
                    mm.stat.add(Item::DecompressFail, 1);
                    self.publish(vpn, Slot::Bad);
                    return Fault::Lost;
                }
            }
            Slot::None | Slot::Resident { .. } | Slot::Staged { .. } | Slot::Swap { .. } | Slot::Bad => {
                return Fault::Retry;
            }
        };
        match done.stop {
            None => {
                mm.stat.add(item, 1);
                mm.stat.add(Item::RefaultAnon, 1);
                self.publish_resident(vpn, 0);
                Fault::Served
            }
            Some(stop) => self.not_mapped(mm, vpn, stop, true),
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
