//! Memory that a program asks the library for, and threads of the library's.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::PAGE_SIZE;
use crate::thread::{self, syscall};

/// Private anonymous memory of the program's, unmapped on drop.
///
/// # Invariants
/// `[base, base + len)` is mapped, readable and writable, and owned by this value alone. Whoever
/// takes its pages away gives the same bytes back to whoever touches them next.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory owned by this value; nothing about it is tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: `&self` gives out shared slices only; writing needs `&mut self`, or is the caller's to
// order, through a pointer.
unsafe impl Sync for Pages {}

impl Pages {
    /// Map `len` bytes of zeros (whole pages, at least one), without reserving memory for them.
    /// With `is_forked` a forked child gets a copy, else it has nothing there.
    ///
    /// # Errors
    /// What the system answers; ENOMEM: the address space does not hold them.
    pub fn map(len: usize, is_forked: bool) -> Result<Self> {
        assert!(len > 0 && len.is_multiple_of(PAGE_SIZE), "whole pages, at least one");
        let (prot, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mm::mmap_anonymous(core::ptr::null_mut(), len, prot, flags)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        let pages = Self { base, len };
        if !is_forked {
            // SAFETY: advice on our own mapping that changes nothing in this process.
            unsafe { mm::madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork)? };
        }
        Ok(pages)
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Its address.
    pub fn addr(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// Bytes; never 0.
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped and readable; writes need `&mut self`.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// All of it, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped and writable; exclusive by `&mut self`.
        unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }

    /// Read a byte of each page of a part, so that all of them are there.
    pub fn touch(&self, offset: usize, len: usize) {
        let first = offset / PAGE_SIZE * PAGE_SIZE;
        for at in (first..offset + len).step_by(PAGE_SIZE) {
            assert!(at < self.len, "outside the region");
            // SAFETY: in bounds; volatile, as what counts is that it is done.
            let _ = unsafe { self.base.as_ptr().add(at).read_volatile() };
        }
    }

    /// Whole pages of a part read as zeros from now on.
    ///
    /// # Errors
    /// What `madvise` answers: EINVAL for locked memory.
    pub fn discard(&mut self, offset: usize, len: usize) -> Result<()> {
        assert!(
            offset.is_multiple_of(PAGE_SIZE) && len.is_multiple_of(PAGE_SIZE) && offset + len <= self.len,
            "whole pages of the region"
        );
        // SAFETY: in bounds, and exclusive by `&mut self`.
        unsafe { mm::madvise(self.base.as_ptr().add(offset).cast(), len, Advice::LinuxDontNeed) }
    }

    /// Unmap it, as drop does.
    ///
    /// # Errors
    /// What `munmap` answers, with the memory, which is as it was.
    pub fn unmap(self) -> core::result::Result<(), (Self, Errno)> {
        let pages = ManuallyDrop::new(self);
        // SAFETY: owned by this value, which nobody has any more if it succeeds.
        match unsafe { mm::munmap(pages.base.as_ptr().cast(), pages.len) } {
            Ok(()) => Ok(()),
            Err(errno) => Err((ManuallyDrop::into_inner(pages), errno)),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: owned by this value, and `&mut self` proves that no borrow is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Give the calling thread a descriptor table of its own with nothing in it but stderr. What it
/// opens from now on no other thread can close, nor do threads that it does not make have it.
///
/// # Errors
/// EPERM: a filter of system calls. The thread has the table that it had then.
pub fn take_own_descriptors() -> Result<()> {
    const STDERR: usize = 2;
    let close = |first: usize, last: usize| {
        // SAFETY: the table is a private copy, so nobody else loses a descriptor, and no owner
        // exists in this thread.
        unsafe { syscall(raw::__NR_close_range as usize, [first, last, 0, 0, 0, 0]) }
    };
    let flags = raw::CLONE_FILES as usize;
    // SAFETY: makes a copy of the table; takes no pointer.
    unsafe { syscall(raw::__NR_unshare as usize, [flags, 0, 0, 0, 0, 0])? };
    close(0, STDERR - 1)?;
    close(STDERR + 1, u32::MAX as usize)?;
    Ok(())
}

/// Have a thread that `spawn` makes get no signals of the program's: their handlers would run in
/// it. Those by which libc has all threads do something (SIGCANCEL, SIGSETXID; three with musl) are
/// let through.
pub fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    const OF_LIBC: u64 = 0b111 << 31;
    let before = thread::set_mask(!OF_LIBC);
    let spawned = spawn();
    if let Ok(before) = before {
        thread::restore_signals(before);
    }
    spawned
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn pages_are_zeros_until_they_are_written_and_when_they_were_discarded() {
        let mut pages = Pages::map(3 * PAGE_SIZE, false).unwrap();
        pages.touch(0, 3 * PAGE_SIZE);
        assert!(pages.bytes().iter().all(|byte| *byte == 0));
        pages.bytes_mut().fill(7);
        pages.discard(PAGE_SIZE, PAGE_SIZE).unwrap();
        let sums: alloc::vec::Vec<_> = (pages.bytes().chunks(PAGE_SIZE))
            .map(|page| page.iter().map(|byte| usize::from(*byte)).sum::<usize>())
            .collect();
        assert_eq!(sums, [7 * PAGE_SIZE, 0, 7 * PAGE_SIZE]);
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn nothing_behind_a_region_is_touched() {
        Pages::map(PAGE_SIZE, false).unwrap().touch(PAGE_SIZE - 1, 2);
    }
}
