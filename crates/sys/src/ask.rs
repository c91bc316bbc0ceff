//! Asking the launcher to trace a thread as it becomes another program.
//!
//! ```text
//! thread                           launcher
//! asks, and waits  ------------->  traces it
//!                  <-- a byte ---
//! execve
//!   it has become one: stands -->  puts the library into it, traces it no more
//!   it failed:       -- a byte ->  traces it no more
//!                  <--- closed --
//! ```

use core::ffi::CStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send as send_bytes, socketpair};

use crate::door::send;
use crate::keep::ANSWERED_WITHIN;
use crate::thread::{pid, tid};
use crate::time::now_ns;

/// Have whoever is bound to `path` trace this thread, which is about to become another program.
/// The number of a descriptor for [`take_back`], if it does.
///
/// # Errors
/// As for [`hand_over`](crate::keep::hand_over).
pub fn ask_to_trace(path: &CStr) -> Result<Option<i32>> {
    let (own, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let who = (tid() as u64) << 32 | pid() as u64;
    send(path, who, &[theirs.as_fd()])?;
    drop(theirs);
    let is_traced = wait(own.as_fd())? && rustix::io::read(&own, &mut [0; 1]) == Ok(1);
    Ok(is_traced.then(|| own.into_raw_fd()))
}

/// It has not become one. Returns when it is not traced any more: a program with more rights that
/// it becomes next would lose them.
pub fn take_back(number: i32) {
    // SAFETY: made by `ask_to_trace`, whose caller gives it up.
    let own = unsafe { OwnedFd::from_raw_fd(number) };
    if send_bytes(&own, &[0], SendFlags::NOSIGNAL).is_ok() {
        let _ = wait(own.as_fd());
    }
}

/// Wait for the other end. False: a launcher that is stopped answers nothing.
fn wait(end: BorrowedFd<'_>) -> Result<bool> {
    let until = now_ns() + ANSWERED_WITHIN.tv_sec as u64 * 1_000_000_000;
    loop {
        let mut polled = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
        match poll(&mut polled, Some(&ANSWERED_WITHIN)) {
            // By a handler of the program's, or its tracer.
            Err(Errno::INTR) if now_ns() < until => {}
            answered => return Ok(answered? > 0),
        }
    }
}

/// A thread that asks to be traced, as it is about to become another program. Dropped, it is not
/// traced, or not any more.
pub struct Ask {
    pub thread: i32,
    pub process: i32,
    answer: OwnedFd,
}

impl Ask {
    /// Say that it is. False: it has waited for long enough, and goes on.
    pub fn is_traced(&self) -> bool {
        send_bytes(&self.answer, &[0], SendFlags::NOSIGNAL) == Ok(1)
    }

    /// Whether it has said that it became no other program. One that becomes it closes its end
    /// before that is seen.
    pub fn is_taken_back(&self) -> bool {
        matches!(recv(&self.answer, &mut [0; 1], RecvFlags::DONTWAIT), Ok((1, _)))
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
