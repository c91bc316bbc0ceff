//! Latencies in buckets of powers of two, printed as bpftrace prints them.

use std::fmt;

const BUCKETS: usize = 40;
/// Width of the longest bar.
const BAR: u64 = 52;

/// How many values fell in each bucket: bucket `i` holds `[2^i, 2^(i+1))` nanoseconds, the first
/// also 0.
#[derive(Clone)]
pub(crate) struct Histogram([u64; BUCKETS]);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self([0; BUCKETS])
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.0[(ns.max(1).ilog2() as usize).min(BUCKETS - 1)] += 1;
    }

    /// The least of each bucket that is not empty, and how many fell in it.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        buckets.map(|(i, count)| (1 << i, *count))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }
}

/// 2^`exponent` with a binary suffix.
fn bound(exponent: usize) -> String {
    let suffix = ["", "K", "M", "G", "T"][exponent / 10];
    format!("{}{suffix}", 1u64 << (exponent % 10))
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = |count: &u64| *count > 0;
        let (Some(first), Some(last)) = (self.0.iter().position(used), self.0.iter().rposition(used)) else {
            return Ok(());
        };
        let most = self.0.iter().copied().max().unwrap_or(1);
        for (i, count) in self.0.iter().enumerate().take(last + 1).skip(first) {
            let range = format!("[{}, {})", bound(i), bound(i + 1));
            let bar = "@".repeat((count * BAR / most) as usize);
            writeln!(f, "{range:<16} {count:>10} |{bar:<width$}|", width = BAR as usize)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn values_fall_between_powers_of_two() {
        let mut histogram = Histogram::new();
        for ns in [1023, 1024, 2047, 4096] {
            histogram.record(ns);
        }
        let text = histogram.to_string();
        let lines: Vec<(&str, &str)> = text
            .lines()
            .map(|line| line.split_at(16))
            .map(|(range, rest)| (range.trim(), rest.split('|').next().unwrap_or("").trim()))
            .collect();
        assert_eq!(
            lines,
            [
                ("[512, 1K)", "1"),
                ("[1K, 2K)", "2"),
                ("[2K, 4K)", "0"),
                ("[4K, 8K)", "1")
            ]
        );
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|line| line.ends_with(&format!("|{}|", "@".repeat(52))))
        );
    }

    #[test]
    fn zero_and_the_longest_have_a_bucket() {
        let mut histogram = Histogram::new();
        histogram.record(0);
        histogram.record(u64::MAX);
        assert_eq!(histogram.0.iter().sum::<u64>(), 2);
    }
}
