//! What the torture program needs and nothing else: forking through libc, so that fork handlers run.

use core::ffi::{c_int, c_void};

use rustix::io::{Errno, Result};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn __errno_location() -> *mut c_int;
    fn mremap(old: *mut c_void, old_len: usize, new_len: usize, flags: c_int, ...) -> *mut c_void;
}

/// MREMAP_MAYMOVE | MREMAP_FIXED. rustix 1.1.6 passes MAP_FIXED here when it calls libc, which the kernel refuses.
const MOVE_TO: c_int = 3;

/// Move a mapping to `to`, through libc's `mremap`.
pub(crate) fn move_mapping(from: *mut c_void, len: usize, to: *mut c_void) -> Result<*mut c_void> {
    // SAFETY: both ranges belong to the caller's mappings, and the one at `to` is replaced on purpose.
    let moved = unsafe { mremap(from, len, len, MOVE_TO, to) };
    if moved as isize == -1 {
        // SAFETY: libc gives each of its threads an errno, and this is one.
        Err(Errno::from_raw_os_error(unsafe { *__errno_location() }))
    } else {
        Ok(moved)
    }
}

/// Fork; the child runs `body` and exits with its result. Returns the child's process id.
///
/// # Errors
/// EAGAIN when `fork` fails.
pub fn fork_and(body: impl FnOnce() -> u8) -> Result<i32> {
    // SAFETY: the child runs `body`, which uses its own copy of memory and libc's fork-safe malloc, then exits
    // without running anybody's destructors or exit handlers.
    match unsafe { fork() } {
        -1 => Err(Errno::AGAIN),
        // SAFETY: ends the child.
        0 => unsafe { _exit(c_int::from(body())) },
        pid => Ok(pid),
    }
}

const WNOHANG: c_int = 1;

/// The exit status of a child: its code, or 128 and the signal. `None`: it runs still (only if not to `block`).
pub fn reap(pid: i32, block: bool) -> Option<u8> {
    let mut status = 0;
    // SAFETY: waits for a child of ours and writes one integer.
    let reaped = unsafe { waitpid(pid, &raw mut status, if block { 0 } else { WNOHANG }) };
    let signal = status & 0x7f;
    (reaped == pid).then(|| {
        if signal == 0 {
            (status >> 8) as u8
        } else {
            128 + signal as u8
        }
    })
}
