//! Threads of the driver on a model whose engines are threads too.

use std::sync::atomic::{AtomicBool, Ordering};

use uzswap_iaa_model::machine::Real;
use uzswap_iaa_model::options::Options;
use uzswap_iaa_model::random::Random;

use crate::changes::{change, mend};
use crate::faults::{Tally, there_and_back};
use crate::pages::{KINDS, page};
use crate::world::{Plan, World};

const THREADS: u64 = 4;
const PAIRS: u32 = 1024;
/// Long enough that only what never comes is late on a machine that others use.
const DEADLINE: u64 = 2_000_000_000;

fn world(options: &str, entries: u16, slots: u32) -> World<Real> {
    let options: Options = options.parse().unwrap();
    let mut plan = Plan {
        config: options.config(),
        slots,
        pairs: PAIRS,
        ..Plan::default()
    };
    plan.settings.deadline_ns = DEADLINE;
    for queue in &mut plan.config.queues {
        queue.size = entries;
        queue.threshold = queue.threshold.min(entries);
    }
    World::threads(plan, 2)
}

/// Threads that send `batches` of 8 pages there and back, each its own.
fn work(world: &World<Real>, batches: u64, beside: impl FnOnce(&AtomicBool)) -> Tally {
    let are_done = AtomicBool::new(false);
    let thread = |number: u64| {
        let mut batch = world.batch();
        let mut tally = Tally::default();
        for round in 0..batches {
            let seed = number * 1000 + round * 8;
            let pages: Vec<_> = (0..8)
                .map(|i| page(KINDS[i as usize % KINDS.len()], seed + i))
                .collect();
            there_and_back(world, &mut batch, &pages, &mut tally);
        }
        assert!(tally.is_complete(), "{tally:?}");
        tally
    };
    std::thread::scope(|scope| {
        let thread = &thread;
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || thread(number))).collect();
        let are_done = &are_done;
        let watcher = scope.spawn(move || {
            let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            are_done.store(true, Ordering::Relaxed);
            tallies
        });
        beside(are_done);
        let tallies = watcher.join().unwrap();
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum();
        Tally {
            pages: sum(|tally| tally.pages),
            equal: sum(|tally| tally.equal),
            incompressible: sum(|tally| tally.incompressible),
            software: sum(|tally| tally.software),
            lies: sum(|tally| tally.lies),
        }
    })
}

/// Few entries: senders of a dedicated queue count, and those of a shared one are refused.
#[test]
fn full_queues() {
    for (options, slots) in [("wqs=2,mode=dedicated", 64), ("wqs=2", 64), ("wqs=2", 3)] {
        let world = world(options, 2, slots);
        let tally = work(&world, 12, |_| {});
        assert_eq!((tally.pages, tally.lies), (THREADS * 12 * 8, 0));
        let (snapshot, counters) = (world.driver.snapshot(), world.machine.counters());
        assert_eq!(snapshot.errors.late, 0, "{options}");
        let causes =
            snapshot.compress.full + snapshot.decompress.full + snapshot.compress.no_slot + snapshot.decompress.no_slot;
        // A page that could not be verified since the queue was full is software's too.
        assert!(tally.software >= causes, "{options}: {tally:?} {snapshot:?}");
        assert_eq!(
            counters.dropped, 0,
            "{options}: no descriptor goes beyond a queue's size"
        );
        if options == "wqs=2" && slots == 64 {
            assert!(counters.refused > 0, "{options}: {counters:?}");
        }
        world.check_at_rest(PAIRS as usize);
    }
}

#[test]
fn faults_under_threads() {
    let world = world("wqs=2,late=50", 16, PAIRS);
    world.machine.set_permille(20);
    // What is never answered costs a deadline each.
    let tally = work(&world, 6, |_| {});
    assert!(tally.equal > tally.pages / 3, "{tally:?}");
    world.machine.set_permille(0);
    world.check_at_rest(PAIRS as usize);
}

#[test]
fn queues_come_and_go_under_threads() {
    for options in ["devices=2,wqs=2", "devices=2,wqs=2,mode=dedicated"] {
        let world = world(options, 16, 256);
        let tally = work(&world, 12, |are_done| {
            let mut random = Random::new(3);
            while !are_done.load(Ordering::Relaxed) {
                change(&world, &mut random);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        assert_eq!(tally.lies, 0);
        assert!(tally.equal > 0, "{options}: {tally:?}");
        mend(&world);
        world.check_at_rest(PAIRS as usize);
    }
}
