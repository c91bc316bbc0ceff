//! Reclaim goes behind faults (`cond_resched`).
//!
//! A thread that is ready to run beside one that reclaims waits for it to the end of a tick, 4 ms, whatever their niceness and slices: nothing looks
//! before. So whoever reclaims looks between two pieces of its work, without the engine's lock:
//! 1. It runs where the fault thread would, which is ready and not running: there are faults to read. It yields.
//! 2. A fault waits for the engine's lock, which the kernel does not hand over: a thread that was asleep comes for it too late each time, and
//!    reclaim would have it again for as long as there is anything to isolate. It waits until the other has had it.

use uzswap_sys::affinity::current_core;
use uzswap_sys::thread;
use uzswap_sys::time::now_ns;

use crate::cores::CORES;

/// How long the lock is left to a fault at most: to wake a thread on a halted core takes tens of microseconds.
const PATIENCE_NS: u64 = 200_000;

/// Let faults go first: `has_faults` are to be read, or `faults_wait` for the lock.
pub(crate) fn cond_resched(has_faults: impl Fn() -> bool, faults_wait: impl Fn() -> bool) {
    let is_in_the_way = CORES.fault_thread() == current_core();
    if is_in_the_way && has_faults() {
        thread::yield_now();
    }
    if !faults_wait() {
        return;
    }
    let began = now_ns();
    while faults_wait() && now_ns() - began < PATIENCE_NS {
        match is_in_the_way {
            true => thread::yield_now(),
            false => core::hint::spin_loop(),
        }
    }
}
