//! Reclaim goes behind faults (`cond_resched`).
//!
//! A thread that is ready to run beside one that reclaims may wait for it to the end of a tick, 4 ms, whatever their niceness and slices: nothing
//! looks before. So whoever reclaims looks between two pieces of its work, without the engine's lock:
//! 1. It runs where the fault thread would, and there are faults to read: that thread is ready and waits. It yields.
//! 2. A fault waits for the engine's lock, which is not handed over: a thread that was asleep comes for it too late each time, and
//!    reclaim would have it again for as long as there is anything to isolate. It waits until the other has had it.

use uzswap_sys::thread;
use uzswap_sys::time::now_ns;

use crate::cores::CORES;

/// How long the lock is left to a fault at most: to wake a thread on a halted core takes tens of microseconds.
const PATIENCE_NS: u64 = 200_000;

/// Who waits for the lock is on this core if it has not come by then.
const SPIN_NS: u64 = 20_000;

/// Let faults go first: `has_faults` are to be read, or `faults_wait` for the lock.
pub(crate) fn cond_resched(has_faults: impl Fn() -> bool, faults_wait: impl Fn() -> bool) {
    let is_in_the_way = CORES.is_in_the_way();
    if is_in_the_way && has_faults() {
        thread::yield_now();
    }
    if !faults_wait() {
        return;
    }
    let began = now_ns();
    while faults_wait() {
        match now_ns() - began {
            PATIENCE_NS.. => return,
            0..SPIN_NS if !is_in_the_way => core::hint::spin_loop(),
            _ => thread::yield_now(),
        }
    }
}
