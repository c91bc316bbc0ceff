//! Random numbers of the kernel's.

use rustix::io::{Errno, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// Fill `bytes`; waits if the system has just started.
///
/// # Errors
/// ENOSYS.
pub fn fill(bytes: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match getrandom(&mut bytes[done..], GetRandomFlags::empty()) {
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
