//! Since when a swap file takes nothing.

use core::sync::atomic::{AtomicU64, Ordering};

/// What is refused is tried again each tick: when nothing was for so long, it is over.
const OVER_NS: u64 = 5_000_000_000;

/// Writes that failed, one after another. Times are nanoseconds; 0: there is none.
#[derive(Default)]
pub struct Refusals {
    first: AtomicU64,
    last: AtomicU64,
}

impl Refusals {
    /// A write failed.
    pub fn add(&self, now: u64) {
        if self.since(now).is_none() {
            self.first.store(now, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
    }

    /// A write did not.
    pub fn end(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// Since when, if writes still fail.
    pub fn since(&self, now: u64) -> Option<u64> {
        let last = self.last.load(Ordering::Relaxed);
        let is_over = last == 0 || now.saturating_sub(last) > OVER_NS;
        (!is_over).then(|| self.first.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn refusals_that_lie_far_apart_are_not_one_outage() {
        let refusals = Refusals::default();
        assert_eq!(refusals.since(7), None);
        refusals.add(10);
        refusals.add(OVER_NS);
        assert_eq!(refusals.since(OVER_NS), Some(10));
        assert_eq!(refusals.since(3 * OVER_NS), None);
        refusals.add(3 * OVER_NS);
        assert_eq!(refusals.since(3 * OVER_NS + 1), Some(3 * OVER_NS));
        refusals.end();
        assert_eq!(refusals.since(3 * OVER_NS + 1), None);
        refusals.add(3 * OVER_NS + 2);
        assert_eq!(refusals.since(3 * OVER_NS + 2), Some(3 * OVER_NS + 2));
    }
}
