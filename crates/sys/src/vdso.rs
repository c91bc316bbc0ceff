//! The kernel's library in every process, and when its functions cannot be called.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What of it lies behind its first byte at most, and before that of the data that it reads.
const LEN: usize = 16 * 1024;
const DATA: usize = 32 * 1024;

/// Where it is. 0: not known.
static START: AtomicUsize = AtomicUsize::new(0);
static IS_LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// It is at `start`.
pub fn note(start: usize) {
    START.store(start, Ordering::Relaxed);
}

/// The program is about to unmap, move or map over these bytes, as a virtual machine for programs
/// does that has a clock of its own (valgrind).
pub fn note_unmapped(start: usize, len: usize) {
    let own = START.load(Ordering::Relaxed);
    if own != 0 && start < own + LEN && own - DATA < start.saturating_add(len) {
        leave_out();
    }
}

/// Whether this instruction is one of it.
pub(crate) fn holds(ip: usize) -> bool {
    let own = START.load(Ordering::Relaxed);
    own != 0 && (own..own + LEN).contains(&ip)
}

/// Have system calls made in the place of its functions.
pub(crate) fn leave_out() {
    IS_LEFT_OUT.store(true, Ordering::SeqCst);
}

/// Whether they are.
pub(crate) fn is_left_out() -> bool {
    IS_LEFT_OUT.load(Ordering::Relaxed)
}
