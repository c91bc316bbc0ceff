//! Children of this process, looked at without waiting for them in the program's place.

use linux_raw_sys::general as raw;
use rustix::io::Errno;

use crate::thread::syscall;

/// Whether this process has children, of whatever kind.
pub fn has_children() -> bool {
    const P_ALL: usize = 0;
    const LOOK: u32 = raw::WEXITED | raw::WNOHANG | raw::WNOWAIT | raw::__WALL;
    let args = [P_ALL, 0, 0, LOOK as usize, 0, 0];
    // SAFETY: takes no pointer (null: nothing is to be told), and leaves each child as it is.
    let found = unsafe { syscall(raw::__NR_waitid as usize, args) };
    found != Err(Errno::CHILD)
}

/// Whether a child of this process has ended, or there is no such process any more. It can be
/// waited for as before.
pub fn has_ended(child: i32) -> bool {
    const P_PID: usize = 1;
    const LOOK: u32 = raw::WEXITED | raw::WNOHANG | raw::WNOWAIT | raw::__WALL;
    let mut found = core::mem::MaybeUninit::<raw::siginfo_t>::zeroed();
    let args = [P_PID, child as usize, found.as_mut_ptr() as usize, LOOK as usize, 0, 0];
    // SAFETY: the kernel writes one `siginfo_t` at most to where there is room for it, and leaves
    // the child as it is.
    match unsafe { syscall(raw::__NR_waitid as usize, args) } {
        // SAFETY: zeros at least: its first word is the signal, 0 where none has ended.
        Ok(_) => unsafe { found.as_ptr().cast::<i32>().read() != 0 },
        // A sibling (CLONE_PARENT), or somebody has waited for it.
        Err(_) => !is_process(child),
    }
}

fn is_process(pid: i32) -> bool {
    // SAFETY: kill(2) takes two integers; signal 0 only asks.
    let asked = unsafe { syscall(raw::__NR_kill as usize, [pid as usize, 0, 0, 0, 0, 0]) };
    asked != Err(Errno::SRCH)
}
