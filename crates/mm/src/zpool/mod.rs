//! Pools of compressed pages: an allocator and a compressor each.
//!
//! There is one current pool, which stores go to. When the compressor or the allocator is changed
//! at run time, a new pool becomes current. The old ones stay until their last object leaves. Every
//! object is read in the pool that it is in, which its [`Handle`] names. At most [`POOLS_MAX`] live
//! at a time: a change beyond that has to wait until one is empty.

//! # Locks
//! Which pools there are is under the engine's lock; what is in one is under locks of its own,
//! inside the engine's: one a size class in zsmalloc. So blocks are put into a pool without the
//! engine's ([`PoolRef`]): nobody sees them before their words are published, which takes it. They
//! are read under both: a word names a block only as long as it is not replaced.

mod arena;
mod buddies;
mod fingerprints;
mod pools;
mod zsmalloc;

use core::fmt;

use lock_api::RawMutex;
use uzswap_acomp::{Codec, Compressor};

use crate::page::fingerprint;
use crate::policy::tunables::COMPRESSED_MAX;
pub use arena::{Arena, SPAN_PAGES};
use buddies::Buddies;
pub use pools::{PoolRef, Pools};
use zsmalloc::Zsmalloc;

/// Where an object is within its allocator: the number of a page, or of a zspage of its class, and
/// an index.
type Place = u64;

const PLACE_BITS: u32 = 33;
const POOL_BITS: u32 = 3;
/// Pools that can live at a time.
pub const POOLS_MAX: usize = 1 << POOL_BITS;

/// A stored object: pool and place. Says nothing about its length, which the caller keeps and which
/// is needed to find it: objects of two size classes may have equal handles.
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
    /// Longest compressed page, checksum included: a longer one is stored as it is.
    pub const COMPRESSED_MAX: usize = COMPRESSED_MAX;

    /// Whether a page that is stored as it is has not changed. What is compressed is only known
    /// when it is decompressed.
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

/// An allocator of objects of 1 to 4096 bytes in spans of an arena. `len` is always that of the
/// object.
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
    /// After a fork, in both: the pages in use are shared. From now on they are read and given up,
    /// but never written, since each write would make a copy of one.
    fn inherit(&self);
    /// How many there are of them.
    fn inherited_pages(&self) -> u64 {
        0
    }
    /// Whether an object lies in such a page: to free it frees nothing.
    fn is_inherited(&self, place: Place, len: usize) -> bool;
    /// Have some of the pages in use written again, and write what was freed in them: of those that
    /// are shared still, 64 or so are copied. False: none was left.
    fn reopen_some(&self) -> bool;
    /// Choose what compaction would empty and return how many pages that would free. From now on
    /// nothing is stored there, and [`relocate`](Self::relocate) moves what is, until
    /// [`end_compaction`](Self::end_compaction).
    fn begin_compaction(&self) -> u64 {
        0
    }
    /// Move an object out of what compaction empties. `None`: it is not there, or there is no room
    /// elsewhere.
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

/// What tells one pool from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKind {
    /// The allocator.
    pub zpool: ZpoolType,
    /// The compressor.
    pub compressor: Compressor,
}

#[cfg(test)]
mod test;
