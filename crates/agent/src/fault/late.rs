//! Faults that come to be served when there is no pager any more.

use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_mm::page::PAGE_SIZE;

/// Pages that were tried since the pager has retired, and how often each: 0 in the low bits for
/// none.
static LATE: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Whether the page may be there by now: all came back after the thread had met that it is not. It
/// tries again, and so does each that is as late.
pub(super) fn tries_again(addr: usize) -> bool {
    /// How often a page is tried in all; more than there are such threads, as a rule.
    const TRIES: usize = 64;
    let place = &LATE[addr / PAGE_SIZE % LATE.len()];
    let tried = place.load(Ordering::Relaxed);
    let count = if tried & !(PAGE_SIZE - 1) == addr {
        tried % PAGE_SIZE
    } else {
        0
    };
    if count < TRIES {
        place.store(addr + count + 1, Ordering::Relaxed);
    }
    count < TRIES
}
