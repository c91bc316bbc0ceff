//! libc's `mmap`, `munmap`, `mremap`, `madvise`, `brk`, `mlockall`, `ioctl`, `fstatat`, `statx`,
//! `unshare`, `setns`, `prctl`, `execve` and `_Fork`, replaced: the same system call, plus what the
//! pager needs.
//!
//! They run in the program's threads, perhaps inside its malloc, perhaps on a stack in managed
//! memory, perhaps in a vfork child. So they take no lock of the pager's, allocate nothing, and
//! touch little but atomics.

use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use uzswap_sys::Errno;
use uzswap_sys::libc::Function;
use uzswap_sys::procfs::{self, Told};
use uzswap_sys::request::Request;
use uzswap_sys::text::{self, Moved};
use uzswap_sys::thread::{page_align, syscall_of_program};

use super::order::InOrder;
use super::stacks::{self, StackChange};
use super::{closed, identity, mapped, mlock, mmap, mremap};
use crate::fork;
use crate::guard;
use crate::guard::exec::{Asked, SYS_EXECVE};
use crate::memcg::deferral;
use crate::pager::{self, blocking, retire};
use crate::x86_64::current_break;

pub(crate) const SYS_BRK: usize = 12;
pub(crate) const SYS_IOCTL: usize = 16;
pub(crate) const SYS_NEWFSTATAT: usize = 262;
pub(crate) const SYS_STATX: usize = 332;

/// libc's `_Fork`, where it can be called.
static FORK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// libc's `_Fork`: what `fork` comes to when it has taken the locks of libc, among them those of
/// its malloc.
///
/// A fork has the program's turn to change mappings. Other threads wait for that in the middle of
/// `free`, which gives memory back (madvise, munmap, brk) under such a lock. Were the turn taken
/// before the locks, as by a handler of `pthread_atfork`, each would wait for the other.
extern "C" fn _fork() -> c_int {
    let is_own = !pager::is_vfork_child();
    fork::prepare();
    // SAFETY: the original's entry, stored before anything can come here, which has this type.
    let original: extern "C" fn() -> c_int = unsafe { core::mem::transmute(FORK.load(Ordering::Acquire)) };
    let returned = original();
    match returned {
        0 => fork::child_of(is_own),
        _ => fork::parent_of(returned),
    }
    returned
}

/// Replace it. False: libc has none (before glibc 2.34), or begins it in a way that is not known.
///
/// # Safety
/// Nobody runs `function` now.
pub(crate) unsafe fn divert_fork(function: &Function) -> bool {
    let Ok(mut moved) = Moved::new() else { return false };
    // SAFETY: the caller's promise; it is libc's.
    let Some(original) = (unsafe { moved.add(function) }) else {
        return false;
    };
    FORK.store(original, Ordering::Release);
    // SAFETY: see above; the replacement calls the original.
    moved.seal().is_ok() && unsafe { text::replace_any(function, _fork as *const c_void) }.is_ok()
}

/// libc's `__errno_location`, which a program may define, too.
static ERRNO_LOCATION: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Before any wrapper is replaced.
pub(crate) fn find_errno(location: &Function) {
    ERRNO_LOCATION.store(location.entry, Ordering::Relaxed);
}

fn set_errno(errno: Errno) {
    // SAFETY: set before any of the replacements could run, to libc's function of this type.
    let location: extern "C" fn() -> *mut c_int =
        unsafe { core::mem::transmute(ERRNO_LOCATION.load(Ordering::Relaxed)) };
    // SAFETY: libc's errno of the calling thread, which is one of the program's.
    unsafe { *location() = errno.raw_os_error() };
}

/// What a function of libc that failed returns.
pub(crate) fn fail(errno: Errno) -> c_int {
    set_errno(errno);
    -1
}

/// Whether the libc of this process is glibc, as far as can be told before anything else is known
/// of it.
pub(crate) fn is_glibc() -> bool {
    !current_break().is_null()
}

/// What a function of libc returns that tells of a failure by -1.
fn status(result: Result<usize, Errno>) -> c_int {
    result.map_or_else(fail, |value| value as c_int)
}

/// What one returns that tells of it by an address.
fn address(result: Result<usize, Errno>) -> *mut c_void {
    match result {
        Ok(start) => core::ptr::with_exposed_provenance_mut(start),
        Err(errno) => {
            set_errno(errno);
            core::ptr::without_provenance_mut(usize::MAX)
        }
    }
}

pub(crate) extern "C" fn mmap(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    let (addr, offset) = (addr as usize, offset as usize);
    address(mmap::mmap([
        addr,
        len,
        prot as usize,
        flags as usize,
        fd as usize,
        offset,
    ]))
}

pub(crate) extern "C" fn munmap(addr: *mut c_void, len: usize) -> c_int {
    status(mmap::munmap(addr as usize, len))
}

pub(crate) extern "C" fn mremap(
    addr: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new_addr: *mut c_void,
) -> *mut c_void {
    address(mremap::mremap(
        addr as usize,
        old_len,
        new_len,
        flags,
        new_addr as usize,
    ))
}

pub(crate) extern "C" fn madvise(addr: *mut c_void, len: usize, advice: c_int) -> c_int {
    status(mmap::madvise(addr as usize, len, advice))
}

pub(crate) extern "C" fn mlockall(flags: c_int) -> c_int {
    status(mlock::lock_all(flags as usize).map(|()| 0))
}

/// Also those of the program's that libc makes for it, in a vfork child perhaps (`posix_spawn`).
pub(crate) extern "C" fn execve(path: usize, args: usize, env: usize) -> c_int {
    let asked = Asked::before_execve(path, env);
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall_of_program(SYS_EXECVE, [path, args, env, 0, 0, 0]) };
    if let Some(asked) = asked {
        asked.take_back();
    }
    status(result)
}

/// The break that the kernel reported last.
static BREAK: AtomicUsize = AtomicUsize::new(0);

/// Variadic for the program; a wrapper takes the third argument from its register, whether it was
/// passed or not.
pub(crate) extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    status(make_request([fd as usize, request as usize, argument, 0, 0, 0]))
}

/// Some memory is given to virtual machines or devices: what the program's own userfaultfd gives up
/// may be theirs.
static IS_GIVEN: AtomicBool = AtomicBool::new(false);

/// ioctl(2). What the program's own userfaultfd gets, or a driver pins, is left alone from then on,
/// as a stack is. So is what a virtual machine gets whose faults nobody can serve.
pub(crate) fn make_request(args: [usize; 6]) -> Result<usize, Errno> {
    let [_, request, argument, ..] = args;
    // SAFETY: exactly the call that the program makes.
    let make = || unsafe { guard::make(SYS_IOCTL, args) };
    let Some(wanted) = wanted(request as u32, argument) else {
        return make();
    };
    let turn = InOrder::begin();
    let (is_taken, start, end) = match wanted {
        Request::Register(start, end) => (true, start, end),
        Request::Unregister(start, end) => (false, start, end),
        Request::Guest(start, end) | Request::Pin(start, end) => {
            IS_GIVEN.store(true, Ordering::SeqCst);
            leave_alone(start, end);
            // A driver may take long. Whatever it answers, that memory is left alone.
            drop(turn);
            return make();
        }
    };
    if is_taken {
        leave_alone(start, end);
    }
    let result = make();
    if result.is_ok() != is_taken && !IS_GIVEN.load(Ordering::SeqCst) {
        StackChange::begin().remove(start, end - start);
        mapped::note(start, end);
    }
    result
}

/// Have a range brought back, and left alone. In the turn. Where all of it is already, the
/// program's userfaultfd may have it, which a release would take it from.
fn leave_alone(start: usize, end: usize) {
    if stacks::covers(start, end) {
        return;
    }
    StackChange::begin().add(start, end);
    if let Some(pager) = pager::active() {
        pager.request_release(start, end);
    }
}

fn wanted(request: u32, argument: usize) -> Option<Request> {
    let words = match Request::words(request) {
        0 => return None,
        count if guard::is_on() => guard::words_at(argument, count)?,
        // SAFETY: what the program passes.
        _ => unsafe { Request::read(request, argument)? },
    };
    // The kernel waits for who serves the faults of a virtual machine, if it may.
    let must_come = |wanted: &Request| !matches!(wanted, Request::Guest(..)) || guard::is_on() && !blocking::begin();
    Request::decode(request, words).filter(must_come)
}

pub(crate) extern "C" fn unshare(flags: c_int) -> c_int {
    want_one_thread(retire::SYS_UNSHARE, [flags as usize, 0, 0, 0, 0, 0])
}

pub(crate) extern "C" fn setns(fd: c_int, kind: c_int) -> c_int {
    want_one_thread(retire::SYS_SETNS, [fd as usize, kind as usize, 0, 0, 0, 0])
}

/// prctl(2).
pub(crate) extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    const SYS_PRCTL: usize = 157;
    identity::note_prctl(option);
    // SAFETY: exactly the call that the program makes.
    match unsafe { syscall_of_program(SYS_PRCTL, [option as usize, a, b, c, d, 0]) } {
        Ok(answer) => answer as c_int,
        Err(errno) => fail(errno),
    }
}

fn want_one_thread(number: usize, args: [usize; 6]) -> c_int {
    // SAFETY: exactly the call that the program makes, of one that takes no memory.
    status(retire::make(number, &args, || unsafe {
        syscall_of_program(number, args)
    }))
}

/// fstatat(2), which stat and its like are made of.
pub(crate) extern "C" fn fstatat(dir: c_int, path: usize, told: usize, flags: c_int) -> c_int {
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall_of_program(SYS_NEWFSTATAT, [dir as usize, path, told, flags as usize, 0, 0]) };
    if result.is_ok() {
        procfs::hide_threads(path, Told::Stat, told);
    }
    status(result)
}

/// statx(2).
pub(crate) extern "C" fn statx(dir: c_int, path: usize, flags: c_int, mask: c_uint, told: usize) -> c_int {
    let args = [dir as usize, path, flags as usize, mask as usize, told, 0];
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall_of_program(SYS_STATX, args) };
    if result.is_ok() {
        procfs::hide_threads(path, Told::Statx, told);
    }
    status(result)
}

pub(crate) extern "C" fn brk(addr: *mut c_void) -> c_int {
    let now = change_break(addr as usize);
    // SAFETY: libc's own variable, set as its wrapper sets it; libc serialises changes of the
    // break.
    unsafe { *current_break() = core::ptr::with_exposed_provenance_mut(now) };
    if now < addr as usize {
        set_errno(Errno::NOMEM);
        return -1;
    }
    0
}

/// brk(2): the break, changed or not.
pub(crate) fn change_break(addr: usize) -> usize {
    let top = BREAK.load(Ordering::Relaxed);
    let _turn = (addr < top).then(InOrder::begin);
    // SAFETY: exactly the call that the program makes; it answers with the break, changed or not.
    let call = || unsafe { syscall_of_program(SYS_BRK, [addr, 0, 0, 0, 0, 0]) };
    // 0 only asks.
    let now = match addr != 0 && addr < top {
        false => call(),
        // What is refused answers with the break as it was.
        true => closed::unmap(page_align(addr), page_align(top), || match call() {
            Ok(now) if now > addr => Err(Errno::NOMEM),
            now => now,
        })
        .or(Ok(top)),
    };
    let now = now.unwrap_or(0);
    if now < top && addr != 0 {
        // Stacks that the program had made of it.
        StackChange::begin().remove(page_align(now), page_align(top) - page_align(now));
    }
    let before = BREAK.swap(now, Ordering::Relaxed);
    if now >= addr && before != 0 && now > before {
        deferral::note_growth(before, now - before, true);
    }
    now
}
