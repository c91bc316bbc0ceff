//! The memory of the compressed pool.

use uzswap_mm::Arena;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::mapping::{Discard, Mapping};
use uzswap_sys::thread;

use crate::fault_attr::FAULT_ATTR;

/// Pool memory: a reserved range.
pub(crate) struct PoolArena {
    memory: Mapping,
    /// Where the block that was written last begins, and how long it is.
    written: Option<(usize, usize)>,
}

/// Less than this is no block, but a link between free ones.
const BLOCK_MIN: usize = 16;

impl PoolArena {
    /// Reserve `bytes`, or as much as the address space holds.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn reserve(bytes: usize) -> Result<Self, Errno> {
        let sizes = (0..8).map(|i| thread::page_align(bytes >> i));
        sizes
            .into_iter()
            .find_map(|len| Mapping::reserve(len).ok())
            .map(|mapping| Self {
                memory: mapping.without_huge_pages(),
                written: None,
            })
            .ok_or(Errno::NOMEM)
    }
}

impl Arena for PoolArena {
    fn pages(&self) -> usize {
        self.memory.len() / PAGE_SIZE
    }

    fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        self.memory.bytes(offset, len)
    }

    fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        if let Some((offset, len)) = self.written.take() {
            FAULT_ATTR.flip(self.memory.bytes_mut(offset, len));
        }
        self.written = (len >= BLOCK_MIN).then_some((offset, len));
        self.memory.bytes_mut(offset, len)
    }

    fn copy(&mut self, from: usize, to: usize, len: usize) {
        let all = self.memory.len();
        self.memory.bytes_mut(0, all).copy_within(from..from + len, to);
    }

    fn release(&mut self, first: usize, pages: usize) {
        let _ = self
            .memory
            .discard(first * PAGE_SIZE, pages * PAGE_SIZE, Discard::DontNeed);
    }
}
