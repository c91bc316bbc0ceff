//! The engine: where every page of a process is, and how it gets from one place to another.
//!
//! Safe Rust without system calls: it meets pages, disk and time through [`machine::Machine`]. The agent joins it to
//! userfaultfd; [`sim`] joins it to vectors, for tests and Miri.
//!
//! # The chains
//! ```text
//! fault      Mm::fault -> SwapTable::lookup -> staged: Machine::move_in | zswap: Zsmalloc::read, Context::decompress,
//!              Machine::copy_in | device: Machine::read_swap, copy_in | nothing: zeros -> SwapTable::publish
//! reclaim    Mm::shrink -> isolate (LruList, Machine::move_out, publish STAGED) -> store_oldest (Context::compress,
//!              Zsmalloc::store, publish ZSWAP, Machine::drop_staged)
//! swap-out   Mm::shrink, zswap.max 0 -> swap_out_oldest -> SwapSlots::alloc, Machine::write_swap -> publish SWAP
//! writeback  Mm::writeback -> oldest entries -> decompress -> SwapSlots::alloc, Machine::write_swap -> publish SWAP
//! compaction Mm::compact -> Pools::begin_compaction -> SwapTable::for_each -> Pools::relocate, publish ZSWAP
//! events     Mm::change -> the words of the range are dropped or moved
//! fork       Mm::freeze -> faults are served without a change, all changes are logged -> Mm::thaw | the child starts
//! ```
//!
//! # Locking
//! One lock, [`Mm`]'s, protects all of it. It is held while pages are moved or copied and while a page is
//! decompressed (microseconds), never while a batch is compressed or the device is used. Compression and
//! writeback therefore come in two halves: the first marks the words (`busy`, `writeback`), the second
//! publishes only those that still carry the mark. Nobody waits for a mark: a fault on a busy page copies
//! the frame, a fault on an entry under writeback loads it, and the second half finds the word changed.
//!
//! The lock is also what keeps reclaim out while the agent reads and applies events (`Mm::change` under
//! [`Mm::with_changes`]): a mapping that was replaced must not have its new pages taken for the old ones.
//!
//! # Order
//! Bytes in the pool, then the word published, then the frame given up. On the way in: the page mapped, then the
//! word published, then the stored bytes freed. A crash or refusal between two steps leaves the older state whole.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod change;
mod compaction;
mod fault;
mod fork;
mod list_lru;
pub mod machine;
pub mod page;
mod range_set;
mod readahead;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod staging;
mod swap_out;
mod swap_slots;
pub mod swap_table;
mod vmscan;
pub mod vmstat;
mod writeback;
pub mod zpool;
mod zswap;

#[cfg(test)]
mod test;

pub use change::{Change, Changes};
pub use fault::Fault;
pub use staging::UNIT;
pub use swap_slots::PinId;
pub use vmscan::{Effort, Scan};
pub use zpool::Arena;
pub use zswap::Worker;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use lock_api::{Mutex, RawMutex};

use list_lru::{LruEntry, LruList};
use machine::Machine;
use page::{PAGE_SIZE, PageRange, Vpn};
use range_set::RangeSet;
use readahead::Streams;
use staging::Staging;
use swap_slots::SwapSlots;
use swap_table::SwapTable;
use swap_table::entry::{Slot, TAG_BITS, ZTAG_BITS};
use vmstat::{Item, Vmstat};
use zpool::{PoolKind, Pools};

/// Looks at [`Mm::waiting_faults`] before reclaim takes the lock all the same.
const YIELD_SPINS: u32 = 2000;

/// What is fixed when an engine starts.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// log2 of the pages that a fault maps at most at once (`--folio-max`).
    pub folio_order_max: u32,
    /// log2 of the pages read from the swap device, or loaded from zswap, at once (`--page-cluster`).
    pub page_cluster: u32,
    /// Pages compressed between two publications (`--batch`).
    pub store_batch: u32,
    /// Slots of the staging range.
    pub staging_slots: u32,
    /// Frames that wait for a second chance in steady state.
    pub staged_target: u64,
    /// Pages of the swap device; 0: there is none.
    pub swap_pages: u64,
    /// Allocator and compressor of the first pool.
    pub pool: PoolKind,
}

/// Sizes of one process, in pages but where named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Mapped pages under our care.
    pub resident: u64,
    /// Frames in the staging range.
    pub staged: u64,
    /// Pages of the pool.
    pub pool: u64,
    /// Pages stored in it.
    pub stored: u64,
    /// Of them, pages stored as they are.
    pub incompressible: u64,
    /// Pages on the swap device.
    pub swapped: u64,
    /// Bytes of the swap table.
    pub table_bytes: u64,
}

/// The engine of one process.
pub struct Mm<R, M: Machine> {
    inner: Mutex<R, Inner<M::Arena>>,
    machine: M,
    stat: Vmstat,
    config: Config,
    /// resident + staged + pool, in pages, as of the last change; read without the lock by the limit checks.
    usage: AtomicU64,
    /// Faults that want the lock: reclaim, which takes it again and again, lets them go first.
    waiting_faults: AtomicU32,
    /// The most pages the pool may take; the agent derives it from `max_pool_percent`.
    pool_limit: AtomicU64,
    /// Once the limit was reached, nothing more is stored until the pool is down to this (accept_threshold_percent):
    /// or every store would wait for a writeback of its own.
    pool_accept: AtomicU64,
    /// The limit was reached and the pool is not drained yet.
    pool_reached_full: AtomicBool,
}

/// Everything under the lock.
pub struct Inner<A> {
    table: SwapTable,
    managed: RangeSet,
    lru: LruList,
    zswap_lru: LruList,
    staging: Staging,
    pool: Pools<A>,
    slots: SwapSlots,
    streams: Streams,
    resident: u64,
    incompressible: u64,
    is_writing_back: bool,
    /// memory.zswap.writeback
    may_write_back: bool,
    frozen: Option<fork::Log>,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// An engine that manages nothing yet.
    pub fn new(machine: M, arena: M::Arena, config: Config, stat: Vmstat) -> Self {
        let inner = Inner {
            table: SwapTable::new(),
            managed: RangeSet::default(),
            lru: LruList::new(TAG_BITS),
            zswap_lru: LruList::new(ZTAG_BITS),
            staging: Staging::new(config.staging_slots),
            pool: Pools::new(config.pool, arena),
            slots: SwapSlots::new(config.swap_pages),
            streams: Streams::default(),
            resident: 0,
            incompressible: 0,
            is_writing_back: false,
            may_write_back: true,
            frozen: None,
        };
        Self {
            inner: Mutex::new(inner),
            machine,
            stat,
            config,
            usage: AtomicU64::new(0),
            waiting_faults: AtomicU32::new(0),
            pool_limit: AtomicU64::new(u64::MAX),
            pool_accept: AtomicU64::new(u64::MAX),
            pool_reached_full: AtomicBool::new(false),
        }
    }

    /// Run `f` under the lock and account for what it changed.
    fn with<T>(&self, f: impl FnOnce(&mut Inner<M::Arena>) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = f(&mut inner);
        let usage = inner.resident + inner.staging.frames() + inner.pool.pages();
        self.usage.store(usage, Ordering::Relaxed);
        result
    }

    /// As [`with`](Self::with), for a fault: ahead of reclaim.
    fn with_for_fault<T>(&self, f: impl FnOnce(&mut Inner<M::Arena>) -> T) -> T {
        // Relaxed: only a hint, the lock orders everything.
        self.waiting_faults.fetch_add(1, Ordering::Relaxed);
        self.with(|inner| {
            self.waiting_faults.fetch_sub(1, Ordering::Relaxed);
            f(inner)
        })
    }

    /// As [`with`](Self::with), for reclaim: behind the faults that wait now, but not for ever.
    fn with_for_reclaim<T>(&self, f: impl FnOnce(&mut Inner<M::Arena>) -> T) -> T {
        for _ in 0..YIELD_SPINS {
            if self.waiting_faults.load(Ordering::Relaxed) == 0 {
                break;
            }
            core::hint::spin_loop();
        }
        self.with(f)
    }

    /// Mapped, staged and pool pages: what counts against the limit.
    pub fn usage_pages(&self) -> u64 {
        self.usage.load(Ordering::Relaxed)
    }

    /// Set the most pages that the pools may take, and to how many they are drained once they took them.
    pub fn set_pool_limit(&self, pages: u64, accept: u64) {
        self.pool_limit.store(pages, Ordering::Relaxed);
        self.pool_accept.store(accept.min(pages), Ordering::Relaxed);
    }

    /// Whether compressed pages may be written back to the device.
    pub fn set_writeback(&self, allowed: bool) {
        self.with(|inner| inner.may_write_back = allowed);
    }

    /// Have pages stored as `kind` says from now on. What is stored stays as it is. False: not now, too many older pools
    /// have pages still.
    pub fn set_pool(&self, kind: PoolKind) -> bool {
        let switched = self.with(|inner| inner.pool.switch(kind, || self.machine.arena()));
        self.stat.add(Item::PoolSwitch, u64::from(switched));
        switched
    }

    /// What pages are stored as, and how many pools there are.
    pub fn pool(&self) -> (PoolKind, usize) {
        self.with(|inner| (inner.pool.current(), inner.pool.count()))
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The counters.
    pub fn stat(&self) -> Vmstat {
        self.stat
    }

    /// What was fixed at the start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The lock itself: a forked child inherits it in whatever state it was and must reset it.
    pub fn mutex(&self) -> &Mutex<R, Inner<M::Arena>> {
        &self.inner
    }

    /// Sizes now.
    pub fn gauges(&self) -> Gauges {
        self.with(|inner| Gauges {
            resident: inner.resident,
            staged: inner.staging.frames(),
            pool: inner.pool.pages(),
            stored: inner.pool.objects(),
            incompressible: inner.incompressible,
            swapped: inner.slots.in_use(),
            table_bytes: inner.table.bytes(),
        })
    }

    /// Bytes that `pages` pages are.
    pub const fn bytes(pages: u64) -> u64 {
        pages * PAGE_SIZE as u64
    }
}

impl<A: Arena> Inner<A> {
    /// Whether there is a device and pages may go there.
    fn drains(&self) -> bool {
        self.slots.is_present() && self.may_write_back
    }

    /// Replace the word of a page; what the old word pointed to is given up.
    fn publish(&mut self, vpn: Vpn, slot: Slot) {
        match slot {
            Slot::Resident { .. } => self.resident += 1,
            Slot::Zswap { len, .. } => self.incompressible += u64::from(len as usize == PAGE_SIZE),
            Slot::None | Slot::Staged { .. } | Slot::Filled { .. } | Slot::Swap { .. } | Slot::Bad => {}
        }
        match self.table.publish(vpn, slot) {
            Slot::Resident { .. } => self.resident -= 1,
            Slot::Zswap { handle, len, .. } => {
                self.incompressible -= u64::from(len as usize == PAGE_SIZE);
                self.pool.free(handle);
            }
            Slot::Swap { device: 0, slot } => self.slots.free(slot),
            // The frame of a staged page stays in its slot until the run is stored; the run finds the word changed.
            Slot::Swap { .. } | Slot::Staged { .. } | Slot::None | Slot::Filled { .. } | Slot::Bad => {}
        }
    }

    /// Put a page that is in the pool on the list of zswap entries; returns the tag for its word.
    fn zswap_lru_add(&mut self, vpn: Vpn) -> u32 {
        if self.zswap_lru.needs_sweep(self.pool.objects()) {
            let table = &self.table;
            self.zswap_lru
                .sweep(|entry| matches!(table.lookup(entry.vpn), Slot::Zswap { tag, .. } if tag == entry.tag));
        }
        self.zswap_lru.add_tail(vpn, 0)
    }

    /// Put a folio on the list of resident folios; returns the tag for its words.
    fn lru_add(&mut self, vpn: Vpn, order: u32) -> u32 {
        if self.lru.needs_sweep(self.resident) {
            let table = &self.table;
            let carries = |entry: LruEntry, i| {
                let LruEntry { vpn, order, tag } = entry;
                table.lookup(vpn.add(i)) == Slot::Resident { order, tag }
            };
            self.lru.sweep(|entry| (0..1 << entry.order).any(|i| carries(entry, i)));
        }
        self.lru.add_tail(vpn, order)
    }

    /// The pages `[vpn, vpn + 2^order)` are mapped: one entry on the LRU list, its tag in every word.
    fn publish_resident(&mut self, vpn: Vpn, order: u32) {
        let tag = self.lru_add(vpn, order);
        for page in PageRange::new(vpn, 1 << order).iter() {
            self.publish(page, Slot::Resident { order, tag });
        }
    }

    /// `pages` pages from `vpn` on are mapped: as many whole aligned folios as they make.
    fn publish_resident_run(&mut self, vpn: Vpn, pages: u64) {
        let (mut vpn, mut left) = (vpn, pages);
        while left > 0 {
            let order = vpn.alignment().min(left.ilog2());
            self.publish_resident(vpn, order);
            vpn = vpn.add(1 << order);
            left -= 1 << order;
        }
    }
}
