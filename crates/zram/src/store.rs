//! A page to its word, and back.
//!
//! A page of one word over and over is its word. Any other is compressed, with a checksum behind
//! it; one that does not become short enough lies in the pool as it is, with a fingerprint beside
//! it. So a page that was damaged in memory is an error, and never other contents.
//!
//! # When the pool is full
//! The arena allows no page beyond the limit. Whoever is refused one compacts the pool, if that
//! frees enough to be worth a walk over all words, and tries again.

use std::fmt;

use uzswap_acomp::{Algorithm, Codec, Compressor, Context};
use uzswap_mm::checksum;
use uzswap_mm::page::{PAGE_SIZE, fingerprint, same_filled};
use uzswap_mm::zpool::{Block, Handle, PoolFull, PoolKind, PoolRef, Pools, ZpoolType};
use uzswap_sys::Errno;
use uzswap_sys::futex::RawLock;

use crate::Mutex;
use crate::arena::DeviceArena;
use crate::slot::{Slot, Stored};
use crate::table::Table;

/// Compaction is worth it from this part of the pool on.
const COMPACTED_LEAST: u64 = 64;
/// Least memory that a device may be limited to: a few pages for each size class that is in use.
pub const LIMIT_MIN: u64 = 1 << 20;

/// What a device is to be.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of the device: a multiple of the page size.
    pub bytes: u64,
    /// Compressor and allocator.
    pub kind: PoolKind,
    /// Bytes that the pool may take.
    pub mem_limit: Option<u64>,
}

impl Config {
    /// A device without a limit, with the default compressor and allocator.
    pub fn new(bytes: u64) -> Self {
        let kind = PoolKind {
            zpool: ZpoolType::default(),
            compressor: Algorithm::Lz4 { acceleration: 1 }.into(),
        };
        Self {
            bytes,
            kind,
            mem_limit: None,
        }
    }
}

/// Why there is no such device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakeError {
    /// Not a whole number of pages, or none.
    Size(u64),
    /// A compressor that needs what a device has not.
    Compressor(Compressor),
    /// Less than a pool can do with.
    MemLimit(u64),
    /// No address space for words or pool.
    Memory(Errno),
}

impl fmt::Display for MakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "size {bytes}: must be a multiple of {PAGE_SIZE}, and not 0"),
            Self::Compressor(compressor) => write!(
                f,
                "compressor {compressor}: must be one without -parallel, as each connection compresses its own pages, and \
                 not zstd-dict, as no dictionary is trained"
            ),
            Self::MemLimit(bytes) => write!(f, "mem-limit {bytes}: must be at least {LIMIT_MIN}"),
            Self::Memory(errno) => write!(f, "no address space for the device: {errno}"),
        }
    }
}

impl std::error::Error for MakeError {}

/// The stored bytes are not what was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// One thread's working memory to compress and decompress pages.
pub(crate) struct Coder {
    context: Context,
    block: Box<[u8; PAGE_SIZE]>,
}

/// A block that was copied out of the pool.
struct Copied {
    codec: Codec,
    len: usize,
    fingerprint: Option<u32>,
}

/// Pool and compressor of a device.
pub(crate) struct Store {
    pool: PoolRef<RawLock, DeviceArena>,
    compacting: Mutex<()>,
}

impl Store {
    /// An empty one.
    ///
    /// # Errors
    /// What `config` breaks, or there is no address space.
    pub(crate) fn new(config: &Config) -> Result<Self, MakeError> {
        let page = PAGE_SIZE as u64;
        if config.bytes == 0 || !config.bytes.is_multiple_of(page) {
            return Err(MakeError::Size(config.bytes));
        }
        let Compressor { algorithm, is_parallel } = config.kind.compressor;
        if is_parallel || matches!(algorithm, Algorithm::ZstdDict { .. }) {
            return Err(MakeError::Compressor(config.kind.compressor));
        }
        let pages_max = match config.mem_limit {
            Some(bytes) if bytes < LIMIT_MIN => return Err(MakeError::MemLimit(bytes)),
            Some(bytes) => bytes / page,
            None => u64::MAX,
        };
        let arena = DeviceArena::reserve(config.bytes / page, pages_max).map_err(MakeError::Memory)?;
        // The one pool there is lives as long as the reference.
        Ok(Self {
            pool: Pools::new(config.kind, arena).get_current(),
            compacting: Mutex::new(()),
        })
    }

    pub(crate) fn kind(&self) -> PoolKind {
        self.pool.kind()
    }

    /// Working memory of one more thread.
    pub(crate) fn coder(&self) -> Coder {
        Coder {
            context: Context::new(self.kind().compressor.algorithm),
            block: Box::new([0; PAGE_SIZE]),
        }
    }

    /// Bytes that the pool takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.pages() * PAGE_SIZE as u64
    }

    /// Put a page into the pool, unless it is a word. No word names it yet.
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub(crate) fn put(&self, coder: &mut Coder, page: &[u8]) -> Result<Slot, PoolFull> {
        if let Some(word) = same_filled(page) {
            return Ok(Slot::Same(word));
        }
        let room = &mut coder.block[..Block::COMPRESSED_MAX];
        let len = coder.context.compress_page(page, room).ok();
        let len = len.and_then(|len| checksum::append(room, len, page));
        let (handle, len) = match len {
            Some(len) => (self.pool.store(&coder.block[..len])?, len),
            None => (self.pool.store_page(page, fingerprint(page))?, PAGE_SIZE),
        };
        Ok(Slot::Stored(Stored { handle, len }))
    }

    /// As [`put`](Self::put), while nobody compacts: whoever does has taken what room there is, and
    /// gives it back at the end.
    ///
    /// # Errors
    /// [`PoolFull`]; nothing has changed then.
    pub(crate) fn put_alone(&self, coder: &mut Coder, page: &[u8]) -> Result<Slot, PoolFull> {
        let _alone = self.compacting.lock();
        self.put(coder, page)
    }

    /// Free what a word named that is no word of a page any more.
    pub(crate) fn free(&self, slot: Slot) {
        if let Slot::Stored(Stored { handle, len }) = slot {
            self.pool.free(handle, len);
        }
    }

    /// The same page, with a bit of it flipped in the pool.
    #[cfg(test)]
    pub(crate) fn damaged(&self, slot: Slot) -> Slot {
        let Slot::Stored(Stored { handle, len }) = slot else {
            return slot;
        };
        let copy = |block: Block<'_>| (block.bytes.to_vec(), block.fingerprint);
        let (mut bytes, fingerprint) = self.pool.with_block(handle, len, copy);
        bytes[len / 2] ^= 1;
        let handle = match fingerprint {
            Some(fingerprint) => self.pool.store_page(&bytes, fingerprint),
            None => self.pool.store(&bytes),
        };
        self.free(slot);
        let handle = handle.expect("room");
        Slot::Stored(Stored { handle, len })
    }

    /// Fill `out` with what is in page `page`.
    ///
    /// # Errors
    /// [`Damaged`]; `out` is undefined then.
    pub(crate) fn get(&self, table: &Table, page: u64, coder: &mut Coder, out: &mut [u8]) -> Result<(), Damaged> {
        let copied = table.with(page, |slot| match *slot {
            Slot::Empty => {
                out.fill(0);
                None
            }
            Slot::Same(word) => {
                fill(out, word);
                None
            }
            // Copied, not decompressed: others wait for these locks.
            Slot::Stored(Stored { handle, len }) => Some(self.pool.with_block(handle, len, |block| {
                coder.block[..len].copy_from_slice(block.bytes);
                Copied {
                    codec: block.codec,
                    len,
                    fingerprint: block.fingerprint,
                }
            })),
        });
        let is_intact = copied.is_none_or(|copied| unpack(coder, &copied, out));
        is_intact.then_some(()).ok_or(Damaged)
    }

    /// Make room in a pool that is full; returns how many pages that freed. `None`: it would free
    /// too little.
    pub(crate) fn compact(&self, table: &Table) -> Option<u64> {
        let Some(_alone) = self.compacting.try_lock() else {
            // Another connection does, and has freed what there was when this one tries again.
            drop(self.compacting.lock());
            return Some(0);
        };
        let before = self.pool.pages();
        let gain = self.pool.begin_compaction();
        let is_worth_it = gain > 0 && gain * COMPACTED_LEAST >= before;
        if is_worth_it {
            table
                .written()
                .for_each(|page| table.with(page, |slot| self.relocate(slot)));
        }
        self.pool.end_compaction();
        is_worth_it.then(|| before.saturating_sub(self.pool.pages()))
    }

    fn relocate(&self, slot: &mut Slot) {
        if let Slot::Stored(stored) = slot {
            let moved: Option<Handle> = self.pool.relocate(stored.handle, stored.len);
            stored.handle = moved.unwrap_or(stored.handle);
        }
    }
}

/// Fill a page with one word.
fn fill(page: &mut [u8], word: u32) {
    for bytes in page.as_chunks_mut::<4>().0 {
        *bytes = word.to_ne_bytes();
    }
}

/// Fill `out` from a block that was copied. False: the block is damaged.
fn unpack(coder: &mut Coder, copied: &Copied, out: &mut [u8]) -> bool {
    let bytes = &coder.block[..copied.len];
    if copied.codec == Codec::Raw {
        out.copy_from_slice(bytes);
        return copied.fingerprint == Some(fingerprint(out));
    }
    checksum::split(bytes).is_some_and(|(block, sum)| coder.context.decompress(block, out) && checksum::holds(sum, out))
}
