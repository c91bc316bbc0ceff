//! How much more memory would end the waiting, for reports; nothing is decided by it.
//!
//! The refault distance of a page is how many frames more would have kept it. So as many frames as
//! nearly all the pages that are waited for lie within would have kept nearly all of them.

use crate::policy::tunables::{SHORTFALL_HALVED_NS, SHORTFALL_LEFT};

/// Distances of one power of two are told apart in so many steps.
const STEPS: u32 = 4;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Up to distances of 2^32 pages; the last one counts those that are not known.
const BUCKETS: usize = (STEPS * 32) as usize;
const UNKNOWN: usize = BUCKETS - 1;

/// Distances of pages that were waited for lately.
pub(crate) struct Shortfall {
    counts: [u32; BUCKETS],
    all: u32,
    /// When they were halved last.
    halved: u64,
}

impl Default for Shortfall {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            all: 0,
            halved: 0,
        }
    }
}

fn bucket(distance: u64) -> usize {
    let power = distance.max(1).ilog2();
    if power < STEP_BITS {
        return distance as usize;
    }
    let step = distance >> (power - STEP_BITS) & u64::from(STEPS - 1);
    ((u64::from((power - STEP_BITS + 1) * STEPS) + step) as usize).min(UNKNOWN - 1)
}

/// The distance above all that a bucket counts.
fn end(bucket: usize) -> u64 {
    let (power, step) = (bucket as u32 / STEPS, bucket as u64 % u64::from(STEPS));
    match power {
        0 => step + 1,
        power => (u64::from(STEPS) + step + 1) << (power - 1),
    }
}

impl Shortfall {
    /// A page is waited for that so many pages were stored after; `None`: it was out for long.
    pub(crate) fn note(&mut self, distance: Option<u64>) {
        self.counts[distance.map_or(UNKNOWN, bucket)] += 1;
        self.all += 1;
    }

    /// It is `now`, nanoseconds: what was long ago counts little, and in the end nothing.
    pub(crate) fn set_time(&mut self, now: u64) {
        if now.saturating_sub(self.halved) >= SHORTFALL_HALVED_NS {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            (self.all, self.halved) = (self.counts.iter().sum(), now);
        }
    }

    /// Frames that would have kept all but one in [`SHORTFALL_LEFT`] of them, where `stored` pages
    /// are in the pool, which takes `pool` pages, and `swapped` on the device. What becomes
    /// resident frees its part of the pool.
    pub(crate) fn pages(&self, stored: u64, pool: u64, swapped: u64) -> u64 {
        let enough = self.all - self.all / SHORTFALL_LEFT;
        let mut seen = 0;
        let reaches = |count: &u32| {
            seen += count;
            seen >= enough
        };
        let more = match self.counts.iter().position(reaches) {
            None => 0,
            Some(_) if self.all == 0 => 0,
            Some(UNKNOWN) => stored + swapped,
            Some(bucket) => end(bucket).min(stored + swapped),
        };
        let freed = more.min(stored) * pool / stored.max(1);
        more.saturating_sub(freed)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_distance_is_below_the_end_of_its_bucket_and_near_it() {
        let distances = (0..100).chain((7..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 77]));
        for distance in distances.filter(|distance| *distance < 1 << 32) {
            let end = end(bucket(distance));
            assert!(
                end > distance && end <= distance + distance / 4 + 1,
                "{distance}: {end}"
            );
        }
        assert_eq!(bucket(u64::MAX), UNKNOWN - 1);
    }

    #[test]
    fn as_many_more_as_would_have_kept_nearly_all() {
        let mut shortfall = Shortfall::default();
        assert_eq!(shortfall.pages(1000, 400, 0), 0);
        (0..95).for_each(|_| shortfall.note(Some(99)));
        (0..5).for_each(|_| shortfall.note(None));
        assert_eq!(shortfall.pages(1000, 0, 0), 112);
        // Four in ten of them are there already, compressed.
        assert_eq!(shortfall.pages(1000, 400, 0), 112 - 44);
        // No more than is out.
        assert_eq!(shortfall.pages(50, 0, 0), 50);
        (0..200).for_each(|_| shortfall.note(None));
        assert_eq!(shortfall.pages(1000, 400, 100), 1100 - 400);
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut shortfall = Shortfall::default();
        let mut now = 0;
        let mut seconds = |shortfall: &mut Shortfall, n: u64| {
            (0..n).for_each(|_| {
                now += SHORTFALL_HALVED_NS;
                shortfall.set_time(now);
                shortfall.set_time(now + 1);
            });
        };
        (0..1000).for_each(|_| shortfall.note(None));
        seconds(&mut shortfall, 4);
        (0..1000).for_each(|_| shortfall.note(Some(0)));
        assert_eq!(shortfall.pages(1000, 0, 0), 1);
        seconds(&mut shortfall, 10);
        assert_eq!(shortfall.pages(1000, 0, 0), 0);
    }
}
