//! Devices that answer with errors.

use super::fake::{Act, Plan, World, page, says, settle};
use super::{COMPRESS, DEADLINE, DECOMPRESS, dedicated, first, unverified};
use crate::batch::*;
use crate::buffers::Area;
use crate::completion::{Completion, ErrorCode, Status};
use crate::driver::AloneError;
use crate::outcome::Done;
use crate::queue::STRIKES_MAX;

#[test]
fn every_error_goes_to_software_and_some_are_the_devices() {
    let all = Status::ALL
        .iter()
        .filter(|&&status| status != Status::BUSY && status != Status::SUCCESS);
    for &status in all {
        let world = World::new(dedicated(unverified()));
        // The address of a fault is none of ours: it is not touched.
        world.devices[0].script(&[Act::Say(says(status, ErrorCode::NONE))]);
        let outcome = world.one(DECOMPRESS, world.request(0, &page(1), 4096));
        assert_eq!(outcome, Outcome::Software(Why::Refused(status, ErrorCode::NONE)));
        world.check_at_rest();
        let errors = world.driver.snapshot().errors;
        assert_eq!(errors.suspect != 0, (0x20..0x30).contains(&status.0), "{status:?}");
        let is_timeout = status == Status::WATCHDOG;
        assert_eq!(
            (errors.timeout, errors.einval),
            (is_timeout.into(), (!is_timeout).into())
        );
        assert_eq!(world.queues[0].in_flight(), Some(0));
    }
}

#[test]
fn every_analytics_error_goes_to_software() {
    for &error in ErrorCode::ALL {
        let world = World::new(Plan::default());
        world.devices[0]
            .always
            .lock()
            .clone_from(&Act::Say(says(Status::ANALYTICS, error)));
        let outcome = world.one(DECOMPRESS, world.request(0, &page(1), 4096));
        assert_eq!(outcome, Outcome::Software(Why::Refused(Status::ANALYTICS, error)));
        assert!(world.queues[0].is_usable());
        world.check_at_rest();
    }
}

#[test]
fn a_damaged_stream_goes_to_software() {
    let world = World::new(Plan::default());
    let outcome = world.one(DECOMPRESS, world.request(0, &[0xff; 100], 4096));
    assert!(matches!(outcome, Outcome::Software(Why::Refused(Status::ANALYTICS, _))));
}

/// A fault at the source of the world's first buffer.
fn fault(world: &World, on_write: bool) -> Act {
    let status = if on_write { Status(0x83) } else { Status::PAGE_FAULT };
    Act::Say(Completion {
        fault_addr: world.memory.address(Area::Buffer, 0),
        ..says(status, ErrorCode::NONE)
    })
}

#[test]
fn a_faulting_page_is_touched_and_submitted_once_more() {
    for on_write in [false, true] {
        let world = World::new(dedicated(unverified()));
        world.devices[0].script(&[fault(&world, on_write)]);
        let request = world.request(0, &page(1), 4095);
        assert!(matches!(world.one(COMPRESS, request), Outcome::Done(_)));
        world.devices[0].script(&[fault(&world, on_write), fault(&world, on_write)]);
        let outcome = world.one(COMPRESS, request);
        assert!(matches!(outcome, Outcome::Software(Why::Refused(status, _)) if status.code() == 3));
        let log = world.devices[0].log.lock();
        assert_eq!((log.len(), log[0] == log[1]), (4, true));
        assert_eq!(world.driver.snapshot().errors.fault_retries, 2);
        assert_eq!(world.driver.snapshot().compress.calls, 2, "a retry is no other call");
        world.check_at_rest();
    }
}

#[test]
fn a_retry_waits_for_a_full_queue_until_the_deadline() {
    let world = World::new(Plan::default());
    world.devices[0].script(&[fault(&world, false)]);
    *world.devices[0].always.lock() = Act::Full;
    let mut batch = world.batch();
    batch
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    assert_eq!((batch.poll(0), batch.poll(DEADLINE - 1)), (1, 1));
    let mut other = world.batch();
    assert_eq!(batch.poll(DEADLINE), 0);
    assert_eq!(first(&mut batch), Outcome::Software(Why::Full));
    *world.devices[0].always.lock() = Act::Answer;
    other
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    assert!(matches!(settle(&mut other)[..], [Outcome::Done(_)]));
    world.check_at_rest();
}

#[test]
fn an_answer_that_cannot_be_is_the_devices_fault() {
    let success = |bytes_completed, output_size| {
        Act::Say(Completion {
            bytes_completed,
            output_size,
            ..says(Status::SUCCESS, ErrorCode::NONE)
        })
    };
    for (direction, act) in [
        (COMPRESS, success(4096, 4096)),
        (COMPRESS, success(4096, 0)),
        (COMPRESS, success(4095, 100)),
        (DECOMPRESS, success(4096, 4096)),
    ] {
        let world = World::new(Plan::default());
        world.devices[0].script(&[act]);
        let outcome = world.one(direction, world.request(0, &page(1), 4095));
        assert_eq!(outcome, Outcome::Software(Why::Implausible));
        assert_eq!(world.driver.snapshot().errors.suspect, 1);
        world.check_at_rest();
    }
}

#[test]
fn a_suspect_queue_gets_no_jobs_until_it_is_probed() {
    let world = World::new(Plan::default());
    let broken = Act::Say(says(Status::HARDWARE, ErrorCode::NONE));
    *world.devices[0].always.lock() = broken;
    let request = world.request(0, &page(1), 4095);
    for _ in 0..STRIKES_MAX {
        assert!(matches!(
            world.one(COMPRESS, request),
            Outcome::Software(Why::Refused(..))
        ));
    }
    assert_eq!(world.one(COMPRESS, request), Outcome::Software(Why::NoQueue));
    let refused = AloneError::Refused(Status::HARDWARE, ErrorCode::NONE);
    assert_eq!(world.driver.probe(&world.queues[0], || 0), Err(refused));
    assert!(world.queues[0].is_suspect());
    *world.devices[0].always.lock() = Act::Answer;
    world.driver.probe(&world.queues[0], || 0).unwrap();
    assert!(matches!(world.one(COMPRESS, request), Outcome::Done(Done { .. })));
    world.check_at_rest();
}
