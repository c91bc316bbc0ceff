//! Pages for which no slot is free, or no queue.

use super::fake::{Act, Plan, TestBatch, World, page, settle};
use super::{COMPRESS, DEADLINE, DECOMPRESS, first, unverified};
use crate::batch::*;
use crate::queue::test::work_queue;
use crate::settings::{CompressionMode, Settings, SyncMode};
use crate::topology::Mode;
use alloc::vec;

/// How many polls a page of `direction` waits for a queue that is full for ever.
fn polls_until_mitigated(settings: Settings, direction: Direction) -> (u32, Outcome) {
    let world = World::new(Plan {
        settings,
        ..Plan::default()
    });
    *world.devices[0].always.lock() = Act::Full;
    let mut batch = world.batch();
    batch
        .submit(direction, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    let mut polls = 1;
    while batch.poll(0) != 0 {
        polls += 1;
    }
    world.check_at_rest();
    (polls + 1, first(&mut batch))
}

#[test]
fn a_page_tries_as_often_as_the_kernel_does() {
    let software = Outcome::Software(Why::Full);
    assert_eq!(polls_until_mitigated(unverified(), COMPRESS), (1000, software));
    assert_eq!(polls_until_mitigated(unverified(), DECOMPRESS), (500, software));
    let dynamic = Settings {
        mode: CompressionMode::Dynamic,
        ..unverified()
    };
    assert_eq!(polls_until_mitigated(dynamic, COMPRESS), (2000, software));
    let kernel = Settings {
        mitigation: Mitigation::Incompressible,
        ..unverified()
    };
    assert_eq!(
        polls_until_mitigated(kernel.clone(), COMPRESS),
        (1000, Outcome::Incompressible)
    );
    assert_eq!(polls_until_mitigated(kernel, DECOMPRESS), (500, software));
}

#[test]
fn a_page_waits_no_longer_than_the_deadline() {
    let world = World::new(Plan::default());
    *world.devices[0].always.lock() = Act::Full;
    let mut batch = world.batch();
    let requests: Vec<_> = (0..5).map(|i| world.request(i, &page(1), 4095)).collect();
    batch.submit(COMPRESS, 0, &requests, 100).unwrap();
    assert_eq!(batch.poll(100 + DEADLINE - 1), 5);
    assert_eq!(batch.poll(100 + DEADLINE), 0);
    world.check_at_rest();
    assert_eq!(world.driver.snapshot().compress.full, 5);
}

/// Three pages of a thread at a device that keeps what it gets.
fn three_that_are_kept(sync_mode: SyncMode) -> (World, TestBatch) {
    let world = World::new(Plan {
        settings: Settings {
            sync_mode,
            ..unverified()
        },
        ..Plan::default()
    });
    *world.devices[0].always.lock() = Act::Hold;
    let requests: Vec<_> = (0..3).map(|i| world.request(i, &page(1), 4095)).collect();
    let mut batch = world.batch();
    batch.submit(COMPRESS, 0, &requests, 0).unwrap();
    (world, batch)
}

#[test]
fn in_sync_mode_a_page_waits_for_the_one_before() {
    for (sync_mode, under_way) in [(SyncMode::Async, [3, 3, 3]), (SyncMode::Sync, [1, 2, 3])] {
        let (world, mut batch) = three_that_are_kept(sync_mode);
        for seen in under_way {
            batch.poll(0);
            assert_eq!(world.devices[0].log.lock().len(), seen, "{sync_mode:?}");
            world.devices[0].answer_held();
            batch.poll(0);
        }
        assert!(
            settle(&mut batch)
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Done(_)))
        );
        world.check_at_rest();
    }
}

#[test]
fn in_sync_mode_no_page_waits_beyond_the_deadline() {
    let (world, mut batch) = three_that_are_kept(SyncMode::Sync);
    assert_eq!(batch.poll(DEADLINE - 1), 3);
    assert_eq!(batch.poll(DEADLINE), 0);
    assert_eq!(world.driver.snapshot().compress.no_slot, 2);
    assert_eq!(world.devices[0].log.lock().len(), 1);
}

/// A world of one slot, whose device keeps it.
fn with_one_slot() -> World {
    let world = World::new(Plan {
        slots: 1,
        ..Plan::default()
    });
    *world.devices[0].always.lock() = Act::Hold;
    world
}

#[test]
fn without_a_slot_a_page_waits_then_is_mitigated() {
    let world = with_one_slot();
    let mut holder = world.batch();
    holder
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    let outcome = world.one(DECOMPRESS, world.request(1, &page(1), 4096));
    assert_eq!(outcome, Outcome::Software(Why::NoSlot));
    world.devices[0].answer_held();
    assert!(matches!(settle(&mut holder)[..], [Outcome::Done(_)]));
    world.check_at_rest();
}

#[test]
fn a_full_queue_is_passed_over() {
    let world = World::new(Plan {
        queues: (0..2).map(|i| work_queue(1, i, Mode::Shared)).collect(),
        ..Plan::default()
    });
    *world.devices[0].always.lock() = Act::Full;
    for _ in 0..2 {
        let outcome = world.one(COMPRESS, world.request(0, &page(1), 4095));
        assert!(matches!(outcome, Outcome::Done(_)));
    }
    assert_eq!(world.devices[1].log.lock().len(), 2);
}

#[test]
fn without_a_queue_software_does_it_at_once() {
    let world = World::new(Plan::default());
    world.devices[0].script(&[Act::Gone]);
    let request = world.request(0, &page(1), 4095);
    for _ in 0..2 {
        assert_eq!(world.one(COMPRESS, request), Outcome::Software(Why::NoQueue));
    }
    let none = World::new(Plan {
        queues: vec![],
        ..Plan::default()
    });
    assert_eq!(none.one(DECOMPRESS, request), Outcome::Software(Why::NoQueue));
    none.check_at_rest();
    world.check_at_rest();
}

#[test]
fn what_no_queue_takes_is_not_submitted() {
    let mut narrow = work_queue(1, 0, Mode::Shared);
    narrow.max_transfer_size = 4096;
    let world = World::new(Plan {
        queues: vec![narrow],
        ..Plan::default()
    });
    for request in [
        world.request(0, &[0; 4097], 4096),
        world.request(0, &[0; 4096], 4097),
        world.request(0, &[], 4096),
    ] {
        assert_eq!(world.one(COMPRESS, request), Outcome::Software(Why::Unfit));
    }
    assert!(world.devices[0].log.lock().is_empty());
    world.check_at_rest();
}

#[test]
fn without_a_slot_a_page_that_no_queue_takes_does_not_wait() {
    let world = with_one_slot();
    let mut holder = world.batch();
    holder
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    let mut batch = world.batch();
    batch.submit(COMPRESS, 0, &[world.request(1, &[], 4095)], 0).unwrap();
    assert_eq!(
        (batch.unsettled(), first(&mut batch)),
        (0, Outcome::Software(Why::Unfit))
    );
    assert!(!world.queues[0].drain());
    batch
        .submit(COMPRESS, 0, &[world.request(1, &page(1), 4095)], 0)
        .unwrap();
    assert_eq!(
        (batch.unsettled(), first(&mut batch)),
        (0, Outcome::Software(Why::NoQueue))
    );
}
