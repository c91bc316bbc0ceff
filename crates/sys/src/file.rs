//! Descriptors and positioned I/O: the swap file, its lease on a group slot, the wake-up event.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
pub use rustix::fs::Access;
use rustix::fs::{self, FallocateFlags, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use crate::byte_locks::{self, Lock};
use crate::{PAGE_SIZE, keep};

/// An open file that is read and written at byte positions.
#[derive(Debug)]
pub struct File(OwnedFd);

impl File {
    /// Create a nameless file of mode 0600 in the directory `dir`, for direct I/O where the
    /// filesystem has it.
    ///
    /// It has no name from the start where O_TMPFILE works, and for the moment between two calls
    /// elsewhere.
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
        path.extend_from_slice(
            hex(rustix::process::getpid().as_raw_nonzero().get() as u64 ^ crate::time::now_ns()).as_slice(),
        );
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

    /// Open what `/proc/<pid>/task/<tid>/fd/<n>` stands for, for reading: a forked child's way to
    /// its parent's swap file.
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

    /// Open the file `path`, which is there and is an ordinary one, to append to it.
    ///
    /// # Errors
    /// What `open` answers: ENOENT, EACCES, ELOOP for a symbolic link; EINVAL: it is no ordinary
    /// file.
    pub fn open_to_append(path: &CStr) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = fs::open(path, flags, Mode::empty())?;
        match fs::FileType::from_raw_mode(fs::fstat(&fd)?.st_mode) {
            fs::FileType::RegularFile => Ok(Self(fd)),
            _ => Err(Errno::INVAL),
        }
    }

    /// Append all of `bytes`, at once as long as there is room: nothing that another process
    /// appends comes between.
    ///
    /// # Errors
    /// ENOSPC, EIO, ...; part of the bytes may have been written then.
    pub fn append(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match io::write(&self.0, bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// A file without a name that somebody has handed over, with his way to open it.
    ///
    /// # Errors
    /// EINVAL: it is no such file.
    pub fn received(fd: OwnedFd) -> Result<Self> {
        let stat = fs::fstat(&fd)?;
        match fs::FileType::from_raw_mode(stat.st_mode) {
            fs::FileType::RegularFile if stat.st_nlink == 0 => Ok(Self(fd)),
            _ => Err(Errno::INVAL),
        }
    }

    /// Hold a shared lock on byte `byte` for as long as this file is open: whoever made the file
    /// can tell.
    pub fn lock_shared(&self, byte: u64) -> bool {
        byte_locks::try_lock(self.0.as_fd(), byte as i64, Lock::Shared).unwrap_or(false)
    }

    /// Whether another open of this file holds a lock on `byte`. An error reads as yes: the careful
    /// answer.
    pub fn is_locked(&self, byte: u64) -> bool {
        byte_locks::is_locked(self.0.as_fd(), byte as i64, 1).unwrap_or(true)
    }

    /// As [`is_locked`](Self::is_locked), on any byte.
    pub fn is_locked_anywhere(&self) -> bool {
        byte_locks::is_locked(self.0.as_fd(), 0, byte_locks::TO_THE_END).unwrap_or(true)
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
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(&self.0, bytes, offset)
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

    /// Have the file be `len` bytes long, or as long as the filesystem lets it be; where
    /// RLIMIT_FSIZE forbids that, the launcher at `keeper` does it. It takes no space by that, and
    /// what the process may write later does not matter to [`write_mapped`](Self::write_mapped).
    /// Returns the length.
    pub fn lengthen(&self, len: u64, keeper: Option<&CStr>) -> u64 {
        let page = PAGE_SIZE as u64;
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if let Some(keeper) = keeper.filter(|_| len > limit) {
            let _ = keep::have_lengthened(keeper, self.0.as_fd(), len);
            match fs::fstat(&self.0) {
                Ok(stat) if stat.st_size as u64 >= len => return len,
                _ => {}
            }
        }
        let mut len = len.min(limit) / page * page;
        while len > 0 {
            match fs::ftruncate(&self.0, len) {
                Err(Errno::FBIG | Errno::INVAL) => len = len / 2 / page * page,
                // Where a file cannot be lengthened it grows as it is written.
                Ok(()) | Err(_) => return len,
            }
        }
        0
    }

    /// As [`write_at`](Self::write_at), whole pages inside the file, where RLIMIT_FSIZE forbids
    /// that: through a mapping, to which it does not apply.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at); EOPNOTSUPP where space cannot be had beforehand.
    pub fn write_mapped(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let len = bytes.len();
        // Or a page without space would be found in the middle of the copy.
        fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, offset, len as u64)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let map = unsafe { mmap(core::ptr::null_mut(), len, prot, flags, &self.0, offset)? };
        let local = [bytes.as_ptr() as usize, len];
        let remote = [map as usize, len];
        let nr = linux_raw_sys::general::__NR_process_vm_writev as usize;
        let args = [
            crate::thread::pid() as usize,
            local.as_ptr() as usize,
            1,
            remote.as_ptr() as usize,
            1,
            0,
        ];
        // SAFETY: copies between `bytes` and the mapping, both of `len` bytes; a page that cannot
        // be written is an error here and not SIGBUS.
        let copied = unsafe { crate::thread::syscall(nr, args) };
        // SAFETY: mapped above, known to nobody else.
        let _ = unsafe { munmap(map, len) };
        if copied? != len {
            return Err(Errno::IO);
        }
        self.write_out(offset, len)?;
        // It must not stay in the page cache.
        let _ = fs::fadvise(
            &self.0,
            offset,
            core::num::NonZeroU64::new(len as u64),
            fs::Advice::DontNeed,
        );
        Ok(())
    }

    /// Have the pages of a part of the file written that the page cache has, and wait for it.
    fn write_out(&self, offset: u64, len: usize) -> Result<()> {
        use rustix::fd::AsRawFd;
        const WAIT_WRITE_WAIT: usize = 7;
        let nr = linux_raw_sys::general::__NR_sync_file_range as usize;
        let args = [self.0.as_raw_fd() as usize, offset as usize, len, WAIT_WRITE_WAIT, 0, 0];
        // SAFETY: sync_file_range(2) takes integers.
        unsafe { crate::thread::syscall(nr, args) }.map(drop)
    }

    /// Give a part of the file's space back to the filesystem; it is only an optimisation, so
    /// errors are dropped.
    pub fn punch(&self, offset: u64, len: u64) {
        let _ = fs::fallocate(
            &self.0,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            len,
        );
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Write all of `bytes` at `offset` of `fd`.
pub(crate) fn write_all_at(fd: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        match io::pwrite(fd, bytes, offset) {
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

    /// One that is there.
    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Its descriptor.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
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

/// Who owns the file `path`.
///
/// # Errors
/// What `stat` answers.
pub fn owner(path: &CStr) -> Result<u32> {
    fs::stat(path).map(|stat| stat.st_uid)
}

/// Whether `path` may be accessed so by the effective user, as its mode and its file system say.
pub fn may_access(path: &CStr, access: Access) -> bool {
    fs::accessat(fs::CWD, path, access, fs::AtFlags::EACCESS).is_ok()
}

/// Whether this process may write to `path`, as its effective user.
///
/// # Errors
/// EROFS, EACCES, ...
pub fn may_write(path: &CStr) -> Result<()> {
    fs::accessat(
        fs::CWD,
        path,
        fs::Access::WRITE_OK | fs::Access::EXEC_OK,
        fs::AtFlags::EACCESS,
    )
}

/// Whether code of the file `path` may be executed: not where it is mounted noexec.
pub fn may_execute(path: &CStr) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let probe = || -> Result<()> {
        let fd = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let prot = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: a fresh mapping, which nobody looks at, is gone again.
        unsafe {
            let page = mmap(core::ptr::null_mut(), PAGE_SIZE, prot, MapFlags::PRIVATE, &fd, 0)?;
            munmap(page, PAGE_SIZE)
        }
    };
    probe().is_ok()
}

/// A file in memory. That it may not be run as a program says nothing about mapping it.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM; EPERM where a filter forbids it.
pub(crate) fn in_memory(name: &CStr) -> Result<OwnedFd> {
    let flags = fs::MemfdFlags::CLOEXEC | fs::MemfdFlags::ALLOW_SEALING;
    match fs::memfd_create(name, flags | fs::MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => fs::memfd_create(name, flags),
        made => made,
    }
}

/// A file in memory that holds `bytes` and that nobody can change.
///
/// # Errors
/// As for `memfd_create`, and ENOMEM or ENOSPC for its contents.
pub fn sealed(name: &CStr, bytes: &[u8]) -> Result<OwnedFd> {
    let fd = in_memory(name)?;
    write_all_at(&fd, bytes, 0)?;
    let seals = fs::SealFlags::SEAL | fs::SealFlags::SHRINK | fs::SealFlags::GROW | fs::SealFlags::WRITE;
    fs::fcntl_add_seals(&fd, seals)?;
    Ok(fd)
}

/// The user and the group that this process is of, whoever it acts as.
pub fn real_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Whether running the program `path` gives it capabilities of the file.
pub fn grants_capabilities(path: &CStr) -> bool {
    let mut value = [0u8; 64];
    let is_marked = fs::getxattr(path, c"security.capability", &mut value[..]).is_ok();
    is_marked && !rustix::process::geteuid().is_root() && !rustix::thread::no_new_privs().unwrap_or(false)
}

/// Device and file number of what stderr was when the process began; zeros: closed.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn stderr() -> Option<(BorrowedFd<'static>, [u64; 2])> {
    // SAFETY: borrowed for a call or two, which fail, harmlessly, if the program closes it
    // meanwhile.
    let fd = unsafe { BorrowedFd::borrow_raw(2) };
    fs::fstat(fd).ok().map(|stat| (fd, [stat.st_dev, stat.st_ino]))
}

/// Remember what stderr is now.
pub fn note_stderr() {
    let now = stderr().map_or([0; 2], |(_, now)| now);
    STDERR
        .iter()
        .zip(now)
        .for_each(|(word, now)| word.store(now, Ordering::Relaxed));
}

/// Write a line to stderr, ignoring errors. False: its number stands for something else than when
/// [`note_stderr`] looked, a file of the program perhaps, and nothing was written.
pub fn write_stderr(line: &str) -> bool {
    let then = [0, 1].map(|i| STDERR[i].load(Ordering::Relaxed));
    match stderr() {
        Some((fd, now)) if now == then && now != [0; 2] => {
            let _ = io::write(fd, line.as_bytes());
            true
        }
        _ => false,
    }
}

/// Whether files in `dir` live in memory (tmpfs, ramfs): no place to swap to.
///
/// # Errors
/// What `statfs` answers.
pub fn is_memory_backed(dir: &CStr) -> Result<bool> {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let kind = fs::statfs(dir)?.f_type as u64;
    Ok(kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_sealed_file_is_read_and_never_changed() {
        let fd = sealed(c"sealed", b"an image").unwrap();
        let mut read = [0; 16];
        assert_eq!(io::pread(&fd, &mut read, 0), Ok(8));
        assert_eq!(&read[..8], b"an image");
        assert_eq!(io::pwrite(&fd, b"x", 0), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(&fd, 1), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(&fd, 9), Err(Errno::PERM));
        assert_eq!(fs::fcntl_add_seals(&fd, fs::SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    }
}
