//! What the program asks of a userfaultfd of its own.

use linux_raw_sys::general as raw;

use crate::uffd::{REGISTER, UNREGISTER};

/// What a system call ioctl(2) of the program would change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A userfaultfd gets this range, from its first byte to its end.
    Register(usize, usize),
    /// A userfaultfd gives it up.
    Unregister(usize, usize),
}

impl Request {
    /// Whether `request` may be one of these at all.
    pub fn may_be(request: u32) -> bool {
        request == REGISTER as u32 || request == UNREGISTER as u32
    }

    /// What `request` asks for. `None`: nothing that the kernel would do.
    ///
    /// # Safety
    /// `argument` is what the program passes to ioctl(2) with `request`.
    pub unsafe fn decode(request: u32, argument: usize) -> Option<Self> {
        if !Self::may_be(request) || argument == 0 {
            return None;
        }
        // SAFETY: both arguments begin with a range, as the kernel would read it.
        let range = unsafe { core::ptr::with_exposed_provenance::<raw::uffdio_range>(argument).read_unaligned() };
        let (start, end) = (range.start as usize, range.start.checked_add(range.len)? as usize);
        let is_aligned = start.is_multiple_of(crate::PAGE_SIZE) && end.is_multiple_of(crate::PAGE_SIZE);
        if !is_aligned || start >= end {
            return None;
        }
        Some(match request == REGISTER as u32 {
            true => Self::Register(start, end),
            false => Self::Unregister(start, end),
        })
    }
}
