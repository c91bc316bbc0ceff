//! A file of 64-bit words that every process of a group maps: limits, tunables, counters, charges.
//!
//! All access is by atomics, so a process that dies, lies or scribbles can make the numbers wrong
//! but can never make reading them undefined. What the words mean is `uzswap-ctl`'s business.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::byte_locks::{self, Lock};
use crate::file;

/// A mapped group file. The mapping lives as long as the process: forked children inherit it,
/// nothing unmaps it. So the open file description that it is made from holds no lease, which would
/// outlive its process with them: [`Leases`] has another.
#[derive(Clone, Copy)]
pub struct SharedWords(&'static [AtomicU64]);

impl SharedWords {
    /// Create `path` (0600, must not exist) with `count` zero words.
    ///
    /// # Errors
    /// What `open`, `ftruncate` and `mmap` answer; EEXIST when the name is taken.
    pub fn create(path: &CStr, count: usize) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        let len = (count * 8) as u64;
        fs::ftruncate(&fd, len).inspect_err(|_| _ = fs::unlink(path))?;
        // Where there is no room for it nobody can write to it later: that would be a SIGBUS. 0
        // blocks: the file system has no limit.
        let room = fs::fstatfs(&fd)?;
        if room.f_blocks != 0 && (room.f_bfree as u64).saturating_mul(room.f_bsize as u64) < len {
            let _ = fs::unlink(path);
            return Err(Errno::NOSPC);
        }
        Self::map(&fd, count)
    }

    /// Open an existing file of at least `count` words.
    ///
    /// # Errors
    /// What `open` and `mmap` answer; EINVAL when the file is too short to hold `count` words.
    pub fn open(path: &CStr, count: usize) -> Result<Self> {
        let fd = open(path)?;
        if (fs::fstat(&fd)?.st_size as usize) < count * 8 {
            return Err(Errno::INVAL);
        }
        Self::map(&fd, count)
    }

    /// Open an existing file, as a member: the lock on byte `membership` is shared by all that have
    /// the file mapped by this, forked children too, until the last of them has ended or runs
    /// another program.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and what `fcntl` answers.
    pub fn join(path: &CStr, count: usize, membership: usize) -> Result<Self> {
        let fd = open(path)?;
        if (fs::fstat(&fd)?.st_size as usize) < count * 8 {
            return Err(Errno::INVAL);
        }
        // The mapping keeps the open file description, and so its lock, when the descriptor is
        // closed.
        byte_locks::try_lock(fd.as_fd(), membership as i64, Lock::Shared)?;
        Self::map(&fd, count)
    }

    /// `count` zero words in a file in memory that has no name: `name` is for `/proc`. Others get
    /// at them by the descriptor ([`open_of_process`](Self::open_of_process)), as long as it is
    /// open.
    ///
    /// # Errors
    /// What `memfd_create`, `ftruncate` and `mmap` answer.
    pub fn in_memory(name: &CStr, count: usize) -> Result<(Self, OwnedFd)> {
        let fd = file::in_memory(name)?;
        fs::ftruncate(&fd, (count * 8) as u64)?;
        // Nobody makes it shorter: that would be a SIGBUS.
        fs::fcntl_add_seals(&fd, fs::SealFlags::SHRINK | fs::SealFlags::GROW | fs::SealFlags::SEAL)?;
        Ok((Self::map(&fd, count)?, fd))
    }

    /// Open the file of at least `count` words that descriptor `fd` of process `pid` is.
    ///
    /// # Errors
    /// As for [`open`](Self::open); EACCES when the other process may not be inspected.
    pub fn open_of_process(pid: i32, fd: i32, count: usize) -> Result<Self> {
        let path = alloc::format!("/proc/{pid}/fd/{fd}");
        let fd = fs::open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fs::fstat(&fd)?;
        let is_file = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile;
        if !is_file || (stat.st_size as usize) < count * 8 {
            return Err(Errno::INVAL);
        }
        Self::map(&fd, count)
    }

    fn map(fd: &OwnedFd, count: usize) -> Result<Self> {
        // SAFETY: a fresh shared mapping; the file holds at least count words (created or checked
        // by the callers).
        let base = unsafe {
            mmap(
                core::ptr::null_mut(),
                count * 8,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )?
        };
        // SAFETY: page aligned, count * 8 bytes long, never unmapped, and every process accesses it
        // atomically.
        Ok(Self(unsafe {
            core::slice::from_raw_parts(base.cast::<AtomicU64>(), count)
        }))
    }

    /// The words.
    pub fn words(&self) -> &'static [AtomicU64] {
        self.0
    }
}

fn open(path: &CStr) -> Result<OwnedFd> {
    fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
}

/// Words of a file in memory that another process has handed over, as long as this is kept.
pub struct ReceivedWords(&'static [AtomicU64]);

impl ReceivedWords {
    /// All words of a file that [`SharedWords::in_memory`] made.
    ///
    /// # Errors
    /// What `mmap` answers; EINVAL: it is none, or its owner could shorten it.
    pub fn map(fd: &OwnedFd) -> Result<Self> {
        let seals = fs::fcntl_get_seals(fd)?;
        let count = fs::fstat(fd)?.st_size as usize / 8;
        if !seals.contains(fs::SealFlags::SHRINK) || count == 0 {
            return Err(Errno::INVAL);
        }
        SharedWords::map(fd, count).map(|words| Self(words.words()))
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        self.0
    }
}

impl Drop for ReceivedWords {
    fn drop(&mut self) {
        // SAFETY: mapped when this was made, and nobody can have the words for longer than this.
        let _ = unsafe { munmap(self.0.as_ptr().cast_mut().cast(), size_of_val(self.0)) };
    }
}

/// Leases on the slots of a group: locks on bytes of its file, by an open file description that is
/// never mapped and in one descriptor table alone, so that nothing but the threads of that table
/// keeps it.
pub struct Leases(OwnedFd);

impl Leases {
    /// Of the group file `path`; none is held.
    ///
    /// # Errors
    /// What `open` answers.
    pub fn open(path: &CStr) -> Result<Self> {
        open(path).map(Self)
    }

    /// Take the exclusive lock on byte `index` for as long as this value lives.
    ///
    /// The kernel drops it when the process dies or replaces its image, whatever the cause: that is
    /// how the others learn that the charge of slot `index` is no one's. False: somebody holds it.
    pub fn try_take(&self, index: usize) -> bool {
        byte_locks::try_lock(self.0.as_fd(), index as i64, Lock::Exclusive).unwrap_or(false)
    }

    /// Give back the lease on `index`.
    pub fn give_back(&self, index: usize) {
        // To unlock what is locked cannot fail; else it ends with the process.
        let _ = byte_locks::unlock(self.0.as_fd(), index as i64);
    }

    /// Whether somebody else holds the lease on `index`. True also when that cannot be known.
    pub fn is_held(&self, index: usize) -> bool {
        byte_locks::is_locked(self.0.as_fd(), index as i64, 1).unwrap_or(true)
    }
}

impl AsFd for Leases {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Zero words that this process shares with the children that it forks while they are mapped, and
/// nobody else.
///
/// They stay where they are. A fresh address for each fork might be one that the program has left,
/// and is about to map at (MAP_FIXED).
pub struct FamilyWords {
    base: AtomicPtr<AtomicU64>,
    count: usize,
}

impl FamilyWords {
    /// `count` words that are not there until [`renew`](Self::renew).
    pub const fn new(count: usize) -> Self {
        Self {
            base: AtomicPtr::new(core::ptr::null_mut()),
            count,
        }
    }

    /// Map fresh zero words over those there were; children keep the old ones.
    ///
    /// # Errors
    /// What `mmap` answers; there are no words then.
    ///
    /// # Safety
    /// No other thread may hold what [`words`](Self::words) returned.
    pub unsafe fn renew(&self) -> Result<()> {
        let old = self.base.swap(core::ptr::null_mut(), Ordering::AcqRel);
        let fixed = if old.is_null() {
            MapFlags::empty()
        } else {
            MapFlags::FIXED
        };
        let (len, prot, flags) = (
            self.count * 8,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | fixed,
        );
        // SAFETY: a fresh shared mapping, or one in place of an earlier call's with this length;
        // nobody holds its words (the caller's promise).
        let base = unsafe { mmap_anonymous(old.cast(), len, prot, flags)? };
        self.base.store(base.cast(), Ordering::Release);
        Ok(())
    }

    /// The words; none before the first [`renew`](Self::renew).
    pub fn words(&self) -> &[AtomicU64] {
        let base = self.base.load(Ordering::Acquire);
        if base.is_null() {
            return &[];
        }
        // SAFETY: mapped, page aligned, count * 8 bytes, accessed atomically by everybody, and
        // replaced only when nobody holds the slice (`renew`).
        unsafe { core::slice::from_raw_parts(base, self.count) }
    }
}

#[cfg(test)]
mod test {
    use rustix::fd::AsRawFd;

    use super::*;

    #[test]
    fn words_of_a_family_stay_where_they_are() {
        let words = FamilyWords::new(1000);
        assert!(words.words().is_empty());
        let renewed = || {
            // SAFETY: nobody else knows them.
            unsafe { words.renew() }.unwrap();
            assert!(words.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
            words.words()[999].store(1, Ordering::Relaxed);
            words.words().as_ptr().addr()
        };
        let places = [(); 3].map(|()| renewed());
        assert_eq!(places, [places[0]; 3]);
    }

    #[test]
    fn words_in_memory_are_opened_by_their_descriptor() {
        let (words, fd) = SharedWords::in_memory(c"uzswap-test", 512).unwrap();
        words.words()[511].store(7, Ordering::Relaxed);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let other = SharedWords::open_of_process(pid, fd.as_raw_fd(), 512).unwrap();
        assert_eq!(other.words()[511].load(Ordering::Relaxed), 7);
        let fails = |fd, count| SharedWords::open_of_process(pid, fd, count).err();
        assert_eq!(fails(fd.as_raw_fd(), 513), Some(Errno::INVAL));
        assert_eq!(fails(9999, 1), Some(Errno::NOENT));
        assert_eq!(fs::ftruncate(&fd, 8).err(), Some(Errno::PERM));
        let received = ReceivedWords::map(&fd).unwrap();
        assert_eq!(
            (received.words().len(), received.words()[511].load(Ordering::Relaxed)),
            (512, 7)
        );
        let unsealed = crate::file::in_memory(c"uzswap-test").unwrap();
        fs::ftruncate(&unsealed, 64).unwrap();
        assert_eq!(ReceivedWords::map(&unsealed).err(), Some(Errno::INVAL));
    }
}
