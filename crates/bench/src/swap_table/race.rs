//! How many operations a second a swap cache takes.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use uzswap_mm::page::Vpn;
use uzswap_mm::swap_table::entry::Slot;
use uzswap_workload::heap::Rng;

use super::swap_cache::SwapCache;

/// What the threads do with every page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Lookup,
    Publish,
}

/// In which order they come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Sequential,
    Random,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heat {
    pub(crate) threads: usize,
    pub(crate) operation: Operation,
    pub(crate) order: Order,
}

/// Where a program's heap begins: no number that a table or a hash may like.
const FIRST_PAGE: u64 = 0x7_f3a1_c000;

/// How often a thread visits each of its pages.
const LAPS: u8 = 8;

/// The pages, in both orders.
pub(crate) struct Course {
    sequential: Vec<Vpn>,
    random: Vec<Vpn>,
}

impl Course {
    pub(crate) fn new(pages: usize) -> Self {
        let sequential: Vec<Vpn> = (0..pages as u64).map(|n| Vpn::new(FIRST_PAGE + n)).collect();
        let mut random = sequential.clone();
        let mut rng = Rng::new(1);
        for last in (1..pages).rev() {
            random.swap(last, rng.below(last as u64 + 1) as usize);
        }
        Self { sequential, random }
    }

    fn in_order(&self, order: Order) -> &[Vpn] {
        match order {
            Order::Sequential => &self.sequential,
            Order::Random => &self.random,
        }
    }

    /// A cache in which every page has a word.
    pub(crate) fn fill<C: SwapCache>(&self) -> C {
        let cache = C::default();
        for vpn in &self.sequential {
            cache.publish(*vpn, slot(*vpn, 0));
        }
        cache
    }

    /// Bytes for each page.
    pub(crate) fn bytes_per_page<C: SwapCache>(&self, cache: &C) -> f64 {
        cache.bytes() as f64 / self.sequential.len() as f64
    }

    /// Operations a second of all threads together, each with an equal share of the pages.
    pub(crate) fn run<C: SwapCache>(&self, cache: &C, heat: Heat) -> f64 {
        let pages = self.in_order(heat.order);
        let barrier = Barrier::new(heat.threads);
        let race = &|share: &[Vpn]| {
            barrier.wait();
            let start = Instant::now();
            (0..LAPS).for_each(|lap| operate(cache, heat.operation, share, lap));
            (start, Instant::now())
        };
        let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
            let shares = pages.chunks(pages.len().div_ceil(heat.threads));
            let threads: Vec<_> = shares.map(|share| scope.spawn(move || race(share))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|times| times.expect("a thread of a heat does not panic"))
                .collect()
        });
        // By the threads' own clocks: whoever waits for them may wake late.
        let start = times.iter().map(|(start, _)| *start).min();
        let end = times.iter().map(|(_, end)| *end).max();
        let seconds = end.zip(start).map_or(0.0, |(end, start)| (end - start).as_secs_f64());
        (pages.len() * LAPS as usize) as f64 / seconds
    }
}

fn operate<C: SwapCache>(cache: &C, operation: Operation, share: &[Vpn], lap: u8) {
    for vpn in share {
        match operation {
            Operation::Lookup => black_box(cache.lookup(*vpn)),
            Operation::Publish => black_box(cache.publish(*vpn, slot(*vpn, lap))),
        };
    }
}

fn slot(vpn: Vpn, lap: u8) -> Slot {
    Slot::Resident {
        order: 0,
        tag: lap.into(),
        note: vpn.number() as u32,
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::swap_table::swap_cache::LockedTable;

    #[test]
    fn a_heat_visits_every_page() {
        let course = Course::new(5000);
        let cache: LockedTable = course.fill();
        for order in [Order::Sequential, Order::Random] {
            let heat = Heat {
                threads: 2,
                operation: Operation::Publish,
                order,
            };
            assert!(course.run(&cache, heat) > 0.0);
            for vpn in &course.sequential {
                assert_eq!(cache.publish(*vpn, slot(*vpn, 0)), slot(*vpn, LAPS - 1));
            }
        }
        assert!(course.bytes_per_page(&cache) > 8.0);
    }
}
