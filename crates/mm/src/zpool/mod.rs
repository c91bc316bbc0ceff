//! Pools of compressed pages: an allocator and a compressor each.
//!
//! There is one current pool, which stores go to. When the compressor or the allocator is changed at run time, a new pool
//! becomes current; the old ones stay until their last object leaves, and every object is read in the pool
//! that it is in, since its [`Handle`] names it. At most [`POOLS_MAX`] live at a time: a change beyond that
//! has to wait until one is empty.

//! # Locks
//! Which pools there are is under the engine's lock; what is in one is under locks of its own, inside the engine's: one a size
//! class in zsmalloc. So blocks are put into a pool without the engine's ([`PoolRef`]): nobody sees them before their words are
//! published, which takes it. They are read under both: a word names a block only as long as it is not replaced.

mod arena;
mod buddies;
mod fingerprints;
mod zsmalloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use lock_api::RawMutex;
use uzswap_acomp::{Codec, Compressor};

use crate::page::{PAGE_SIZE, fingerprint};
use crate::swap_table::entry::ZswapEntry;
pub use arena::{Arena, SPAN_PAGES};
use buddies::Buddies;
use zsmalloc::Zsmalloc;

/// Where an object is within its allocator: the number of a page, or of a zspage of its class, and an index.
type Place = u64;

const PLACE_BITS: u32 = 33;
const POOL_BITS: u32 = 3;
/// Pools that can live at a time.
pub const POOLS_MAX: usize = 1 << POOL_BITS;

/// A stored object: pool and place. Says nothing about its length, which the caller keeps and which is needed to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u64);

impl Handle {
    /// Bits that a handle takes in a word.
    pub const BITS: u32 = POOL_BITS + PLACE_BITS;

    fn new(pool: usize, place: Place) -> Self {
        debug_assert!(place < 1 << PLACE_BITS);
        Self((pool as u64) << PLACE_BITS | place)
    }

    fn pool(self) -> usize {
        (self.0 >> PLACE_BITS) as usize
    }

    fn place(self) -> Place {
        self.0 & ((1 << PLACE_BITS) - 1)
    }

    /// The bits, at most [`BITS`](Self::BITS) of them.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A stored page, as it lies in its pool.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// How it is read.
    pub codec: Codec,
    /// Compressed bytes with a checksum behind them, or the page as it is.
    pub bytes: &'a [u8],
    /// Of a page that is stored as it is: its fingerprint when it was stored.
    pub fingerprint: Option<u32>,
}

impl Block<'_> {
    /// Whether a page that is stored as it is has not changed. What is compressed is only known when it is decompressed.
    pub fn is_page_intact(&self) -> bool {
        self.fingerprint.is_none_or(|then| then == fingerprint(self.bytes))
    }
}

/// No memory or address space for another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

/// The allocators (`--zpool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZpoolType {
    /// Size classes in zspages: the densest.
    #[default]
    Zsmalloc,
    /// Two objects a page.
    Zbud,
    /// Three objects a page.
    Z3fold,
}

impl ZpoolType {
    /// The names, for messages.
    pub const NAMES: &str = "zsmalloc, zbud and z3fold";

    /// Every allocator, in the order of its word.
    pub const ALL: [Self; 3] = [Self::Zsmalloc, Self::Zbud, Self::Z3fold];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zsmalloc => "zsmalloc",
            Self::Zbud => "zbud",
            Self::Z3fold => "z3fold",
        }
    }

    /// The allocator of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|zpool| zpool.name() == text)
    }

    /// A word for the group file.
    pub const fn to_word(self) -> u64 {
        self as u64
    }

    /// The inverse of [`to_word`](Self::to_word); anything else reads as the default.
    pub fn from_word(word: u64) -> Self {
        Self::ALL.get(word as usize).copied().unwrap_or_default()
    }
}

impl fmt::Display for ZpoolType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An allocator of objects of 1 to 4096 bytes in spans of an arena. `len` is always that of the object.
trait Zpool {
    /// Store a copy of `bytes`; with a fingerprint if it is a whole page.
    fn store(&self, bytes: &[u8], fingerprint: Option<u32>) -> Result<Place, PoolFull>;
    /// Look at an object and its fingerprint. Nobody else gets at its neighbours meanwhile.
    fn with(&self, place: Place, len: usize, f: &mut dyn FnMut(&[u8], u32));
    /// Free an object; pages that are empty then return to the system.
    fn free(&self, place: Place, len: usize);
    /// Pages in use, unused parts included.
    fn pages(&self) -> u64;
    /// Objects stored.
    fn objects(&self) -> u64;
    /// After a fork, in both: the pages in use are shared. From now on they are read and given up, but never
    /// written, since each write would make a copy of one.
    fn inherit(&self);
    /// How many there are of them.
    fn inherited_pages(&self) -> u64 {
        0
    }
    /// Whether an object lies in such a page: to free it frees nothing.
    fn is_inherited(&self, place: Place, len: usize) -> bool;
    /// The pages in use are not shared any more: they are written again.
    fn reopen(&self);
    /// Choose what compaction would empty and return how many pages that would free. From now on nothing is stored there,
    /// and [`relocate`](Self::relocate) moves what is, until [`end_compaction`](Self::end_compaction).
    fn begin_compaction(&self) -> u64 {
        0
    }
    /// Move an object out of what compaction empties. `None`: it is not there, or there is no room elsewhere.
    fn relocate(&self, _place: Place, _len: usize) -> Option<Place> {
        None
    }
    /// What was not emptied takes objects again.
    fn end_compaction(&self) {}
    /// Whether the counting equations hold. Walks everything: for tests.
    #[cfg(test)]
    fn is_valid(&self) -> bool;
}

/// The allocators, by name.
enum Allocator<R, A: Arena> {
    Zsmalloc(Zsmalloc<R, A>),
    Zbud(Buddies<R, A, 2>),
    Z3fold(Buddies<R, A, 3>),
}

impl<R: RawMutex, A: Arena> Allocator<R, A> {
    /// An empty one.
    fn new(zpool: ZpoolType, arena: A) -> Self {
        match zpool {
            ZpoolType::Zsmalloc => Self::Zsmalloc(Zsmalloc::new(arena)),
            ZpoolType::Zbud => Self::Zbud(Buddies::new(arena)),
            ZpoolType::Z3fold => Self::Z3fold(Buddies::new(arena)),
        }
    }
}

/// What a forked child does to a lock that it may have inherited locked.
#[cfg(not(loom))]
pub trait Unlock<R> {
    /// The thread that held it does not exist in this process, and was only reading.
    fn unlock<T>(&self, mutex: &lock_api::Mutex<R, T>);
}

struct Pool<R, A: Arena> {
    allocator: Allocator<R, A>,
    kind: PoolKind,
}

impl<R: RawMutex, A: Arena> Pool<R, A> {
    fn zpool(&self) -> &dyn Zpool {
        match &self.allocator {
            Allocator::Zsmalloc(zsmalloc) => zsmalloc,
            Allocator::Zbud(zbud) => zbud,
            Allocator::Z3fold(z3fold) => z3fold,
        }
    }
}

/// What tells one pool from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKind {
    /// The allocator.
    pub zpool: ZpoolType,
    /// The compressor.
    pub compressor: Compressor,
}

/// A pool that does not go as long as this is there: for storing and compacting without the engine's lock. To be given back
/// to [`Pools::put`].
pub struct PoolRef<R, A: Arena> {
    pool: Arc<Pool<R, A>>,
    at: usize,
}

impl<R: RawMutex, A: Arena> PoolRef<R, A> {
    /// What the pool is.
    pub fn kind(&self) -> PoolKind {
        self.pool.kind
    }

    /// Store a copy of `bytes` (1 to 4096 of them).
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub fn store(&self, bytes: &[u8]) -> Result<Handle, PoolFull> {
        Ok(Handle::new(self.at, self.pool.zpool().store(bytes, None)?))
    }

    /// Store a copy of a whole page as it is, with its fingerprint.
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub fn store_page(&self, page: &[u8], fingerprint: u32) -> Result<Handle, PoolFull> {
        Ok(Handle::new(self.at, self.pool.zpool().store(page, Some(fingerprint))?))
    }

    /// As `Zpool::begin_compaction`.
    pub(crate) fn begin_compaction(&self) -> u64 {
        self.pool.zpool().begin_compaction()
    }

    /// As `Zpool::reopen`.
    pub fn reopen(&self) {
        self.pool.zpool().reopen();
    }

    /// As `Zpool::end_compaction`.
    pub(crate) fn end_compaction(&self) {
        self.pool.zpool().end_compaction();
    }
}

/// The pools of a process.
pub struct Pools<R, A: Arena> {
    pools: [Option<Arc<Pool<R, A>>>; POOLS_MAX],
    current: usize,
}

impl<R: RawMutex, A: Arena> Pools<R, A> {
    /// One empty pool in `arena`.
    pub fn new(kind: PoolKind, arena: A) -> Self {
        let mut pools = Self {
            pools: [const { None }; POOLS_MAX],
            current: 0,
        };
        pools.make(0, kind, arena);
        pools
    }

    fn make(&mut self, at: usize, kind: PoolKind, arena: A) {
        let allocator = Allocator::new(kind.zpool, arena);
        self.pools[at] = Some(Arc::new(Pool { allocator, kind }));
    }

    fn at(&self, at: usize) -> &Arc<Pool<R, A>> {
        match &self.pools[at] {
            Some(pool) => pool,
            None => unreachable!("a pool lives as long as its objects"),
        }
    }

    fn of(&self, handle: Handle) -> &Pool<R, A> {
        self.at(handle.pool())
    }

    /// What stores go to.
    pub fn current(&self) -> PoolKind {
        self.at(self.current).kind
    }

    /// The pool that stores go to.
    pub fn get_current(&self) -> PoolRef<R, A> {
        self.get(self.current)
    }

    fn get(&self, at: usize) -> PoolRef<R, A> {
        let pool = Arc::clone(self.at(at));
        PoolRef { pool, at }
    }

    /// Every pool.
    pub fn get_all(&self) -> Vec<PoolRef<R, A>> {
        let live = (0..POOLS_MAX).filter(|at| self.pools[*at].is_some());
        live.map(|at| self.get(at)).collect()
    }

    /// The caller does not need this pool any more.
    pub fn put(&mut self, pool: PoolRef<R, A>) {
        let at = pool.at;
        drop(pool);
        self.drop_if_done(at);
    }

    /// Make `kind` current, in a pool that exists or in a new one in what `arena` makes. False: not now, every slot has
    /// a pool with objects, or there is no address space.
    pub fn switch(&mut self, kind: PoolKind, arena: impl FnOnce() -> Option<A>) -> bool {
        let found = self.find_or_make(kind, arena);
        if let Some(at) = found {
            self.retire(at);
        }
        found.is_some()
    }

    fn find_or_make(&mut self, kind: PoolKind, arena: impl FnOnce() -> Option<A>) -> Option<usize> {
        let is_it = |pool: &Option<Arc<Pool<R, A>>>| pool.as_ref().is_some_and(|pool| pool.kind == kind);
        if let Some(existing) = self.pools.iter().position(is_it) {
            return Some(existing);
        }
        let empty = self.pools.iter().position(Option::is_none)?;
        self.make(empty, kind, arena()?);
        Some(empty)
    }

    /// Another pool becomes current; the old one goes at once if it is empty.
    fn retire(&mut self, current: usize) {
        let old = core::mem::replace(&mut self.current, current);
        self.drop_if_done(old);
    }

    /// An old pool goes with its last object, or with the last [`PoolRef`] if that is later: counted under the engine's lock, where
    /// alone they are made.
    fn drop_if_done(&mut self, at: usize) {
        let is_done = |pool: &Arc<Pool<R, A>>| pool.zpool().objects() == 0 && Arc::strong_count(pool) == 1;
        if at != self.current && self.pools[at].as_ref().is_some_and(is_done) {
            self.pools[at] = None;
        }
    }

    /// Store a copy of `bytes` (1 to 4096 of them), compressed as the current pool says.
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub fn store(&self, bytes: &[u8]) -> Result<Handle, PoolFull> {
        self.get_current().store(bytes)
    }

    /// Look at the `len` bytes of an object.
    pub fn with_bytes<T>(&self, handle: Handle, len: usize, f: impl FnOnce(&[u8]) -> T) -> T {
        self.with(handle, len, |bytes, _| f(bytes))
    }

    fn with<T>(&self, handle: Handle, len: usize, f: impl FnOnce(&[u8], u32) -> T) -> T {
        let (mut f, mut result) = (Some(f), None);
        let mut once = |bytes: &[u8], fingerprint| result = f.take().map(|f| f(bytes, fingerprint));
        self.of(handle).zpool().with(handle.place(), len, &mut once);
        match result {
            Some(result) => result,
            None => unreachable!("every object can be looked at"),
        }
    }

    /// Look at a stored page.
    pub fn with_block<T>(&self, entry: &ZswapEntry, f: impl FnOnce(Block<'_>) -> T) -> T {
        let codec = self.codec(entry);
        self.with(entry.handle, entry.len as usize, |bytes, fingerprint| {
            f(Block {
                codec,
                bytes,
                fingerprint: (codec == Codec::Raw).then_some(fingerprint),
            })
        })
    }

    /// Store a copy of `bytes` in the pool of `kind`, which need not be the current one; it is made if there is none, in what
    /// `arena` makes.
    ///
    /// # Errors
    /// [`PoolFull`], also when there can be no such pool now; nothing has changed then.
    pub fn store_as(
        &mut self,
        kind: PoolKind,
        bytes: &[u8],
        arena: impl FnOnce() -> Option<A>,
    ) -> Result<Handle, PoolFull> {
        let at = self.find_or_make(kind, arena).ok_or(PoolFull)?;
        let pool = self.get(at);
        let stored = pool.store(bytes);
        // One that was made for nothing would keep its place until something is freed in it.
        self.put(pool);
        stored
    }

    /// Whether an object is in the current pool.
    pub fn is_current(&self, handle: Handle) -> bool {
        handle.pool() == self.current
    }

    /// What the pool of an object is.
    pub fn kind(&self, handle: Handle) -> PoolKind {
        self.of(handle).kind
    }

    /// How an entry is read.
    fn codec(&self, entry: &ZswapEntry) -> Codec {
        match entry.len as usize {
            PAGE_SIZE => Codec::Raw,
            _ => self.kind(entry.handle).compressor.algorithm.codec(),
        }
    }

    /// Free an object of `len` bytes.
    pub fn free(&mut self, handle: Handle, len: usize) {
        self.of(handle).zpool().free(handle.place(), len);
        self.drop_if_done(handle.pool());
    }

    fn live(&self) -> impl Iterator<Item = &Pool<R, A>> {
        self.pools.iter().flatten().map(|pool| &**pool)
    }

    /// As `Zpool::inherit`, in all pools.
    pub fn inherit(&self) {
        self.live().for_each(|pool| pool.zpool().inherit());
    }

    /// As `Zpool::is_inherited`.
    pub fn is_inherited(&self, handle: Handle, len: usize) -> bool {
        self.of(handle).zpool().is_inherited(handle.place(), len)
    }

    /// In a forked child, before anything else: no lock of any pool is held.
    #[cfg(not(loom))]
    pub(crate) fn unlock(&self, unlock: &impl Unlock<R>) {
        for pool in self.live() {
            match &pool.allocator {
                Allocator::Zsmalloc(zsmalloc) => zsmalloc.unlock(unlock),
                Allocator::Zbud(zbud) => zbud.unlock(unlock),
                Allocator::Z3fold(z3fold) => z3fold.unlock(unlock),
            }
        }
    }

    /// As `Zpool::begin_compaction`, in all pools.
    pub fn begin_compaction(&self) -> u64 {
        self.live().map(|pool| pool.zpool().begin_compaction()).sum()
    }

    /// As `Zpool::relocate`.
    pub fn relocate(&self, handle: Handle, len: usize) -> Option<Handle> {
        let place = self.of(handle).zpool().relocate(handle.place(), len)?;
        Some(Handle::new(handle.pool(), place))
    }

    /// As `Zpool::end_compaction`, in all pools.
    pub fn end_compaction(&self) {
        self.live().for_each(|pool| pool.zpool().end_compaction());
    }

    /// Pools that live.
    pub fn count(&self) -> usize {
        self.live().count()
    }

    /// Pages in use by all pools: what they cost.
    pub fn pages(&self) -> u64 {
        self.live().map(|pool| pool.zpool().pages()).sum()
    }

    /// Pages in use, for the limit of the pool: of those that a relative has too, half.
    pub fn charged_pages(&self) -> u64 {
        let inherited: u64 = self.live().map(|pool| pool.zpool().inherited_pages()).sum();
        self.pages().saturating_sub(inherited / 2)
    }

    /// Objects stored.
    pub fn objects(&self) -> u64 {
        self.live().map(|pool| pool.zpool().objects()).sum()
    }
}

#[cfg(test)]
mod test;
