//! Descriptors and positioned I/O: the swap file, its lease on a group slot, the wake-up event.

use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, FallocateFlags, Mode, OFlags};
use rustix::io::{self, Errno, Result};

use crate::PAGE_SIZE;

/// A page-aligned buffer, as direct I/O wants.
pub struct AlignedBuf(crate::mapping::Mapping);

impl AlignedBuf {
    /// A zeroed buffer of `pages` pages.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(pages: usize) -> Result<Self> {
        crate::mapping::Mapping::reserve(pages * PAGE_SIZE).map(Self)
    }

    /// The first `len` bytes.
    pub fn bytes(&self, len: usize) -> &[u8] {
        self.0.bytes(0, len)
    }

    /// The first `len` bytes, for writing.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        self.0.bytes_mut(0, len)
    }

    /// How many pages it holds.
    pub fn pages(&self) -> usize {
        self.0.len() / PAGE_SIZE
    }
}

/// An open file that is read and written at byte positions.
#[derive(Debug)]
pub struct File(OwnedFd);

impl File {
    /// Create a nameless file of mode 0600 in the directory `dir`, for direct I/O where the filesystem has it.
    ///
    /// It has no name from the start where O_TMPFILE works, and for the moment between two calls elsewhere.
    ///
    /// # Errors
    /// What `open` answers: ENOENT, EACCES, EROFS, ENOSPC, ...
    pub fn create_unnamed(dir: &CStr) -> Result<Self> {
        let mode = Mode::RUSR | Mode::WUSR;
        let base = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        match fs::open(dir, base | OFlags::DIRECT, mode) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            other => return other.map(Self),
        }
        match fs::open(dir, base, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => Self::create_unlinked(dir, mode),
            other => other.map(Self),
        }
    }

    fn create_unlinked(dir: &CStr, mode: Mode) -> Result<Self> {
        let mut path = Vec::from(dir.to_bytes());
        path.extend_from_slice(b"/.uzswap-");
        path.extend_from_slice(hex(rustix::process::getpid().as_raw_nonzero().get() as u64 ^ crate::time::now_ns()).as_slice());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = fs::open(path.as_slice(), flags, mode)?;
        fs::unlink(path.as_slice())?;
        Ok(Self(fd))
    }

    /// Create the file `path` (mode 0600, it must not exist) and unlink it at once.
    ///
    /// # Errors
    /// What `open` and `unlink` answer; EEXIST when something has that name already.
    pub fn create_at(path: &CStr) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        fs::unlink(path)?;
        Ok(Self(fd))
    }

    /// Open what `/proc/<pid>/task/<tid>/fd/<n>` stands for, for reading: a forked child's way to its parent's swap file.
    ///
    /// # Errors
    /// What `open` answers; EACCES when the other process may not be inspected.
    pub fn open_of_thread(pid: i32, tid: i32, fd: i32) -> Result<Self> {
        let path = alloc::format!("/proc/{pid}/task/{tid}/fd/{fd}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match fs::open(path.as_str(), flags | OFlags::DIRECT, Mode::empty()) {
            Err(Errno::INVAL) => fs::open(path.as_str(), flags, Mode::empty()).map(Self),
            other => other.map(Self),
        }
    }

    /// The descriptor's number, for [`open_of_thread`](Self::open_of_thread).
    pub fn number(&self) -> i32 {
        use rustix::fd::AsRawFd;
        self.0.as_raw_fd()
    }

    /// Write all of `bytes` at `offset`.
    ///
    /// # Errors
    /// ENOSPC, EIO, ...; part of the bytes may have been written then.
    pub fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        while !bytes.is_empty() {
            match io::pwrite(&self.0, bytes, offset) {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Fill `bytes` from `offset`.
    ///
    /// # Errors
    /// EIO, also when the file ends before `bytes` is full.
    pub fn read_at(&self, bytes: &mut [u8], mut offset: u64) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match io::pread(&self.0, &mut bytes[done..], offset) {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => {
                    done += n;
                    offset += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Give a part of the file's space back to the filesystem; it is only an optimisation, so errors are dropped.
    pub fn punch(&self, offset: u64, len: u64) {
        let _ = fs::fallocate(&self.0, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len);
    }
}

fn hex(value: u64) -> Vec<u8> {
    alloc::format!("{value:016x}").into_bytes()
}

/// An event counter that another thread's poll can wait on.
#[derive(Debug)]
pub struct WakeEvent(OwnedFd);

impl WakeEvent {
    /// A fresh, unset event.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn new() -> Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self)
    }

    /// Make the event readable.
    pub fn set(&self) {
        let _ = io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Make it unreadable again.
    pub fn clear(&self) {
        let _ = io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for WakeEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Write a line to a descriptor of the program's own table (the agent's last words), ignoring errors.
pub fn write_stderr(line: &str) {
    let _ = io::write(rustix::stdio::stderr(), line.as_bytes());
}
