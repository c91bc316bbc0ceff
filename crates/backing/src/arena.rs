//! The memory of the compressed pool.

use core::marker::PhantomData;
use core::ops::Range;

use uzswap_mm::Arena;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::SPAN_PAGES;
use uzswap_sys::Errno;
use uzswap_sys::mapping::Mapping;
use uzswap_sys::spans::{Span, Spans};
use uzswap_sys::thread;

/// Who is told what becomes of pool memory.
pub trait Watch: 'static {
    /// A block was stored.
    fn stored<'a>(block: impl FnOnce() -> &'a mut [u8]) {
        drop(block);
    }
    /// So many pages were given back to the system.
    fn released(pages: u64) {
        let _ = pages;
    }
}

/// Nobody.
pub struct Unwatched;

impl Watch for Unwatched {}

/// Pool memory: a reserved range.
pub struct PoolArena<W = Unwatched>(Spans, PhantomData<fn() -> W>);

/// Less than this is no block, but a link between free ones.
const BLOCK_MIN: usize = 16;
const SPAN_LEN: usize = SPAN_PAGES * PAGE_SIZE;

fn reserve(bytes: usize) -> Result<Mapping, Errno> {
    let sizes = (0..8).map(|i| thread::page_align(bytes >> i));
    let memory = sizes.into_iter().find_map(|len| Mapping::reserve_beside_data(len).ok());
    Ok(memory.ok_or(Errno::NOMEM)?.without_huge_pages())
}

impl<W> PoolArena<W> {
    /// Reserve `bytes`, or as much as the address space holds.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve(bytes: usize) -> Result<Self, Errno> {
        Ok(Self(Spans::new(reserve(bytes)?, SPAN_LEN)?, PhantomData))
    }

    /// As [`reserve`](Self::reserve), of memory that forked children do not get.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve_from_children(bytes: usize) -> Result<Self, Errno> {
        let memory = reserve(bytes)?;
        memory.keep_from_children()?;
        Ok(Self(Spans::new(memory, SPAN_LEN)?, PhantomData))
    }
}

impl<W: Watch> Arena for PoolArena<W> {
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
            W::stored(|| self.0.bytes_mut(span, range));
        }
    }

    fn release(&self, span: &mut Span, pages: Range<usize>) {
        W::released(pages.len() as u64);
        self.0.discard(span, pages.start * PAGE_SIZE..pages.end * PAGE_SIZE);
    }
}
