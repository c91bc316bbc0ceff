//! Threads that libc does not know, and the system call instruction.
//!
//! A pager thread made by `pthread_create` would be seen by the program: libc counts it when the
//! last thread ends, signals it for `setuid`, and its creation calls `malloc` (reference/crates.md
//! B3). Threads here are made by `clone` itself. They have every signal blocked, a zeroed
//! thread-local block so that compiled C code may read its stack-protector word, and, unless they
//! are made to share it, **a descriptor table of their own**: the program can close or reuse any
//! number it likes without touching the pager's descriptors, and never sees them.

use alloc::boxed::Box;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::PAGE_SIZE;
use crate::cell::Leaked;
use crate::creds;
use crate::futex;
use crate::mapping::Mapping;
use crate::x86_64::instructions;
pub use crate::x86_64::instructions::{syscall, syscall_of_program, thread_pointer as pointer};

const STACK: usize = 512 * 1024;
/// Room below and above the thread pointer: what libc's static TLS and thread control block take
/// elsewhere.
const TLS_BELOW: usize = 64 * 1024;
const TLS_ABOVE: usize = 16 * 1024;

/// Whether a new thread shares its creator's descriptor table or starts with a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// Share: for the pager's second thread, made by the first.
    Shared,
    /// A private copy, which the new thread then empties with [`close_all_descriptors`].
    Private,
}

type Body = Box<dyn FnOnce() + Send>;

extern "C" fn enter(body: *mut c_void) -> ! {
    // SAFETY: `ThreadMemory::spawn` passed a boxed Body made by Box::into_raw, to this thread only.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    body();
    let status = STATUS.load(Ordering::Relaxed) as usize;
    // SAFETY: ends this thread only. Its stack is leaked on purpose: pager threads live as long as
    // the process.
    let _ = unsafe { syscall(raw::__NR_exit as usize, [status, 0, 0, 0, 0, 0]) };
    unreachable!("exit returned");
}

/// Stack and thread-local block of one thread: of each process in turn that is forked with it, at
/// the same addresses.
pub struct ThreadMemory {
    parts: Leaked<(Mapping, Mapping, usize)>,
    /// The process whose thread runs on it above, and which of its generations of threads below. It
    /// is given to each once.
    owner: AtomicU64,
}

/// How often the process has gone on without the threads made here ([`begin_anew`]).
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// [`ALL_LIVE`] until one of the threads made here ends, alone and not with the whole process: then
/// the kernel writes 0 and wakes who waits.
static LIFE: AtomicU32 = AtomicU32::new(ALL_LIVE);
const ALL_LIVE: u32 = 1;

/// Whether a thread made here has ended.
pub fn has_one_ended() -> bool {
    LIFE.load(Ordering::Acquire) != ALL_LIVE
}

/// Threads made here: the process that they belong to above, how many below. A forked child has
/// none.
static THREADS: AtomicU64 = AtomicU64::new(0);

fn count_one(process: i32) {
    let counted = |threads: u64| match (threads >> 32) as i32 == process {
        true => Some(threads + 1),
        false => Some((process as u64) << 32 | 1),
    };
    let _ = THREADS.fetch_update(Ordering::AcqRel, Ordering::Acquire, counted);
}

/// Threads made here that this process has, or one fewer while one is being made.
pub fn count() -> u32 {
    let threads = THREADS.load(Ordering::Acquire);
    if (threads >> 32) as i32 == pid() {
        threads as u32
    } else {
        0
    }
}

/// The program has no thread any more: those made here end as well, by themselves.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// With this status. Since Linux 5.17 a process has that of the thread that ends last, before that
/// of its first.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// How many of the threads made here have nothing left to do but to end.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// Whether all threads made here end by now, after [`end_all`].
pub fn all_end() -> bool {
    ENDED.load(Ordering::Acquire) >= count()
}

/// All threads made here have ended, and the process goes on without any. They stay told to end:
/// who waits for one of them waits no longer.
pub fn forget_all() {
    THREADS.store(0, Ordering::Release);
}

/// Whether the threads made here are to end: asked by each whenever it has waited for work, and
/// then it takes on the program's credentials.
pub fn is_over() -> bool {
    creds::take_on();
    IS_OVER.load(Ordering::Acquire)
}

/// As [`is_over`], asked by any thread.
pub fn are_over() -> bool {
    IS_OVER.load(Ordering::Acquire)
}

/// Have the threads made here end with `status` as soon as they look. The caller wakes them, but
/// for who waits for an end.
pub fn end_all(status: i32) {
    STATUS.store(status, Ordering::Relaxed);
    // Before the first of them ends: that is no end to be told of.
    IS_OVER.store(true, Ordering::Release);
    LIFE.store(!ALL_LIVE, Ordering::Release);
    futex::wake_all(&LIFE, true);
}

/// All threads made here have ended, after [`end_all`], and the process goes on: as if none had
/// been made. In its only thread.
pub fn begin_anew() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    creds::stand_all_up();
    forget_all();
    ENDED.store(0, Ordering::Release);
    LIFE.store(ALL_LIVE, Ordering::Release);
    IS_OVER.store(false, Ordering::Release);
}

/// Sleep until a thread made here ends. Nothing in between enters the kernel, so a system call
/// filter that ends the others does not reach a thread that waits here.
pub fn wait_for_an_end() {
    while !has_one_ended() {
        futex::wait(&LIFE, ALL_LIVE, None, true);
        creds::take_on();
    }
}

/// Have who waits for an end look at what else is asked of it.
pub fn ring() {
    futex::wake_all(&LIFE, true);
}

impl ThreadMemory {
    /// Nothing, until the first thread.
    #[allow(clippy::new_without_default, reason = "a const constructor for a static")]
    pub const fn new() -> Self {
        Self {
            parts: Leaked::new(),
            owner: AtomicU64::new(0),
        }
    }

    /// Run `body` in a new thread called `name` on this memory and return its thread id.
    ///
    /// # Errors
    /// ENOMEM for its stack, EAGAIN when the process may have no more threads, EBUSY when this
    /// process has had a thread on this memory already.
    pub fn spawn(
        &self,
        name: &'static core::ffi::CStr,
        files: Descriptors,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<i32> {
        let mut flags = raw::CLONE_VM
            | raw::CLONE_FS
            | raw::CLONE_SIGHAND
            | raw::CLONE_THREAD
            | raw::CLONE_SYSVSEM
            | raw::CLONE_SETTLS
            | raw::CLONE_CHILD_CLEARTID;
        if files == Descriptors::Shared {
            flags |= raw::CLONE_FILES;
        }
        self.start(name, flags, body)
    }

    /// Run `body` in a new process that shares this one's memory, and its descriptors as copies.
    /// Its end is told to nobody, and whoever waits for children without `__WALL` does not see it.
    ///
    /// # Errors
    /// As for [`Self::spawn`].
    pub fn spawn_process(&self, name: &'static core::ffi::CStr, body: impl FnOnce() + Send + 'static) -> Result<i32> {
        self.start(name, raw::CLONE_VM | raw::CLONE_FS | raw::CLONE_SETTLS, body)
    }

    fn start(&self, name: &'static core::ffi::CStr, flags: u32, body: impl FnOnce() + Send + 'static) -> Result<i32> {
        let me = pid();
        let owner = (me as u64) << 32 | u64::from(GENERATION.load(Ordering::Relaxed));
        if self.owner.swap(owner, Ordering::AcqRel) == owner {
            return Err(Errno::BUSY);
        }
        let (stack, tls, seat) = match self.parts.get() {
            Some(parts) => parts,
            None => self.parts.set(reserve()?),
        };
        let is_thread = flags & raw::CLONE_THREAD != 0;
        let named: Body = Box::new(move || {
            let _ = rustix::thread::set_name(name);
            body();
            if is_thread {
                ENDED.fetch_add(1, Ordering::Release);
            }
        });
        let arg = Box::into_raw(Box::new(named));
        let (top, thread_pointer) = (stack.addr() + STACK - 64, tls.addr() + TLS_BELOW);
        creds::sit_down(*seat);
        let old_mask = block_signals();
        // SAFETY: stack and thread-local block are big enough, leaked, and used by no other thread
        // of this process (`owner`); `arg` is a Body for `enter` alone.
        let result = unsafe { clone(flags as usize, top, thread_pointer, enter, arg.cast()) };
        restore_signals(old_mask);
        match result {
            // Now and not before: who counts one that is not there yet would take a thread of the
            // program for it.
            Ok(_) if is_thread => count_one(me),
            Ok(_) => {}
            Err(_) => {
                creds::stand_up(*seat);
                // SAFETY: no thread was made, so the box is still ours.
                drop(unsafe { Box::from_raw(arg) });
            }
        }
        result.map(|tid| tid as i32)
    }
}

/// A stack, a thread-local block, and the seat that it names.
fn reserve() -> Result<(Mapping, Mapping, usize)> {
    let stack = Mapping::reserve_beside_data(STACK)?.without_huge_pages();
    let mut tls = Mapping::reserve_beside_data(TLS_BELOW + TLS_ABOVE)?.without_huge_pages();
    let thread_pointer = tls.addr() + TLS_BELOW;
    // The x86-64 ABI wants the word at the thread pointer to point at itself.
    tls.write(TLS_BELOW, &thread_pointer.to_ne_bytes());
    let (seat, mark) = creds::new_seat();
    tls.write(TLS_BELOW + creds::SEAT_OFFSET, &mark);
    Ok((stack, tls, seat))
}

/// A thread that begins in `entry`, whose end the lifeline tells.
///
/// # Safety
/// `stack_top` must be 16-aligned with a stack below it, `tls` a thread pointer, and `arg` what
/// `entry` wants.
pub(crate) unsafe fn clone(
    flags: usize,
    stack_top: usize,
    tls: usize,
    entry: extern "C" fn(*mut c_void) -> !,
    arg: *mut c_void,
) -> Result<usize> {
    // SAFETY: the caller's promise; the word is a static.
    unsafe { instructions::clone(flags, stack_top, LIFE.as_ptr(), tls, entry, arg) }
}

const SIG_BLOCK: usize = 0;
const SIG_SETMASK: usize = 2;

/// Block every signal for this thread; returns the mask to restore.
pub fn block_signals() -> u64 {
    set_mask(u64::MAX).unwrap_or(0)
}

/// Block the signals that come from elsewhere, not those that this thread raises by what it does:
/// they cannot be blocked, only end the process. One of them that the program has blocked stays
/// so. Returns the mask to restore. `None`: a filter of the program refuses, and nothing is
/// blocked.
pub fn block_asynchronous_signals() -> Option<u64> {
    const RAISED: [u32; 6] = [
        raw::SIGILL,
        raw::SIGTRAP,
        raw::SIGBUS,
        raw::SIGFPE,
        raw::SIGSEGV,
        raw::SIGSYS,
    ];
    const MASK: u64 = {
        let (mut mask, mut i) = (u64::MAX, 0);
        while i < RAISED.len() {
            mask &= !(1 << (RAISED[i] - 1));
            i += 1;
        }
        mask
    };
    change_mask(SIG_BLOCK, MASK).ok()
}

/// Undo [`block_signals`].
pub fn restore_signals(mask: u64) {
    let _ = replace_mask(SIG_SETMASK, mask);
}

/// Block the signals of `mask`, and no others. Returns those that were blocked.
pub(crate) fn set_mask(mask: u64) -> Result<u64> {
    change_mask(SIG_SETMASK, mask)
}

/// rt_sigprocmask(2). Returns the signals that were blocked.
pub(crate) fn change_mask(how: usize, mask: u64) -> Result<u64> {
    let mut old = 0u64;
    let place = (&raw mut old).addr();
    // In two calls: one that fails with the old mask has set the new one, and tells that as the old
    // one when it is made again.
    // SAFETY: a mask is 8 bytes, as the last argument says; asks.
    unsafe { syscall_on_stack(raw::__NR_rt_sigprocmask as usize, [how, 0, place, 8, 0, 0], &mut old)? };
    replace_mask(how, mask)?;
    Ok(old)
}

fn replace_mask(how: usize, mut mask: u64) -> Result<()> {
    let new = (&raw const mask).addr();
    // SAFETY: a mask is 8 bytes, as the last argument says; the same again does no harm.
    unsafe { syscall_on_stack(raw::__NR_rt_sigprocmask as usize, [how, new, 0, 8, 0, 0], &mut mask) }.map(drop)
}

/// How often a call is made again whose words were out.
const TOUCHES: usize = 64;

/// Make a call of ours that reads or writes `words`, which lie on the calling thread's stack. That
/// may be managed memory of the program's (coroutines), and be taken out before the kernel comes
/// (EFAULT): then the words are touched, and the call is made again.
///
/// # Errors
/// What the call answers.
///
/// # Safety
/// As for [`syscall`], and a call that answers EFAULT has to do no harm if it is made again.
pub unsafe fn syscall_on_stack<T>(number: usize, args: [usize; 6], words: &mut T) -> Result<usize> {
    for _ in 0..TOUCHES {
        // SAFETY: the caller's promise.
        let result = unsafe { syscall(number, args) };
        if result != Err(Errno::FAULT) {
            return result;
        }
        let first: *mut u8 = (&raw mut *words).cast();
        for at in [0, size_of::<T>().saturating_sub(1)] {
            let byte = first.wrapping_add(at);
            // SAFETY: the first or last byte of what is borrowed, written as it is.
            unsafe { byte.write_volatile(byte.read_volatile()) };
        }
    }
    Err(Errno::FAULT)
}

/// Whether `process` has a thread of this id.
pub fn is_alive(process: i32, thread: i32) -> bool {
    let args = [process as usize, thread as usize, 0, 0, 0, 0];
    // SAFETY: tgkill(2) takes three integers; signal 0 only asks.
    unsafe { syscall(raw::__NR_tgkill as usize, args) != Err(Errno::SRCH) }
}

/// Close every descriptor of this thread's table. Only for a thread with a private table, before it
/// opens its own.
pub fn close_all_descriptors() {
    // SAFETY: the table is a private copy, so nobody else loses a descriptor, and no owner exists
    // in this thread.
    let closed = unsafe { syscall(raw::__NR_close_range as usize, [0, u32::MAX as usize, 0, 0, 0, 0]) };
    if closed.is_err() {
        // Linux before 5.9. What was opened under a higher limit than now stays open: a copy,
        // closed when the process ends.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        for fd in 0..limit.unwrap_or(u64::MAX).min(1 << 20) {
            // SAFETY: as above.
            let _ = unsafe { syscall(raw::__NR_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
        }
    }
}

/// The user that this thread acts as.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// End this process with `status` at once: no handler of the program runs.
pub fn end_process(status: u8) -> ! {
    // SAFETY: ends all threads; takes an integer.
    let _ = unsafe { syscall_of_program(raw::__NR_exit_group as usize, [status.into(), 0, 0, 0, 0, 0]) };
    kill_self()
}

/// The process id, from the kernel.
pub fn pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The thread id, from the kernel.
pub fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Let another thread have the core, if one is waiting for it.
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// Whether a filter of the program decides which system calls there are: what can be done without
/// is better not tried then.
pub fn is_filtered() -> bool {
    rustix::thread::secure_computing_mode() != Ok(rustix::thread::SecureComputingMode::Disabled)
}

/// How often another thread took the core from this one. 0 if the program decides which system
/// calls there are.
pub fn preemptions() -> u64 {
    const RUSAGE_THREAD: usize = 1;
    usage_of(RUSAGE_THREAD).map_or(0, |usage| usage.ru_nivcsw as u64)
}

/// Page faults of all threads of this process so far, minor and major: one that waited for somebody
/// may be either. `None`: a filter of system calls may not allow to ask.
pub fn faults() -> Option<u64> {
    const RUSAGE_SELF: usize = 0;
    usage_of(RUSAGE_SELF).map(|usage| (usage.ru_minflt + usage.ru_majflt) as u64)
}

fn usage_of(who: usize) -> Option<raw::rusage> {
    if is_filtered() {
        return None;
    }
    let mut usage = core::mem::MaybeUninit::<raw::rusage>::zeroed();
    let args = [who, usage.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `rusage` to where there is room for it.
    let _ = unsafe { syscall(raw::__NR_getrusage as usize, args) };
    // SAFETY: numbers, zeros at least.
    Some(unsafe { usage.assume_init() })
}

/// How many cores this thread may run on, at least 1.
pub fn cores() -> usize {
    rustix::thread::sched_getaffinity(None)
        .map_or(1, |set| set.count() as usize)
        .max(1)
}

/// Kill this process with SIGKILL, as the OOM killer would.
pub fn kill_self() -> ! {
    if rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).is_err() {
        crash();
    }
    loop {
        core::hint::spin_loop();
    }
}

/// End this process without a system call: a filter of the program may forbid them. In a thread
/// that blocks its signals, no handler of the program sees the trap.
pub fn crash() -> ! {
    instructions::trap()
}

/// Whether there is a process of this id.
pub fn has_process(pid: i32) -> bool {
    let process = rustix::process::Pid::from_raw(pid);
    process.is_some_and(|process| rustix::process::test_kill_process(process) != Err(Errno::SRCH))
}

/// The process id of the parent, or of who took over when it died.
pub fn parent_pid() -> i32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

/// Round `bytes` up to whole pages.
pub const fn page_align(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_SIZE)
}

/// Send signal `number` to process `pid`; a process that is gone is no error.
pub fn signal(pid: i32, number: i32) {
    // SAFETY: kill(2) takes two integers.
    let _ = unsafe { syscall(raw::__NR_kill as usize, [pid as usize, number as usize, 0, 0, 0, 0]) };
}
