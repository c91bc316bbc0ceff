//! Descriptors that are answered after their deadline, and pages that wait as long as they may.

use uzswap_iaa::buffers::{Area, Buffers};
use uzswap_iaa::completion::Direction;
use uzswap_iaa::outcome::{Outcome, Why};
use uzswap_iaa::queue::ENQCMD_TRIES;
use uzswap_iaa_model::fault::{Fault, KernelCopy};
use uzswap_iaa_model::machine::Virtual;
use uzswap_iaa_model::memory::Protection;

use crate::pages::{Kind, PAGE, inflate, page};
use crate::world::{DEADLINES, Plan, UNTOUCHED, World};

const DEADLINE: u64 = 5_000_000;
const LATE: u64 = 50_000_000;

fn world(slots: u32, pairs: u32) -> World<Virtual> {
    World::new(Plan {
        slots,
        pairs,
        ..Plan::default()
    })
}

/// Two slots, of which a late descriptor keeps one: the other one does all pages, and nothing of
/// theirs changes when the late record comes.
#[test]
fn a_late_completion_finds_its_slot_and_its_buffers_untouched() {
    let late_ones = [
        Fault::Late { ns: LATE },
        Fault::RecordFault {
            kernel: KernelCopy::After { ns: LATE },
        },
    ];
    for late in late_ones {
        let world = world(2, 8);
        let mut batch = world.batch();
        let lost = *world.pool.lock().unwrap().last().unwrap();
        world.machine.inject(late);
        let begun = world.now();
        let outcome = world
            .run(&mut batch, Direction::Compress, &[page(Kind::Text, 0)], PAGE - 1)
            .remove(0)
            .0;
        assert_eq!(outcome, Outcome::Software(Why::Late));
        assert!(world.now() - begun < LATE);
        assert_eq!((world.driver.late(), world.driver.free_slots()), (1, 1));
        let held_back = !world.pool.lock().unwrap().contains(&lost);
        assert!(held_back, "buffers of a late descriptor are withheld");
        let mut streams = Vec::new();
        let mut seed = 0;
        while world.now() < begun + LATE - DEADLINE {
            seed += 1;
            let pages: Vec<_> = (0..4).map(|i| page(Kind::Structured, 10 * seed + i)).collect();
            for (page, (outcome, stream)) in
                pages
                    .iter()
                    .zip(world.run(&mut batch, Direction::Compress, &pages, PAGE - 1))
            {
                assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
                streams.push((page.clone(), stream));
            }
            assert_eq!((world.driver.late(), world.driver.free_slots()), (1, 1));
            world.machine.advance(world.now() + DEADLINE);
        }
        // A request is made but not submitted: its buffers are no late descriptor's.
        let bystander = world.request(&[7; PAGE], PAGE).unwrap();
        world.machine.advance(begun + 2 * LATE);
        assert_eq!(world.load(bystander.buffers.source, PAGE), [7; PAGE]);
        assert_eq!(world.load(bystander.buffers.destination, PAGE), [UNTOUCHED; PAGE]);
        // The late output is there, in the buffer that was kept for it.
        assert_ne!(world.load(lost.destination, 1), [UNTOUCHED]);
        assert_eq!(world.sweep(), 1);
        assert_eq!((world.driver.late(), world.driver.free_slots()), (0, 2));
        assert!(world.pool.lock().unwrap().contains(&lost));
        assert!(streams.len() > 20 && streams.iter().all(|(page, stream)| inflate(stream) == *page));
        world.pool.lock().unwrap().push(bystander.buffers);
        world.check_at_rest(8);
    }
}

/// Slots that a device keeps for ever come back when its queue is closed.
#[test]
fn what_is_never_answered_comes_back_with_the_drain() {
    let world = world(4, 8);
    let mut batch = world.batch();
    let never = [
        Fault::NeverCompletes,
        Fault::RecordFault {
            kernel: KernelCopy::Never,
        },
    ];
    never.into_iter().for_each(|fault| world.machine.inject(fault));
    let pages = [page(Kind::Text, 1), page(Kind::Text, 2)];
    let outcomes = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1);
    assert!(
        outcomes
            .iter()
            .all(|(outcome, _)| *outcome == Outcome::Software(Why::Late)),
        "{outcomes:?}"
    );
    world.machine.advance(world.now() + LATE);
    assert_eq!((world.sweep(), world.driver.late()), (0, 2));
    assert!(world.queues().iter().all(|queue| queue.drain()));
    assert_eq!((world.sweep(), world.driver.free_slots()), (2, 4));
    world.refresh();
    let outcomes = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1);
    assert!(
        outcomes.iter().all(|(outcome, _)| matches!(outcome, Outcome::Done(_))),
        "{outcomes:?}"
    );
    world.check_at_rest(8);
}

/// The worst page waits for a queue, faults late, waits again, is compressed late, waits to be
/// verified, and is never answered. It has a deadline for each of the six.
#[test]
fn the_worst_page_is_settled_after_six_deadlines() {
    const POLL: u64 = 100_000;
    let nearly = DEADLINE - 2 * POLL;
    let mut plan = Plan::default();
    plan.config.queues.truncate(1);
    plan.settings.tries.compress = u32::MAX;
    let world = World::new(plan);
    let request = world.request(&page(Kind::Text, 1), PAGE - 1).unwrap();
    let memory = world.driver.buffers();
    let destination = memory.address(Area::Buffer, request.buffers.destination);
    memory.regions.protect(destination, PAGE, Protection::UntilTouched);
    let full = Fault::Full {
        tries: (nearly / POLL) as u32 * ENQCMD_TRIES,
    };
    let late = Fault::OutOfOrder { ns: nearly };
    for fault in [full, late, full, late, full, Fault::NeverCompletes] {
        world.machine.inject(fault);
    }
    let mut batch = world.batch();
    let begun = world.now();
    batch.submit(Direction::Compress, 0, &[request], begun).unwrap();
    while batch.poll(world.now()) != 0 {
        world.machine.advance(world.now() + POLL);
    }
    let took = world.now() - begun;
    assert!((5 * DEADLINE..=DEADLINES * DEADLINE).contains(&took), "{took} ns");
    batch.collect(|_, outcome| assert_eq!(outcome, Outcome::Software(Why::Late)));
    let errors = world.driver.snapshot().errors;
    assert_eq!((errors.fault_retries, errors.verify_calls, errors.late), (1, 1, 1));
    drop(batch);
    assert!(world.queues()[0].drain());
    world.sweep();
    world.check_at_rest(64);
}
