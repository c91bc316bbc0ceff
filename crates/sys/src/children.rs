//! Children of this process, looked at without waiting for them in the program's place.

use linux_raw_sys::general as raw;
use rustix::io::Errno;

use crate::remains;
use crate::thread::syscall;
use crate::wait::{ALL, AT_ONCE, EXITED, LEAVE, wait};

/// Whether this process has children, of whatever kind.
pub fn has_children() -> bool {
    !matches!(wait(None, EXITED | AT_ONCE | LEAVE | ALL), Err(Errno::CHILD))
}

/// Whether a child of this process has ended, or there is no such process any more. It can be
/// waited for as before.
pub fn has_ended(child: i32) -> bool {
    match wait(Some(child), EXITED | AT_ONCE | LEAVE | ALL) {
        Ok(found) => found.is_some_and(|found| found.has_ended),
        // A sibling (CLONE_PARENT), or somebody has waited for it.
        Err(_) => !is_process(child),
    }
}

/// The same by its `stat`: a filter of system calls that forbids to wait lets that be read, or may
/// answer with an error. False: that cannot be read.
pub fn has_ended_by_stat(child: i32) -> bool {
    let mut stat = [0; 1024];
    match remains::read_stat(child as u32, &mut stat) {
        Ok(len) => remains::has_ended(&stat[..len]),
        Err(errno) => errno == Errno::NOENT,
    }
}

fn is_process(pid: i32) -> bool {
    // SAFETY: kill(2) takes two integers; signal 0 only asks.
    let asked = unsafe { syscall(raw::__NR_kill as usize, [pid as usize, 0, 0, 0, 0, 0]) };
    asked != Err(Errno::SRCH)
}
