//! Devices that answer late or never.

use super::fake::{Act, Plan, World, canned_tables, page};
use super::{COMPRESS, DEADLINE, dedicated, first, unverified};
use crate::batch::*;
use crate::driver::AloneError;
use crate::settings::{CompressionMode, Settings};
use alloc::boxed::Box;
use alloc::vec;
use core::sync::atomic::Ordering;

#[test]
fn a_late_descriptor_keeps_its_slot_buffers_and_credit() {
    let world = World::new(dedicated(unverified()));
    world.devices[0].script(&[Act::Hold]);
    let request = world.request(0, &page(1), 4095);
    let mut batch = world.batch();
    batch.submit(COMPRESS, 0, &[request], 0).unwrap();
    assert_eq!((batch.poll(DEADLINE - 1), batch.poll(DEADLINE)), (1, 0));
    let outcome = first(&mut batch);
    assert_eq!(outcome, Outcome::Software(Why::Late));
    assert!(outcome.is_withheld());
    // Many pages later nobody has got the slot, the credit or the buffers.
    for _ in 0..20 {
        let outcome = world.one(COMPRESS, world.request(1, &page(2), 4095));
        assert!(matches!(outcome, Outcome::Done(_)));
    }
    let slots = world.devices[0]
        .log
        .lock()
        .iter()
        .filter(|d| d.completion_addr == 0x10_0000)
        .count();
    assert_eq!((slots, world.driver.sweep(|_| panic!("it is late still"))), (1, 0));
    assert_eq!((world.driver.free_slots(), world.queues[0].in_flight()), (7, Some(1)));
    world.devices[0].answer_held();
    let mut back = Vec::new();
    assert_eq!(world.driver.sweep(|buffers| back.push(buffers)), 1);
    assert_eq!((back, world.queues[0].in_flight()), (vec![request.buffers], Some(0)));
    assert_eq!((world.driver.free_slots(), world.driver.late()), (8, 0));
    assert_eq!(world.driver.snapshot().errors.timeout, 1);
    world.check_at_rest();
}

#[test]
fn what_never_comes_is_let_go_when_the_queue_is_drained() {
    let world = World::new(dedicated(unverified()));
    world.devices[0].script(&[Act::Never, Act::Never]);
    let mut batch = world.batch();
    batch
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    batch.poll(DEADLINE);
    assert_eq!(first(&mut batch), Outcome::Software(Why::Late));
    batch
        .submit(COMPRESS, 0, &[world.request(1, &page(1), 4095)], 0)
        .unwrap();
    assert!(!world.queues[0].drain());
    assert_eq!((batch.poll(0), world.driver.sweep(|_| panic!("not drained"))), (1, 0));
    world.devices[0].can_drain.store(true, Ordering::Relaxed);
    assert!(world.queues[0].drain());
    assert_eq!(batch.poll(0), 0);
    assert_eq!(first(&mut batch), Outcome::Software(Why::Gone));
    assert_eq!(world.driver.sweep(|_| {}), 1);
    assert_eq!((world.driver.free_slots(), world.queues[0].in_flight()), (8, Some(0)));
    world.check_at_rest();
}

#[test]
fn a_late_verification_withholds_the_buffers() {
    let world = World::new(dedicated(Settings::default()));
    world.devices[0].script(&[Act::Answer, Act::Hold]);
    let mut batch = world.batch();
    batch
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    assert_eq!((batch.poll(10), batch.poll(10 + DEADLINE)), (1, 0));
    assert_eq!(first(&mut batch), Outcome::Software(Why::Late));
    assert_eq!(world.driver.late(), 1);
    world.check_at_rest();
}

#[test]
fn a_probe_ends_at_its_deadline() {
    let world = World::new(dedicated(unverified()));
    let mut now = 0;
    let mut clock = || {
        now += 1_000_000;
        now
    };
    *world.devices[0].always.lock() = Act::Full;
    assert_eq!(world.driver.probe(&world.queues[0], &mut clock), Err(AloneError::Late));
    assert_eq!(world.driver.free_slots(), 8);
    *world.devices[0].always.lock() = Act::Hold;
    assert_eq!(world.driver.probe(&world.queues[0], &mut clock), Err(AloneError::Late));
    assert_eq!((world.driver.free_slots(), world.driver.late()), (7, 1));
    world.devices[0].answer_held();
    assert_eq!(world.driver.sweep(|_| panic!("a probe has no buffers")), 1);
    *world.devices[0].always.lock() = Act::Gone;
    assert_eq!(world.driver.probe(&world.queues[0], &mut clock), Err(AloneError::Gone));
    world.check_at_rest();
}

#[test]
fn a_late_set_up_leaves_canned_mode_off() {
    let world = World::new(Plan {
        settings: Settings {
            mode: CompressionMode::Canned(Box::new(canned_tables())),
            deadline_ns: 0,
            ..unverified()
        },
        ..Plan::default()
    });
    world.devices[0].script(&[Act::Gone]);
    let set_up = || world.driver.set_up_canned(&world.queues[0], || 0);
    assert_eq!(set_up(), Err(AloneError::Gone));
    let world = World::new(Plan {
        settings: world.driver.settings().clone(),
        ..Plan::default()
    });
    world.devices[0].script(&[Act::Hold]);
    let set_up = || world.driver.set_up_canned(&world.queues[0], || 0);
    assert_eq!((set_up(), set_up()), (Err(AloneError::Late), Err(AloneError::UnderWay)));
    world.devices[0].answer_held();
    let outcome = world.one(COMPRESS, world.request(0, &page(1), 4095));
    assert_eq!(outcome, Outcome::Software(Why::Unfit));
}
