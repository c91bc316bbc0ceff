//! The pools of a process: the one that stores go to, and those that live until their last object
//! leaves.

use alloc::sync::Arc;
use alloc::vec::Vec;

use lock_api::RawMutex;
use uzswap_acomp::{Codec, Compressor};

#[cfg(not(loom))]
use super::Unlock;
use super::{Allocator, Arena, Block, Handle, POOLS_MAX, PoolFull, PoolKind, Zpool};
use crate::page::PAGE_SIZE;

pub(super) struct Pool<R, A: Arena> {
    pub(super) allocator: Allocator<R, A>,
    pub(super) kind: PoolKind,
}

impl<R: RawMutex, A: Arena> Pool<R, A> {
    pub(super) fn zpool(&self) -> &dyn Zpool {
        match &self.allocator {
            Allocator::Zsmalloc(zsmalloc) => zsmalloc,
            Allocator::Zbud(zbud) => zbud,
            Allocator::Z3fold(z3fold) => z3fold,
        }
    }

    fn with<T>(&self, handle: Handle, len: usize, f: impl FnOnce(&[u8], u32) -> T) -> T {
        let (mut f, mut result) = (Some(f), None);
        let mut once = |bytes: &[u8], fingerprint| result = f.take().map(|f| f(bytes, fingerprint));
        self.zpool().with(handle.place(), len, &mut once);
        match result {
            Some(result) => result,
            None => unreachable!("every object can be looked at"),
        }
    }

    fn with_block<T>(&self, handle: Handle, len: usize, f: impl FnOnce(Block<'_>) -> T) -> T {
        let codec = self.codec(len);
        self.with(handle, len, |bytes, fingerprint| {
            f(Block {
                codec,
                bytes,
                fingerprint: (codec == Codec::Raw).then_some(fingerprint),
            })
        })
    }

    /// How an object of `len` bytes is read.
    fn codec(&self, len: usize) -> Codec {
        match len {
            PAGE_SIZE => Codec::Raw,
            _ => self.kind.compressor.algorithm.codec(),
        }
    }
}

/// A pool that does not go as long as this is there: for storing and compacting without the
/// engine's lock. To be given back to [`Pools::put`], or kept in place of them all. Who reads,
/// frees or moves an object sees to it that nobody else frees or moves it meanwhile.
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

    /// Look at a stored page, an object of `len` bytes of this pool.
    pub fn with_block<T>(&self, handle: Handle, len: usize, f: impl FnOnce(Block<'_>) -> T) -> T {
        assert_eq!(handle.pool(), self.at, "an object of another pool");
        self.pool.with_block(handle, len, f)
    }

    /// Free an object of `len` bytes of this pool.
    pub fn free(&self, handle: Handle, len: usize) {
        assert_eq!(handle.pool(), self.at, "an object of another pool");
        self.pool.zpool().free(handle.place(), len);
    }

    /// Pages in use: what the pool costs.
    pub fn pages(&self) -> u64 {
        self.pool.zpool().pages()
    }

    /// As `Zpool::begin_compaction`.
    pub fn begin_compaction(&self) -> u64 {
        self.pool.zpool().begin_compaction()
    }

    /// As `Zpool::relocate`, of an object of this pool.
    pub fn relocate(&self, handle: Handle, len: usize) -> Option<Handle> {
        assert_eq!(handle.pool(), self.at, "an object of another pool");
        let place = self.pool.zpool().relocate(handle.place(), len)?;
        Some(Handle::new(self.at, place))
    }

    /// As `Zpool::reopen_some`.
    pub fn reopen_some(&self) -> bool {
        self.pool.zpool().reopen_some()
    }

    /// As `Zpool::end_compaction`.
    pub fn end_compaction(&self) {
        self.pool.zpool().end_compaction();
    }
}

/// The pools of a process.
pub struct Pools<R, A: Arena> {
    pools: [Option<Arc<Pool<R, A>>>; POOLS_MAX],
    current: usize,
    /// A denser compressor than the current pool's, that stores may use instead.
    dense: Option<Compressor>,
}

impl<R: RawMutex, A: Arena> Pools<R, A> {
    /// One empty pool in `arena`.
    pub fn new(kind: PoolKind, arena: A) -> Self {
        let mut pools = Self {
            pools: [const { None }; POOLS_MAX],
            current: 0,
            dense: None,
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

    /// Let stores use this compressor as well.
    pub fn set_dense(&mut self, compressor: Option<Compressor>) {
        self.dense = compressor;
    }

    /// The denser compressor, if there is one.
    pub fn dense(&self) -> Option<Compressor> {
        self.dense
    }

    /// The pool of the denser compressor, made in what `arena` makes if it is not there yet.
    /// `None`: not now.
    pub fn get_dense(&mut self, arena: impl FnOnce() -> Option<A>) -> Option<PoolRef<R, A>> {
        let kind = PoolKind {
            zpool: self.current().zpool,
            compressor: self.dense?,
        };
        let at = self.find_or_make(kind, arena)?;
        Some(self.get(at))
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

    /// Make `kind` current, in a pool that exists or in a new one in what `arena` makes. False: not
    /// now, every slot has a pool with objects, or there is no address space.
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

    /// An old pool goes with its last object, or with the last [`PoolRef`] if that is later:
    /// counted under the engine's lock, where alone they are made.
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
        self.of(handle).with(handle, len, |bytes, _| f(bytes))
    }

    /// Look at a stored page, an object of `len` bytes.
    pub fn with_block<T>(&self, handle: Handle, len: u32, f: impl FnOnce(Block<'_>) -> T) -> T {
        self.of(handle).with_block(handle, len as usize, f)
    }

    /// Store a copy of `bytes` in the pool of `kind`, which need not be the current one; it is made
    /// if there is none, in what `arena` makes.
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
