//! Locks on bytes of a file that belong to the open file description.

use rustix::fd::BorrowedFd;
use rustix::io::{Errno, Result};

/// The kinds of byte-range locks.
#[derive(Clone, Copy)]
pub(crate) enum Lock {
    Shared = 0,
    Exclusive = 1,
    Unlocked = 2,
}

const F_OFD_GETLK: usize = 36;
const F_OFD_SETLK: usize = 37;

#[repr(C)]
struct Flock {
    kind: i16,
    whence: i16,
    start: i64,
    len: i64,
    pid: i32,
}

/// A length: all bytes from the first on.
pub(crate) const TO_THE_END: i64 = 0;

/// rustix has only whole-file and process-owned locks; these belong to the open file description.
fn ofd_lock(fd: BorrowedFd<'_>, cmd: usize, (start, len): (i64, i64), kind: Lock) -> Result<i16> {
    use rustix::fd::AsRawFd;
    let mut lock = Flock {
        kind: kind as i16,
        whence: 0,
        start,
        len,
        pid: 0,
    };
    let nr = linux_raw_sys::general::__NR_fcntl as usize;
    // SAFETY: fcntl with a valid struct flock, which it reads and, for GETLK, writes.
    unsafe { crate::thread::syscall(nr, [fd.as_raw_fd() as usize, cmd, &raw mut lock as usize, 0, 0, 0])? };
    Ok(lock.kind)
}

/// Lock a byte. False: another has it.
pub(crate) fn try_lock(fd: BorrowedFd<'_>, byte: i64, kind: Lock) -> Result<bool> {
    match ofd_lock(fd, F_OFD_SETLK, (byte, 1), kind) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Unlock a byte.
pub(crate) fn unlock(fd: BorrowedFd<'_>, byte: i64) -> Result<()> {
    ofd_lock(fd, F_OFD_SETLK, (byte, 1), Lock::Unlocked).map(drop)
}

/// Whether another open file has a lock on any of `len` bytes.
pub(crate) fn is_locked(fd: BorrowedFd<'_>, start: i64, len: i64) -> Result<bool> {
    ofd_lock(fd, F_OFD_GETLK, (start, len), Lock::Exclusive).map(|kind| kind != Lock::Unlocked as i16)
}
