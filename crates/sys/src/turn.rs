//! A lock whose holder is known: one that a thread may hold over a system call of the program's.
//!
//! Its thread may end inside (a filter of system calls, a vfork child that was killed), or be
//! interrupted there by a handler that wants it too. So others look whether the holder lives, and a
//! holder is told that it is one.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lock_api::RawMutex;

use crate::children;
use crate::futex::{self, RawLock};
use crate::thread;

/// Looks without and with sleeping between them before giving up, after ten seconds.
const SPINS: u32 = 2_000;
const PAUSES: u32 = 200_000;
const FEW_PAUSES: u32 = 1_000;
const PAUSE_NS: u64 = 50_000;
/// Looks between two at whether the holder lives.
const LOOKS_AT_HOLDER: u32 = 500;

/// The lock.
pub struct Turn {
    lock: RawLock,
    /// Process and thread that have it; 0: none, or not known yet.
    holder: AtomicU64,
    /// Slept on, never woken: always 0.
    never: AtomicU32,
}

/// A thread, in one word: its process may be another than ours that has our memory.
fn me() -> u64 {
    (thread::pid() as u64) << 32 | thread::tid() as u64
}

impl Turn {
    /// Nobody's.
    #[allow(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self {
            lock: RawLock::INIT,
            holder: AtomicU64::new(0),
            never: AtomicU32::new(0),
        }
    }

    /// Wait for it. False: this very thread has it already, or somebody has had it for ten seconds.
    pub fn take(&self) -> bool {
        self.take_within(PAUSES)
    }

    /// As [`take`](Self::take), but a twentieth of a second at most.
    pub fn take_soon(&self) -> bool {
        self.take_within(FEW_PAUSES)
    }

    fn take_within(&self, pauses: u32) -> bool {
        let me = me();
        for looks in 0..SPINS + pauses {
            if self.lock.try_lock() {
                self.holder.store(me, Ordering::Relaxed);
                return true;
            }
            let holder = self.holder.load(Ordering::Relaxed);
            if holder == me {
                return false;
            }
            if is_gone(holder, looks) && self.inherit(holder, me) {
                return true;
            }
            if looks < SPINS {
                core::hint::spin_loop();
            } else {
                futex::wait(&self.never, 0, Some(PAUSE_NS), false);
            }
        }
        false
    }

    /// Take it if it can be had at once.
    pub fn attempt(&self) -> bool {
        for _ in 0..SPINS {
            if self.lock.try_lock() {
                self.holder.store(me(), Ordering::Relaxed);
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Whether this thread has it.
    pub fn is_mine(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == me()
    }

    /// Give it up, if this thread has it.
    pub fn end(&self) {
        if self.is_mine() {
            self.open();
        }
    }

    /// In a forked child: whoever had it is not here, or is the fork.
    pub fn reset_in_child(&self) {
        if self.lock.is_locked() {
            self.open();
        }
    }

    fn open(&self) {
        self.holder.store(0, Ordering::Relaxed);
        // SAFETY: it is locked: by this thread, which `holder` says and only the holder writes; or
        // by one that does not exist in this process.
        unsafe { self.lock.unlock() };
    }

    fn inherit(&self, holder: u64, me: u64) -> bool {
        self.holder
            .compare_exchange(holder, me, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Whether it is a thread that does not exist any more. Looked up now and then. One of a child that
/// was killed is there until somebody waits for that, who may be waiting here.
fn is_gone(holder: u64, looks: u32) -> bool {
    let is_time = looks > SPINS && (looks - SPINS).is_multiple_of(LOOKS_AT_HOLDER);
    if holder == 0 || !is_time {
        return false;
    }
    let (process, thread) = ((holder >> 32) as i32, holder as u32 as i32);
    match process == thread::pid() {
        true => !thread::is_alive(process, thread),
        false => children::has_ended(process),
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use super::*;

    #[test]
    fn a_holder_is_told_that_it_is_one_and_others_wait() {
        static TURN: Turn = Turn::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|all| {
            for _ in 0..4 {
                all.spawn(|| {
                    for _ in 0..1000 {
                        assert!(TURN.take());
                        assert!(!TURN.take() && TURN.is_mine());
                        // Were two inside, one of these would be lost.
                        let count = COUNT.load(Ordering::Relaxed);
                        core::hint::spin_loop();
                        COUNT.store(count + 1, Ordering::Relaxed);
                        TURN.end();
                    }
                });
            }
        });
        assert_eq!(COUNT.load(Ordering::Relaxed), 4000);
    }

    #[test]
    fn the_turn_of_a_thread_that_is_gone_is_inherited() {
        static TURN: Turn = Turn::new();
        std::thread::scope(|all| {
            all.spawn(|| assert!(TURN.take()));
        });
        assert!(TURN.take() && TURN.is_mine());
        TURN.end();
        assert!(TURN.attempt());
    }
}
