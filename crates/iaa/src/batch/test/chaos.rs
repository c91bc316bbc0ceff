//! Devices that do all of it in any order.

use super::COMPRESS;
use super::fake::{Act, Plan, World, inflate, page, says, table_of};
use crate::batch::*;
use crate::completion::{ErrorCode, Status};
use crate::queue::test::work_queue;
use crate::settings::Settings;
use crate::topology::Mode;
use alloc::vec;
use core::sync::atomic::Ordering;
use proptest::prelude::*;

fn any_act() -> impl Strategy<Value = Act> {
    let status = proptest::sample::select(Status::ALL).prop_filter("a record", |&status| status != Status::BUSY);
    prop_oneof![
        8 => Just(Act::Answer),
        2 => Just(Act::Full),
        1 => Just(Act::Never),
        2 => Just(Act::Hold),
        1 => Just(Act::WrongCrc),
        1 => Just(Act::FlipOutput),
        2 => status.prop_map(|status| Act::Say(says(status, ErrorCode::NONE))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever the devices do, each page has one outcome, what is done is right, and no slot or
    /// credit is lost.
    #[test]
    fn whatever_the_devices_do_every_page_is_settled_and_right(
        scripts in proptest::collection::vec(proptest::collection::vec(any_act(), 0..40), 2),
        rounds in 1..5usize,
    ) {
        let world = World::new(Plan {
            settings: Settings::default(),
            slots: 6,
            queues: vec![work_queue(1, 0, Mode::Dedicated), work_queue(1, 1, Mode::Shared)],
        });
        for (device, script) in world.devices.iter().zip(&scripts) {
            device.script(script);
        }
        let mut batch = world.batch();
        let mut now = 0;
        for round in 0..rounds {
            // Buffers of other rounds may be withheld.
            let number = |i: u32| round as u32 * 6 + i;
            let requests: Vec<_> = (0..6).map(|i| world.request(number(i), &page(i as u8), 4095)).collect();
            batch.submit(COMPRESS, 0, &requests, now).unwrap();
            while batch.poll(now) != 0 {
                now += 100_000;
                prop_assert!(now < 1_000_000_000);
            }
            let mut outcomes = Vec::new();
            batch.collect(|_, outcome| outcomes.push(outcome));
            prop_assert_eq!(outcomes.len(), 6);
            for (i, outcome) in outcomes.iter().enumerate() {
                if let Outcome::Done(done) = outcome {
                    let stream = world.buffer(requests[i].buffers.destination, done.length);
                    prop_assert_eq!(inflate(&stream), page(i as u8));
                }
            }
            world.check_at_rest();
        }
        world.devices.iter().for_each(|device| {
            device.answer_held();
            device.can_drain.store(true, Ordering::Relaxed);
        });
        prop_assert!(world.queues.iter().all(|queue| queue.drain()));
        world.driver.sweep(|_| {});
        prop_assert_eq!((world.driver.free_slots(), world.driver.late()), (6, 0));
        prop_assert_eq!(world.queues[0].in_flight(), Some(0));
    }
}

/// Queues that are taken out, drained and opened again while threads use them.
#[test]
fn queues_come_and_go_under_load() {
    let modes = [Mode::Dedicated, Mode::Shared, Mode::Dedicated];
    let world = World::new(Plan {
        settings: Settings::default(),
        slots: 16,
        queues: (0..3).map(|i| work_queue(1, i, modes[i as usize])).collect(),
    });
    world
        .devices
        .iter()
        .for_each(|device| device.can_drain.store(true, Ordering::Relaxed));
    let thread = |number: u32| {
        let mut batch = world.batch();
        for round in 0..12 {
            let requests: Vec<_> = (0..4)
                .map(|i| world.request(number * 4 + i, &page(round), 4095))
                .collect();
            batch.submit(COMPRESS, number as usize, &requests, 0).unwrap();
            while batch.poll(0) != 0 {
                std::thread::yield_now();
            }
            batch.collect(|i, outcome| match outcome {
                Outcome::Done(done) => {
                    let stream = world.buffer(requests[i].buffers.destination, done.length);
                    assert_eq!(inflate(&stream), page(round));
                }
                // All queues of a table may be gone when it is looked at, and so of the next one.
                outcome => assert!(
                    matches!(outcome, Outcome::Software(Why::Gone | Why::NoQueue)),
                    "{outcome:?}"
                ),
            });
        }
    };
    let mut queues = world.queues.clone();
    let thread = &thread;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|number| scope.spawn(move || thread(number))).collect();
        for i in (0..3).cycle() {
            if threads.iter().all(|thread| thread.is_finished()) {
                break;
            }
            let taken = queues.remove(i);
            drop(world.driver.current().replace(table_of(&queues)));
            assert!(taken.drain());
            queues.insert(i, world.open_again(i));
            drop(world.driver.current().replace(table_of(&queues)));
            std::thread::yield_now();
        }
    });
    world.check_at_rest();
    assert_eq!(world.driver.free_slots(), 16);
    assert!(queues.iter().all(|queue| queue.in_flight().unwrap_or(0) == 0));
    // The batches are gone, so only the world holds the queues that were taken out.
    let taken = world
        .queues
        .iter()
        .filter(|queue| !queues.iter().any(|held| Arc::ptr_eq(held, queue)));
    assert!(taken.into_iter().all(|queue| Arc::strong_count(queue) == 1));
}
