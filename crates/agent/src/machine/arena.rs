//! The memory of the compressed pool.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::Arena;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::SPAN_PAGES;
use uzswap_sys::Errno;
use uzswap_sys::mapping::Mapping;
use uzswap_sys::spans::{Span, Spans};
use uzswap_sys::thread;

use super::fault_attr::FAULT_ATTR;

/// Pool memory: a reserved range.
pub(crate) struct PoolArena(Spans);

/// Less than this is no block, but a link between free ones.
const BLOCK_MIN: usize = 16;
const SPAN_LEN: usize = SPAN_PAGES * PAGE_SIZE;

/// Pages given back to the system, of all processes before this one and of this.
static RELEASED: AtomicU64 = AtomicU64::new(0);

/// How many pages of pools were given back to the system so far, beginning anywhere.
pub(crate) fn released() -> u64 {
    RELEASED.load(Ordering::Relaxed)
}

impl PoolArena {
    /// Reserve `bytes`, or as much as the address space holds.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn reserve(bytes: usize) -> Result<Self, Errno> {
        let sizes = (0..8).map(|i| thread::page_align(bytes >> i));
        let memory = sizes.into_iter().find_map(|len| Mapping::reserve_beside_data(len).ok());
        let memory = memory.ok_or(Errno::NOMEM)?.without_huge_pages();
        Ok(Self(Spans::new(memory, SPAN_LEN)?))
    }
}

impl Arena for PoolArena {
    type Span = Span;

    fn take(&self) -> Option<Span> {
        self.0.take()
    }

    fn bytes<'a>(&'a self, span: &'a Span, range: Range<usize>) -> &'a [u8] {
        self.0.bytes(span, range)
    }

    fn bytes_mut<'a>(&'a self, span: &'a mut Span, range: Range<usize>) -> &'a mut [u8] {
        self.0.bytes_mut(span, range)
    }

    fn stored(&self, span: &mut Span, range: Range<usize>) {
        if range.len() >= BLOCK_MIN {
            FAULT_ATTR.flip(|| self.0.bytes_mut(span, range));
        }
    }

    fn release(&self, span: &mut Span, pages: Range<usize>) {
        RELEASED.fetch_add(pages.len() as u64, Ordering::Relaxed);
        self.0.discard(span, pages.start * PAGE_SIZE..pages.end * PAGE_SIZE);
    }
}
