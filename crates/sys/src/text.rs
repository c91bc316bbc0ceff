//! Replacing a libc function in place.
//!
//! glibc's malloc maps memory through internal calls that no interposed symbol sees, so the wrapper itself is
//! replaced: its first bytes become a jump. The functions replaced (`brk`, `mmap`, `munmap`) are thin wrappers of one
//! system call, which the replacements make themselves; so nothing of the original needs to be kept or
//! relocated, and no symbol of the program is shadowed.

use core::ffi::c_void;

use rustix::io::{Errno, Result};
use rustix::mm::{MprotectFlags, mprotect};

use crate::PAGE_SIZE;

/// `jmp [rip + 0]` followed by the 64-bit target.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const PATCH: usize = JUMP.len() + 8;

/// Make `function` continue at `replacement`.
///
/// # Errors
/// EACCES, EPERM: the system forbids changing program text (a hardened kernel or seccomp); nothing was changed then.
///
/// # Safety
/// 1. `function` is the entry of code at least 14 bytes long that no thread is executing now;
/// 2. `replacement` has the same C signature and does all that callers expect of the original.
pub unsafe fn replace(function: *mut c_void, replacement: *const c_void) -> Result<()> {
    if function.is_null() {
        return Err(Errno::INVAL);
    }
    let first = function as usize & !(PAGE_SIZE - 1);
    let len = (function as usize + PATCH).next_multiple_of(PAGE_SIZE) - first;
    let pages = function.wrapping_byte_sub(function as usize - first);
    let mut patch = [0u8; PATCH];
    patch[..JUMP.len()].copy_from_slice(&JUMP);
    patch[JUMP.len()..].copy_from_slice(&(replacement as u64).to_ne_bytes());
    // SAFETY: the text pages become writable, are written within the function's own bytes (promise 1), and are
    // executable again before anybody runs them; this code lives in another mapping.
    unsafe {
        mprotect(
            pages,
            len,
            MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC,
        )?;
        core::ptr::copy_nonoverlapping(patch.as_ptr(), function.cast(), PATCH);
        let _ = mprotect(pages, len, MprotectFlags::READ | MprotectFlags::EXEC);
    }
    Ok(())
}
