//! The memory that the pool grows in.

use core::ops::Range;

use uzswap_mm::Arena;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::SPAN_PAGES;
use uzswap_sys::Errno;
use uzswap_sys::mapping::Mapping;
use uzswap_sys::spans::{Span, Spans};

const SPAN_LEN: usize = SPAN_PAGES * PAGE_SIZE;
/// As many spans as a place in the pool can name.
const SPANS_MAX: usize = 1 << 23;
/// A span of each size class may be in part unused, and one more is on its way.
const SPANS_MORE: usize = 1024;

/// A reserved range, of which a limited number of pages may be in use.
pub(crate) struct DeviceArena {
    spans: Spans,
    pages_max: u64,
}

impl DeviceArena {
    /// Room for `pages` pages that do not compress, which take a span each.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn reserve(pages: u64, pages_max: u64) -> Result<Self, Errno> {
        let wanted = usize::try_from(pages).unwrap_or(usize::MAX).saturating_add(SPANS_MORE);
        let memory = Mapping::reserve(wanted.min(SPANS_MAX) * SPAN_LEN)?.without_huge_pages();
        Ok(Self {
            spans: Spans::new(memory, SPAN_LEN)?,
            pages_max,
        })
    }
}

impl Arena for DeviceArena {
    type Span = Span;

    fn pages_max(&self) -> u64 {
        self.pages_max
    }

    fn take(&self) -> Option<Span> {
        self.spans.take()
    }

    fn bytes<'a>(&'a self, span: &'a Span, range: Range<usize>) -> &'a [u8] {
        self.spans.bytes(span, range)
    }

    fn bytes_mut<'a>(&'a self, span: &'a mut Span, range: Range<usize>) -> &'a mut [u8] {
        self.spans.bytes_mut(span, range)
    }

    fn release(&self, span: &mut Span, pages: Range<usize>) {
        self.spans.discard(span, pages.start * PAGE_SIZE..pages.end * PAGE_SIZE);
    }
}
