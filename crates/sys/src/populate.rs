//! The program's memory, as its own threads get at it where the kernel does not wait for a page: by
//! asking first, and touching it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::PAGE_SIZE;
use crate::closed::{self, Access};
use crate::lent;
use crate::x86_64::instructions;

/// What becomes of asking for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// It is there.
    There,
    /// It is mapped for such an access, and whoever serves its faults was not waited for.
    Faults,
    /// An access would fail, or this one did.
    Refused(Errno),
}

/// Have whole pages mapped, to be written to if `is_written`, as far as the kernel can without
/// waiting for anybody who serves faults.
pub fn populate(addr: usize, len: usize, is_written: bool) -> Populate {
    let (advice, access) = match is_written {
        true => (rustix::mm::Advice::LinuxPopulateWrite, Access::Write),
        false => (rustix::mm::Advice::LinuxPopulateRead, Access::Read),
    };
    // SAFETY: maps pages, and changes no contents; where nothing is mapped it is refused.
    match unsafe { rustix::mm::madvise(core::ptr::with_exposed_provenance_mut(addr), len, advice) } {
        Ok(()) => Populate::There,
        Err(Errno::FAULT) => Populate::Faults,
        // What is closed is forbidden, as far as the kernel knows.
        Err(Errno::INVAL) if closed::meets_closed(addr, len, access) => Populate::Faults,
        Err(errno) => Populate::Refused(errno),
    }
}

/// Whether a page is a guard (MADV_GUARD_INSTALL): an access raises SIGSEGV. Linux 6.15 tells. It
/// is true as well where that cannot be asked.
pub fn is_guard(addr: usize) -> bool {
    use rustix::fs::{Mode, OFlags};
    const IS_GUARD: u64 = 1 << 58;
    let mut entry = [0; 8];
    let at = (addr / PAGE_SIZE * entry.len()) as u64;
    let lent = lent::pagemap().and_then(|lent| rustix::io::pread(lent, &mut entry, at).ok());
    // A program that hides itself has none to open here.
    let open = || {
        rustix::fs::open(
            c"/proc/thread-self/pagemap",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    let read = match lent {
        Some(read) => Ok(read),
        None => open().and_then(|file| rustix::io::pread(&file, &mut entry, at)),
    };
    read != Ok(8) || u64::from_ne_bytes(entry) & IS_GUARD != 0
}

/// Touch a byte of the program's, as the program would: its contents stay. To be called where
/// [`populate`] says that it faults: the thread waits then for who serves that.
pub fn touch(addr: usize, is_written: bool) {
    // SAFETY: mapped for this access a moment ago. If the program unmaps it meanwhile, it does so
    // while one of its calls uses it, and gets a signal for an error.
    unsafe { instructions::touch(addr, is_written) }
}

/// Whether what lies in `[start, end)`, which begins with a page, can be accessed and is there. Of
/// one that a filter of system calls forbids to ask, the address is believed.
fn may_access(start: usize, end: usize, is_written: bool) -> bool {
    match populate(start, end.next_multiple_of(PAGE_SIZE) - start, is_written) {
        Populate::There | Populate::Refused(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => true,
        Populate::Refused(_) | Populate::Faults => false,
    }
}

/// Pages of the program's that could be read when they were asked for last, for one call that reads
/// many words and texts of a few pages.
#[derive(Default)]
pub struct Readable([usize; 2]);

impl Readable {
    /// As [`read_populated`]. Each page is asked for once: if it has left since, whoever serves
    /// faults brings it, as after a [`touch`].
    pub fn read(&mut self, addr: usize, bytes: &mut [u8]) -> bool {
        let page = addr & !(PAGE_SIZE - 1);
        let is_one = page != 0 && addr.saturating_add(bytes.len()) <= page.saturating_add(PAGE_SIZE);
        if is_one && self.0.contains(&page) {
            let place = core::ptr::with_exposed_provenance::<u8>(addr);
            // SAFETY: readable a moment ago, and `bytes` is ours. If the program unmaps it
            // meanwhile, it does so while one of its calls uses it.
            unsafe { core::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) };
            return true;
        }
        let is_read = read_populated(addr, bytes);
        if is_read && is_one {
            self.0 = [page, self.0[0]];
        }
        is_read
    }
}

/// Copy bytes of the program's, if they can be read and are there.
pub fn read_populated(addr: usize, bytes: &mut [u8]) -> bool {
    let (start, end) = (addr & !(PAGE_SIZE - 1), addr.saturating_add(bytes.len()));
    let here = (&raw const start).addr() & !(PAGE_SIZE - 1);
    let is_own_page = start == here && end <= here + PAGE_SIZE;
    if !is_own_page && !may_access(start, end, false) {
        return false;
    }
    let place = core::ptr::with_exposed_provenance::<u8>(addr);
    // SAFETY: readable (it is the page of this very stack, or was just asked for), and `bytes` is
    // ours.
    unsafe { core::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) };
    true
}

/// Write bytes of the program's, if that is allowed.
pub fn write_populated(addr: usize, bytes: &[u8]) -> bool {
    let (start, end) = (addr & !(PAGE_SIZE - 1), addr.saturating_add(bytes.len()));
    if !may_access(start, end, true) {
        return false;
    }
    let place = core::ptr::with_exposed_provenance_mut::<u8>(addr);
    // SAFETY: writable (it was just asked for), and the program has asked for it.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    true
}

/// What a descriptor is, for who moves much in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file or a block device.
    File,
    /// Bytes come and go in order: a pipe, a terminal.
    Stream,
    /// The same, and an error waits for the next call that moves nothing: a stream socket.
    Socket,
    /// Anything else.
    Other,
}

/// A descriptor of the program's, for a call that only asks about it.
fn asked_about<'fd>(fd: i32) -> BorrowedFd<'fd> {
    // SAFETY: whoever closes it meanwhile gets an error for an answer, or one about its successor.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Where a write to `fd` at `offset` begins, as far as a limit of the lengths of files goes: at its
/// end, if it is one to append to. None: it has no such limit, as a block device.
pub fn begins_at(fd: i32, offset: u64) -> Option<u64> {
    use rustix::fs::{FileType, OFlags};
    let fd = asked_about(fd);
    let stat = rustix::fs::fstat(fd).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let appends = rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::APPEND));
    is_file.then_some(if appends { stat.st_size as u64 } else { offset })
}

/// Whether a read of this socket would get an error, as nothing is left of what came before that.
/// It stays there.
pub fn has_error_to_read(fd: i32) -> bool {
    let fd = asked_about(fd);
    has_event(fd, PollFlags::ERR) && !rustix::io::ioctl_fionread(fd).is_ok_and(|left| left > 0)
}

/// Whether a write to this socket would fail, as its other end is gone. An error stays there. What
/// else waits, as news of writes without copies, fails no write.
pub fn has_error_to_write(fd: i32) -> bool {
    has_event(asked_about(fd), PollFlags::HUP)
}

fn has_event(fd: BorrowedFd<'_>, event: PollFlags) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::empty())];
    let is_told = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    is_told.is_ok() && fds[0].revents().contains(event)
}

/// Whether a character device of this number is a terminal: console, serial line, pseudo-terminal
/// (`Documentation/admin-guide/devices.txt`). A call of others may be one message (video, tapes).
fn is_terminal(major: u32) -> bool {
    matches!(major, 2..=5 | 136..=143 | 188 | 204 | 229)
}

/// What `fd` of the calling thread is.
pub fn kind_of(fd: i32) -> Kind {
    use rustix::fs::{FileType, OFlags};
    if fd < 0 {
        return Kind::Other;
    }
    let fd = asked_about(fd);
    // Once more where the stack that this lies on is managed, and was taken out meanwhile.
    let once_more = |result| match result {
        Err(Errno::FAULT) => rustix::fs::fstat(fd),
        result => result,
    };
    let Ok(stat) = once_more(once_more(rustix::fs::fstat(fd))) else {
        return Kind::Other;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => Kind::File,
        // /dev/zero and its like.
        FileType::CharacterDevice if rustix::fs::major(stat.st_rdev) == 1 => Kind::File,
        // In which each write is a packet.
        FileType::Fifo if rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::DIRECT)) => Kind::Other,
        FileType::Fifo => Kind::Stream,
        FileType::CharacterDevice if is_terminal(rustix::fs::major(stat.st_rdev)) => Kind::Stream,
        FileType::Socket => match rustix::net::sockopt::socket_type(fd) {
            Ok(rustix::net::SocketType::STREAM) => Kind::Socket,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}
