//! The pages under our care, as disjoint ranges.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::page::{PageRange, Vpn};

/// Disjoint, non-adjacent ranges of pages.
#[derive(Default)]
pub struct RangeSet(BTreeMap<Vpn, Vpn>);

impl RangeSet {
    /// Whether all of `range` is in the set.
    pub fn covers(&self, range: PageRange) -> bool {
        self.0
            .range(..=range.start)
            .next_back()
            .is_some_and(|(_, end)| *end >= range.end)
    }

    /// Add `range`, merging it with its neighbours.
    pub fn insert(&mut self, range: PageRange) {
        let mut merged = range;
        let touching: Vec<Vpn> = self
            .0
            .range(..=range.end)
            .rev()
            .take_while(|(_, end)| **end >= range.start)
            .map(|(s, _)| *s)
            .collect();
        for start in touching {
            let end = self.0.remove(&start).unwrap_or(start);
            merged = PageRange {
                start: merged.start.min(start),
                end: merged.end.max(end),
            };
        }
        if merged.pages() > 0 {
            self.0.insert(merged.start, merged.end);
        }
    }

    /// Remove `range`, keeping what lies outside it.
    pub fn remove(&mut self, range: PageRange) {
        if range.pages() == 0 {
            return;
        }
        let overlapping: Vec<(Vpn, Vpn)> = self
            .0
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in overlapping {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, range.start);
            }
            if end > range.end {
                self.0.insert(range.end, end);
            }
        }
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: PageRange) -> Vec<PageRange> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        let before = self.0.range(..range.start).next_back();
        for (start, end) in before.into_iter().chain(self.0.range(range.start..range.end)) {
            if *start > at {
                gaps.push(PageRange { start: at, end: *start });
            }
            at = at.max(*end);
        }
        if at < range.end {
            gaps.push(PageRange {
                start: at,
                end: range.end,
            });
        }
        gaps
    }

    /// The parts of `range` that are in the set, in order.
    pub fn parts_in(&self, range: PageRange) -> Vec<PageRange> {
        let before = self.0.range(..range.start).next_back();
        let overlapping = before.into_iter().chain(self.0.range(range.start..range.end));
        let clipped = overlapping.map(|(start, end)| PageRange {
            start: range.start.max(*start),
            end: range.end.min(*end),
        });
        clipped.filter(|part| part.pages() > 0).collect()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = PageRange> {
        self.0.iter().map(|(start, end)| PageRange {
            start: *start,
            end: *end,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::test::config;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    const OPS_MAX: usize = if cfg!(miri) { 12 } else { 60 };

    proptest! {
        #![proptest_config(config(256, 4))]
        #[test]
        fn behaves_as_a_set(ops in proptest::collection::vec((any::<bool>(), 0..60u64, 0..20u64), 1..OPS_MAX)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (add, start, len) in ops {
                let range = PageRange::new(Vpn::new(start), len);
                if add { set.insert(range); model.extend(range.iter()); } else { set.remove(range); for v in range.iter() { model.remove(&v); } }
                let pages: BTreeSet<Vpn> = set.iter().flat_map(PageRange::iter).collect();
                prop_assert_eq!(&pages, &model);
                let ranges: Vec<PageRange> = set.iter().collect();
                prop_assert!(ranges.windows(2).all(|w| w[0].end < w[1].start));
                let gaps: BTreeSet<Vpn> = set.gaps(range).into_iter().flat_map(PageRange::iter).collect();
                let parts: BTreeSet<Vpn> = set.parts_in(range).into_iter().flat_map(PageRange::iter).collect();
                prop_assert_eq!(parts, range.iter().filter(|v| model.contains(v)).collect::<BTreeSet<_>>());
                prop_assert_eq!(gaps, range.iter().filter(|v| !model.contains(v)).collect::<BTreeSet<_>>());
                prop_assert_eq!(set.covers(range), range.iter().all(|v| model.contains(&v)) && (range.pages() > 0 || set.covers(range)));
            }
        }
    }
}
