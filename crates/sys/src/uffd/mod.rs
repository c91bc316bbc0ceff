//! userfaultfd: the system calls of the fault and reclaim paths.
//!
//! No crate wraps `UFFDIO_MOVE`, and the one crate for the rest mistakes a negative `copy` field
//! for a byte count (reference/peers.md 1.19), so the ioctls are made here, over rustix. Every fill
//! returns how far it came and why it stopped ([`Filled`]): the kernel reports that either by errno
//! or, for partial work, in the argument, as a byte count or as a negative errno, depending on its
//! version; both are decoded in one place.

mod filled;
mod open;

use core::sync::atomic::{AtomicBool, Ordering};

use linux_raw_sys::general as raw;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{self, Errno, Result};
use rustix::ioctl::{self, Opcode, opcode};

use crate::closed;
use crate::thread::syscall;

pub use filled::Filled;

const UFFDIO: u8 = 0xAA;
const API: Opcode = opcode::read_write::<raw::uffdio_api>(UFFDIO, raw::_UFFDIO_API as u8);
pub(crate) const REGISTER: Opcode = opcode::read_write::<raw::uffdio_register>(UFFDIO, raw::_UFFDIO_REGISTER as u8);
pub(crate) const UNREGISTER: Opcode = opcode::read::<raw::uffdio_range>(UFFDIO, raw::_UFFDIO_UNREGISTER as u8);
const WAKE: Opcode = opcode::read::<raw::uffdio_range>(UFFDIO, raw::_UFFDIO_WAKE as u8);
const COPY: Opcode = opcode::read_write::<raw::uffdio_copy>(UFFDIO, raw::_UFFDIO_COPY as u8);
const POISON: Opcode = opcode::read_write::<raw::uffdio_poison>(UFFDIO, raw::_UFFDIO_POISON as u8);
const MOVE: Opcode = opcode::read_write::<raw::uffdio_move>(UFFDIO, raw::_UFFDIO_MOVE as u8);
const PROTECT: Opcode = opcode::read_write::<raw::uffdio_writeprotect>(UFFDIO, raw::_UFFDIO_WRITEPROTECT as u8);

const COPY_MODE_DONTWAKE: u64 = 1;
const COPY_MODE_WP: u64 = 2;
const MOVE_MODE_DONTWAKE: u64 = 1;
const REGISTER_MODE_MISSING: u64 = 1;
const REGISTER_MODE_WP: u64 = 2;
const WRITEPROTECT_MODE_WP: u64 = 1;

/// `UFFDIO_MOVE`, the eviction primitive (Linux 6.8).
pub const FEATURE_MOVE: u64 = raw::UFFD_FEATURE_MOVE as u64;
/// Pages can be made to raise SIGBUS (Linux 6.6).
pub const FEATURE_POISON: u64 = raw::UFFD_FEATURE_POISON as u64;
/// Writes to pages that were protected are reported (Linux 5.7).
pub const FEATURE_WP: u64 = raw::UFFD_FEATURE_PAGEFAULT_FLAG_WP as u64;
/// A fault says which thread waits (Linux 4.14).
pub const FEATURE_THREAD_ID: u64 = raw::UFFD_FEATURE_THREAD_ID as u64;
/// A fork hands the child's own userfaultfd to the reader (needs CAP_SYS_PTRACE).
pub const FEATURE_EVENT_FORK: u64 = raw::UFFD_FEATURE_EVENT_FORK as u64;
/// A thread that meets a missing or protected page gets SIGBUS instead of waiting (Linux 4.14).
pub const FEATURE_SIGBUS: u64 = raw::UFFD_FEATURE_SIGBUS as u64;
/// mremap, madvise and munmap are reported.
pub const FEATURE_EVENTS_MM: u64 =
    (raw::UFFD_FEATURE_EVENT_REMAP | raw::UFFD_FEATURE_EVENT_REMOVE | raw::UFFD_FEATURE_EVENT_UNMAP) as u64;

/// What a read of the descriptor tells. Addresses and lengths are bytes.
#[derive(Debug)]
pub enum Event {
    /// `thread` (0 without [`FEATURE_THREAD_ID`]) waits for the page at `addr`, which it wants to
    /// write to if `is_write`; or, if that `is_protected`, it waits to write to it.
    Fault {
        addr: usize,
        is_protected: bool,
        is_write: bool,
        thread: i32,
    },
    /// The process forked: the child's ranges belong to this descriptor.
    Fork(Uffd),
    /// `[from, from + len)` is at `to` now.
    Remap { from: usize, to: usize, len: usize },
    /// madvise is about to drop `[start, end)` (MADV_DONTNEED) or to let it be dropped (MADV_FREE).
    Remove { start: usize, end: usize },
    /// `[start, end)` is unmapped.
    Unmap { start: usize, end: usize },
}

const MESSAGE: usize = size_of::<raw::uffd_msg>();
/// Messages read at a time.
pub const BATCH: usize = 16;

/// A userfaultfd, or what does the same where none can be had ([`closed`]).
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
    /// It is none: memory is [`closed`], and this its file.
    closes: bool,
    /// Opened with [`FEATURE_WP`].
    can_protect: bool,
    /// Memory is registered for writes to protected pages as well.
    protects: AtomicBool,
}

impl Uffd {
    /// One that another process opened, which serves its memory.
    pub fn received(fd: OwnedFd) -> Self {
        Self::opened(fd, false)
    }

    /// One that was opened, with [`FEATURE_WP`] if it `can_protect`.
    pub(crate) fn opened(fd: OwnedFd, can_protect: bool) -> Self {
        Self {
            fd,
            closes: false,
            can_protect,
            protects: AtomicBool::new(false),
        }
    }

    /// The one of a forked child's memory that the fork of a process with this one has made: the
    /// same is registered, for the same.
    pub fn of_child(&self, fd: OwnedFd) -> Self {
        let child = Self::opened(fd, self.can_protect);
        child.protects.store(self.protects(), Ordering::Relaxed);
        child
    }

    /// Be `other` from now on, which can protect if this can. Who waits for events of what this was
    /// goes on waiting for those.
    ///
    /// # Errors
    /// What dup3 answers: EBUSY.
    pub fn become_copy_of(&self, other: &Self) -> Result<()> {
        let (from, to) = (other.fd.as_raw_fd() as usize, self.fd.as_raw_fd() as usize);
        let flags = raw::O_CLOEXEC as usize;
        // SAFETY: takes numbers. `self.fd` stays open and ours; only which file it names changes.
        unsafe { syscall(raw::__NR_dup3 as usize, [from, to, flags, 0, 0, 0]) }?;
        self.protects.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// What does the same where memory is [`closed`], with the file of that.
    pub(crate) fn closing(fd: OwnedFd) -> Self {
        Self {
            closes: true,
            ..Self::opened(fd, false)
        }
    }

    /// What becomes readable when there are events. `None`: whoever posts one wakes the fault
    /// thread.
    pub fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        (!self.closes).then(|| self.fd.as_fd())
    }

    /// Whether there are events, or faults, to read.
    pub fn has_events(&self) -> bool {
        match self.waits_on() {
            Some(fd) => wait_readable(&[fd], Some(0)),
            None => closed::has_events(),
        }
    }

    /// Its descriptor.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Whether any process has the memory that it was opened for.
    pub fn has_memory(&self) -> bool {
        /// The last page that a process can map. It is nobody's but the stack's, which is not
        /// registered.
        const TOP: usize = (1 << 47) - 2 * crate::PAGE_SIZE;
        self.unprotect(TOP, crate::PAGE_SIZE) != Err(Errno::SRCH)
    }

    fn update<const OP: Opcode, T>(&self, value: &mut T) -> Result<()> {
        // SAFETY: each OP above is paired with its argument type at its only call, and the kernel
        // reads and writes no more than that argument, plus the user ranges it names, which fills
        // only take from or put pages into.
        unsafe { ioctl::ioctl(self, ioctl::Updater::<OP, T>::new(value)) }
    }

    /// Have missing pages of `[addr, addr + len)` reported here, and writes to protected ones from
    /// [`begin_protecting`](Self::begin_protecting) on. What is registered already may be
    /// registered for more.
    ///
    /// # Errors
    /// EINVAL: not (only) private anonymous memory; EBUSY: another userfaultfd has it; ENOMEM:
    /// unmapped.
    pub fn register(&self, addr: usize, len: usize) -> Result<()> {
        self.register_with_mode(
            addr,
            len,
            match self.protects() {
                true => REGISTER_MODE_MISSING | REGISTER_MODE_WP,
                false => REGISTER_MODE_MISSING,
            },
        )
    }

    /// Have missing pages of `[addr, addr + len)` reported here, and nothing else.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_missing(&self, addr: usize, len: usize) -> Result<()> {
        self.register_with_mode(addr, len, REGISTER_MODE_MISSING)
    }

    /// Have nothing of `[addr, addr + len)` reported here any more; whoever waits is woken.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn unregister(&self, addr: usize, len: usize) -> Result<()> {
        if self.closes {
            closed::unregister(addr, addr + len);
            return Ok(());
        }
        self.update::<UNREGISTER, _>(&mut raw::uffdio_range {
            start: addr as u64,
            len: len as u64,
        })
    }

    fn register_with_mode(&self, addr: usize, len: usize, mode: u64) -> Result<()> {
        let range = raw::uffdio_range {
            start: addr as u64,
            len: len as u64,
        };
        let mut arg = raw::uffdio_register { range, mode, ioctls: 0 };
        self.update::<REGISTER, _>(&mut arg)
    }

    /// Whether a change of the mappings has begun whose event was not read yet. `elsewhere`: an
    /// address that is not registered here, so that the fill this is asked with can never succeed.
    pub fn is_changing(&self, elsewhere: usize) -> bool {
        const PAGE: [u8; crate::PAGE_SIZE] = [0; crate::PAGE_SIZE];
        if self.closes {
            return closed::is_changing();
        }
        self.copy(elsewhere, &PAGE, false).stop == Some(Errno::AGAIN)
    }

    /// Have writes to the pages that are there now reported: whoever writes waits. What is written
    /// by the kernel on behalf of the program waits too, unless it holds the page already (direct
    /// I/O under way, buffers registered with io_uring).
    ///
    /// # Errors
    /// EAGAIN: an event waits to be read; ENOENT: not all of it is registered here.
    pub fn protect(&self, addr: usize, len: usize) -> Result<()> {
        self.write_protect(addr, len, WRITEPROTECT_MODE_WP)
    }

    /// The opposite; whoever waited to write is woken.
    ///
    /// # Errors
    /// As for [`protect`](Self::protect).
    pub fn unprotect(&self, addr: usize, len: usize) -> Result<()> {
        self.write_protect(addr, len, 0)
    }

    fn write_protect(&self, addr: usize, len: usize, mode: u64) -> Result<()> {
        let range = raw::uffdio_range {
            start: addr as u64,
            len: len as u64,
        };
        self.update::<PROTECT, _>(&mut raw::uffdio_writeprotect { range, mode })
    }

    /// Whether pages of this process can be protected.
    pub fn can_protect(&self) -> bool {
        self.can_protect
    }

    /// Whether pages of what is registered from now on can be protected.
    pub fn protects(&self) -> bool {
        self.protects.load(Ordering::Relaxed)
    }

    /// Register for protection from now on, if it can be had. It is not free: when the descriptor
    /// of a forked child is closed, the kernel walks the child's page tables for pages that are
    /// protected (8 ms a GiB).
    pub fn begin_protecting(&self) {
        self.protects.store(self.can_protect, Ordering::Relaxed);
    }

    /// Wake the threads that wait for pages of the range; they look again. Those that wait to write
    /// to a protected page can then.
    pub fn unprotect_and_wake(&self, addr: usize, len: usize) {
        if self.protects() {
            // Refused while events wait: then they fault again, and are woken again.
            let _ = self.unprotect(addr, len);
        }
        self.wake(addr, len);
    }

    /// Wake the threads that wait for pages of the range; they look again. What is protected stays
    /// so.
    pub fn wake(&self, addr: usize, len: usize) {
        if self.closes {
            // They look for themselves.
            return;
        }
        // Nobody there to wake, or nothing mapped any more: both leave nothing to do.
        let _ = self.update::<WAKE, _>(&mut raw::uffdio_range {
            start: addr as u64,
            len: len as u64,
        });
    }

    /// Fill missing pages at `addr` with a copy of `bytes` (a multiple of the page size).
    ///
    /// Stops: EEXIST a page is there; EAGAIN an event waits to be read; ENOENT the range is not
    /// registered here or spans mappings; ESRCH the process is gone; ENOMEM.
    pub fn copy(&self, addr: usize, bytes: &[u8], wake: bool) -> Filled {
        self.copy_with_mode(addr, bytes, if wake { 0 } else { COPY_MODE_DONTWAKE })
    }

    /// As [`copy`](Self::copy); the pages are [protected](Self::protect) from the moment they are
    /// there.
    pub fn copy_protected(&self, addr: usize, bytes: &[u8], wake: bool) -> Filled {
        let mode = if wake { 0 } else { COPY_MODE_DONTWAKE };
        self.copy_with_mode(addr, bytes, mode | COPY_MODE_WP)
    }

    fn copy_with_mode(&self, addr: usize, bytes: &[u8], mode: u64) -> Filled {
        if self.closes {
            return closed::copy(self.fd.as_fd(), addr, bytes);
        }
        let mut arg = raw::uffdio_copy {
            dst: addr as u64,
            src: bytes.as_ptr() as u64,
            len: bytes.len() as u64,
            mode,
            copy: 0,
        };
        let result = self.update::<COPY, _>(&mut arg);
        Filled::decode(result, arg.copy, bytes.len())
    }

    /// Have every access to the missing page at `addr` raise SIGBUS (EFAULT or EHWPOISON in system
    /// calls), until it is dropped or unmapped; whoever waits for it is woken.
    ///
    /// # Errors
    /// As the stops of [`copy`](Self::copy).
    pub fn poison(&self, addr: usize) -> Result<()> {
        if self.closes {
            return closed::lose(addr);
        }
        let mut arg = raw::uffdio_poison {
            range: raw::uffdio_range {
                start: addr as u64,
                len: crate::PAGE_SIZE as u64,
            },
            mode: 0,
            updated: 0,
        };
        self.update::<POISON, _>(&mut arg)
    }

    /// Move pages from `src` to the missing pages at `dst`, which must be registered here. Nothing
    /// is copied.
    ///
    /// Stops: EBUSY the page is shared or pinned; ENOENT it is not there; EINVAL a mapping cannot
    /// take part (read-only, locked, not anonymous); EEXIST the destination is there; EAGAIN an
    /// event waits to be read.
    ///
    /// # Linux 6.18 forgets pages that it moved
    /// Since it moves pages in batches, its loop keeps the EAGAIN of a page that had to be tried
    /// again; the batch that then succeeds is not counted, is tried once more, and is answered with
    /// EEXIST. So a call that did not do all it was asked to may have done more than it says:
    /// unless the answer was EAGAIN at once, or EBUSY, the caller must look
    /// ([`crate::procfs::ProcSelf::leading_run`]). With `UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES` the same
    /// mistake makes the kernel loop for ever at a hole, so holes are never passed to it.
    pub fn move_pages(&self, dst: usize, src: usize, len: usize, wake: bool) -> Filled {
        let mode = if wake { 0 } else { MOVE_MODE_DONTWAKE };
        let mut arg = raw::uffdio_move {
            dst: dst as u64,
            src: src as u64,
            len: len as u64,
            mode,
            move_: 0,
        };
        let result = self.update::<MOVE, _>(&mut arg);
        Filled::decode(result, arg.move_, len)
    }

    /// Read what there is, at most [`BATCH`] messages, and pass each to `f`. True: there may be
    /// more.
    ///
    /// # Errors
    /// What `read` answers, but for "nothing now".
    pub fn read_events(&self, mut f: impl FnMut(Event)) -> Result<bool> {
        if self.closes {
            closed::read_events(f);
            return Ok(false);
        }
        let mut messages = [0u8; BATCH * MESSAGE];
        loop {
            match io::read(&self.fd, &mut messages) {
                Ok(n) => {
                    messages[..n]
                        .as_chunks::<MESSAGE>()
                        .0
                        .iter()
                        .filter_map(|message| decode(message, self.protects()))
                        .for_each(&mut f);
                    return Ok(n == messages.len());
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `struct uffd_msg`: the event in byte 0, three 64-bit fields from byte 8.
fn decode(msg: &[u8; MESSAGE], protects: bool) -> Option<Event> {
    let word = |i: usize| {
        let at = 8 + i * 8;
        u64::from_ne_bytes(msg[at..at + 8].try_into().unwrap_or_default()) as usize
    };
    match u32::from(msg[0]) {
        raw::UFFD_EVENT_PAGEFAULT => Some(Event::Fault {
            addr: word(1),
            is_protected: word(0) & raw::UFFD_PAGEFAULT_FLAG_WP as usize != 0,
            is_write: word(0) & raw::UFFD_PAGEFAULT_FLAG_WRITE as usize != 0,
            thread: word(2) as u32 as i32,
        }),
        raw::UFFD_EVENT_FORK => Some(Event::Fork(Uffd {
            // SAFETY: the kernel installed this descriptor in our table when it delivered the
            // message.
            fd: unsafe { OwnedFd::from_raw_fd(word(0) as u32 as i32) },
            closes: false,
            can_protect: protects,
            protects: AtomicBool::new(protects),
        })),
        raw::UFFD_EVENT_REMAP => Some(Event::Remap {
            from: word(0),
            to: word(1),
            len: word(2),
        }),
        raw::UFFD_EVENT_REMOVE => Some(Event::Remove {
            start: word(0),
            end: word(1),
        }),
        raw::UFFD_EVENT_UNMAP => Some(Event::Unmap {
            start: word(0),
            end: word(1),
        }),
        _ => None,
    }
}

/// Wait until one of the descriptors (at least one, at most [`WAIT_MAX`]) is readable. `None`
/// timeout: for ever. False: timed out or interrupted.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout_ns: Option<u64>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    assert!(!fds.is_empty() && fds.len() <= WAIT_MAX, "a bounded set of descriptors");
    let timeout = timeout_ns.map(|ns| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    });
    let mut polled: [PollFd<'_>; WAIT_MAX] =
        core::array::from_fn(|i| PollFd::from_borrowed_fd(fds[i.min(fds.len() - 1)], PollFlags::IN));
    let ready = match poll(&mut polled[..fds.len()], timeout.as_ref()) {
        // The program allows itself fewer descriptors than these.
        Err(Errno::INVAL) => select_readable(fds, timeout.as_ref()),
        ready => ready.map(|n| n as i32),
    };
    ready.is_ok_and(|n| n > 0)
}

/// The same, whatever RLIMIT_NOFILE says.
fn select_readable(fds: &[BorrowedFd<'_>], timeout: Option<&rustix::event::Timespec>) -> Result<i32> {
    use rustix::event::{FdSetElement, Timespec, fd_set_insert, select};
    /// How often what cannot be waited for is looked at.
    const PAUSE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    /// Numbers that it can wait for.
    const NUMBERS: i32 = 1024;
    let mut set = [FdSetElement::default(); NUMBERS as usize / 8 / size_of::<FdSetElement>()];
    let numbers = fds.iter().map(|fd| fd.as_raw_fd());
    for number in numbers {
        if number >= NUMBERS {
            // It may be readable: whoever reads it finds out.
            let _ = rustix::thread::nanosleep(&PAUSE);
            return Ok(1);
        }
        fd_set_insert(&mut set, number);
    }
    // SAFETY: each number is of a descriptor that is borrowed, and lies in the set.
    unsafe { select(NUMBERS, Some(&mut set), None, None, timeout) }
}

/// The most descriptors that [`wait_readable`] takes: ours, the wake-up event, a child's.
pub const WAIT_MAX: usize = 3;
