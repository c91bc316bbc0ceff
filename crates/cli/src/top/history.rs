//! What a group did in the last minutes.

use std::collections::VecDeque;

/// A column of the widest screen each.
const LOOKS: usize = 512;

/// A value of each look, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// In a second.
    pub(super) faults: Series,
    /// Charged bytes.
    pub(super) memory: Series,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Series(VecDeque<u64>);

impl Series {
    pub(super) fn push(&mut self, value: u64) {
        if self.0.len() == LOOKS {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The last so many.
    pub(super) fn last(&self, count: usize) -> Vec<u64> {
        let skipped = self.0.len().saturating_sub(count);
        self.0.iter().skip(skipped).copied().collect()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let mut series = Series::default();
        assert!(series.last(3).is_empty());
        (0..LOOKS as u64 + 5).for_each(|value| series.push(value));
        assert_eq!(series.last(2), [LOOKS as u64 + 3, LOOKS as u64 + 4]);
        assert_eq!(series.last(usize::MAX).len(), LOOKS);
    }
}
