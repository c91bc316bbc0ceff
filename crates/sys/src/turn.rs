//! A lock whose holder is known: one that a thread may hold over a system call of the program's.
//!
//! Its thread may end inside (a filter of system calls, a vfork child that was killed), or be
//! interrupted there by a handler that wants it too. So others look whether the holder lives, and a
//! holder is told that it is one.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use lock_api::RawMutex;

use crate::children;
use crate::futex::{self, RawLock};
use crate::thread;
use crate::time::now_ns;

/// Looks before a thread sleeps.
const SPINS: u32 = 2_000;
/// How long it is waited for, and a little while. Nanoseconds.
const LONG_NS: u64 = 10_000_000_000;
const SHORT_NS: u64 = 50_000_000;
/// How long a thread sleeps before it looks whether the holder lives: who gives up the turn wakes
/// one. Nanoseconds.
const SLEEP_NS: u64 = 25_000_000;
/// How often somebody sleeps who does not wait for long, and how long at most. Nanoseconds.
const ATTEMPTS: u32 = 20;
const ATTEMPT_NS: u64 = 100_000;

/// The lock.
pub struct Turn {
    lock: RawLock,
    /// Process and thread that have it; 0: none, or not known yet.
    holder: AtomicU64,
    /// Threads that sleep or are about to, at least: one may have left from a handler.
    waiters: AtomicU32,
    /// How often it was given up while there were any. Slept on.
    ends: AtomicU32,
    /// Not 0: somebody who does not wait for long is next.
    is_wanted: AtomicU32,
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
            waiters: AtomicU32::new(0),
            ends: AtomicU32::new(0),
            is_wanted: AtomicU32::new(0),
        }
    }

    /// Wait for it. False: this very thread has it already, or another one for ten seconds.
    pub fn take(&self) -> bool {
        self.take_within(LONG_NS)
    }

    /// As [`take`](Self::take), but a twentieth of a second at most.
    pub fn take_soon(&self) -> bool {
        self.take_within(SHORT_NS)
    }

    fn take_within(&self, ns: u64) -> bool {
        let me = me();
        for _ in 0..SPINS {
            if let Some(is_taken) = self.look(me) {
                return is_taken;
            }
            core::hint::spin_loop();
        }
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let is_taken = self.sleep_for(me, ns);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        is_taken
    }

    /// Whether it is taken now, or is this thread's already (false).
    fn look(&self, me: u64) -> Option<bool> {
        if self.is_wanted.load(Ordering::Relaxed) == 0 && self.lock.try_lock() {
            self.holder.store(me, Ordering::Relaxed);
            return Some(true);
        }
        (self.holder.load(Ordering::Relaxed) == me).then_some(false)
    }

    fn sleep_for(&self, me: u64, ns: u64) -> bool {
        let mut now = now_ns();
        let (mut end, mut looks) = (now + ns, now + SLEEP_NS);
        let mut seen = self.ends.load(Ordering::Relaxed);
        while now < end {
            let ends = self.ends.load(Ordering::Acquire);
            if ends != seen {
                // Others have had it since: hundreds may be before this one.
                (seen, end) = (ends, now + ns);
            }
            // Pairs with `open`: either that sees a waiter, or this finds it given up.
            fence(Ordering::SeqCst);
            if let Some(is_taken) = self.look(me) {
                return is_taken;
            }
            if now >= looks {
                looks = now + SLEEP_NS;
                let holder = self.holder.load(Ordering::Relaxed);
                if is_gone(holder) && self.inherit(holder, me) {
                    return true;
                }
            }
            futex::wait(&self.ends, ends, Some(SLEEP_NS.min(end - now)), false);
            now = now_ns();
        }
        false
    }

    /// Take it before all who wait for it, if it can be had in some milliseconds, and before
    /// `is_called` says that who has it may be waiting for this thread. One thread at a time.
    pub fn attempt(&self, is_called: impl Fn() -> bool) -> bool {
        self.is_wanted.store(1, Ordering::Relaxed);
        let mut is_taken = false;
        for tries in 0..SPINS + ATTEMPTS {
            is_taken = self.lock.try_lock();
            if is_taken || is_called() {
                break;
            }
            match tries < SPINS {
                true => core::hint::spin_loop(),
                false => futex::wait(&self.ends, self.ends.load(Ordering::Relaxed), Some(ATTEMPT_NS), false),
            }
        }
        if is_taken {
            self.holder.store(me(), Ordering::Relaxed);
        }
        self.is_wanted.store(0, Ordering::Relaxed);
        if !is_taken {
            // Who was woken meanwhile has gone back to sleep. Nobody has had it since.
            futex::wake(&self.ends, 1, false);
        }
        is_taken
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

    /// In a forked child: whoever had it is not here, or is the fork, nor is who waited.
    pub fn reset_in_child(&self) {
        self.waiters.store(0, Ordering::Relaxed);
        self.is_wanted.store(0, Ordering::Relaxed);
        if self.lock.is_locked() {
            self.open();
        }
    }

    fn open(&self) {
        self.holder.store(0, Ordering::Relaxed);
        // SAFETY: it is locked: by this thread, which `holder` says and only the holder writes; or
        // by one that does not exist in this process.
        unsafe { self.lock.unlock() };
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.ends.fetch_add(1, Ordering::Release);
            futex::wake(&self.ends, 1, false);
        }
    }

    fn inherit(&self, holder: u64, me: u64) -> bool {
        self.holder
            .compare_exchange(holder, me, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Whether it is a thread that does not exist any more. One of a child that was killed is there
/// until somebody waits for that, who may be waiting here.
fn is_gone(holder: u64) -> bool {
    if holder == 0 {
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
        assert!(TURN.attempt(|| false));
    }

    #[test]
    fn who_is_called_leaves_the_turn_to_who_has_it() {
        static TURN: Turn = Turn::new();
        assert!(TURN.take());
        std::thread::scope(|all| {
            all.spawn(|| assert!(!TURN.attempt(|| true)));
        });
        TURN.end();
        // Where it is free it is taken nevertheless, and nobody is kept from it later.
        assert!(TURN.attempt(|| true));
        TURN.end();
        assert!(TURN.take() && TURN.is_mine());
    }
}
