//! A build of the kernel: threads that compute, allocate, want pages back, and drop what they are
//! done with, in little memory.

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

/// Threads of the seeds' builds.
pub(crate) const THREADS: usize = 32;
/// Steps of each thread, and of them those in front that are not counted: what is dropped and
/// wanted back has to be there first.
const STEPS: u64 = 128;
const FIRST_STEPS: u64 = 64;
/// Pages that each allocates in a step.
const FRESH: f64 = 16.0;
/// Pages allocated one by one that a thread has at a time, and how far they lie apart: the engine
/// takes none along with another.
const SINGLES: u64 = 256;
const APART: u64 = 64;
/// Pages of folios that it has at a time: at least two of the largest.
const IN_FOLIOS: u64 = 1024;
/// Pages that all may have in memory, for each thread.
const RESIDENT: u64 = 192;
/// Places that are looked at for a page to want back.
const LOOKS: usize = 16;

/// What a build does, in pages and seconds of the seeds' test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) threads: usize,
    /// log2 of a folio's pages.
    pub(crate) order: u32,
    pub(crate) user_s: f64,
    pub(crate) zswpout: f64,
    pub(crate) zswpin: f64,
    /// Of zswpout, those that left in whole folios.
    pub(crate) in_folios: f64,
    pub(crate) ratio: f64,
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) real_s: f64,
    pub(crate) system_s: f64,
    pub(crate) zswpout: f64,
    pub(crate) zswpin: f64,
}

/// Seconds of all threads that are not simulated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// In the kernel, for all but swapping.
    pub(crate) system_s: f64,
    /// Asleep: a build is not always as parallel.
    pub(crate) idle_s: f64,
}

/// One thread.
struct Thread {
    random: Random,
    /// Where its next single page and its next folio are.
    single: u64,
    folio: u64,
    /// Pages that are due, of each kind.
    singles_due: f64,
    folios_due: f64,
    wanted_due: f64,
}

impl Demand {
    /// Pages allocated: what leaves more often than that was wanted back in between.
    fn fresh(&self) -> f64 {
        (self.zswpout - self.zswpin).max(1.0)
    }

    pub(crate) fn setup(&self, store_batch: usize) -> Setup {
        Setup {
            programs: self.threads,
            pages: IN_FOLIOS + SINGLES * APART,
            limit: RESIDENT * self.threads as u64,
            order: self.order,
            splits: false,
            store_batch,
            reclaim_batch: 1,
            lanes: 1,
            page_cluster: 0,
            margin: 0,
        }
    }

    /// Run it.
    pub(crate) fn run(&self, costs: Costs, rest: Rest, seed: u64, shelf: &mut Shelf) -> Outcome {
        // What is done here stands for so much there.
        let Self { threads: many, .. } = *self;
        let steps_counted = (many as u64 * (STEPS - FIRST_STEPS)) as f64;
        let scale = self.fresh() / steps_counted / FRESH;
        let step_ns = |seconds: f64| seconds * 1e9 / steps_counted / scale;
        let contents = Contents::new(seed, self.ratio);
        let world = Arc::new(World::new(costs, Accelerators::SEEDS, contents, vec![1.0; many]));
        let store_batch = costs.coder.batch().max(costs.store_batch);
        let mut group = Group::new(&world, self.setup(store_batch), shelf);
        let mut random = Random::new(seed);
        let mut threads: Vec<Thread> = (0..many)
            .map(|i| Thread {
                random: Random::new(random.next()),
                single: 0,
                folio: 0,
                singles_due: 0.0,
                // Not all at the same step.
                folios_due: (i as f64 + 0.5) / many as f64 * f64::from(1 << self.order),
                wanted_due: 0.0,
            })
            .collect();
        let mut queue: BinaryHeap<Reverse<(u64, usize, u64)>> = (0..many).map(|i| Reverse((0, i, 0))).collect();
        let mut elapsed = 0;
        let mut steps = 0;
        let counted = |group: &Group| {
            [
                group.world.system_ns(),
                group.count(Item::ZswpOut),
                group.count(Item::ZswpIn),
            ]
        };
        let mut first = (0, [0; 3]);
        while let Some(Reverse((at, i, step))) = queue.pop() {
            if steps == many as u64 * FIRST_STEPS {
                first = (at, counted(&group));
            }
            steps += 1;
            world.run_on(i);
            world.forget(at);
            world.work_for_program(step_ns(self.user_s));
            world.work(step_ns(rest.system_s));
            world.sleep(step_ns(rest.idle_s) as u64);
            self.step(&mut group, i, &mut threads[i]);
            elapsed = elapsed.max(world.now());
            if step + 1 < STEPS {
                queue.push(Reverse((world.now(), i, step + 1)));
            }
        }
        let last = counted(&group);
        let [system, out, back] = core::array::from_fn(|i| (last[i] - first.1[i]) as f64 * scale);
        Outcome {
            real_s: (elapsed - first.0) as f64 * scale / 1e9,
            system_s: system / 1e9,
            zswpout: out,
            zswpin: back,
        }
    }

    fn step(&self, group: &mut Group, i: usize, thread: &mut Thread) {
        let share = (self.in_folios / self.fresh()).min(1.0);
        thread.folios_due += FRESH * share;
        thread.singles_due += FRESH * (1.0 - share);
        thread.wanted_due += FRESH * self.zswpin / self.fresh();
        let folio = 1 << self.order;
        while thread.folios_due >= folio as f64 {
            thread.folios_due -= folio as f64;
            let run = PageRange::new(Group::page(thread.folio), folio);
            thread.folio = (thread.folio + folio) % IN_FOLIOS;
            group.drop_pages(i, run);
            group.touch(i, run);
        }
        while thread.singles_due >= 1.0 {
            thread.singles_due -= 1.0;
            let page = PageRange::new(Group::page(IN_FOLIOS + thread.single * APART), 1);
            thread.single = (thread.single + 1) % SINGLES;
            group.drop_pages(i, page);
            group.touch(i, page);
        }
        while thread.wanted_due >= 1.0 {
            thread.wanted_due -= 1.0;
            let wanted = (0..LOOKS).find_map(|_| {
                let n = thread.random.below(IN_FOLIOS + SINGLES);
                let n = if n < IN_FOLIOS {
                    n
                } else {
                    IN_FOLIOS + (n - IN_FOLIOS) * APART
                };
                group.is_stored(i, Group::page(n)).then(|| Group::page(n))
            });
            if let Some(page) = wanted {
                group.touch(i, PageRange::new(page, 1));
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::world::Coder;

    #[test]
    fn what_leaves_and_comes_back_is_what_was_asked_for() {
        let demand = Demand {
            threads: 2,
            order: 4,
            user_s: 10_000.0,
            zswpout: 80e6,
            zswpin: 20e6,
            in_folios: 40e6,
            ratio: 2.5,
        };
        let costs = Costs {
            fault_ns: 1000.0,
            zero_ns: 200.0,
            store_ns: 5000.0,
            locked_ns: 100.0,
            store_share: 1.0,
            load_ns: 2000.0,
            drop_ns: 100.0,
            store_batch: 1,
            coder: Coder::Software {
                compress_ns: 10_000.0,
                decompress_ns: 5000.0,
            },
        };
        let rest = Rest {
            system_s: 1000.0,
            idle_s: 2000.0,
        };
        let outcome = demand.run(costs, rest, 1, &mut Shelf::default());
        let is_near = |simulated: f64, asked: f64| (simulated / asked - 1.0).abs() < 0.1;
        assert!(is_near(outcome.zswpout, 80e6), "{outcome:?}");
        assert!(is_near(outcome.zswpin, 20e6), "{outcome:?}");
        // Those that leave take 15.1 us each, those that come back 7 us.
        assert!((2300.0..2800.0).contains(&outcome.system_s), "{outcome:?}");
        assert!(
            is_near(outcome.real_s * 2.0, 12_000.0 + outcome.system_s),
            "{outcome:?}"
        );
    }
}
