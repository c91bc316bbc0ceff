//! While a thread forks no pager starts: the child would have half a one.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use uzswap_sys::{futex, thread};

use super::{IDLE, STARTING, STATE, is_vfork_child, lose, settle};

/// As IDLE, but no pager may start now.
pub(super) const HELD: u32 = 4;

/// Who holds, its signal mask, and how often it forks in handlers of signals that are raised by the
/// fork itself: a filter of system calls raises SIGSYS.
static HOLDER: AtomicI32 = AtomicI32::new(0);
static HOLDERS_MASK: AtomicU64 = AtomicU64::new(0);
static NESTED: AtomicU32 = AtomicU32::new(0);

/// How often, and how long each time, a process waits that is not the one which began here. It may
/// be a copy that a raw fork made: then nobody is here to end it.
const FOREIGN_WAITS: u32 = 100;
const WAIT_NS: u64 = 10_000_000;

/// Before a fork: have no pager start, and let one that is starting stand, until [`release_start`].
/// The program's signals are blocked by now, and `mask` is what they were. Else a handler that
/// forks would wait for its own thread, and one that jumps elsewhere would hold pagers for ever.
///
/// False: no pager will start, or this is another process than the one which began here. That one
/// goes on meanwhile, and [`end_in_child`] sees to what such a fork's child finds.
pub(crate) fn hold_start(mask: u64) -> bool {
    let mut waits = 0;
    loop {
        let is_foreign = is_vfork_child();
        match STATE.load(Ordering::Acquire) {
            IDLE if !is_foreign => {
                let held = STATE.compare_exchange(IDLE, HELD, Ordering::AcqRel, Ordering::Relaxed);
                if held.is_ok() {
                    HOLDERS_MASK.store(mask, Ordering::Relaxed);
                    HOLDER.store(thread::tid(), Ordering::Relaxed);
                    return true;
                }
            }
            HELD if HOLDER.load(Ordering::Relaxed) == thread::tid() => {
                NESTED.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            state @ (STARTING | HELD) if !is_foreign || waits < FOREIGN_WAITS => {
                waits += 1;
                futex::wait(&STATE, state, Some(WAIT_NS), false);
            }
            _ => return false,
        }
    }
}

/// Whether it is this thread that forks while no pager starts.
pub(super) fn is_holder() -> bool {
    HOLDER.load(Ordering::Relaxed) == thread::tid()
}

/// After a fork, in the parent: pagers may start again. Returns the mask, if it was this fork that
/// held them.
pub(crate) fn release_start() -> Option<u64> {
    if is_vfork_child() || STATE.load(Ordering::Acquire) != HELD {
        return None;
    }
    if NESTED.load(Ordering::Relaxed) > 0 {
        NESTED.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    HOLDER.store(0, Ordering::Relaxed);
    let mask = HOLDERS_MASK.load(Ordering::Relaxed);
    settle(IDLE);
    Some(mask)
}

/// After a fork, in the child, whose number is known by now: the same. `is_own`: it was made by the
/// process that began here. Else whoever holds, or has a pager start, is not here.
pub(crate) fn end_in_child(is_own: bool) -> Option<u64> {
    match STATE.load(Ordering::Acquire) {
        HELD if is_own => {
            if NESTED.load(Ordering::Relaxed) > 0 {
                // It holds on, until the handlers that it is in are over, and may fork in them.
                HOLDER.store(thread::tid(), Ordering::Relaxed);
            }
            release_start()
        }
        HELD => {
            NESTED.store(0, Ordering::Relaxed);
            settle(IDLE);
            None
        }
        STARTING => {
            // It has half a pager, and nothing that is out.
            lose();
            None
        }
        _ => None,
    }
}
