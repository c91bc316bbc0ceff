//! A tracer for the pager's threads, so that nobody else can be.
//!
//! LeakSanitizer makes a process that shares the program's memory, has it stop all threads as their
//! tracer, and reads all memory while they stand. Its first fault would wait for a pager that is
//! stopped. But a thread has one tracer at most, and LeakSanitizer passes over threads that it
//! cannot have. So a process of our own, which shares the memory as well, is the tracer of the
//! pager's threads, and lets them run. It takes on their credentials, and ends with them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::thread::{self, ThreadMemory, syscall};
use crate::{creds, futex};

const PTRACE_CONT: usize = 7;
const PTRACE_SEIZE: usize = 0x4206;
/// Threads that a traced thread makes are traced too.
const PTRACE_O_TRACECLONE: usize = 1 << 3;
/// Yama: whom, beside its parents, a process lets trace it. LeakSanitizer names another one later,
/// which ends nothing that has begun.
const PR_SET_PTRACER: usize = 0x5961_6d61;
/// `__WALL`: threads too.
const WALL: usize = 0x4000_0000;
/// `WNOHANG`
const NO_HANG: usize = 1;
/// Bytes in a set of signals.
const SIGNALS: usize = 8;

static MEMORY: ThreadMemory = ThreadMemory::new();
/// Above the process that is traced, below its tracer.
static TRACER: AtomicU64 = AtomicU64::new(0);

/// How far the tracer is.
static STEP: AtomicU32 = AtomicU32::new(TRYING);
const TRYING: u32 = 0;
/// It was refused, and waits to be named.
const REFUSED: u32 = 1;
const NAMED: u32 = 2;
const DONE: u32 = 3;

/// Have this thread, and all that it makes, traced from now on. Where that is not allowed, or
/// somebody else traces it already, all stays as it is.
///
/// # Errors
/// No process could be made.
pub fn raise() -> Result<()> {
    let me = thread::tid();
    STEP.store(TRYING, Ordering::Release);
    let tracer = MEMORY.spawn_process(c"uzswap-shield", move || {
        thread::close_all_descriptors();
        let is_tracer = seize(me).is_ok() || {
            step(REFUSED);
            await_step(|step| step == NAMED);
            seize(me).is_ok()
        };
        step(DONE);
        if is_tracer {
            let_run();
        }
        creds::leave();
    })?;
    TRACER.store((thread::pid() as u64) << 32 | tracer as u64, Ordering::Release);
    if await_step(|step| step != TRYING) == REFUSED {
        // SAFETY: prctl(2) with integers.
        let _ = unsafe { syscall(raw::__NR_prctl as usize, [PR_SET_PTRACER, tracer as usize, 0, 0, 0, 0]) };
        step(NAMED);
        await_step(|step| step == DONE);
    }
    Ok(())
}

/// The tracer of this process, if it has one.
fn tracer() -> Option<usize> {
    let traced = TRACER.load(Ordering::Acquire);
    ((traced >> 32) as i32 == thread::pid()).then_some(traced as u32 as usize)
}

/// Have the tracer take on the credentials that were asked for. By a thread that still holds what
/// allows it to.
pub fn ring() {
    if let Some(tracer) = tracer() {
        // SAFETY: integers; the process is our child and was not waited for, so the number is still
        // its own.
        let _ = unsafe { syscall(raw::__NR_kill as usize, [tracer, raw::SIGUSR1 as usize, 0, 0, 0, 0]) };
    }
}

/// End the tracer.
pub fn lower() {
    let Some(tracer) = tracer() else { return };
    TRACER.store(0, Ordering::Release);
    // SAFETY: as above.
    let _ = unsafe { syscall(raw::__NR_kill as usize, [tracer, raw::SIGKILL as usize, 0, 0, 0, 0]) };
    // SAFETY: integers, and nothing to write to.
    let _ = unsafe { syscall(raw::__NR_wait4 as usize, [tracer, 0, WALL, 0, 0, 0]) };
}

fn step(to: u32) {
    STEP.store(to, Ordering::Release);
    futex::wake_all(&STEP, false);
}

/// Either side waits for the other. It looks again and again: the other may have been killed.
fn await_step(is_it: impl Fn(u32) -> bool) -> u32 {
    const LOOK_NS: u64 = 1_000_000;
    const LOOKS: u32 = 2_000;
    for _ in 0..LOOKS {
        let now = STEP.load(Ordering::Acquire);
        if is_it(now) {
            return now;
        }
        futex::wait(&STEP, now, Some(LOOK_NS), false);
    }
    DONE
}

fn ptrace(request: usize, thread: i32, data: usize) -> Result<()> {
    // SAFETY: the two requests made here take integers, and touch no memory.
    unsafe { syscall(raw::__NR_ptrace as usize, [request, thread as usize, 0, data, 0, 0]) }.map(drop)
}

fn seize(thread: i32) -> Result<()> {
    ptrace(PTRACE_SEIZE, thread, PTRACE_O_TRACECLONE)
}

/// Let the traced threads run on whenever they stop, until they have all ended; and hold no more
/// than they do.
fn let_run() {
    // The kernel tells of them by a signal, if that is not ignored. The table of handlers is a copy
    // of the program's.
    let by_default = [0usize; 4];
    let action = [raw::SIGCHLD as usize, by_default.as_ptr() as usize, 0, SIGNALS, 0, 0];
    // SAFETY: reads a `struct sigaction` of zeros.
    let _ = unsafe { syscall(raw::__NR_rt_sigaction as usize, action) };
    let mut status = 0i32;
    loop {
        creds::take_on();
        let place = &raw mut status as usize;
        // SAFETY: writes one integer.
        match unsafe { syscall(raw::__NR_wait4 as usize, [usize::MAX, place, WALL | NO_HANG, 0, 0, 0]) } {
            Ok(0) => await_signal(),
            Ok(thread) if status & 0xff == 0x7f => {
                // A signal is passed on; what else stopped it (a new thread, a stop of the whole
                // process) is not.
                let (signal, event) = ((status >> 8) & 0xff, status >> 16);
                let _ = ptrace(PTRACE_CONT, thread as i32, if event == 0 { signal as usize } else { 0 });
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Sleep until a traced thread stops or ends, or [`ring`] is called. Both signals are blocked, as
/// all are.
fn await_signal() {
    let signals = 1u64 << (raw::SIGCHLD - 1) | 1 << (raw::SIGUSR1 - 1);
    // Seconds and nanoseconds: a program may have queued as many signals as it may, and not every
    // end of a thread is told. Until this process ends the memory stays.
    let timeout = [0i64, 20_000_000];
    let args = [
        &raw const signals as usize,
        0,
        &raw const timeout as usize,
        SIGNALS,
        0,
        0,
    ];
    // SAFETY: reads a set of signals and a time.
    let _ = unsafe { syscall(raw::__NR_rt_sigtimedwait as usize, args) };
}
