//! Giving a descendant that is about to become another program, and asks for it, what that lacks:
//! entries of its environment, and a library where it loads none.

use alloc::vec::Vec;

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::environment;
use crate::inject::{
    Child, EVENT_STOP, Library, PTRACE_CONT, detach, mask, mask_for_agent, ptrace, set_mask, wait_for_stop,
};
use crate::time::now_ns;
use crate::wait::{ALL, AT_ONCE, EXITED, LEAVE, STOPPED, wait};

const PTRACE_SEIZE: usize = 0x4206;
const PTRACE_INTERRUPT: usize = 0x4207;
const PTRACE_LISTEN: usize = 0x4208;
const PTRACE_O_TRACEEXEC: usize = 1 << 4;
/// As [`EVENT_STOP`]: it has become another program.
const EVENT_EXEC: i32 = 4;

/// What a program that has just begun is to get.
pub struct Lacks<'a> {
    /// Behind those of its environment.
    pub entries: Vec<Vec<u8>>,
    pub library: Option<&'a Library>,
    /// So much may be put on its stack, in bytes.
    pub most: usize,
}

/// How it went with a descendant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It has what it lacked.
    Done,
    /// It goes on without.
    NotNow,
    /// The library went wrong in it: it stands.
    Broken,
}

/// A thread that is about to become another program, traced by this one. Dropped before that it
/// stays traced until this thread ends.
pub struct Tracee {
    thread: i32,
    process: i32,
}

/// How long one may take to become another program.
const BECOMES_WITHIN_NS: u64 = 2_000_000_000;
/// Between two looks, at first and later.
const LOOKS_NS: [u64; 2] = [50_000, 1_000_000];
/// When later begins.
const LATER_NS: u64 = 10_000_000;

impl Tracee {
    /// Trace `thread` of `process`, which goes on.
    ///
    /// # Errors
    /// EPERM: it is traced already, or a filter or Yama forbids that, or it is another user's.
    pub fn seize(thread: i32, process: i32) -> Result<Self> {
        // SAFETY: takes no address.
        unsafe { ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACEEXEC)? };
        Ok(Self { thread, process })
    }

    /// Give the program that it becomes what `lacks` says of that, and let it go; or let it go
    /// once it `has_failed` to become one.
    ///
    /// # Errors
    /// ESRCH: it has ended.
    pub fn give<'a>(
        self,
        has_failed: impl Fn() -> bool,
        lacks: impl FnOnce(i32) -> Option<Lacks<'a>>,
    ) -> Result<Given> {
        let pid = self.process;
        if self.waits_in_vain(false, has_failed)? {
            return Ok(Given::NotNow);
        }
        let Some(lacks) = lacks(pid) else {
            return detach(pid).map(|()| Given::NotNow);
        };
        let stack = environment::extend(pid, &lacks.entries, lacks.most);
        match (stack, lacks.library) {
            (Ok(stack), Some(library)) => Self::inject(pid, library, stack),
            (Ok(_), None) => detach(pid).map(|()| Given::Done),
            (Err(_), _) => detach(pid).map(|()| Given::NotNow),
        }
    }

    /// Put `library` into a program that stands in the middle of execve(2), and let it go. Its
    /// stack began at `stack`.
    fn inject(pid: i32, library: &Library, stack: usize) -> Result<Given> {
        let signals = leave_call(pid)?;
        let blocked = mask(pid)?;
        set_mask(pid, mask_for_agent(blocked))?;
        let mut child = Child::begin(pid, signals)?;
        match child.map(library) {
            Ok(base) => match child.call_entry(base + library.entry) {
                Ok(()) => child.end(blocked).map(|()| Given::Done),
                Err(Errno::SRCH) => Err(Errno::SRCH),
                Err(_) => Ok(Given::Broken),
            },
            Err(Errno::SRCH) => Err(Errno::SRCH),
            // Its file is out of reach there, perhaps. What was put on the stack lies below it now.
            Err(_) => {
                child.move_stack(stack)?;
                child.leave(blocked).map(|()| Given::NotNow)
            }
        }
    }

    /// Wait until it is another program. True: that was in vain, or took too long, and it is not
    /// traced any more. `is_interrupted`: it is not to be one.
    fn waits_in_vain(&self, mut is_interrupted: bool, has_failed: impl Fn() -> bool) -> Result<bool> {
        let began = now_ns();
        loop {
            let Some((id, status)) = self.stop()? else {
                let passed = now_ns() - began;
                if !is_interrupted && (passed > BECOMES_WITHIN_NS || has_failed()) {
                    self.interrupt()?;
                    is_interrupted = true;
                }
                let ns = LOOKS_NS[usize::from(passed > LATER_NS)];
                let pause = rustix::thread::Timespec {
                    tv_sec: 0,
                    tv_nsec: ns as _,
                };
                let _ = rustix::thread::nanosleep(&pause);
                continue;
            };
            let (signal, event) = (status & 0xff, status >> 8);
            match event {
                EVENT_EXEC => return Ok(false),
                EVENT_STOP if is_interrupted => return detach(id).map(|()| true),
                // It stands as all of its process do, until that is continued.
                // SAFETY: takes no address.
                EVENT_STOP if signal != raw::SIGTRAP as i32 => unsafe { ptrace(PTRACE_LISTEN, id, 0, 0)? },
                // SAFETY: takes no address.
                EVENT_STOP => unsafe { ptrace(PTRACE_CONT, id, 0, 0)? },
                // SAFETY: takes no address.
                _ => unsafe { ptrace(PTRACE_CONT, id, 0, signal as usize)? },
            };
        }
    }

    /// Have it stop, by the number of the process if it has that by now.
    fn interrupt(&self) -> Result<()> {
        // SAFETY: takes no address.
        let interrupt = |id| unsafe { ptrace(PTRACE_INTERRUPT, id, 0, 0) }.map(drop);
        interrupt(self.thread).or_else(|_| interrupt(self.process))
    }

    /// Who of it stands, and for what, if it does: as the thread, or the process that only this
    /// thread is left of.
    fn stop(&self) -> Result<Option<(i32, i32)>> {
        for id in [self.thread, self.process] {
            match wait(Some(id), STOPPED | EXITED | LEAVE | AT_ONCE | ALL) {
                // A thread that has ended is kept from going by this one.
                Ok(Some(found)) if found.has_ended => return Err(Errno::SRCH),
                Ok(Some(_)) => return Ok(wait(Some(id), STOPPED | AT_ONCE | ALL)?.map(|stop| (id, stop.status))),
                // As long as there is the thread, the process is none of ours, but a child perhaps.
                Ok(None) => return Ok(None),
                // The thread has become the process.
                Err(Errno::CHILD) if id != self.process => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(None)
    }

    /// Trace it no more.
    pub fn let_go(self) {
        if self.interrupt().is_ok() {
            // It has become one all the same.
            if self.waits_in_vain(true, || true) == Ok(false) {
                let _ = detach(self.process);
            }
        }
    }
}

/// Have a program that stands in the middle of execve(2) stand before its first instruction: what
/// registers say counts from there on. Returns the signals that came meanwhile.
fn leave_call(pid: i32) -> Result<Vec<i32>> {
    let mut signals = Vec::new();
    // SAFETY: takes no address.
    unsafe { ptrace(PTRACE_INTERRUPT, pid, 0, 0)? };
    loop {
        // SAFETY: takes no address.
        unsafe { ptrace(PTRACE_CONT, pid, 0, 0)? };
        let status = wait_for_stop(pid)?;
        match status >> 8 {
            0 => signals.push(status),
            _ => return Ok(signals),
        }
    }
}
