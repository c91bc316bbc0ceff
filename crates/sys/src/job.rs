//! What a shell sees of a job: that it stops, goes on, and how it ends.

use linux_raw_sys::general as raw;
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::launch::{SIG_DFL, SIGCHLD, SIGTSTP, Signal, bit, dispose};
use crate::thread::{self, block_signals, restore_signals, syscall};
use crate::wait::{AT_ONCE, LEAVE, OF_THREAD, STOPPED, wait};

/// Stop this process as SIGTSTP would if it were not read from a descriptor; returns when it was
/// continued.
pub fn stop() {
    let mask = block_signals();
    thread::signal(thread::pid(), SIGTSTP);
    restore_signals(mask & !bit(raw::SIGTSTP));
    restore_signals(mask);
}

/// Whether this process leads its session: the kernel tells it alone that the terminal is gone.
pub fn leads_session() -> bool {
    // Not rustix's, which takes 0 for no answer: so the session of another PID namespace is called
    // here. SAFETY: getsid(2) takes an integer.
    let session = unsafe { syscall(raw::__NR_getsid as usize, [0; 6]) };
    session == Ok(thread::pid() as usize)
}

/// By which signal a child is stopped at this moment, if it is, and not for a tracer.
pub fn stopped_by(child: i32) -> Option<i32> {
    let found = wait(Some(child), STOPPED | AT_ONCE | LEAVE | OF_THREAD).ok()??;
    found.is_stopped.then_some(found.status)
}

/// The process group of a process, or of this one (0), as numbers are here: 0 where it is of
/// another PID namespace. `None`: there is no such process.
pub fn group_of(process: i32) -> Option<i32> {
    // SAFETY: getpgid(2) takes an integer.
    let group = unsafe { syscall(raw::__NR_getpgid as usize, [process as usize, 0, 0, 0, 0, 0]) };
    group.ok().map(|group| group as i32)
}

/// The same, of the one that has this process's terminal. `None`: there is no terminal.
pub fn foreground() -> Option<i32> {
    const TIOCGPGRP: usize = 0x540f;
    let terminal = open(
        c"/dev/tty",
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    let mut group = 0i32;
    let args = [
        terminal.as_raw_fd() as usize,
        TIOCGPGRP,
        (&raw mut group).addr(),
        0,
        0,
        0,
    ];
    // SAFETY: writes one integer.
    let asked = unsafe { syscall(raw::__NR_ioctl as usize, args) };
    asked.ok().map(|_| group)
}

/// Whether a signal tells that a child goes on that was stopped.
pub fn tells_that_goes_on(signal: Signal, child: i32) -> bool {
    const CLD_CONTINUED: i32 = 6;
    (signal.number, signal.code, signal.sender) == (SIGCHLD, CLD_CONTINUED, child)
}

/// End this process by a signal, as what it has waited for has ended by it. Returns where that
/// signal ends nothing, or is not to be had: for the first process of a namespace. No core is left:
/// it would be this process's.
pub fn end_by(signal: i32) {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mask = block_signals();
    dispose(signal as u32, Some(SIG_DFL));
    thread::signal(thread::pid(), signal);
    restore_signals(mask & !bit(signal as u32));
    restore_signals(mask);
}
