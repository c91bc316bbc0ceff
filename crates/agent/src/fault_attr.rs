//! Fault injection (`lib/fault-inject.c`): a share of the machine's steps fail, as the kernel or the disk could make them.
//!
//! For tests of real processes: `uzswap run --fail-per-mille N`. A step that fails has done nothing. What is never made to fail
//! is what could only end in a lost page: giving frames up, and a read of the swap device that has just failed.

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::machine::{Done, Stop};

/// How steps fail.
#[derive(Default)]
pub(crate) struct FaultAttr {
    /// Of 1000; 0: none.
    per_mille: AtomicU64,
    state: AtomicU64,
    /// One more than the slot of the last read, if it was made to fail.
    failed_read: AtomicU64,
}

impl FaultAttr {
    /// Of 1000 steps about `per_mille` fail from now on.
    pub(crate) fn set(&self, per_mille: u64) {
        self.per_mille.store(per_mille, Ordering::Relaxed);
    }

    /// Whether this step fails, and if so a number to choose how.
    pub(crate) fn should_fail(&self) -> Option<u64> {
        let per_mille = self.per_mille.load(Ordering::Relaxed);
        if per_mille == 0 {
            return None;
        }
        // splitmix64 over a counter: threads need no lock to get different numbers.
        let n = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let x = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let x = x ^ (x >> 31);
        (x % 1000 < per_mille).then_some(x >> 32)
    }

    /// The outcome of a move or copy that fails, one of `stops`.
    pub(crate) fn stop(&self, stops: &[Stop]) -> Option<Done> {
        let choice = self.should_fail()?;
        Some(Done::none(stops[choice as usize % stops.len()]))
    }

    /// Whether this read fails.
    pub(crate) fn should_fail_read(&self, slot: u32) -> bool {
        let this = u64::from(slot) + 1;
        if self.failed_read.swap(0, Ordering::Relaxed) == this || self.should_fail().is_none() {
            return false;
        }
        self.failed_read.store(this, Ordering::Relaxed);
        true
    }
}
