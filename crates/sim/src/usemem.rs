//! Processes that each write memory from one end to the other, sleep, and exit (usemem).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use uzswap_mm::page::PageRange;
use uzswap_mm::vmstat::Item;

use crate::contents::Contents;
use crate::group::{Group, Setup};
use crate::random::Random;
use crate::shelf::Shelf;
use crate::world::{Accelerators, Costs, World};

/// Bytes of a page in KiB.
const PAGE_KIB: f64 = 4.0;

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usemem {
    pub(crate) setup: Setup,
    /// Pages of each process in the test that is simulated.
    pub(crate) full_pages: f64,
    /// Nanoseconds that each sleeps before it exits.
    pub(crate) sleep_ns: f64,
    /// log2 of the pages that a fault maps.
    pub(crate) fault_order: u32,
    /// What is stored of a page is this many times shorter.
    pub(crate) ratio: f64,
    /// The fastest process takes so much less than the mean, the slowest so much more, in parts.
    pub(crate) spread: f64,
    pub(crate) accelerators: Accelerators,
    /// Cores that no process is on.
    pub(crate) idle: usize,
    /// Parts of the machine that have locks of their own.
    pub(crate) locks: usize,
    /// Threads that reclaim beside the processes.
    pub(crate) background: usize,
    /// Each process reads all of its memory before it sleeps.
    pub(crate) reads: bool,
    pub(crate) seed: u64,
}

/// What it came to, at the size of the seeds' test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Sum of the processes', KB/s.
    pub(crate) throughput: f64,
    pub(crate) elapsed_s: f64,
    pub(crate) system_s: f64,
    pub(crate) zswpout: f64,
    /// Seconds of the engines that compress, and of cores that waited for the group's lock.
    pub(crate) engines_s: f64,
    pub(crate) lock_s: f64,
    /// Mean of the processes' reading, if they do.
    pub(crate) read_s: f64,
}

/// What a process does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Write(u64),
    Read(u64),
    Exit(u64),
    /// Not of a process.
    Reclaim,
}

/// From one look of a thread that reclaims beside the processes to its next, where there is nothing
/// to do.
const LOOK_NS: u64 = 20_000;

/// Pages that a process drops before another has its turn.
const DROPPED_AT_ONCE: u64 = 16;

/// How much slower each process is than the mean: evenly spread, in an order that the seed gives.
fn slowness(processes: usize, spread: f64, seed: u64) -> Vec<f64> {
    let at = |i: usize| 1.0 + spread * ((i as f64 + 0.5) / processes as f64 * 2.0 - 1.0);
    let mut all: Vec<f64> = (0..processes).map(at).collect();
    let mut random = Random::new(seed);
    for i in (1..processes).rev() {
        all.swap(i, random.below(i as u64 + 1) as usize);
    }
    all
}

impl Usemem {
    /// The same, whose folios are split before they leave, or not.
    pub(crate) fn split(self, splits: bool) -> Self {
        Self {
            setup: Setup { splits, ..self.setup },
            ..self
        }
    }

    /// Seconds that a process writes for, if all are alike and come to so much together.
    pub(crate) fn mean_write_s(&self, throughput: f64) -> f64 {
        self.full_pages * PAGE_KIB * self.setup.programs as f64 / throughput
    }

    fn world(&self, costs: Costs) -> Arc<World> {
        let programs = self.setup.programs;
        let contents = Contents::new(self.seed, self.ratio);
        let mut slowness = slowness(programs, self.spread, self.seed);
        slowness.resize(programs + self.background, 1.0);
        let world = Arc::new(World::new(costs, self.accelerators, contents, slowness));
        world.add_idle(self.idle);
        world.split_lock(self.locks);
        world
    }

    /// When each process is next, and with what: all begin at once.
    fn queue(&self) -> BinaryHeap<Reverse<(u64, usize, Next)>> {
        let programs = self.setup.programs;
        let first = |i| if i < programs { Next::Write(0) } else { Next::Reclaim };
        (0..programs + self.background)
            .map(|i| Reverse((0, i, first(i))))
            .collect()
    }

    /// Run it.
    pub(crate) fn run(&self, costs: Costs, shelf: &mut Shelf) -> Outcome {
        let Setup { programs, pages, .. } = self.setup;
        // A page here stands for so many there.
        let scale = self.full_pages / pages as f64;
        let world = self.world(costs);
        let mut group = Group::new(&world, self.setup, shelf);
        let mut queue = self.queue();
        let sleep = (self.sleep_ns / scale) as u64;
        let mut outcome = Outcome::default();
        let (mut elapsed, mut running) = (0, programs);
        let mut written = vec![0; programs];
        let seconds = |ns: u64| ns as f64 * scale / 1e9;
        while let Some(Reverse((at, i, next))) = queue.pop() {
            world.run_on(i);
            world.forget(at);
            let next = match next {
                Next::Write(page) => {
                    let run = PageRange::new(Group::page(page), 1 << self.fault_order);
                    group.touch(i, run);
                    let page = page + run.pages();
                    if page >= pages {
                        written[i] = world.now();
                        outcome.throughput += self.full_pages * PAGE_KIB / seconds(world.now());
                    }
                    match (page < pages, self.reads) {
                        (true, _) => Some(Next::Write(page)),
                        (false, true) => Some(Next::Read(0)),
                        (false, false) => {
                            world.sleep(sleep);
                            Some(Next::Exit(0))
                        }
                    }
                }
                Next::Read(page) => {
                    group.touch(i, PageRange::new(Group::page(page), 1));
                    if page + 1 < pages {
                        Some(Next::Read(page + 1))
                    } else {
                        outcome.read_s += seconds(world.now() - written[i]) / programs as f64;
                        world.sleep(sleep);
                        Some(Next::Exit(0))
                    }
                }
                Next::Exit(page) => {
                    group.drop_pages(i, PageRange::new(Group::page(page), DROPPED_AT_ONCE));
                    elapsed = elapsed.max(world.now());
                    let page = page + DROPPED_AT_ONCE;
                    running -= usize::from(page >= pages);
                    (page < pages).then_some(Next::Exit(page))
                }
                Next::Reclaim => {
                    if !group.reclaim_ahead() {
                        world.sleep(LOOK_NS);
                    }
                    (running > 0).then_some(Next::Reclaim)
                }
            };
            if let Some(next) = next {
                queue.push(Reverse((world.now(), i, next)));
            }
        }
        let (engines, lock) = world.busy_ns();
        Outcome {
            elapsed_s: seconds(elapsed),
            system_s: seconds(world.system_ns()),
            zswpout: group.count(Item::ZswpOut) as f64 * scale,
            engines_s: seconds(engines),
            lock_s: seconds(lock),
            ..outcome
        }
    }
}
