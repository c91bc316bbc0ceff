//! The engine: where every page of a process is, and how it gets from one place to another.
//!
//! Safe Rust without system calls: it meets pages, disk and time through [`machine::Machine`]. The agent joins it to
//! userfaultfd; [`sim`] joins it to vectors, for tests and Miri.
//!
//! # The chains
//! ```text
//! fault      Mm::fault -> begin_fault: SwapTable::lookup -> staged: Machine::move_in | zswap, device: take_along | nothing: zeros, UNDERWAY
//!              -> bring: (Machine::read_swap, open_swap,) Worker::bring_loads, Machine::copy_in -> publish_brought: SwapTable::publish
//! reclaim    Mm::shrink -> isolate (LruList, Machine::move_out, publish STAGED) -> store_oldest (Worker::compress_batch,
//!              Pools::store, publish ZSWAP, give_up_spent, Machine::drop_staged)
//! swap-out   Mm::shrink, zswap shut -> swap_out_oldest -> SwapSlots::alloc, Machine::write_swap -> publish SWAP
//! writeback  Mm::writeback -> oldest entries, as they are -> SwapSlots::alloc, Machine::write_swap -> publish SWAP
//! recompress Mm::recompress -> oldest idle entries -> decompress, compress again -> Pools::store_as -> publish ZSWAP
//! dictionary Mm::train_dictionary -> blocks of stored pages -> decompress -> acomp::Training
//! compaction Mm::compact -> Pools::begin_compaction -> SwapTable::for_each -> Pools::relocate, publish ZSWAP
//! events     Mm::change -> the words of the range are dropped or moved
//! fork       Mm::freeze -> faults are served without a change, all changes are logged -> Mm::thaw | the child starts
//! ```
//!
//! # Locking
//! One lock, [`Mm`]'s, protects all of it (the swap table has locks of its own for whoever comes without it). It is held
//! while frames are moved (microseconds), never while pages are compressed or decompressed or the device is used. Stores,
//! writeback and recompression therefore come in halves: the first marks the words (`busy`, `writeback`), the last
//! publishes only those that still carry the mark. Nobody waits for a mark: a fault on a busy page copies
//! the frame, a fault on an entry under writeback loads it, and the second half finds the word changed.
//!
//! Several threads may serve faults at a time, each with a worker of its own: what one brings without the lock is `underway`, and
//! the others leave it alone (`bring`). Changes are applied only while none of them serves a fault.
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

mod checksum;
mod config;
mod flight;
mod fork;
mod gauges;
mod lock;
pub mod machine;
pub mod page;
mod pages;
mod policy;
mod reclaim;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod swapin;
mod upkeep;
pub mod vmstat;
mod worker;
pub mod zpool;

#[cfg(test)]
mod test;

pub use config::{Config, SwapOut};
pub use fork::change::{Change, Changes};
pub use gauges::Gauges;
pub use pages::staging::UNIT;
pub use pages::swap_slots::PinId;
pub use pages::swap_table;
pub use policy::portions::Portions;
pub use reclaim::vmscan::{Effort, Scan};
pub use swapin::bring::SERVERS_MAX;
pub use swapin::fault::Fault;
pub use upkeep::dictionary::DictionaryTraining;
pub use upkeep::recompress::Idle;
pub use worker::Worker;
pub use zpool::Arena;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use lock_api::{Mutex, RawMutex};

use flight::departing::Departing;
use flight::leaving::Leaving;
use machine::Machine;
use page::{PAGE_SIZE, Vpn};
use pages::ages::Ages;
use pages::list_lru::{LruEntry, LruList, SEGMENT_PAGES, Tags};
use pages::range_set::RangeSet;
use pages::staging::Staging;
use pages::swap_slots::{self, SwapSlots};
use pages::swap_table::SwapTable;
use pages::swap_table::entry::{Slot, ZTAG_BITS, ZswapEntry};
use policy::locality::Locality;
use policy::portions;
use policy::readahead::Streams;
use policy::workingset::Balance;
use swapin::bring::Underway;
use swapin::swap_cache::Worth;
use vmstat::{Item, Vmstat};
use zpool::{PoolKind, Pools};

/// The two lists of stored folios share the tags of a ZSWAP word: even ones are those of the younger.
const ZSWAP_TAGS: Tags = Tags {
    bits: ZTAG_BITS,
    first: 0,
    stride: 2,
};
const ZSWAP_COLD_TAGS: Tags = Tags { first: 1, ..ZSWAP_TAGS };

/// The engine of one process.
pub struct Mm<R, M: Machine> {
    inner: Mutex<R, Inner<R, M::Arena>>,
    machine: M,
    stat: Vmstat,
    config: Config,
    portions: portions::Current,
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
    /// The device took not all of what was offered since the last [`tick`](Self::tick).
    device_refuses: AtomicBool,
    /// `enabled`: zswap takes pages.
    is_enabled: AtomicBool,
    /// A [`SwapOut`].
    swap_out: AtomicU8,
    shrinker_enabled: AtomicBool,
    balances: AtomicBool,
    keeps_blocks: AtomicBool,
}

/// Everything under the lock.
pub struct Inner<R, A: Arena> {
    table: SwapTable,
    managed: RangeSet,
    departing: Departing,
    /// Resident folios (`resident`).
    lru: [LruList; 5],
    /// Folios that were taken off these lists.
    pops: u32,
    /// The last page of the unevictable list that was looked at must stay.
    is_last_needed: bool,
    /// Stored folios, oldest first: those that came to rest (`recompress`), which are all older than the others.
    zswap_cold: LruList,
    zswap_lru: LruList,
    ages: Ages,
    staging: Staging,
    pool: Pools<R, A>,
    slots: SwapSlots,
    streams: Streams,
    resident: u64,
    /// Of them, pages whose blocks are kept, and pages of the active, the shared and the unevictable list.
    cached: u64,
    active: u64,
    shared: u64,
    unevictable: u64,
    /// Forked relatives have pages of this process; when the pool began to be one of them, if it still is.
    shares: bool,
    pool_shared_since: Option<u64>,
    /// When the next of them may leave for having been shared for long.
    shared_due: u64,
    /// To keep blocks, and to protect pages whose blocks are kept.
    keeping: Worth,
    protecting: Worth,
    incompressible: u64,
    /// Entries carry the `writeback` mark: of one writeback or recompression at a time.
    is_writing_back: bool,
    writes_plain: bool,
    /// memory.zswap.writeback
    may_write_back: bool,
    /// Pages read from the device that the shrinker has not heeded yet, and what it owes (`shrinker`).
    disk_swapins: u64,
    shrinker_debt: u64,
    frozen: Option<fork::Log>,
    underway: Underway,
    balance: Balance,
    leaving: Leaving,
    /// Where moves are not tried ([`Mm::note_unmovable`]).
    unmovable: RangeSet,
    locality: Locality,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// An engine that manages nothing yet.
    pub fn new(machine: M, arena: M::Arena, config: Config, stat: Vmstat) -> Self {
        let inner = Inner {
            table: SwapTable::new(machine.table_memory()),
            managed: RangeSet::default(),
            departing: Departing::new(),
            lru: pages::resident::TAGS.map(|tags| LruList::new(tags, SEGMENT_PAGES)),
            pops: 0,
            is_last_needed: false,
            zswap_cold: LruList::new(ZSWAP_COLD_TAGS, config.zswap_segment),
            zswap_lru: LruList::new(ZSWAP_TAGS, config.zswap_segment),
            ages: Ages::default(),
            staging: Staging::new(config.staging_slots),
            pool: Pools::new(config.pool, arena),
            slots: SwapSlots::new(config.swap_pages),
            streams: Streams::default(),
            resident: 0,
            cached: 0,
            active: 0,
            shared: 0,
            unevictable: 0,
            shares: false,
            pool_shared_since: None,
            shared_due: 0,
            keeping: Worth::default(),
            protecting: Worth::default(),
            incompressible: 0,
            is_writing_back: false,
            writes_plain: config.writes_plain,
            may_write_back: true,
            disk_swapins: 0,
            shrinker_debt: 0,
            frozen: None,
            underway: Underway::default(),
            balance: Balance::default(),
            leaving: Leaving::default(),
            unmovable: RangeSet::default(),
            locality: Locality::default(),
        };
        Self {
            inner: Mutex::new(inner),
            machine,
            stat,
            portions: portions::Current::new(config.portions),
            config,
            usage: AtomicU64::new(0),
            waiting_faults: AtomicU32::new(0),
            pool_limit: AtomicU64::new(u64::MAX),
            pool_accept: AtomicU64::new(u64::MAX),
            pool_reached_full: AtomicBool::new(false),
            is_enabled: AtomicBool::new(true),
            device_refuses: AtomicBool::new(false),
            swap_out: AtomicU8::new(SwapOut::Whole as u8),
            shrinker_enabled: AtomicBool::new(false),
            balances: AtomicBool::new(true),
            keeps_blocks: AtomicBool::new(true),
        }
    }

    /// Run `f` under the lock and account for what it changed.
    fn with<T>(&self, f: impl FnOnce(&mut Inner<R, M::Arena>) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = f(&mut inner);
        let usage = inner.resident + inner.staging.frames() + inner.pool.pages();
        self.usage.store(usage, Ordering::Relaxed);
        result
    }

    /// As [`with`](Self::with), for a fault: ahead of reclaim.
    fn with_for_fault<T>(&self, f: impl FnOnce(&mut Inner<R, M::Arena>) -> T) -> T {
        // Relaxed: only a hint, the lock orders everything.
        self.waiting_faults.fetch_add(1, Ordering::Relaxed);
        self.with(|inner| {
            self.waiting_faults.fetch_sub(1, Ordering::Relaxed);
            f(inner)
        })
    }

    /// As [`with`](Self::with), for reclaim: behind the faults that wait now, but not for ever.
    fn with_for_reclaim<T>(&self, f: impl FnOnce(&mut Inner<R, M::Arena>) -> T) -> T {
        self.machine
            .cond_resched(|| self.waiting_faults.load(Ordering::Relaxed) > 0);
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

    /// Have the machine know how much of the swap device is in use, and how many pages the pool has.
    pub fn tell_charges(&self) -> u64 {
        self.with(|inner| {
            self.machine.charge_swap(inner.slots.in_use(), 0);
            inner.pool.pages()
        })
    }

    /// Whether compressed pages may be written back to the device.
    pub fn set_writeback(&self, allowed: bool) {
        self.with(|inner| inner.may_write_back = allowed);
    }

    /// `memory.swap.max`, in pages.
    pub fn set_swap_max(&self, pages: u64) {
        self.with(|inner| inner.slots.set_max(pages.min(self.config.swap_pages)));
    }

    /// `enabled`: whether zswap takes pages. What is stored stays.
    pub fn set_enabled(&self, enabled: bool) {
        self.is_enabled.store(enabled, Ordering::Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// How folios leave from now on.
    pub fn set_swap_out(&self, way: SwapOut) {
        self.swap_out.store(way as u8, Ordering::Relaxed);
    }

    pub(crate) fn swap_out(&self) -> SwapOut {
        SwapOut::from_word(self.swap_out.load(Ordering::Relaxed).into())
    }

    /// Tell the lists what time it is: the age of folios is known to as much as lies between two
    /// calls. What the device refused is offered to it again.
    pub fn tick(&self) {
        let now = self.machine.now_ns();
        self.device_refuses.store(false, Ordering::Relaxed);
        self.with(|inner| {
            inner.lru.iter_mut().for_each(|list| list.set_time(now));
            inner.zswap_lru.set_time(now);
        });
    }

    /// Give the space of empty clusters of the swap device back to the filesystem. To be called now and then, by one thread.
    pub fn discard_swap(&self) {
        while let Some(first) = self.with(|inner| inner.slots.begin_discard()) {
            self.machine.discard_swap(first, swap_slots::CLUSTER);
            self.with(|inner| inner.slots.discarded(first));
        }
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

    /// In a forked child, before anything else: the locks are inherited in whatever state they were.
    #[cfg(not(loom))]
    pub fn unlock_all(&self, unlock: &impl zpool::Unlock<R>) {
        unlock.unlock(&self.inner);
        self.inner.lock().pool.unlock(unlock);
    }

    /// Bytes that `pages` pages are.
    pub const fn bytes(pages: u64) -> u64 {
        pages * PAGE_SIZE as u64
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Whether there is a device and pages may go there.
    fn drains(&self) -> bool {
        self.slots.is_present() && self.may_write_back
    }

    /// Put a folio that is in the pool on the list of stored folios; returns the tag for its words.
    fn zswap_lru_add(&mut self, vpn: Vpn, order: u32) -> u32 {
        if self.zswap_lru.needs_sweep() {
            let table = &self.table;
            self.zswap_lru.sweep(|entry| is_stored_as(table, entry));
        }
        self.zswap_lru.add_tail(vpn, order)
    }

    /// Put a folio on the list of those that came to rest.
    fn zswap_cold_add(&mut self, vpn: Vpn, order: u32) -> u32 {
        if self.zswap_cold.needs_sweep() {
            let table = &self.table;
            self.zswap_cold.sweep(|entry| is_stored_as(table, entry));
        }
        self.zswap_cold.add_tail(vpn, order)
    }

    /// The folio that was stored longest ago.
    fn oldest_stored(&mut self) -> Option<LruEntry> {
        let oldest = self.zswap_cold.oldest().or_else(|| self.zswap_lru.oldest());
        oldest.map(|(entry, _)| entry)
    }

    fn pop_oldest_stored(&mut self) {
        let _ = self.zswap_cold.pop_oldest().or_else(|| self.zswap_lru.pop_oldest());
    }

    fn nothing_stored(&self) -> bool {
        self.zswap_cold.is_empty() && self.zswap_lru.is_empty()
    }
}

/// Whether any page of a stored folio still carries its tag.
fn is_stored_as(table: &SwapTable, folio: LruEntry) -> bool {
    let carries = |slot| matches!(slot, Slot::Zswap(ZswapEntry { tag, .. }) if tag == folio.tag);
    folio.pages().any(|vpn| carries(table.lookup(vpn)))
}
