//! Reclaim goes behind faults (`cond_resched`).
//!
//! A thread that is ready to run beside one that reclaims may wait for it to the end of a tick, 4
//! ms, whatever their niceness and slices: nothing looks before. So whoever reclaims looks between
//! two pieces of its work, without the engine's lock:
//! 1. It runs where the fault thread would, and there are faults to read: that thread is ready and
//!    waits. It yields.
//! 2. A fault waits for the engine's lock, which is not handed over. A thread that was asleep comes
//!    for it too late each time, and reclaim would have it again for as long as there is anything
//!    to isolate. So reclaim waits until the other has had it.
//!
//! Where cores are busy neither is worth much: others run in between, or who waits for the lock
//! gets no core to take it on. What took long is not done again for ten times as long, so that
//! reclaim, which faults may be waiting for, loses a tenth of its time to it at most.

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_sys::thread;
use uzswap_sys::time::now_ns;

use super::cores::CORES;

/// How long the lock is left to a fault at most: to wake a thread on a halted core takes tens of
/// microseconds.
const PATIENCE_NS: u64 = 200_000;
/// Who waits for the lock is on this core if it has not come by then.
const SPIN_NS: u64 = 20_000;
/// Longer than this is long.
const LONG_NS: u64 = 150_000;
const REST: u64 = 10;

/// Until when nobody is let in. A hint, hence Relaxed.
static NOT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Let faults go first: `has_faults` are to be read, or `faults_wait` for the lock.
pub(crate) fn cond_resched(has_faults: impl Fn() -> bool, faults_wait: impl Fn() -> bool) {
    let is_in_the_way = CORES.is_in_the_way();
    if !is_in_the_way && !faults_wait() {
        return;
    }
    let began = now_ns();
    if began < NOT_BEFORE.load(Ordering::Relaxed) {
        return;
    }
    if is_in_the_way && has_faults() {
        thread::yield_now();
    }
    let mut took = now_ns() - began;
    while faults_wait() && took < PATIENCE_NS {
        match took {
            0..SPIN_NS if !is_in_the_way => core::hint::spin_loop(),
            _ => thread::yield_now(),
        }
        took = now_ns() - began;
    }
    if took > LONG_NS {
        NOT_BEFORE.store(began + took * (1 + REST), Ordering::Relaxed);
    }
}
