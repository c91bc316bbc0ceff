//! Where a stored block is, in one word.

use core::num::NonZeroU64;

use crate::page::PAGE_SIZE;
use crate::pages::swap_table::entry::{CachedEntry, Slot, ZswapEntry};
use crate::zpool::Handle;

/// Where a block is and how long: in a word, since every staging slot has room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef(NonZeroU64);

const LEN_BITS: u32 = 13;
const _: () = assert!(Handle::BITS + LEN_BITS <= 64 && PAGE_SIZE < 1 << LEN_BITS);

impl BlockRef {
    /// A block of 1 to 4096 bytes.
    pub(crate) fn new(handle: Handle, len: u32) -> Self {
        match NonZeroU64::new(handle.to_bits() << LEN_BITS | u64::from(len)) {
            Some(bits) => Self(bits),
            None => unreachable!("no block is empty"),
        }
    }

    /// The block of a page, if it has one. Only as a whole does it say which: the length names the
    /// size class, and blocks of two classes may have the same handle.
    pub(crate) fn of(slot: Slot) -> Option<Self> {
        match slot {
            Slot::Zswap(ZswapEntry { handle, len, .. }) | Slot::Cached(CachedEntry { handle, len, .. }) => {
                Some(Self::new(handle, len))
            }
            Slot::None
            | Slot::Resident { .. }
            | Slot::Staged { .. }
            | Slot::Filled { .. }
            | Slot::Swap(_)
            | Slot::Bad => None,
        }
    }

    pub(crate) fn handle(self) -> Handle {
        Handle::from_bits(self.0.get() >> LEN_BITS)
    }

    pub(crate) fn len(self) -> u32 {
        self.0.get() as u32 & ((1 << LEN_BITS) - 1)
    }

    /// As an entry that says where the block is, and nothing else.
    pub(crate) fn entry(self) -> ZswapEntry {
        ZswapEntry {
            handle: self.handle(),
            len: self.len(),
            writeback: false,
            referenced: false,
            tag: 0,
        }
    }
}
