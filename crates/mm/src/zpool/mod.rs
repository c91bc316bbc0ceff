//! Pools of compressed pages: an allocator and a compressor each.
//!
//! There is one current pool, which stores go to. When the compressor or the allocator is changed at run time, a new pool
//! becomes current; the old ones stay until their last object leaves, and every object is read in the pool
//! that it is in, since its [`Handle`] names it. At most [`POOLS_MAX`] live at a time: a change beyond that
//! has to wait until one is empty.

mod buddies;
mod zsmalloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use uzswap_acomp::{Codec, Compressor};

use crate::page::{PAGE_SIZE, fingerprint};
use crate::swap_table::entry::ZswapEntry;
use buddies::Buddies;
use zsmalloc::Zsmalloc;

/// Memory that a pool grows in: one range of address space, backed page by page as it is first written.
pub trait Arena: Send + 'static {
    /// Pages of address space.
    fn pages(&self) -> usize;
    /// Bytes `[offset, offset + len)`.
    fn bytes(&self, offset: usize, len: usize) -> &[u8];
    /// The same, for writing.
    fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8];
    /// Copy `len` bytes from one offset to another; the two do not overlap.
    fn copy(&mut self, from: usize, to: usize, len: usize);
    /// Pages `[first, first + pages)` are not needed any more; they read as zeros or old bytes later.
    fn release(&mut self, first: usize, pages: usize);
}

/// Where an object is within its allocator: a small page or zspage number and an index.
type Place = u64;

const PLACE_BITS: u32 = 33;
const POOL_BITS: u32 = 3;
/// Pools that can live at a time.
pub const POOLS_MAX: usize = 1 << POOL_BITS;

/// A stored object: pool and place. Says nothing about its length, which the caller keeps.
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

/// An allocator of objects of 1 to 4096 bytes in pages of an arena.
trait Zpool<A> {
    /// Store a copy of `bytes`.
    fn store(&mut self, bytes: &[u8]) -> Result<Place, PoolFull>;
    /// The first `len` bytes of an object.
    fn read(&self, place: Place, len: usize) -> &[u8];
    /// A number of an object of a whole page that no other object has as long as it lives; small ones first.
    fn page_number(&self, place: Place) -> usize;
    /// Free an object; pages that are empty then return to the system.
    fn free(&mut self, place: Place);
    /// Pages in use, unused parts included.
    fn pages(&self) -> u64;
    /// Objects stored.
    fn objects(&self) -> u64;
    /// In a forked child: the pages in use are shared with the parent. From now on they are read and given up, but never
    /// written, since each write would make a copy of one.
    fn inherit(&mut self);
    /// Choose what compaction would empty and return how many pages that would free. From now on nothing is stored there,
    /// and [`relocate`](Self::relocate) moves what is, until [`end_compaction`](Self::end_compaction).
    fn begin_compaction(&mut self) -> u64 {
        0
    }
    /// Move an object out of what compaction empties. `None`: it is not there, or there is no room elsewhere.
    fn relocate(&mut self, _place: Place, _len: usize) -> Option<Place> {
        None
    }
    /// What was not emptied takes objects again.
    fn end_compaction(&mut self) {}
    /// Whether the counting equations hold. Walks everything: for tests.
    #[cfg(test)]
    fn is_valid(&self) -> bool;
}

/// An empty allocator.
fn make<A: Arena>(zpool: ZpoolType, arena: A) -> Box<dyn Zpool<A> + Send> {
    match zpool {
        ZpoolType::Zsmalloc => Box::new(Zsmalloc::new(arena)),
        ZpoolType::Zbud => Box::new(Buddies::<A, 2>::new(arena)),
        ZpoolType::Z3fold => Box::new(Buddies::<A, 3>::new(arena)),
    }
}

struct Pool<A> {
    zpool: Box<dyn Zpool<A> + Send>,
    kind: PoolKind,
    /// By [`Zpool::page_number`]: the fingerprints of pages that are stored as they are. There is no room for one behind a page.
    fingerprints: Vec<u32>,
}

/// Fingerprints that room is made for at once, at least.
const FINGERPRINTS_MORE: usize = 256;

impl<A: Arena> Pool<A> {
    fn new(kind: PoolKind, arena: A) -> Self {
        Self {
            zpool: make(kind.zpool, arena),
            kind,
            fingerprints: Vec::new(),
        }
    }

    fn set_fingerprint(&mut self, place: Place, fingerprint: u32) {
        let at = self.zpool.page_number(place);
        let len = self.fingerprints.len();
        if at >= len {
            // An eighth more, not twice as much: metadata is paid for by every page.
            let more = (at + 1 - len).max(len / 8).max(FINGERPRINTS_MORE);
            self.fingerprints.reserve_exact(more);
            self.fingerprints.resize(len + more, 0);
        }
        self.fingerprints[at] = fingerprint;
    }

    fn fingerprint(&self, place: Place) -> u32 {
        let at = self.zpool.page_number(place);
        self.fingerprints.get(at).copied().unwrap_or(0)
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

/// The pools of a process.
pub struct Pools<A> {
    pools: [Option<Pool<A>>; POOLS_MAX],
    current: usize,
}

impl<A: Arena> Pools<A> {
    /// One empty pool in `arena`.
    pub fn new(kind: PoolKind, arena: A) -> Self {
        let mut pools = [const { None }; POOLS_MAX];
        pools[0] = Some(Pool::new(kind, arena));
        Self { pools, current: 0 }
    }

    fn at(&self, handle: Handle) -> &Pool<A> {
        match &self.pools[handle.pool()] {
            Some(pool) => pool,
            None => unreachable!("a pool lives as long as its objects"),
        }
    }

    /// What stores go to.
    pub fn current(&self) -> PoolKind {
        self.at(Handle::new(self.current, 0)).kind
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
        let position = |is_it: &dyn Fn(&Option<Pool<A>>) -> bool| self.pools.iter().position(is_it);
        if let Some(existing) = position(&|pool| pool.as_ref().is_some_and(|pool| pool.kind == kind)) {
            return Some(existing);
        }
        let empty = position(&Option::is_none)?;
        self.pools[empty] = Some(Pool::new(kind, arena()?));
        Some(empty)
    }

    /// Another pool becomes current; the old one goes at once if it is empty.
    fn retire(&mut self, current: usize) {
        let old = core::mem::replace(&mut self.current, current);
        self.drop_if_done(old);
    }

    fn drop_if_done(&mut self, at: usize) {
        let is_empty = self.pools[at].as_ref().is_some_and(|pool| pool.zpool.objects() == 0);
        if is_empty && at != self.current {
            self.pools[at] = None;
        }
    }

    /// Store a copy of `bytes` (1 to 4096 of them), compressed as the current pool says.
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub fn store(&mut self, bytes: &[u8]) -> Result<Handle, PoolFull> {
        let current = self.current;
        let pool = self.pools[current].as_mut().ok_or(PoolFull)?;
        Ok(Handle::new(current, pool.zpool.store(bytes)?))
    }

    /// Store a copy of a whole page as it is, with its fingerprint.
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub fn store_page(&mut self, page: &[u8], fingerprint: u32) -> Result<Handle, PoolFull> {
        let handle = self.store(page)?;
        if let Some(pool) = &mut self.pools[handle.pool()] {
            pool.set_fingerprint(handle.place(), fingerprint);
        }
        Ok(handle)
    }

    /// The first `len` bytes of an object.
    pub fn read(&self, handle: Handle, len: usize) -> &[u8] {
        self.at(handle).zpool.read(handle.place(), len)
    }

    /// A stored page.
    pub fn block(&self, entry: &ZswapEntry) -> Block<'_> {
        let codec = self.codec(entry);
        let fingerprint = || self.at(entry.handle).fingerprint(entry.handle.place());
        Block {
            codec,
            bytes: self.read(entry.handle, entry.len as usize),
            fingerprint: (codec == Codec::Raw).then(fingerprint),
        }
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
        let pool = self.pools[at].as_mut().ok_or(PoolFull)?;
        let stored = pool.zpool.store(bytes);
        // One that was made for nothing would keep its place until something is freed in it.
        self.drop_if_done(at);
        Ok(Handle::new(at, stored?))
    }

    /// Whether an object is in the current pool.
    pub fn is_current(&self, handle: Handle) -> bool {
        handle.pool() == self.current
    }

    /// What the pool of an object is.
    pub fn kind(&self, handle: Handle) -> PoolKind {
        self.at(handle).kind
    }

    /// How an entry is read.
    fn codec(&self, entry: &ZswapEntry) -> Codec {
        match entry.len as usize {
            PAGE_SIZE => Codec::Raw,
            _ => self.kind(entry.handle).compressor.algorithm.codec(),
        }
    }

    /// Free an object.
    pub fn free(&mut self, handle: Handle) {
        if let Some(pool) = &mut self.pools[handle.pool()] {
            pool.zpool.free(handle.place());
        }
        self.drop_if_done(handle.pool());
    }

    /// As [`Zpool::inherit`], in all pools.
    pub fn inherit(&mut self) {
        self.pools.iter_mut().flatten().for_each(|pool| pool.zpool.inherit());
    }

    /// As [`Zpool::begin_compaction`], in all pools.
    pub fn begin_compaction(&mut self) -> u64 {
        self.pools
            .iter_mut()
            .flatten()
            .map(|pool| pool.zpool.begin_compaction())
            .sum()
    }

    /// As [`Zpool::relocate`].
    pub fn relocate(&mut self, handle: Handle, len: usize) -> Option<Handle> {
        let pool = self.pools[handle.pool()].as_mut()?;
        let fingerprint = (len == PAGE_SIZE).then(|| pool.fingerprint(handle.place()));
        let place = pool.zpool.relocate(handle.place(), len)?;
        if let Some(fingerprint) = fingerprint {
            pool.set_fingerprint(place, fingerprint);
        }
        Some(Handle::new(handle.pool(), place))
    }

    /// As [`Zpool::end_compaction`], in all pools.
    pub fn end_compaction(&mut self) {
        self.pools
            .iter_mut()
            .flatten()
            .for_each(|pool| pool.zpool.end_compaction());
    }

    /// Pools that live.
    pub fn count(&self) -> usize {
        self.pools.iter().flatten().count()
    }

    /// Pages in use by all pools: what they cost.
    pub fn pages(&self) -> u64 {
        self.pools.iter().flatten().map(|pool| pool.zpool.pages()).sum()
    }

    /// Objects stored.
    pub fn objects(&self) -> u64 {
        self.pools.iter().flatten().map(|pool| pool.zpool.objects()).sum()
    }
}

#[cfg(test)]
mod test;
