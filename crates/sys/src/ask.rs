//! Asking the launcher to trace a thread as it becomes another program.

use core::ffi::CStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, Result};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::keep::{ANSWERED_WITHIN, send};
use crate::thread::{pid, tid};
use crate::time::now_ns;

/// Have whoever is bound to `path` trace this thread, which is about to become another program.
/// False: it does not.
///
/// # Errors
/// As for [`hand_over`].
pub fn ask_to_trace(path: &CStr) -> Result<bool> {
    let (answer, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    let who = (tid() as u64) << 32 | pid() as u64;
    send(path, who, &[theirs.as_fd()])?;
    drop(theirs);
    let until = now_ns() + ANSWERED_WITHIN.tv_sec as u64 * 1_000_000_000;
    loop {
        // They close it. A launcher that is stopped does not.
        let mut polled = [PollFd::new(&answer, PollFlags::IN)];
        match poll(&mut polled, Some(&ANSWERED_WITHIN)) {
            // By a handler of the program's.
            Err(Errno::INTR) if now_ns() < until => {}
            answered => return Ok(answered? > 0 && rustix::io::read(&answer, &mut [0; 1]) == Ok(1)),
        }
    }
}

/// A thread that asks to be traced, as it is about to become another program.
pub struct Ask {
    pub thread: i32,
    pub process: i32,
    answer: OwnedFd,
}

impl Ask {
    /// That it is. Dropped without this, that it is not. False: it has waited for long enough, and
    /// goes on.
    pub fn is_traced(self) -> bool {
        rustix::io::write(&self.answer, &[0]) == Ok(1)
    }
}

/// Who asks to be traced says what thread of what process it is. In another namespace of process
/// ids only `sender` is known of it, here; 0: nobody that may ask.
pub(crate) fn asks(who: u64, sender: i32, answer: OwnedFd) -> Option<Ask> {
    let (thread, process) = ((who >> 32) as i32, who as u32 as i32);
    let sender = (sender != 0).then_some(sender)?;
    let thread = match process == sender {
        true => thread,
        false => (thread == process).then_some(sender)?,
    };
    Some(Ask {
        thread,
        process: sender,
        answer,
    })
}
