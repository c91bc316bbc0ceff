//! libc's `mmap`, `munmap` and `brk`, replaced: the same system call, plus what the pager needs to know.
//!
//! They run in the program's threads, perhaps inside its malloc, perhaps on a stack in managed memory, perhaps in a
//! vfork child; so they take no lock, allocate nothing, and touch nothing but atomics.

use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_sys::Errno;
use uzswap_sys::thread::syscall;

use crate::{memcg, vma};

const SYS_MMAP: usize = 9;
const SYS_MUNMAP: usize = 11;
const SYS_BRK: usize = 12;

const MAP_PRIVATE: c_int = 0x02;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_GROWSDOWN: c_int = 0x100;
const MAP_STACK: c_int = 0x20000;
const MAP_HUGETLB: c_int = 0x40000;
const PROT_EXEC: c_int = 4;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
    /// libc's record of the program break; `sbrk` computes from it.
    static mut __curbrk: *mut c_void;
}

fn set_errno(errno: Errno) {
    // SAFETY: libc's errno of the calling thread, which is one of the program's.
    unsafe { *__errno_location() = errno.raw_os_error() };
}

fn is_stack(flags: c_int) -> bool {
    flags & (MAP_STACK | MAP_GROWSDOWN) != 0
}

/// Whether a new mapping is memory that may come under our care.
fn is_ours(len: usize, prot: c_int, flags: c_int) -> bool {
    let kind = flags & (MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
    len >= vma::MIN_BYTES && kind == MAP_PRIVATE | MAP_ANONYMOUS && prot & PROT_EXEC == 0
}

pub(crate) extern "C" fn mmap(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    let args = [addr as usize, len, prot as usize, flags as usize, fd as usize, offset as usize];
    let stack = is_stack(flags).then(vma::StackChange::begin);
    // SAFETY: exactly the call that the program makes; libc's wrapper adds nothing (the kernel checks the offset).
    let result = unsafe { syscall(SYS_MMAP, args) };
    match result {
        Ok(start) => {
            if let Some(change) = &stack {
                change.add(start, start + len);
            } else if is_ours(len, prot, flags) {
                memcg::note_growth(len);
            }
            core::ptr::with_exposed_provenance_mut(start)
        }
        Err(errno) => {
            set_errno(errno);
            core::ptr::without_provenance_mut(usize::MAX)
        }
    }
}

pub(crate) extern "C" fn munmap(addr: *mut c_void, len: usize) -> c_int {
    let start = addr as usize;
    let change = vma::StackChange::begin();
    change.remove(start, start.saturating_add(len));
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall(SYS_MUNMAP, [start, len, 0, 0, 0, 0]) };
    match result {
        Ok(_) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// The break that the kernel reported last.
static BREAK: AtomicUsize = AtomicUsize::new(0);

pub(crate) extern "C" fn brk(addr: *mut c_void) -> c_int {
    // SAFETY: exactly the call that the program makes; it answers with the break, changed or not.
    let now = unsafe { syscall(SYS_BRK, [addr as usize, 0, 0, 0, 0, 0]) }.unwrap_or(0);
    // SAFETY: libc's own variable, set as its wrapper sets it; libc serialises changes of the break.
    unsafe { __curbrk = core::ptr::with_exposed_provenance_mut(now) };
    let before = BREAK.swap(now, Ordering::Relaxed);
    if now < addr as usize {
        set_errno(Errno::NOMEM);
        return -1;
    }
    if before != 0 && now > before {
        memcg::note_growth(now - before);
    }
    0
}
