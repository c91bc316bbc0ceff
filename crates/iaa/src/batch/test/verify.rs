//! Devices that write wrong data, and how verification finds them.

use super::fake::{Act, Plan, World, page, says};
use super::{COMPRESS, dedicated};
use crate::batch::*;
use crate::completion::{ErrorCode, Status};
use crate::descriptor::Opcode;
use crate::queue::test::work_queue;
use crate::settings::Settings;
use crate::topology::Mode;
use alloc::vec;

#[test]
fn verification_finds_wrong_data_and_wrong_checksums() {
    let plan = || dedicated(Settings::default());
    for (acts, expected) in [
        (&[Act::WrongCrc][..], Why::VerifyFailed),
        (&[Act::Answer, Act::WrongCrc], Why::VerifyFailed),
        (
            &[Act::Answer, Act::Say(says(Status::ANALYTICS, ErrorCode::D_CODE))],
            Why::Refused(Status::ANALYTICS, ErrorCode::D_CODE),
        ),
        (&[Act::Answer, Act::Gone], Why::Gone),
    ] {
        let world = World::new(plan());
        world.devices[0].script(acts);
        let outcome = world.one(COMPRESS, world.request(0, &page(1), 4095));
        assert_eq!(outcome, Outcome::Software(expected));
        let errors = world.driver.snapshot().errors;
        assert_eq!(
            (errors.verify_calls, errors.suspect),
            (1, u64::from(expected != Why::Gone))
        );
        assert_eq!(world.queues[0].in_flight(), Some(0));
        world.check_at_rest();
    }
    let world = World::new(plan());
    world.devices[0].script(&[Act::FlipOutput]);
    let outcome = world.one(COMPRESS, world.request(0, &page(1), 4095));
    let is_found = matches!(outcome, Outcome::Software(Why::VerifyFailed | Why::Refused(..)));
    assert!(is_found, "{outcome:?}");
}

#[test]
fn a_verification_waits_for_a_full_queue() {
    let world = World::new(Plan {
        settings: Settings::default(),
        ..Plan::default()
    });
    world.devices[0].script(&[Act::Answer, Act::Full, Act::Full, Act::Full, Act::Full]);
    let outcome = world.one(COMPRESS, world.request(0, &page(1), 4095));
    assert!(matches!(outcome, Outcome::Done(_)));
    world.check_at_rest();
}

#[test]
fn a_queue_that_reads_nothing_back_gets_no_compressions_to_verify() {
    let mut narrow = work_queue(1, 0, Mode::Shared);
    narrow.opcodes = [Opcode::COMPRESS].into_iter().collect();
    for verify in [false, true] {
        let world = World::new(Plan {
            settings: Settings {
                verify,
                ..Settings::default()
            },
            queues: vec![narrow.clone()],
            ..Plan::default()
        });
        let outcome = world.one(COMPRESS, world.request(0, &page(1), 4095));
        assert_eq!(outcome == Outcome::Software(Why::Unfit), verify, "{outcome:?}");
        world.check_at_rest();
    }
}
