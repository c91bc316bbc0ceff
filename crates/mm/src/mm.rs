//! The engine of one process: what is under its lock, and what is read without.

use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use lock_api::{Mutex, RawMutex};
use uzswap_acomp::Compressor;

use crate::config::{Config, SwapOut};
use crate::flight::Flight;
use crate::machine::Machine;
use crate::page::{PAGE_SIZE, Vpn};
use crate::pages::swap_table::SwapTable;
use crate::pages::swap_table::entry::Slot;
use crate::pages::{Pages, swap_slots};
use crate::policy::Policy;
use crate::policy::portions::{Current, Portions};
use crate::policy::tunables::Tunables;
use crate::vmstat::{Item, Vmstat};
use crate::zpool::{Arena, PoolKind};

/// The engine of one process.
pub struct Mm<R, M: Machine> {
    pub(crate) inner: Mutex<R, Inner<R, M::Arena>>,
    /// As in [`Pages`], for threads that look up without the lock.
    table: Arc<SwapTable>,
    pub(crate) machine: M,
    pub(crate) stat: Vmstat,
    pub(crate) config: Config,
    pub(crate) portions: Current,
    /// resident + staged + pool, in pages, as of the last change; read without the lock by the
    /// limit checks.
    pub(crate) usage: AtomicU64,
    /// Faults that want the lock: reclaim, which takes it again and again, lets them go first.
    pub(crate) waiting_faults: AtomicU32,
    /// The most pages the pool may take; the agent derives it from `max_pool_percent`.
    pub(crate) pool_limit: AtomicU64,
    /// Once the limit was reached, nothing more is stored until the pool is down to this
    /// (accept_threshold_percent): or every store would wait for a writeback of its own.
    pub(crate) pool_accept: AtomicU64,
    /// The limit was reached and the pool is not drained yet.
    pub(crate) pool_reached_full: AtomicBool,
    /// The device took not all of what was offered since the last [`tick`](Self::tick).
    pub(crate) device_refuses: AtomicBool,
    /// `enabled`: zswap takes pages.
    pub(crate) is_enabled: AtomicBool,
    /// A [`SwapOut`].
    pub(crate) swap_out: AtomicU8,
    pub(crate) shrinker_enabled: AtomicBool,
    pub(crate) balances: AtomicBool,
    pub(crate) keeps_blocks: AtomicBool,
    /// `page_cluster`: log2 of pages.
    pub(crate) page_cluster: AtomicU32,
    /// Living processes that may have pages of ours.
    pub(crate) relatives: AtomicU64,
}

/// Everything under the lock.
pub struct Inner<R, A: Arena> {
    pub(crate) pages: Pages<R, A>,
    pub(crate) policy: Policy,
    pub(crate) flight: Flight,
}

/// The engine's lock is held: what is under it, and all else.
pub(crate) struct Held<'a, R, M: Machine> {
    inner: &'a mut Inner<R, M::Arena>,
    pub(crate) mm: &'a Mm<R, M>,
}

impl<R, M: Machine> Held<'_, R, M> {
    /// As it is, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Held<'_, R, M> {
        Held {
            inner: self.inner,
            mm: self.mm,
        }
    }
}

impl<R, M: Machine> Deref for Held<'_, R, M> {
    type Target = Inner<R, M::Arena>;

    fn deref(&self) -> &Self::Target {
        self.inner
    }
}

impl<R, M: Machine> DerefMut for Held<'_, R, M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.inner
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// An engine that manages nothing yet.
    pub fn new(machine: M, arena: M::Arena, config: Config, stat: Vmstat) -> Self {
        let inner = Inner {
            pages: Pages::new(machine.table_memory(), arena, &config),
            policy: Policy::new(config.tunables, config.replacement, config.writes_plain),
            flight: Flight::default(),
        };
        Self {
            table: inner.pages.table.clone(),
            inner: Mutex::new(inner),
            machine,
            stat,
            portions: Current::new(config.portions),
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
            page_cluster: AtomicU32::new(config.page_cluster),
            relatives: AtomicU64::new(0),
        }
    }

    /// Run `f` under the lock and account for what it changed.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Held<'_, R, M>) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = f(&mut Held {
            inner: &mut inner,
            mm: self,
        });
        let usage = inner.pages.counts.resident + inner.pages.staging.frames() + inner.pages.pool.pages();
        self.usage.store(usage, Ordering::Relaxed);
        self.machine.end_moves();
        result
    }

    /// As [`with`](Self::with), for a fault: ahead of reclaim.
    pub(crate) fn with_for_fault<T>(&self, f: impl FnOnce(&mut Held<'_, R, M>) -> T) -> T {
        // Relaxed: only a hint, the lock orders everything.
        self.waiting_faults.fetch_add(1, Ordering::Relaxed);
        self.with(|inner| {
            self.waiting_faults.fetch_sub(1, Ordering::Relaxed);
            f(inner)
        })
    }

    /// As [`with`](Self::with), for reclaim: behind the faults that wait now, but not for ever.
    pub(crate) fn with_for_reclaim<T>(&self, f: impl FnOnce(&mut Held<'_, R, M>) -> T) -> T {
        self.machine
            .cond_resched(|| self.waiting_faults.load(Ordering::Relaxed) > 0);
        self.with(f)
    }

    /// Panics unless all that is counted is what the words say.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn assert_valid(&self) {
        self.with(|inner| inner.pages.assert_valid());
    }

    /// Mapped, staged and pool pages: what counts against the limit.
    pub fn usage_pages(&self) -> u64 {
        self.usage.load(Ordering::Relaxed)
    }

    /// Set the most pages that the pools may take, and to how many they are drained once they took
    /// them.
    pub fn set_pool_limit(&self, pages: u64, accept: u64) {
        self.pool_limit.store(pages, Ordering::Relaxed);
        self.pool_accept.store(accept.min(pages), Ordering::Relaxed);
    }

    /// Tell the machine how many slots of the swap device are in use. Returns the pages of the
    /// pool.
    pub fn charge_swap_in_use(&self) -> u64 {
        self.with(|inner| {
            self.machine.charge_swap(inner.pages.slots.in_use(), 0);
            inner.pages.pool.pages()
        })
    }

    /// Whether compressed pages may be written back to the device.
    pub fn set_writeback(&self, allowed: bool) {
        self.with(|inner| inner.policy.may_write_back = allowed);
    }

    /// `memory.swap.max`, in pages.
    pub fn set_swap_max(&self, pages: u64) {
        self.with(|inner| inner.pages.slots.set_max(pages.min(self.config.swap_pages)));
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
    /// calls, and what was waited for is forgotten. What the device refused is offered to it again.
    pub fn tick(&self) {
        let now = self.machine.now_ns();
        self.device_refuses.store(false, Ordering::Relaxed);
        self.with(|inner| {
            inner.pages.lru.iter_mut().for_each(|list| list.set_time(now));
            inner.pages.stored.recent.set_time(now);
            inner.policy.shortfall.set_time(now);
        });
    }

    /// Give the space of empty clusters of the swap device back to the filesystem. To be called now
    /// and then, by one thread.
    pub fn discard_swap(&self) {
        while let Some(first) = self.with(|inner| inner.pages.slots.begin_discard()) {
            self.machine.discard_swap(first, swap_slots::CLUSTER);
            self.with(|inner| inner.pages.slots.discarded(first));
        }
    }

    /// Have pages stored as `kind` says from now on. What is stored stays as it is. False: not now,
    /// too many older pools have pages still.
    pub fn set_pool(&self, kind: PoolKind) -> bool {
        let switched = self.with(|inner| inner.pages.pool.switch(kind, || self.machine.arena()));
        self.stat.add(Item::PoolSwitch, u64::from(switched));
        switched
    }

    /// Let stores use a denser compressor than that of [`set_pool`](Self::set_pool) as well, where
    /// frames are worth it (`policy::density`).
    pub fn set_dense(&self, compressor: Option<Compressor>) {
        self.with(|inner| inner.pages.pool.set_dense(compressor));
    }

    /// What pages are stored as, and how many pools there are.
    pub fn pool(&self) -> (PoolKind, usize) {
        self.with(|inner| (inner.pages.pool.current(), inner.pages.pool.count()))
    }

    /// Where the contents of a page are now.
    pub fn slot(&self, page: Vpn) -> Slot {
        self.with(|inner| inner.pages.table.lookup(page))
    }

    /// As [`slot`](Self::slot), without the lock: any thread may ask, and the page may be elsewhere
    /// by then.
    pub fn lookup(&self, page: Vpn) -> Slot {
        self.table.lookup(page)
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The counters.
    pub fn stat(&self) -> Vmstat {
        self.stat
    }

    /// What is decided by.
    pub(crate) fn tunables(&self) -> &'static Tunables {
        self.config.tunables
    }

    /// What was fixed at the start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// In a forked child, before anything else: the locks are inherited in whatever state they
    /// were.
    #[cfg(not(loom))]
    pub fn unlock_all(&self, unlock: &impl crate::zpool::Unlock<R>) {
        unlock.unlock(&self.inner);
        self.inner.lock().pages.pool.unlock(unlock);
    }

    /// Bytes that `pages` pages are.
    pub const fn bytes(pages: u64) -> u64 {
        pages * PAGE_SIZE as u64
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Whether there is a device and pages may go there.
    pub(crate) fn drains(&self) -> bool {
        self.pages.slots.is_present() && self.policy.may_write_back
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// `pages` are there to work with, from the next time on that this is said, if it is more than
    /// before. To be said now and then, by one thread.
    pub fn fit_portions(&self, pages: u64) {
        let portions = self.tunables().portions(pages).min(self.config.portions);
        self.portions.set(portions);
    }

    /// Pages mapped that can leave, and staged. `None`: too many are staged, so that some were in
    /// the portions of before, and are stored so.
    pub fn workable_pages(&self) -> Option<u64> {
        self.with(|inner| {
            let (reclaimable, staged) = (inner.reclaimable(), inner.pages.staging.frames());
            (staged <= reclaimable).then_some(reclaimable + staged)
        })
    }

    /// How much may move at a time.
    pub fn portions(&self) -> Portions {
        let [now, before] = self.portions.both();
        now.min(before)
    }

    /// How much room must be left for.
    pub fn portions_expected(&self) -> Portions {
        let [now, before] = self.portions.both();
        now.max(before)
    }

    /// log2 of the pages that one fault loads at most: a cluster of neighbours, or as many as a
    /// folio has while faults follow a pattern.
    pub(crate) fn load_order_max(&self) -> u32 {
        match self.page_cluster() {
            0 => 0,
            cluster => cluster.max(self.portions().folio_order),
        }
    }

    /// log2 of the pages that are loaded together out of sequence, if they are worth it. A read of
    /// the device costs as much as many pages.
    pub(crate) fn cluster(&self, is_on_device: bool) -> u32 {
        match is_on_device {
            true => self.page_cluster(),
            false => self
                .page_cluster()
                .min(self.config.tunables.neighbours.pool_cluster_max),
        }
    }

    /// log2 of the pages that are read from the swap device, or loaded from zswap, at once.
    pub fn page_cluster(&self) -> u32 {
        self.page_cluster.load(Ordering::Relaxed)
    }

    /// `page_cluster`. Values above [`PAGE_CLUSTER_MAX`](crate::PAGE_CLUSTER_MAX) stand for that.
    pub fn set_page_cluster(&self, order: u32) {
        self.page_cluster
            .store(order.min(crate::PAGE_CLUSTER_MAX), Ordering::Relaxed);
    }
}
