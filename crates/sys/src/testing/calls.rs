//! System calls by number, through libc's `syscall`: libc itself adds nothing to what they answer.

use core::ffi::c_long;

use linux_raw_sys::general as nr;

use super::memory::Memory;
use crate::PAGE_SIZE;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Calls that change what is mapped, where a thread runs, or what the kernel writes to later:
/// never by number.
const NEVER: [u32; 24] = [
    nr::__NR_mmap,
    nr::__NR_munmap,
    nr::__NR_mremap,
    nr::__NR_mprotect,
    nr::__NR_pkey_mprotect,
    nr::__NR_remap_file_pages,
    nr::__NR_brk,
    nr::__NR_mseal,
    nr::__NR_shmat,
    nr::__NR_shmdt,
    nr::__NR_clone,
    nr::__NR_clone3,
    nr::__NR_fork,
    nr::__NR_vfork,
    nr::__NR_exit,
    nr::__NR_exit_group,
    nr::__NR_rt_sigreturn,
    nr::__NR_set_tid_address,
    nr::__NR_set_robust_list,
    nr::__NR_rseq,
    nr::__NR_io_setup,
    nr::__NR_io_uring_setup,
    nr::__NR_userfaultfd,
    nr::__NR_ptrace,
];

/// What is below is no address of this process: a length, a number, flags.
const NO_ADDRESS: usize = 1 << 32;
/// The lower half of the address space, without its last page, which is never mapped.
const ADDRESSES: usize = (1 << 47) - PAGE_SIZE;

/// Make a call of which each address lies in one of `memories`, or nowhere. Returns what the kernel
/// answers: a value, or a negative errno.
///
/// # Panics
/// For calls that it does not make, and addresses that lie elsewhere.
pub fn call(number: u32, args: [usize; 6], memories: &mut [Memory]) -> isize {
    assert!(!NEVER.contains(&number), "call {number} is never made by number");
    let is_inside = |arg: &usize| {
        let mut inside = memories
            .iter()
            .map(|memory| memory.addr()..memory.addr() + memory.len());
        !(NO_ADDRESS..ADDRESSES).contains(arg) || inside.any(|memory| memory.contains(arg))
    };
    assert!(args.iter().all(is_inside), "call {number}: an address elsewhere");
    let [a, b, c, d, e, f] = args;
    // SAFETY: what it reaches lies in memory that is borrowed exclusively, or it gets EFAULT. It
    // maps nothing. Lengths are the callers', and addresses inside of what it is given.
    let result = unsafe { syscall(number as c_long, a, b, c, d, e, f) };
    match result {
        -1 => -(super::errno().raw_os_error() as isize),
        value => value as isize,
    }
}

/// How many pages of a part of `memory` are mapped to something.
pub fn resident_pages(memory: &Memory, offset: usize, len: usize) -> usize {
    const PAGES: usize = 64;
    let start = (memory.addr() + offset) & !(PAGE_SIZE - 1);
    let end = (memory.addr() + offset + len).min(memory.addr() + memory.len());
    let mut resident = 0;
    for at in (start..end).step_by(PAGES * PAGE_SIZE) {
        let mut pages = [0u8; PAGES];
        let len = (end - at).min(PAGES * PAGE_SIZE);
        // SAFETY: writes a byte for each of at most `PAGES` pages.
        let answer = unsafe { syscall(nr::__NR_mincore as c_long, at, len, pages.as_mut_ptr()) };
        resident += pages.iter().filter(|page| answer == 0 && **page & 1 == 1).count();
    }
    resident
}
