//! Memory that a program asks the library for, and threads of the library's.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use linux_raw_sys::general as raw;
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::PAGE_SIZE;
use crate::holes::Hole;
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
    /// A forked child has none of it, and nothing else there.
    hole: Option<Hole>,
}

// SAFETY: plain memory owned by this value; nothing about it is tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: `&self` gives out shared slices only; writing needs `&mut self`, or is the caller's to
// order, through a pointer.
unsafe impl Sync for Pages {}

impl Pages {
    /// Map `len` bytes of zeros (whole pages, at least one), without reserving memory for them.
    /// With `is_forked` a child gets a copy of them. Else it ends with SIGSEGV where it touches
    /// them, but for one of `_Fork` or of a raw system call, where anything may come to lie.
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
        let mut pages = Self { base, len, hole: None };
        if !is_forked {
            pages.hole = Some(Hole::keep(pages.addr(), len)?);
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
        let mut pages = ManuallyDrop::new(self);
        // SAFETY: owned by this value, which nobody has any more if it succeeds.
        match unsafe { mm::munmap(pages.base.as_ptr().cast(), pages.len) } {
            Ok(()) => {
                drop(pages.hole.take());
                Ok(())
            }
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

/// Give the calling thread a descriptor table of its own, in which there is stderr and what `open`
/// opens. No other thread can close that, nor do threads that it does not make have it.
///
/// Where the standard numbers are free they lead nowhere, and what is opened has high ones: a
/// tracer that has our threads write to a number of the program's must not write to a file of ours.
///
/// # Errors
/// EPERM: a filter of system calls; EMFILE. The thread has the table that it had then.
pub fn with_own_descriptors<T>(open: impl FnOnce() -> T) -> Result<T> {
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
    let first = first_of_ours();
    while open_nothing()?.into_raw_fd() as usize + 1 < first {}
    let opened = open();
    close(STDERR + 1, first - 1)?;
    Ok(opened)
}

/// The least number of what is ours: above those that programs use, below the limit.
fn first_of_ours() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit / 2).clamp(4, 256) as usize
}

/// What can be written to without effect, or where there is no /dev not at all.
fn open_nothing() -> Result<OwnedFd> {
    fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .or_else(|_| fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))
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

    #[test]
    fn what_is_opened_is_far_from_the_standard_numbers() {
        extern crate std;
        use rustix::fd::AsRawFd;
        let opened = std::thread::spawn(|| {
            let file = with_own_descriptors(|| fs::open(c"/", OFlags::PATH, Mode::empty())).unwrap();
            let nothing = fs::stat(c"/dev/null").unwrap();
            // SAFETY: open in this thread's table until it ends.
            #[allow(unused_unsafe, reason = "with std it is none")]
            let out = fs::fstat(unsafe { rustix::stdio::stdout() }).unwrap();
            let is_nowhere = (out.st_ino, out.st_rdev) == (nothing.st_ino, nothing.st_rdev);
            (file.unwrap().as_raw_fd() as usize, is_nowhere)
        });
        assert_eq!(opened.join().unwrap(), (first_of_ours(), true));
    }
}
