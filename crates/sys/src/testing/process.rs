//! Forking, and what becomes of children.

use core::ffi::{c_int, c_ulong};

use rustix::io::{Errno, Result};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn prctl(option: c_int, ...) -> c_int;
}

/// Fork; the child runs `body` and exits with its result. Returns the child's process id.
///
/// # Errors
/// EAGAIN when `fork` fails.
pub fn fork_and(body: impl FnOnce() -> u8) -> Result<i32> {
    // SAFETY: the child runs `body`, which uses its own copy of memory and libc's fork-safe malloc,
    // then exits without running anybody's destructors or exit handlers.
    match unsafe { fork() } {
        -1 => Err(Errno::AGAIN),
        // SAFETY: ends the child.
        0 => unsafe { _exit(c_int::from(body())) },
        pid => Ok(pid),
    }
}

const WNOHANG: c_int = 1;

/// The exit status of a child: its code, or 128 and the signal. `None`: it runs still (only if not
/// to `block`), or is not ours.
pub fn reap(pid: i32, block: bool) -> Option<u8> {
    wait(pid, block).map(|(_, status)| status)
}

/// The next child that ends, and its status. `None`: there is none any more.
pub fn reap_any() -> Option<(i32, u8)> {
    wait(-1, true)
}

fn wait(pid: i32, block: bool) -> Option<(i32, u8)> {
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of ours and writes one integer.
        let reaped = unsafe { waitpid(pid, &raw mut status, if block { 0 } else { WNOHANG }) };
        if reaped == -1 && super::errno() == Errno::INTR {
            continue;
        }
        let signal = status & 0x7f;
        let status = if signal == 0 { status >> 8 } else { 128 + signal };
        return (reaped > 0).then_some((reaped, status as u8));
    }
}

/// Be the parent of all descendants whose own parents end.
pub fn adopt_orphans() {
    const PR_SET_CHILD_SUBREAPER: c_int = 36;
    // SAFETY: takes no pointer.
    unsafe {
        prctl(
            PR_SET_CHILD_SUBREAPER,
            1 as c_ulong,
            0 as c_ulong,
            0 as c_ulong,
            0 as c_ulong,
        )
    };
}
