//! Memory that is locked. Locking fills memory, and changes no contents.

use rustix::process::{Resource, getrlimit};

use crate::Errno;
use crate::thread::syscall_of_program;

pub const SYS_MLOCK: usize = 149;
pub const SYS_MLOCKALL: usize = 151;
pub const SYS_MLOCK2: usize = 325;
const MLOCK_ONFAULT: usize = 1;

/// How many bytes this process may lock, where that is limited.
pub fn most_locked() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// mlockall(2).
///
/// # Errors
/// What it answers.
pub fn lock_all(flags: usize) -> Result<(), Errno> {
    // SAFETY: changes no contents.
    unsafe { syscall_of_program(SYS_MLOCKALL, [flags, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Lock what is mapped in `[start, end)`; what is not there yet as it comes, if `on_fault`.
///
/// # Errors
/// What mlock(2) answers, or mlock2(2).
pub fn lock(start: usize, end: usize, on_fault: bool) -> Result<(), Errno> {
    let (number, flags) = match on_fault {
        false => (SYS_MLOCK, 0),
        true => (SYS_MLOCK2, MLOCK_ONFAULT),
    };
    // SAFETY: changes no contents.
    unsafe { syscall_of_program(number, [start, end - start, flags, 0, 0, 0]) }.map(drop)
}
