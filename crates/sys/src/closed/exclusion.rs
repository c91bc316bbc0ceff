//! Who fills pages and who changes mappings exclude each other, so that a page never lands on what
//! has replaced its mapping.

use core::sync::atomic::{AtomicU32, Ordering};

use rustix::io::{Errno, Result};
use rustix::thread::{Timespec, nanosleep, sched_yield};

use super::is_on;

/// Fills under way, and changes of mappings.
static FILLS: AtomicU32 = AtomicU32::new(0);
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// No mapping changes meanwhile. A thread that fills waits for nobody, and is not interrupted.
pub struct Filling(());

impl Filling {
    /// # Errors
    /// EAGAIN: a change is under way, or its event was not read yet.
    pub fn begin() -> Result<Self> {
        // SeqCst, as in `Changing`: either that sees us, or we see it.
        FILLS.fetch_add(1, Ordering::SeqCst);
        let filling = Self(());
        match CHANGES.load(Ordering::SeqCst) {
            0 => Ok(filling),
            _ => Err(Errno::AGAIN),
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        FILLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Looks at fills before the core is given to another thread, and before this one sleeps: the other
/// may have less priority.
const SPINS: u32 = 200;
const YIELDS: u32 = 400;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000,
};

/// A thread of the program changes mappings: nothing is filled meanwhile.
pub struct Changing(());

impl Changing {
    /// Wait until nothing is being filled. In a thread whose signals are blocked.
    #[allow(clippy::new_without_default, reason = "it waits")]
    pub fn begin() -> Self {
        CHANGES.fetch_add(1, Ordering::SeqCst);
        let mut looks = 0;
        while FILLS.load(Ordering::SeqCst) != 0 {
            looks += 1;
            match looks {
                ..SPINS => core::hint::spin_loop(),
                SPINS..YIELDS => sched_yield(),
                _ => drop(nanosleep(&PAUSE)),
            }
        }
        Self(())
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Before a fork: nothing is filled while the kernel copies memory, so that bytes and pages of the
/// child are of one moment.
pub fn begin_fork() {
    if is_on() {
        core::mem::forget(Changing::begin());
    }
}

/// After it, in the parent. A child resets it (`reset_in_child`).
pub fn end_fork() {
    if is_on() {
        drop(Changing(()));
    }
}

/// Whether a change is under way whose event was not read yet.
pub fn is_changing() -> bool {
    CHANGES.load(Ordering::SeqCst) != 0
}

/// In a forked child.
pub(super) fn reset_in_child() {
    FILLS.store(0, Ordering::Relaxed);
    CHANGES.store(0, Ordering::Relaxed);
}
