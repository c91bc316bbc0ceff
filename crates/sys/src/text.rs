//! Replacing a libc function in place.
//!
//! glibc's malloc maps memory through internal calls that no interposed symbol sees, so the wrapper itself is
//! replaced: its first bytes become a jump. The functions replaced (`brk`, `mmap`, `munmap`) are thin wrappers of one
//! system call, which the replacements make themselves; so nothing of the original needs to be kept or
//! relocated, and no symbol of the program is shadowed.

use core::ffi::c_void;

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};

use crate::PAGE_SIZE;

/// `jmp [rip + 0]` followed by the 64-bit target.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const PATCH: usize = JUMP.len() + 8;

/// Make `function` continue at `replacement`.
///
/// # Errors
/// EACCES, EPERM: the system forbids changing program text, and running it from a copy; nothing was changed then.
///
/// # Safety
/// 1. `function` is the entry of code at least 14 bytes long that no thread is executing now;
/// 2. `replacement` has the same C signature and does all that callers expect of the original;
/// 3. no other thread changes the mappings that `function` lies in.
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
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    // SAFETY: whole pages of program text, which stay readable and executable.
    match unsafe { mprotect(pages, len, writable) } {
        Ok(()) => {
            // SAFETY: writable now; written within the function's own bytes (promise 1), and executable again before anybody runs
            // them; this code lives in another mapping.
            unsafe {
                core::ptr::copy_nonoverlapping(patch.as_ptr(), function.cast(), PATCH);
                let _ = mprotect(pages, len, MprotectFlags::READ | MprotectFlags::EXEC);
            }
            Ok(())
        }
        // SAFETY: the caller's promises.
        Err(Errno::ACCESS | Errno::PERM) => unsafe { replace_pages(pages, len, function as usize - first, &patch) },
        Err(errno) => Err(errno),
    }
}

/// Put a copy of `len` bytes of text, changed at `at`, in their place: where memory must not be writable and executable
/// (PR_SET_MDWE, systemd's MemoryDenyWriteExecute), a file may still be mapped to be executed.
///
/// # Safety
/// As for [`replace`]; `pages` are whole pages, `len` bytes of them, that hold the function.
unsafe fn replace_pages(pages: *mut c_void, len: usize, at: usize, patch: &[u8; PATCH]) -> Result<()> {
    let copy = crate::file::in_memory(c"uzswap-text")?;
    // SAFETY: text is readable, and nothing writes to it (promise 3).
    let text = unsafe { core::slice::from_raw_parts(pages.cast::<u8>(), len) };
    crate::file::write_all_at(&copy, text, 0)?;
    crate::file::write_all_at(&copy, patch, at as u64)?;
    // SAFETY: the same bytes at the same addresses but for the patch (promise 1); this code lives in another mapping. A failure of
    // a mapping in place of a file's leaves that as it is.
    unsafe {
        mmap(
            pages,
            len,
            ProtFlags::READ | ProtFlags::EXEC,
            MapFlags::PRIVATE | MapFlags::FIXED,
            &copy,
            0,
        )?;
    }
    Ok(())
}
