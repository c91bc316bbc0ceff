//! The monotonic clock.

use linux_raw_sys::general as raw;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::thread::syscall;
use crate::vdso;

/// Nanoseconds on the monotonic clock; only differences mean anything.
pub fn now_ns() -> u64 {
    let t = match vdso::is_left_out() {
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
