//! The door of a work queue, and the credits of who must count for himself (data sheet A3, A4).
//!
//! This crate holds only the rules. An implementation of [`Portal`] does the following.
//!
//! - **Open.** `open("/dev/iax/wq<m>.<n>", O_RDWR | O_CLOEXEC)`, once a process: the descriptor
//!   binds the opener's address space. After a fork the child drops every portal and opens again.
//! - **Map.** `mmap` of one page at offset 0, `MAP_SHARED`, `PROT_WRITE`. It fails with EPERM
//!   without CAP_SYS_RAWIO since Linux 6.9.1; then the portal writes to the descriptor instead.
//! - **Shared, mapped.** `sfence`, then ENQCMD to a 64-byte slot of the page. ZF set: not accepted,
//!   [`Submitted::Full`]. The CPU has it if CPUID.7.0:ECX has bit 29.
//! - **Dedicated, mapped.** `sfence`, then MOVDIR64B to a slot of the page, which never refuses:
//!   [`Submitted::Accepted`]. The CPU has it if CPUID.7.0:ECX has bit 28.
//! - **Slots.** All 64 slots of the page are the same queue. Each submission takes the next one, so
//!   that write-combining buffers are not waited for.
//! - **Written.** `write(fd, descriptor, 64)`; 64: accepted. EAGAIN, or a short write: full. Any
//!   other error: gone. It must be proven by one [`noop`](crate::recipe::noop) before the queue is
//!   used.
//! - **Order.** All stores to the source, the AECS and the zeroed record come before the
//!   submission. `sfence` and the system call both see to that.

use crate::descriptor::DESCRIPTOR_BYTES;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What became of a descriptor at the portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The device has it: a completion record will come, or a deadline will pass.
    Accepted,
    /// The work queue is full: it was not taken.
    Full,
    /// The work queue is disabled or was removed: it was not taken, nor will any other one be.
    Gone,
}

/// Takes descriptors to one work queue. Many threads use it at once.
pub trait Portal: Send + Sync {
    /// Submit a descriptor once, without retries.
    fn submit(&self, descriptor: &[u8; DESCRIPTOR_BYTES]) -> Submitted;

    /// Close the portal for good, and have the kernel wait for what was submitted: `munmap` and
    /// `close` drain the queue.
    ///
    /// True: the device is done with every descriptor of this portal, so no buffer of theirs is
    /// written any more. Afterwards `submit` says [`Submitted::Gone`]. An implementation that has
    /// unmapped its page has first waited for the threads within `submit`.
    fn drain(&self) -> bool {
        false
    }

    /// Where the queue's counters are kept, in the order of
    /// [`QueueCounts`](crate::queue::QueueCounts), if not in the queue: others may count there as
    /// well.
    fn counters(&self) -> Option<[&'static AtomicU64; 4]> {
        None
    }
}

/// The free entries of a dedicated work queue. MOVDIR64B never refuses, so the sender counts: a
/// descriptor beyond the queue's size would be lost.
#[derive(Debug)]
pub struct Credits {
    left: AtomicU32,
    size: u32,
}

impl Credits {
    /// All `size` entries are free.
    #[must_use]
    pub const fn new(size: u32) -> Self {
        Self {
            left: AtomicU32::new(size),
            size,
        }
    }

    /// Take an entry. False: all are in flight.
    #[must_use]
    pub fn take(&self) -> bool {
        // Relaxed: the credit stands for an entry of the device, and guards no memory of ours.
        let take = |left: u32| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Give an entry back: its completion record has come, or it was never submitted.
    ///
    /// # Panics
    /// More are given than were taken.
    pub fn give(&self) {
        let before = self.left.fetch_add(1, Ordering::Relaxed);
        assert!(
            before < self.size,
            "more credits come back than the {} that there are",
            self.size
        );
    }

    /// Entries in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.size - self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn no_more_than_size_are_in_flight() {
        let credits = Credits::new(3);
        assert!((0..3).all(|_| credits.take()));
        assert!(!credits.take());
        credits.give();
        assert_eq!(credits.in_flight(), 2);
        assert!(credits.take());
    }

    #[test]
    fn threads_share_the_credits() {
        let credits = Credits::new(5);
        let most = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if credits.take() {
                            most.fetch_max(credits.in_flight(), Ordering::Relaxed);
                            credits.give();
                        }
                    }
                });
            }
        });
        assert_eq!(credits.in_flight(), 0);
        assert!((1..=5).contains(&most.into_inner()));
    }

    #[test]
    #[should_panic(expected = "more credits come back than the 2 that there are")]
    fn a_credit_comes_back_once() {
        Credits::new(2).give();
    }
}
