//! Starting a program as if nobody stood between it and whoever started the launcher: with the
//! dispositions and the mask of signals and the standard descriptors that the launcher was started
//! with itself; and what reaches the launcher while it runs.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use linux_raw_sys::general as raw;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::mapping::Mapping;
use crate::thread::{block_signals, clone, restore_signals, syscall};
use crate::wait::{ALL, AT_ONCE, EXITED, LEAVE, OF_THREAD, wait};

pub(crate) const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
/// Bytes of a mask of signals.
const MASK: usize = 8;

/// Which of the standard descriptors were closed when this process began, one bit each.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// How SIGPIPE was disposed of then.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Before `main`: Rust's runtime, which runs there, opens /dev/null where a standard descriptor is
/// closed, and ignores SIGPIPE.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    const F_GETFD: usize = 1;
    for fd in 0..3 {
        // SAFETY: asks for the flags of a descriptor, if there is one.
        let flags = unsafe { syscall(raw::__NR_fcntl as usize, [fd, F_GETFD, 0, 0, 0, 0]) };
        CLOSED.fetch_or(u32::from(flags == Err(Errno::BADF)) << fd, Ordering::Relaxed);
    }
    PIPE_IGNORED.store(dispose(raw::SIGPIPE, None) == SIG_IGN, Ordering::Relaxed);
}

/// `struct kernel_sigaction`.
#[repr(C)]
#[derive(Default)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// Dispose of a signal in another way, if one is given; returns how it was.
pub(crate) fn dispose(signal: u32, handler: Option<usize>) -> usize {
    let mut old = Action::default();
    let new = handler.map(|handler| Action {
        handler,
        ..Action::default()
    });
    let new = new.as_ref().map_or(null(), core::ptr::from_ref) as usize;
    let args = [signal as usize, new, &raw mut old as usize, MASK, 0, 0];
    // SAFETY: the new disposition is to ignore the signal or the default, neither of which runs
    // code; the old one has room.
    let _ = unsafe { syscall(raw::__NR_rt_sigaction as usize, args) };
    old.handler
}

/// A signal that was sent to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Where it came from: `si_code`.
    pub code: i32,
    /// The process that sent it, if one did.
    pub sender: i32,
    /// What `sigqueue` sent along.
    pub value: u64,
}

/// Sent by the kernel, for the terminal perhaps.
pub const SI_KERNEL: i32 = 0x80;
/// Sent by `sigqueue`.
const SI_QUEUE: i32 = -1;

/// `struct signalfd_siginfo`: its size, and where it has what is used here.
const INFO: usize = 128;
const NUMBER: usize = 0;
const CODE: usize = 8;
const SENDER: usize = 12;
const VALUE: usize = 48;

/// Not waited for: those that a mistake of this process raises, those that nobody can block, those
/// that stop and continue it (as the terminal wants; [`stop`] has what was sent otherwise), and two
/// of libc's own.
const LEFT_ALONE: [u32; 12] = [
    raw::SIGILL,
    raw::SIGTRAP,
    raw::SIGBUS,
    raw::SIGFPE,
    raw::SIGKILL,
    raw::SIGSEGV,
    raw::SIGSTOP,
    raw::SIGCONT,
    raw::SIGTTIN,
    raw::SIGTTOU,
    raw::SIGSYS,
    32,
];
const LIBC_SETXID: u32 = 33;

pub(crate) const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Signals of this process, blocked and read one by one.
pub struct Signals {
    fd: OwnedFd,
    /// The mask that this process was started with.
    inherited: u64,
    child_ignored: bool,
}

impl Signals {
    /// Have all signals wait that may.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn begin() -> Result<Self> {
        let left_alone = LEFT_ALONE
            .iter()
            .fold(bit(LIBC_SETXID), |mask, signal| mask | bit(*signal));
        let mask = !left_alone;
        let args = [usize::MAX, &raw const mask as usize, MASK, FLAGS, 0, 0];
        const FLAGS: usize = (raw::O_CLOEXEC | raw::O_NONBLOCK) as usize;
        // SAFETY: reads the mask; -1 asks for a new descriptor.
        let fd = unsafe { syscall(raw::__NR_signalfd4 as usize, args)? };
        // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let inherited = block_signals();
        restore_signals(inherited | mask);
        // Who ignores its children never hears of their end.
        let child_ignored = dispose(raw::SIGCHLD, Some(SIG_DFL)) == SIG_IGN;
        Ok(Self {
            fd,
            inherited,
            child_ignored,
        })
    }

    /// The mask that this process was started with.
    pub(crate) fn inherited(&self) -> u64 {
        self.inherited
    }

    /// The next one, if one waits.
    pub fn next(&self) -> Option<Signal> {
        let mut info = [0u8; INFO];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(INFO) => {}
            _ => return None,
        }
        let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        Some(Signal {
            number: word(NUMBER) as i32,
            code: word(CODE) as i32,
            sender: word(SENDER) as i32,
            value: u64::from(word(VALUE)) | u64::from(word(VALUE + 4)) << 32,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Send a signal on to `pid`, with its value if it has one; a process that is gone is no error.
pub fn pass_on(signal: Signal, pid: i32) {
    if signal.code != SI_QUEUE {
        return crate::thread::signal(pid, signal.number);
    }
    /// The part of `siginfo_t` that `sigqueue` fills.
    #[repr(C)]
    struct Info {
        number: i32,
        errno: i32,
        code: i32,
        padding: i32,
        pid: i32,
        uid: u32,
        value: u64,
        rest: [u64; 12],
    }
    let info = Info {
        number: signal.number,
        errno: 0,
        code: SI_QUEUE,
        padding: 0,
        pid: crate::thread::pid(),
        uid: rustix::process::getuid().as_raw(),
        value: signal.value,
        rest: [0; 12],
    };
    const _: () = assert!(size_of::<Info>() == 128);
    let args = [pid as usize, signal.number as usize, &raw const info as usize, 0, 0, 0];
    // SAFETY: the kernel reads one `siginfo_t`, 128 bytes.
    let _ = unsafe { syscall(raw::__NR_rt_sigqueueinfo as usize, args) };
}

/// SIGTSTP.
pub const SIGTSTP: i32 = raw::SIGTSTP as i32;
/// SIGCONT.
pub const SIGCONT: i32 = raw::SIGCONT as i32;
/// SIGCHLD.
pub const SIGCHLD: i32 = raw::SIGCHLD as i32;
/// SIGHUP.
pub const SIGHUP: i32 = raw::SIGHUP as i32;
/// SIGKILL.
pub const SIGKILL: i32 = raw::SIGKILL as i32;
/// SIGSTOP.
pub const SIGSTOP: i32 = raw::SIGSTOP as i32;
/// SIGSYS.
pub const SIGSYS: i32 = raw::SIGSYS as i32;

/// A child of this thread that has ended, and its status as `wait` gives it.
///
/// A child that another thread of ours traces (`injector`) is seen standing here, too, and hides
/// the others: its stops are that one's to wait for, so they are looked at only. Who traced it
/// raises SIGCHLD.
pub fn reap() -> Option<(i32, i32)> {
    let found = wait(None, EXITED | AT_ONCE | LEAVE | OF_THREAD).ok()??;
    if !found.has_ended {
        return None;
    }
    let mut status: c_int = 0;
    let args = [found.pid as usize, &raw mut status as usize, AT_ONCE as usize, 0, 0, 0];
    // SAFETY: writes one integer.
    let pid = unsafe { syscall(raw::__NR_wait4 as usize, args) };
    pid.ok().filter(|pid| *pid != 0).map(|pid| (pid as i32, status))
}

/// What is to be started.
pub struct Program {
    /// Tried in this order, as `execvp` does.
    pub paths: Vec<CString>,
    /// With its own name first.
    pub args: Vec<CString>,
    /// NAME=VALUE.
    pub env: Vec<CString>,
    /// How long its files may be.
    pub file_sizes: FileSizes,
    /// It is to stand before its first instruction, for [`inject`](crate::inject::inject).
    pub stops: bool,
}

/// A limit of file sizes (RLIMIT_FSIZE).
#[derive(Clone, Copy)]
pub struct FileSizes(Rlimit);

impl FileSizes {
    /// Lift this process's limit, as far as it may: it writes the agent's file, and lengthens swap
    /// files. Returns what the limit was.
    pub fn lift() -> Self {
        let was = getrlimit(Resource::Fsize);
        let lift = |maximum| {
            let current = maximum;
            setrlimit(Resource::Fsize, Rlimit { current, maximum })
        };
        let _ = lift(None).or_else(|_| lift(was.maximum));
        Self(was)
    }
}

/// What the child needs, prepared: it runs in this process's memory and allocates nothing.
struct Order<'a> {
    paths: &'a [CString],
    args: Vec<*const c_char>,
    /// For a script that does not say whose: the shell, the script, its arguments.
    shell_args: Vec<*const c_char>,
    env: Vec<*const c_char>,
    signals: &'a Signals,
    file_sizes: FileSizes,
    stops: bool,
    error: AtomicI32,
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([null()]).collect()
}

/// Start a program; returns its process id. Descriptors that are not closed on exec are its own
/// too.
///
/// # Errors
/// What `clone` and `execve` answer.
pub fn start(program: &Program, signals: &Signals) -> Result<i32> {
    let args = pointers(&program.args);
    let mut shell_args = Vec::from([c"/bin/sh".as_ptr(), null()]);
    shell_args.extend_from_slice(&args[1..]);
    let mut order = Order {
        paths: &program.paths,
        args,
        shell_args,
        env: pointers(&program.env),
        signals,
        file_sizes: program.file_sizes,
        stops: program.stops,
        error: AtomicI32::new(0),
    };
    const STACK: usize = 64 << 10;
    let stack = Mapping::reserve(STACK)?;
    let flags = (raw::CLONE_VM | raw::CLONE_VFORK) as usize | raw::SIGCHLD as usize;
    let order_at = (&raw mut order).cast::<c_void>();
    // SAFETY: this thread waits until the child runs another program or has ended, so the stack and
    // the order outlive its use of them, and nobody else looks at them meanwhile. Signals are
    // blocked: no handler runs in the child.
    let pid = unsafe { clone(flags, stack.addr() + STACK - 64, 0, become_program, order_at)? };
    match order.error.load(Ordering::Relaxed) {
        0 => Ok(pid as i32),
        errno => {
            let args = [pid, 0, 0, 0, 0, 0];
            // SAFETY: waits for the child, which is ending; writes nothing.
            let _ = unsafe { syscall(raw::__NR_wait4 as usize, args) };
            Err(Errno::from_raw_os_error(errno))
        }
    }
}

/// End a program that was started.
pub fn kill(pid: i32) {
    crate::thread::signal(pid, SIGKILL);
}

/// End a child that was started, and wait for that.
pub fn end(pid: i32) {
    const STANDS: c_int = 0x7f;
    kill(pid);
    loop {
        let mut status: c_int = 0;
        let args = [pid as usize, (&raw mut status).addr(), 0, 0, 0, 0];
        // SAFETY: writes one integer.
        match unsafe { syscall(raw::__NR_wait4 as usize, args) } {
            Err(Errno::INTR) => {}
            // Who is traced may have a stop left to tell of.
            Ok(_) if status & 0xff == STANDS => {}
            _ => return,
        }
    }
}

/// The child.
extern "C" fn become_program(order: *mut c_void) -> ! {
    // SAFETY: what `start` passed, whose thread waits.
    let order = unsafe { &mut *order.cast::<Order<'_>>() };
    let ignored = |is_ignored| Some(if is_ignored { SIG_IGN } else { SIG_DFL });
    dispose(raw::SIGPIPE, ignored(PIPE_IGNORED.load(Ordering::Relaxed)));
    dispose(raw::SIGCHLD, ignored(order.signals.child_ignored));
    for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) & 1 << fd != 0) {
        // SAFETY: the child's own table; what Rust's runtime opened at this number is nobody's.
        let _ = unsafe { syscall(raw::__NR_close as usize, [fd, 0, 0, 0, 0, 0]) };
    }
    restore_signals(order.signals.inherited);
    // A process of its own: ours stay lifted.
    let _ = setrlimit(Resource::Fsize, order.file_sizes.0);
    let mut denied = None;
    let mut last = Errno::NOENT;
    let mut paths = order.paths.iter();
    if order.stops
        && let Err(errno) = crate::inject::let_trace(order.signals.inherited)
    {
        (denied, paths) = (Some(errno), [].iter());
    }
    for path in paths {
        last = execute(path.as_ptr(), &order.args, &order.env);
        if last == Errno::NOEXEC {
            order.shell_args[1] = path.as_ptr();
            last = execute(c"/bin/sh".as_ptr(), &order.shell_args, &order.env);
        }
        match last {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => denied = Some(last),
            _ => break,
        }
    }
    let error = match last {
        Errno::NOENT | Errno::NOTDIR => denied.unwrap_or(last),
        other => other,
    };
    order.error.store(error.raw_os_error(), Ordering::Relaxed);
    // SAFETY: ends this process alone: it has one thread, in a thread group of its own.
    let _ = unsafe { syscall(raw::__NR_exit as usize, [127, 0, 0, 0, 0, 0]) };
    unreachable!("exit returned")
}

fn execute(path: *const c_char, args: &[*const c_char], env: &[*const c_char]) -> Errno {
    let args = [path as usize, args.as_ptr() as usize, env.as_ptr() as usize, 0, 0, 0];
    // SAFETY: C strings and arrays of them that end with null pointers.
    let result = unsafe { syscall(raw::__NR_execve as usize, args) };
    result.err().unwrap_or(Errno::INVAL)
}

unsafe extern "C" {
    fn fork() -> c_int;
}

/// Whether a child of this process may be traced: a filter of system calls may end who asks for it,
/// so that is a child.
pub fn may_trace_children() -> bool {
    if !crate::thread::is_filtered() {
        return true;
    }
    // SAFETY: the child makes two system calls.
    let child = unsafe { fork() };
    if child == 0 {
        let may = crate::inject::let_trace(u64::MAX).is_ok();
        crate::thread::end_process(u8::from(!may));
    }
    child > 0 && wait(Some(child), EXITED | ALL).is_ok_and(|end| end.is_some_and(|end| end.status == 0))
}

/// Have a copy of this process, which has no other thread, go on in the background: in a session of
/// its own, with no terminal, none of the caller's descriptors but those to be kept, no directory
/// in use, and signals as a program finds them. True: this is it.
///
/// # Errors
/// EAGAIN: no more processes; ENOMEM.
pub fn fork_to_background(keep: &[RawFd]) -> Result<bool> {
    // SAFETY: libc's, so what it knows of its thread is right in the copy. There is one thread: no
    // lock is anybody else's.
    match unsafe { fork() } {
        -1 => return Err(Errno::AGAIN),
        0 => {}
        _ => return Ok(false),
    }
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let _ = rustix::thread::set_name(c"uzswap-watch");
    if let Ok(nothing) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&nothing);
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
    close_all_but(keep);
    restore_signals(0);
    Ok(true)
}

/// Close all descriptors but the standard ones and those to be kept.
fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<usize> = keep.iter().map(|fd| *fd as usize).collect();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep.into_iter().chain([u32::MAX as usize]) {
        if fd > from {
            // SAFETY: descriptors that this process inherited, or of values that it does not use
            // any more.
            let _ = unsafe { syscall(raw::__NR_close_range as usize, [from, fd - 1, 0, 0, 0, 0]) };
        }
        from = from.max(fd + 1);
    }
}

/// The number of a descriptor.
pub fn number(fd: impl AsFd) -> RawFd {
    fd.as_fd().as_raw_fd()
}
