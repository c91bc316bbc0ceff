//! The monotonic clock.

use core::sync::atomic::{AtomicBool, Ordering};

use linux_raw_sys::general as raw;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::thread::syscall;

/// The vDSO cannot read the clock, and would make a system call of its own.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// Have the clock be read by system calls that are made here.
pub fn read_by_calls() {
    IS_CALLED.store(true, Ordering::Relaxed);
}

/// Nanoseconds on the monotonic clock; only differences mean anything.
pub fn now_ns() -> u64 {
    let t = match IS_CALLED.load(Ordering::Relaxed) {
        true => call(),
        false => clock_gettime(ClockId::Monotonic),
    };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn call() -> Timespec {
    let mut t = Timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [raw::CLOCK_MONOTONIC as usize, (&raw mut t) as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes a time to `t`, which is laid out as it expects.
    let _ = unsafe { syscall(raw::__NR_clock_gettime as usize, args) };
    t
}
