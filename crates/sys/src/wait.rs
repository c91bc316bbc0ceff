//! What has become of children: waitid(2), which can look without waiting in somebody's place.

use core::ops::RangeInclusive;

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::thread::syscall;

/// Options: what is looked for, and how.
pub const STOPPED: u32 = raw::WSTOPPED;
pub const EXITED: u32 = raw::WEXITED;
pub const AT_ONCE: u32 = raw::WNOHANG;
/// Whoever waits for it finds it as before.
pub const LEAVE: u32 = raw::WNOWAIT;
/// Threads as well.
pub const ALL: u32 = raw::__WALL;
/// Those of this thread alone.
pub const OF_THREAD: u32 = raw::__WNOTHREAD;

/// CLD_STOPPED: as a shell stops a job, not for a tracer.
const STOPPED_AS_JOB: i32 = 5;
/// CLD_EXITED, CLD_KILLED, CLD_DUMPED.
const ENDED: RangeInclusive<i32> = 1..=3;

/// What has happened to a child.
#[derive(Clone, Copy)]
pub struct Found {
    pub pid: i32,
    /// The signal that it stopped at, and the event above, if it did.
    pub status: i32,
    pub has_ended: bool,
    /// It has stopped, not for its tracer.
    pub is_stopped: bool,
}

/// Look at one child, or any. `None`: nothing has happened yet.
///
/// # Errors
/// ECHILD: there is none.
pub fn wait(child: Option<i32>, options: u32) -> Result<Option<Found>> {
    const P_ALL: usize = 0;
    const P_PID: usize = 1;
    /// Words of `siginfo_t`: the signal, its code, the process, and its status.
    const SIGNAL: usize = 0;
    const CODE: usize = 2;
    const PID: usize = 4;
    const STATUS: usize = 6;
    let mut info = [0i32; 32];
    let (which, pid) = child.map_or((P_ALL, 0), |pid| (P_PID, pid as usize));
    loop {
        let args = [which, pid, (&raw mut info).addr(), options as usize, 0, 0];
        // SAFETY: writes one `siginfo_t`, 128 bytes.
        match unsafe { syscall(raw::__NR_waitid as usize, args) } {
            Err(Errno::INTR) => {}
            result => {
                let found = Found {
                    pid: info[PID],
                    status: info[STATUS],
                    has_ended: ENDED.contains(&info[CODE]),
                    is_stopped: info[CODE] == STOPPED_AS_JOB,
                };
                return result.map(|_| (info[SIGNAL] != 0).then_some(found));
            }
        }
    }
}
