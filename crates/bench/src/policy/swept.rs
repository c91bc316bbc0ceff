//! Generations by accessed bits as an ordinary user can have them: one for each aligned block of
//! pages, which a sweep reads and clears now and then.
//!
//! A sweep makes a new generation of the resident pages whose block was touched since the last one.
//! Pages come into the youngest generation. They leave from the oldest, in the order in which they
//! came.

use std::collections::{BTreeSet, HashMap};

use super::baseline::Policy;
use super::trace::Trace;

/// Pages that are brought in from one sweep to the next: one in so many that there is room for.
const SWEEP_SHARE: usize = 8;

/// The generation of a page, and the load that it came with.
type Age = (u32, usize);

/// The policy at work.
pub(crate) struct Swept {
    capacity: usize,
    /// Of each page, the number of its block.
    blocks: Vec<u32>,
    /// Of each block, whether it was touched since the last sweep.
    is_touched: Vec<bool>,
    /// Resident pages, the oldest first.
    resident: BTreeSet<(Age, u32)>,
    /// Of each resident page.
    ages: Vec<Option<Age>>,
    sweeps: u32,
    loads: usize,
}

impl Swept {
    /// With room for `capacity` of the pages of `trace`, in blocks of `pages`.
    pub(crate) fn new(trace: &Trace, capacity: usize, pages: u64) -> Self {
        let mut numbers = HashMap::new();
        let block = |number: &u64| {
            let next = numbers.len() as u32;
            *numbers.entry(number / pages).or_insert(next)
        };
        let blocks: Vec<u32> = trace.numbers().iter().map(block).collect();
        Self {
            capacity,
            ages: vec![None; blocks.len()],
            is_touched: vec![false; numbers.len()],
            blocks,
            resident: BTreeSet::new(),
            sweeps: 0,
            loads: 0,
        }
    }

    fn sweep(&mut self) {
        self.sweeps += 1;
        let pages = std::mem::take(&mut self.resident);
        for ((generation, load), page) in pages {
            let is_touched = self.is_touched[self.blocks[page as usize] as usize];
            self.put(page, (if is_touched { self.sweeps } else { generation }, load));
        }
        self.is_touched.fill(false);
    }

    fn put(&mut self, page: u32, age: Age) {
        self.ages[page as usize] = Some(age);
        self.resident.insert((age, page));
    }
}

impl Policy for Swept {
    fn touch(&mut self, page: u32) -> bool {
        if self.ages[page as usize].is_some() {
            self.is_touched[self.blocks[page as usize] as usize] = true;
            return false;
        }
        self.loads += 1;
        if self.loads.is_multiple_of((self.capacity / SWEEP_SHARE).max(1)) {
            self.sweep();
        }
        if self.resident.len() == self.capacity
            && let Some((_, oldest)) = self.resident.pop_first()
        {
            self.ages[oldest as usize] = None;
        }
        self.put(page, (self.sweeps, self.loads));
        true
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_a_sweep_finds_touched_stays_with_its_block() {
        // Room for eight, so there is a sweep at each load. 0 is touched before the last one, and 1
        // lies in its block.
        let fills = [0, 1, 16, 24, 32, 40, 48, 56];
        let touches = fills.into_iter().chain([0, 64, 72, 80, 0, 1]);
        let trace = Trace::new("", touches);
        let loads = |pages: u64| {
            let mut policy = Swept::new(&trace, 8, pages);
            let loads = trace.touches().iter().filter(|page| policy.touch(**page));
            loads
                .skip(8)
                .map(|page| trace.numbers()[*page as usize])
                .collect::<Vec<_>>()
        };
        assert_eq!(loads(1), [64, 72, 80, 1]);
        assert_eq!(loads(2), [64, 72, 80]);
    }
}
