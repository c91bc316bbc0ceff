//! The memory that pools grow in.

use core::ops::Range;

/// Pages of a span.
pub const SPAN_PAGES: usize = 8;

/// A range of address space, backed page by page as it is first written, that is handed out in
/// spans of [`SPAN_PAGES`]. Who has a span needs no lock to read and write it: that is what the
/// locks of an allocator are made of.
pub trait Arena: Send + Sync + 'static {
    /// A span of this arena; there is one value for each.
    type Span: Send + 'static;

    /// Pages that may be in use at a time.
    fn pages_max(&self) -> u64 {
        u64::MAX
    }
    /// A span that nobody had yet. `None`: there is none.
    fn take(&self) -> Option<Self::Span>;
    /// Bytes of a span.
    fn bytes<'a>(&'a self, span: &'a Self::Span, range: Range<usize>) -> &'a [u8];
    /// The same, for writing.
    fn bytes_mut<'a>(&'a self, span: &'a mut Self::Span, range: Range<usize>) -> &'a mut [u8];
    /// Bytes `range` of a span are a stored block now. Where failures are injected, they may be
    /// damaged here.
    fn stored(&self, _span: &mut Self::Span, _range: Range<usize>) {}
    /// Pages of a span are not needed any more; they read as zeros or old bytes later.
    fn release(&self, span: &mut Self::Span, pages: Range<usize>);
}
