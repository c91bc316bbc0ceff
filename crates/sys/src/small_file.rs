//! Small files that are written for others.

use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use rustix::process::{Resource, getrlimit};

/// The contents of the file `path`, of at most `most` bytes.
///
/// # Errors
/// What the system answers. EPERM: others than its owner may write to it. EFBIG: it is longer.
pub fn read(path: &CStr, most: usize) -> Result<Vec<u8>> {
    let file = fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK,
        Mode::empty(),
    )?;
    let stat = fs::fstat(&file)?;
    if stat.st_mode & 0o022 != 0 {
        return Err(Errno::PERM);
    }
    let len = usize::try_from(stat.st_size).ok().filter(|len| *len <= most);
    let mut bytes = alloc::vec![0; len.ok_or(Errno::FBIG)?];
    let mut at = 0;
    while at < bytes.len() {
        match io::pread(&file, &mut bytes[at..], at as u64) {
            Err(Errno::INTR) => {}
            // It has become shorter.
            Ok(0) => return Err(Errno::IO),
            read => at += read?,
        }
    }
    Ok(bytes)
}

/// Have the file `path` hold `bytes`, which others may read: by way of `temporary`, beside it. They
/// find what was there before, or all of it.
///
/// # Errors
/// What the system answers; EFBIG: the process may not write so much. Nothing is left then.
pub fn replace(path: &CStr, temporary: &CStr, bytes: &[u8]) -> Result<()> {
    // SIGXFSZ would end the process.
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < bytes.len() as u64) {
        return Err(Errno::FBIG);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::open(temporary, flags, Mode::from_raw_mode(0o644))?;
    let written = crate::file::write_all_at(&file, bytes, 0).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        let _ = fs::unlink(temporary);
    }
    written
}
