//! Futex locks and mailboxes.
//!
//! [`RawLock`] plugs into `lock_api`; [`Mailbox`] is a word of flag bits that one thread waits on
//! and others set. Neither depends on who the waiting thread is, so both work in threads that libc
//! has never heard of, and a forked child may reset them ([`Mailbox::reset`]) to the state it
//! needs.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// Sleep until `word` is no longer `expected`, is woken, or `timeout_ns` is over. Spurious returns
/// are allowed.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>, shared: bool) {
    let flags = if shared { Flags::empty() } else { Flags::PRIVATE };
    let timeout = timeout_ns.map(timespec);
    // Every outcome (woken, value changed, interrupted, timed out) means the same to the callers:
    // look again.
    let _ = futex::wait(word, flags, expected, timeout.as_ref());
}

/// Wake up to `n` waiters of `word`.
pub fn wake(word: &AtomicU32, n: u32, shared: bool) {
    let flags = if shared { Flags::empty() } else { Flags::PRIVATE };
    let _ = futex::wake(word, flags, n);
}

/// Wake all waiters of `word`.
pub fn wake_all(word: &AtomicU32, shared: bool) {
    wake(word, u32::MAX >> 1, shared);
}

/// The low half of a word of a shared file, for the kernel.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: its first four bytes, as this is little-endian, aligned and alive as long as it. Only
    // the kernel reads through it; we read and write the whole word.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
}

/// As [`wait`], on the low half of a word of a file that processes share.
pub fn wait_for_word(word: &AtomicU64, expected: u32, timeout_ns: u64) {
    wait(low_half(word), expected, Some(timeout_ns), true);
}

/// Wake all that wait for the low half of a word of a file that processes share.
pub fn wake_word(word: &AtomicU64) {
    wake_all(low_half(word), true);
}

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// Looks at a held lock before sleeping: some 15 us, longer than the engine's lock is usually held,
/// but for isolation, and about what a sleep and the wake-up cost.
const SPINS: u32 = 1000;

/// A futex mutex for `lock_api`: three states, a spin, then sleep.
pub struct RawLock(AtomicU32);

impl RawLock {
    #[cold]
    fn lock_slow(&self) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == UNLOCKED && self.try_acquire() {
                return;
            }
            core::hint::spin_loop();
        }
        // Whoever sets CONTENDED here also wakes one waiter when it unlocks, so no wake-up is lost.
        while self.0.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
            wait(&self.0, CONTENDED, None, false);
        }
    }

    fn try_acquire(&self) -> bool {
        self.0
            .compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

// SAFETY: acquisition is an acquire read-modify-write that only succeeds from UNLOCKED, release is
// a release swap by the holder; so at most one holder exists at a time and its writes are visible
// to the next.
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api asks for a constant initialiser"
    )]
    const INIT: Self = Self(AtomicU32::new(UNLOCKED));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        if !self.try_acquire() {
            self.lock_slow();
        }
    }

    fn try_lock(&self) -> bool {
        self.try_acquire()
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != UNLOCKED
    }

    unsafe fn unlock(&self) {
        if self.0.swap(UNLOCKED, Ordering::Release) == CONTENDED {
            wake(&self.0, 1, false);
        }
    }
}

/// A word of flag bits: many threads post, waiters sleep until a bit that they want is there.
#[derive(Default)]
pub struct Mailbox(AtomicU32);

impl Mailbox {
    /// An empty mailbox.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Set `bits` and wake the waiters if any of them is new.
    pub fn post(&self, bits: u32) {
        // Release: what the poster wrote before is visible to the thread that takes the bit (pairs
        // with `take`).
        if self.0.fetch_or(bits, Ordering::Release) & bits != bits {
            wake_all(&self.0, false);
        }
    }

    /// Take those of `bits` that are set, without waiting.
    pub fn take(&self, bits: u32) -> u32 {
        self.0.fetch_and(!bits, Ordering::Acquire) & bits
    }

    /// Which of `bits` are set.
    pub fn peek(&self, bits: u32) -> u32 {
        self.0.load(Ordering::Acquire) & bits
    }

    /// Wait until one of `bits` is set or the time is over, then take those that are. 0: timed out
    /// or woken early.
    pub fn wait(&self, bits: u32, timeout_ns: Option<u64>) -> u32 {
        let seen = self.0.load(Ordering::Acquire);
        if seen & bits == 0 {
            wait(&self.0, seen, timeout_ns, false);
        }
        self.take(bits)
    }

    /// Forget every bit (a forked child starts over).
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;

    const THREADS: u64 = 3;
    const ROUNDS: u64 = if cfg!(miri) { 30 } else { 10_000 };

    #[test]
    fn a_lock_has_one_holder_at_a_time() {
        let count = lock_api::Mutex::<RawLock, u64>::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..ROUNDS).for_each(|_| *count.lock() += 1));
            }
            let held = count.lock();
            assert!(count.is_locked() && count.try_lock().is_none());
            // Long enough for the others to fall asleep.
            std::thread::sleep(core::time::Duration::from_millis(5));
            drop(held);
        });
        assert_eq!(*count.lock(), THREADS * ROUNDS);
    }

    #[test]
    fn who_takes_a_bit_sees_what_the_poster_wrote() {
        let (there, back, value) = (Mailbox::new(), Mailbox::new(), AtomicU64::new(0));
        let until = |mailbox: &Mailbox, bits| while mailbox.wait(bits, None) == 0 {};
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=ROUNDS {
                    value.store(i, Ordering::Relaxed);
                    there.post(2);
                    until(&back, 1);
                }
            });
            for i in 1..=ROUNDS {
                until(&there, 2);
                assert_eq!(value.load(Ordering::Relaxed), i);
                back.post(1);
            }
        });
    }

    #[test]
    fn a_word_that_is_shared_wakes_who_waits_for_it() {
        let word = AtomicU64::new(7 << 32 | 5);
        // Not what it says: no wait at all.
        wait_for_word(&word, 7, u64::MAX >> 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) as u32 == 5 {
                    wait_for_word(&word, 5, 1_000_000_000);
                }
            });
            word.fetch_add(1, Ordering::Release);
            wake_word(&word);
        });
        assert_eq!(word.into_inner(), 7 << 32 | 6);
    }

    #[test]
    fn a_wait_for_a_bit_that_nobody_posts_ends() {
        let mailbox = Mailbox::new();
        mailbox.post(4);
        assert_eq!((mailbox.wait(1, Some(1_000_000)), mailbox.peek(4)), (0, 4));
        mailbox.reset();
        assert_eq!(mailbox.take(4), 0);
    }
}
