//! How long things took, in buckets that grow with what they hold.

use std::time::Duration;

/// Buckets of each power of two: a value is known to an eighth of itself.
const OF_AN_OCTAVE: usize = 8;
const OCTAVES: usize = 40;

/// Counts of nanoseconds by magnitude, up to 18 minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; OF_AN_OCTAVE * OCTAVES])
    }
}

impl Histogram {
    /// Count one.
    pub fn record(&mut self, took: Duration) {
        self.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// Count `count` of `ns` nanoseconds.
    pub fn add(&mut self, ns: u64, count: u64) {
        self.0[bucket(ns)] += count;
    }

    /// Count all of `other` too.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// The buckets that hold any: the least of their nanoseconds, and how many.
    pub fn used(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.0.iter().enumerate();
        buckets
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (floor(at), *count))
    }

    /// Only what took `ns` nanoseconds or more (to the bucket).
    #[must_use]
    pub fn from_ns(&self, ns: u64) -> Self {
        let mut rest = self.clone();
        rest.0[..bucket(ns)].fill(0);
        rest
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The nanoseconds that `share` of all, 0 to 1, did not exceed: the middle of a bucket. `None`:
    /// it is empty.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let rank = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(f64::midpoint(floor(at) as f64, floor(at + 1) as f64))
    }
}

/// Below [`OF_AN_OCTAVE`] each value has a bucket of its own.
fn bucket(ns: u64) -> usize {
    let octaves = OF_AN_OCTAVE.ilog2();
    if ns < OF_AN_OCTAVE as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - octaves;
    let at = (shift as usize + 1) * OF_AN_OCTAVE + (ns >> shift) as usize - OF_AN_OCTAVE;
    at.min(OF_AN_OCTAVE * OCTAVES - 1)
}

fn floor(bucket: usize) -> u64 {
    if bucket < OF_AN_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / OF_AN_OCTAVE - 1;
    ((OF_AN_OCTAVE + bucket % OF_AN_OCTAVE) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_where_its_floor_is() {
        for at in 0..OF_AN_OCTAVE * OCTAVES {
            assert_eq!(bucket(floor(at)), at);
            assert!(at == 0 || bucket(floor(at) - 1) == at - 1);
        }
    }

    #[test]
    fn the_longest_has_a_bucket() {
        assert_eq!(bucket(u64::MAX), OF_AN_OCTAVE * OCTAVES - 1);
    }

    #[test]
    fn percentiles_are_right_to_an_eighth() {
        let mut histogram = Histogram::default();
        (1..=1000u64).for_each(|us| histogram.add(us * 1000, 1));
        for (share, us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let found = histogram.percentile(share).unwrap() / 1000.0;
            assert!((found / us - 1.0).abs() < 0.125, "{share}: {found}");
        }
        assert_eq!(Histogram::default().percentile(0.5), None);
    }

    #[test]
    fn what_is_below_is_left_out() {
        let mut histogram = Histogram::default();
        histogram.add(100, 7);
        histogram.add(5000, 2);
        assert_eq!(histogram.from_ns(1024).count(), 2);
        assert_eq!(histogram.from_ns(1024).used().count(), 1);
    }
}
