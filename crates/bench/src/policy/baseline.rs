//! The policies that the engine is compared with. Each brings a page in when it is touched, and
//! only then.

use std::collections::{BTreeSet, VecDeque};

use super::s3_fifo::S3Fifo;
use super::swept::Swept;
use super::trace::Trace;

/// A policy at work on one trace.
pub trait Policy {
    /// The next touch of the trace is of this page. Whether it had to be brought in.
    fn touch(&mut self, page: u32) -> bool;
}

/// A policy by name: another line in [`BASELINES`] is another column.
pub(crate) struct Baseline {
    pub(crate) name: &'static str,
    /// The policy for a trace, with room for so many pages.
    start: fn(&Trace, usize) -> Box<dyn Policy>,
}

/// What the engine is compared with. The first is the bound of all others.
pub(crate) const BASELINES: [Baseline; 8] = [
    Baseline {
        name: "optimum",
        start: |trace, capacity| Box::new(Optimum::new(trace, capacity)),
    },
    Baseline {
        name: "LRU",
        start: |trace, capacity| Box::new(Lru::new(trace, capacity)),
    },
    Baseline {
        name: "CLOCK",
        start: |trace, capacity| Box::new(Queue::new(trace, capacity, true)),
    },
    Baseline {
        name: "FIFO",
        start: |trace, capacity| Box::new(Queue::new(trace, capacity, false)),
    },
    Baseline {
        name: "S3-FIFO",
        start: |trace, capacity| Box::new(S3Fifo::new(trace, capacity)),
    },
    Baseline {
        name: "swept 4K",
        start: |trace, capacity| Box::new(Swept::new(trace, capacity, 1)),
    },
    Baseline {
        name: "64K",
        start: |trace, capacity| Box::new(Swept::new(trace, capacity, 16)),
    },
    Baseline {
        name: "256K",
        start: |trace, capacity| Box::new(Swept::new(trace, capacity, 64)),
    },
];

impl Baseline {
    /// How often it brings a page of `trace` in again, with room for `capacity` pages.
    pub(crate) fn misses(&self, trace: &Trace, capacity: usize) -> usize {
        misses(&mut *(self.start)(trace, capacity), trace)
    }
}

/// How often a policy that has seen nothing yet brings a page of `trace` in again.
pub fn misses(policy: &mut dyn Policy, trace: &Trace) -> usize {
    let loads = trace.touches().iter().filter(|page| policy.touch(**page)).count();
    // Whoever brings pages in when they are touched does so at the first touch.
    loads - trace.pages()
}

/// The page that was touched longest ago leaves.
struct Lru {
    capacity: usize,
    /// Resident pages by their last touch.
    resident: BTreeSet<(usize, u32)>,
    /// Of every page.
    last_touch: Vec<usize>,
    now: usize,
}

impl Lru {
    fn new(trace: &Trace, capacity: usize) -> Self {
        Self {
            capacity,
            resident: BTreeSet::new(),
            last_touch: vec![0; trace.pages()],
            now: 0,
        }
    }
}

impl Policy for Lru {
    fn touch(&mut self, page: u32) -> bool {
        self.now += 1;
        let last = std::mem::replace(&mut self.last_touch[page as usize], self.now);
        let is_hit = self.resident.remove(&(last, page));
        if !is_hit && self.resident.len() == self.capacity {
            self.resident.pop_first();
        }
        self.resident.insert((self.now, page));
        !is_hit
    }
}

/// Pages leave in the order in which they came: FIFO. If accessed bits are looked at, those that
/// were touched since they came or were looked at last stay for another round: CLOCK. As on a real
/// machine, the touch that brings a page in sets its bit too.
struct Queue {
    capacity: usize,
    looks: bool,
    resident: VecDeque<u32>,
    /// Of resident pages, the accessed bit.
    accessed: Vec<Option<bool>>,
}

impl Queue {
    fn new(trace: &Trace, capacity: usize, looks: bool) -> Self {
        Self {
            capacity,
            looks,
            resident: VecDeque::new(),
            accessed: vec![None; trace.pages()],
        }
    }

    fn evict(&mut self) {
        while let Some(page) = self.resident.pop_front() {
            let accessed = &mut self.accessed[page as usize];
            if self.looks && *accessed == Some(true) {
                *accessed = Some(false);
                self.resident.push_back(page);
            } else {
                *accessed = None;
                return;
            }
        }
    }
}

impl Policy for Queue {
    fn touch(&mut self, page: u32) -> bool {
        if self.accessed[page as usize].is_some() {
            self.accessed[page as usize] = Some(true);
            return false;
        }
        if self.resident.len() == self.capacity {
            self.evict();
        }
        self.resident.push_back(page);
        self.accessed[page as usize] = Some(true);
        true
    }
}

/// Belady's: the page whose next touch is farthest away leaves, which takes knowing the trace.
struct Optimum {
    capacity: usize,
    /// Of each touch, when its page is touched next.
    next_touch: Vec<usize>,
    /// Resident pages by their next touch.
    resident: BTreeSet<(usize, u32)>,
    now: usize,
}

impl Optimum {
    fn new(trace: &Trace, capacity: usize) -> Self {
        let mut next_of_page = vec![usize::MAX; trace.pages()];
        let touches = trace.touches().iter().enumerate().rev();
        let mut next_touch: Vec<usize> = touches
            .map(|(now, page)| std::mem::replace(&mut next_of_page[*page as usize], now))
            .collect();
        next_touch.reverse();
        Self {
            capacity,
            next_touch,
            resident: BTreeSet::new(),
            now: 0,
        }
    }
}

impl Policy for Optimum {
    fn touch(&mut self, page: u32) -> bool {
        let is_hit = self.resident.remove(&(self.now, page));
        if !is_hit && self.resident.len() == self.capacity {
            self.resident.pop_last();
        }
        self.resident.insert((self.next_touch[self.now], page));
        self.now += 1;
        !is_hit
    }
}

#[cfg(test)]
mod test {
    use uzswap_workload::heap::Rng;

    use super::*;

    /// Misses of each, in their order.
    fn misses(pages: impl IntoIterator<Item = u64>, capacity: usize) -> [usize; BASELINES.len()] {
        let trace = Trace::new("", pages);
        BASELINES.map(|baseline| baseline.misses(&trace, capacity))
    }

    #[test]
    fn beladys_string_is_worse_with_more_room() {
        let string = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
        // By hand; the first touches of the five pages are not counted.
        assert_eq!(misses(string, 3)[..4], [2, 5, 4, 4]);
        assert_eq!(misses(string, 4)[..4], [1, 3, 5, 5]);
    }

    #[test]
    fn an_accessed_bit_saves_a_page() {
        // 4 takes the place of 1, and all bits are cleared; 2 is touched, so 5 takes the place of
        // 3.
        assert_eq!(misses([1, 2, 3, 4, 2, 5, 2], 3)[..4], [0, 0, 0, 1]);
    }

    #[test]
    fn of_a_loop_that_does_not_fit_queues_keep_nothing() {
        let laps = (0..10).flat_map(|_| 0..4);
        // One touch in three misses: (4 - 3) / (4 - 1).
        let [optimum, lru, clock, fifo, ..] = misses(laps, 3);
        assert_eq!([lru, clock, fifo], [36; 3]);
        assert_eq!(optimum, 12);
    }

    #[test]
    fn the_optimum_is_never_beaten() {
        let mut rng = Rng::new(1);
        for round in 0..50 {
            let pages: Vec<u64> = (0..400).map(|_| rng.skewed(40)).collect();
            let capacity = 1 + round % 30;
            let [optimum, rest @ ..] = misses(pages.iter().copied(), capacity);
            assert!(rest.iter().all(|misses| *misses >= optimum), "{optimum} {rest:?}");
        }
    }
}
