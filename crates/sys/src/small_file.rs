//! Small files that others have written for us.

use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};

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
