//! Address space that is handed out in spans, each to one owner.

use core::num::NonZeroU32;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Result;

use crate::PAGE_SIZE;
use crate::mapping::{Discard, Mapping};

/// Ranges that were made: no two have one number.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A range of address space in spans of one length.
pub struct Spans {
    memory: Mapping,
    span_len: usize,
    number: NonZeroU32,
    /// Spans handed out.
    taken: AtomicU32,
}

/// One span of a [`Spans`]: whoever has it may read and write those bytes, and nobody else can. It
/// is not copied.
pub struct Span {
    of: NonZeroU32,
    index: u32,
}

impl Spans {
    /// Carve `memory` into spans of `span_len` bytes, a multiple of the page size.
    ///
    /// # Errors
    /// EOVERFLOW after four thousand million of them.
    pub fn new(memory: Mapping, span_len: usize) -> Result<Self> {
        assert!(span_len > 0 && span_len.is_multiple_of(PAGE_SIZE));
        let last = MADE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| made.checked_add(1));
        let number = last.ok().and_then(|last| NonZeroU32::new(last + 1));
        Ok(Self {
            memory,
            span_len,
            number: number.ok_or(rustix::io::Errno::OVERFLOW)?,
            taken: AtomicU32::new(0),
        })
    }

    /// A span that nobody had yet. `None`: there is none.
    pub fn take(&self) -> Option<Span> {
        let spans = u32::try_from(self.memory.len() / self.span_len).unwrap_or(u32::MAX);
        let next = |taken: u32| (taken < spans).then(|| taken + 1);
        // Relaxed: the number is all that is handed over.
        let index = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        index.ok().map(|index| Span { of: self.number, index })
    }

    fn start(&self, span: &Span, range: &Range<usize>) -> usize {
        assert!(span.of == self.number, "a span of another range");
        assert!(
            range.start <= range.end && range.end <= self.span_len,
            "outside the span"
        );
        span.index as usize * self.span_len + range.start
    }

    /// Bytes of a span.
    pub fn bytes<'a>(&'a self, span: &'a Span, range: Range<usize>) -> &'a [u8] {
        let start = self.start(span, &range);
        self.memory.bytes(start, range.len())
    }

    /// The same, for writing.
    pub fn bytes_mut<'a>(&'a self, span: &'a mut Span, range: Range<usize>) -> &'a mut [u8] {
        let start = self.start(span, &range);
        // SAFETY: the bytes lie in the mapping, which lives as long as `self` and is reached
        // through it in no other way than by spans. There is one value for each span (neither
        // `Span` nor the counter is ever copied or goes back), and it is borrowed exclusively for
        // as long as these bytes are.
        unsafe {
            let first = (self.memory.addr() as *mut u8).wrapping_add(start);
            core::slice::from_raw_parts_mut(first, range.len())
        }
    }

    /// Give whole pages of a span back to the system: they read as zeros from now on.
    pub fn discard(&self, span: &mut Span, range: Range<usize>) {
        let start = self.start(span, &range);
        // It can only fail for memory that is locked: then the bytes stay, which the owner does not
        // need.
        let _ = self.memory.discard(start, range.len(), Discard::DontNeed);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn spans(pages: usize) -> Spans {
        Spans::new(Mapping::reserve(pages * PAGE_SIZE).unwrap(), 2 * PAGE_SIZE).unwrap()
    }

    #[test]
    fn each_span_is_somebodys() {
        let spans = spans(4);
        let (mut a, mut b) = (spans.take().unwrap(), spans.take().unwrap());
        assert!(spans.take().is_none());
        let of_a = spans.bytes_mut(&mut a, 0..2 * PAGE_SIZE);
        let of_b = spans.bytes_mut(&mut b, 10..20);
        of_a.fill(1);
        of_b.fill(2);
        assert!(spans.bytes(&a, 0..2 * PAGE_SIZE).iter().all(|byte| *byte == 1));
        assert_eq!(spans.bytes(&b, 9..21), [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0]);
        spans.discard(&mut a, PAGE_SIZE..2 * PAGE_SIZE);
        assert_eq!(spans.bytes(&a, PAGE_SIZE - 1..PAGE_SIZE + 1), [1, 0]);
    }

    #[test]
    #[should_panic(expected = "a span of another range")]
    fn a_span_is_of_one_range() {
        let (one, other) = (spans(2), spans(2));
        let span = one.take().unwrap();
        other.bytes(&span, 0..1);
    }

    #[test]
    #[should_panic(expected = "outside the span")]
    fn nothing_behind_a_span_is_reached() {
        let spans = spans(4);
        let span = spans.take().unwrap();
        spans.bytes(&span, 0..2 * PAGE_SIZE + 1);
    }
}
