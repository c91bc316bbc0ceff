//! A region.

use core::fmt;
use core::ops::{Bound, Deref, DerefMut, RangeBounds};

use uzswap_mm::Change;
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_sys::region::Pages;

use crate::pager::{self, Pager};
use crate::{Error, Pinned};

/// Memory that pages itself: zeros at first, unmapped on drop.
///
/// It begins at a page, so whatever a program has may lie there. In a forked child it is not there:
/// touching it ends the child with SIGSEGV. Where the child is one of `_Fork` or of a raw system
/// call, it must not touch it: other memory of its own may lie there.
pub struct Region {
    /// Always there but in [`drop`].
    pages: Option<Pages>,
    len: usize,
    /// `None`: memory as any other, as the process runs under `uzswap run`.
    pager: Option<&'static Pager>,
}

impl Region {
    /// `len` bytes of zeros. None of them takes memory before it is touched.
    ///
    /// # Errors
    /// `len` is 0 or more than the address space ([`Error::Value`]), or the system lacks what it
    /// takes ([`Error::System`]).
    pub fn new(len: usize) -> Result<Self, Error> {
        let whole = len
            .checked_next_multiple_of(PAGE_SIZE)
            .filter(|whole| isize::try_from(*whole).is_ok());
        let Some(whole) = whole.filter(|whole| *whole > 0) else {
            let rule = format!(
                "region of {len} bytes: must be from 1 to {}",
                isize::MAX as usize / PAGE_SIZE * PAGE_SIZE
            );
            return Err(Error::Value(rule));
        };
        let pager = match pager::is_under_agent() {
            true => None,
            false => Some(pager::running()?),
        };
        let pages = Pages::map(whole, pager.is_none())
            .map_err(Error::system(format!("address space for a region of {len} bytes")))?;
        if let Some(pager) = pager {
            pager.adopt(&pages).map_err(Error::system("paging a region"))?;
        }
        Ok(Self {
            pages: Some(pages),
            len,
            pager,
        })
    }

    fn pages(&self) -> &Pages {
        self.pages.as_ref().expect("there until it is dropped")
    }

    /// The first byte. For memory that several threads write to, who see to it that no two do at
    /// the same place.
    pub fn as_ptr(&self) -> *mut u8 {
        self.pages().as_ptr()
    }

    /// A part, checked.
    fn part(&self, range: &impl RangeBounds<usize>) -> Result<(usize, usize), Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        match start <= end && end <= self.len {
            true => Ok((start, end)),
            false => Err(Error::Value(format!(
                "bytes {start} to {end} of a region: must be in order, and at most {}",
                self.len
            ))),
        }
    }

    /// A forked child has copies of our locks as they were, held perhaps, and must take none.
    fn check_ours(&self) -> Result<(), Error> {
        match self.pager.is_none_or(Pager::is_ours) {
            true => Ok(()),
            false => Err(Error::Value(format!(
                "region of {} bytes: must be one that this process has made, not the one that forked it",
                self.len
            ))),
        }
    }

    /// Bring a part of it, and keep it where it is until what is returned is dropped: system calls
    /// can use it then, also where they cannot use what is cold. Half of the limit can be pinned at
    /// a time.
    ///
    /// # Errors
    /// [`Error::Value`]: it is not in the region, or too much would be pinned, or this is a child
    /// that does not have it.
    pub fn pin(&self, range: impl RangeBounds<usize>) -> Result<Pinned, Error> {
        let (start, end) = self.part(&range)?;
        let Some(pager) = self.pager.filter(|_| start < end) else {
            return Ok(Pinned::NOTHING);
        };
        self.check_ours()?;
        let pages = self.pages();
        let number = pager.pin(PageRange::of_bytes(pages.addr() + start, pages.addr() + end))?;
        let pinned = Pinned::new(pager, number);
        pages.touch(start, end - start);
        Ok(pinned)
    }

    /// Have the whole pages of a part read as zeros, and take no memory.
    ///
    /// # Errors
    /// [`Error::Value`]: it is not in the region, or this is a child that does not have it;
    /// [`Error::System`]: it is locked (`mlock`).
    pub fn discard(&mut self, range: impl RangeBounds<usize>) -> Result<(), Error> {
        let (start, end) = self.part(&range)?;
        self.check_ours()?;
        let start = start.next_multiple_of(PAGE_SIZE);
        let end = if end == self.len {
            self.pages().len()
        } else {
            end / PAGE_SIZE * PAGE_SIZE
        };
        if start >= end {
            return Ok(());
        }
        let first = self.pages().addr() + start;
        let pages = PageRange::of_bytes(first, first + end - start);
        let Self {
            pages: memory, pager, ..
        } = self;
        let mut drop_pages = || {
            memory
                .as_mut()
                .map_or(Ok(()), |memory| memory.discard(start, end - start))
        };
        let dropped = match pager {
            Some(pager) => pager.change(Change::Remove(pages), drop_pages),
            None => drop_pages(),
        };
        dropped.map_err(Error::system("discarding a part of a region"))
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages().bytes()[..self.len]
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.pages.as_mut().expect("there until it is dropped").bytes_mut()[..len]
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Some(pages) = self.pages.take() else { return };
        match self.pager {
            Some(pager) if pager.is_ours() => pager.release(pages),
            // A forked child has nothing there, or after `_Fork` something else by now.
            Some(_) => core::mem::forget(pages),
            None => drop(pages),
        }
    }
}
