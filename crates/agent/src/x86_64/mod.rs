//! What depends on the processor: names that are bound here, and how libc's own data is reached.

use core::arch::naked_asm;
use core::ffi::c_void;

#[cfg(uzswap_image)]
mod image;

/// libc's record of the program break, where libc itself takes it from: `sbrk` computes from it. A
/// weak symbol, so that a libc without it can load this library, and refuse it in words.
#[unsafe(naked)]
pub(crate) extern "C" fn current_break() -> *mut *mut c_void {
    naked_asm!(".weak __curbrk", "mov rax, [rip + __curbrk@GOTPCREL]", "ret")
}
