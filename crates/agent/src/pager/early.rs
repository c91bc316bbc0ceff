//! A pager that begins while the process is small as yet, or never: the process is about to give up
//! what a pager needs.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_ctl::PROCESSES;
use uzswap_sys::cell::Leaked;
use uzswap_sys::{Errno, futex, thread};

use super::hold::{self, HELD};
use super::missing::Missing;
use super::{FAILED, IDLE, PID, STARTING, STATE, WAIT_NS, group, start_if_idle};

/// A pager could not start early. Nobody knows whether the process will want one.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
static FAILURE: Leaked<Missing> = Leaked::new();
/// One part in so many of the slots are for those who start early: most of them stay small.
const SHARE: usize = 8;

/// As [`activate`](super::activate), for a process that is small. In the thread that gives up what
/// that takes, which waits for one that another thread starts. Where none can begin, that is said
/// when the process grows, as `lacks` puts it.
pub(crate) fn activate(lacks: impl FnOnce(Missing) -> Missing) {
    if group().is_none_or(|group| group.high_water() >= PROCESSES / SHARE) {
        return;
    }
    if let Err(missing) = start_if_idle() {
        note_failed(lacks(missing));
    }
    while STATE.load(Ordering::Acquire) == STARTING && PID.load(Ordering::Relaxed) == thread::pid() {
        futex::wait(&STATE, STARTING, Some(WAIT_NS), false);
    }
}

/// A process that has no pager is to have none: what that would ask for ends it. That is said when
/// it grows. Waits for one that another thread starts, or for a fork to be over which may.
pub(crate) fn forgo() {
    loop {
        match STATE.compare_exchange(IDLE, FAILED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                return note_failed(Missing::named(
                    "its pager, behind a filter for all threads",
                    Errno::PERM,
                ));
            }
            Err(HELD) if hold::is_holder() => return,
            Err(state @ (STARTING | HELD)) => futex::wait(&STATE, state, Some(WAIT_NS), false),
            Err(_) => return,
        }
    }
}

fn note_failed(missing: Missing) {
    FAILURE.set(missing);
    HAS_FAILED.store(true, Ordering::Release);
}

/// What was missing, once.
pub(super) fn take_failure() -> Option<Missing> {
    let has_failed = HAS_FAILED.load(Ordering::Acquire) && HAS_FAILED.swap(false, Ordering::Acquire);
    FAILURE.get().copied().filter(|_| has_failed)
}
