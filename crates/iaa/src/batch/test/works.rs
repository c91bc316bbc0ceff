//! Batches on devices that work.

use super::fake::{Act, Plan, TestBatch, World, canned_tables, crc32, inflate, page, settle, table_of};
use super::{COMPRESS, DECOMPRESS};
use crate::aecs::DecompressState;
use crate::batch::*;
use crate::buffers::{Area, aecs_slot};
use crate::descriptor::ComprFlags;
use crate::driver::AloneError;
use crate::outcome::Done;
use crate::queue::test::work_queue;
use crate::settings::{CompressionMode, Settings};
use crate::topology::Mode;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;

fn done(outcome: Outcome) -> Done {
    match outcome {
        Outcome::Done(done) => done,
        outcome => panic!("{outcome:?}"),
    }
}

fn with_mode(mode: CompressionMode, verify: bool) -> Plan {
    Plan {
        settings: Settings {
            mode,
            verify,
            ..Settings::default()
        },
        ..Plan::default()
    }
}

#[test]
fn pages_go_there_and_back() {
    for verify in [false, true] {
        let world = World::new(with_mode(CompressionMode::Fixed, verify));
        let pages: Vec<_> = (0..5).map(page).collect();
        let requests: Vec<_> = (0..5).map(|i| world.request(i, &pages[i as usize], 4095)).collect();
        let mut batch = world.batch();
        batch.submit(COMPRESS, 0, &requests, 0).unwrap();
        let streams: Vec<_> = settle(&mut batch).into_iter().map(done).collect();
        for (i, stream) in streams.iter().enumerate() {
            assert_eq!(stream.crc, crc32(&pages[i]));
            let bytes = world.buffer(requests[i].buffers.destination, stream.length);
            assert_eq!(inflate(&bytes), pages[i]);
            let back = world.one(DECOMPRESS, world.request(9, &bytes, 4096));
            assert_eq!((done(back).length, done(back).crc), (4096, stream.crc));
            assert_eq!(world.buffer(19, 4096), pages[i]);
        }
        world.check_at_rest();
        let counts = world.driver.snapshot();
        let bytes: u64 = streams.iter().map(|stream| u64::from(stream.length)).sum();
        assert_eq!((counts.compress.calls, counts.compress.bytes), (5, bytes));
        assert_eq!((counts.decompress.calls, counts.decompress.bytes), (5, bytes));
        assert_eq!(counts.errors.verify_calls, if verify { 5 } else { 0 });
        let queue = world.queues[0].counts();
        assert_eq!((queue.comp_calls, queue.comp_bytes), (5, bytes));
        assert_eq!((queue.decomp_calls, queue.decomp_bytes), (5, bytes));
    }
}

#[test]
fn a_page_that_does_not_fit_is_incompressible() {
    let world = World::new(Plan::default());
    let noise: Vec<u8> = (0..4096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    assert_eq!(
        world.one(COMPRESS, world.request(0, &noise, 600)),
        Outcome::Incompressible
    );
    world.check_at_rest();
    assert_eq!(world.driver.snapshot().errors.comp_buf_overflow, 1);
}

#[test]
fn dynamic_mode_takes_short_sources_on_devices_that_make_headers() {
    let mut old = work_queue(1, 1, Mode::Shared);
    old.header_generation = false;
    let plan = with_mode(CompressionMode::Dynamic, false);
    let world = World::new(Plan {
        queues: vec![old, work_queue(1, 0, Mode::Shared)],
        ..plan
    });
    for _ in 0..3 {
        done(world.one(COMPRESS, world.request(0, &page(1), 4095)));
    }
    assert!(world.devices[0].log.lock().is_empty());
    let flags = world.devices[1].log.lock()[0].operation_flags;
    assert_eq!(flags & 0x7000, ComprFlags::HDR_ONE_PASS_FINAL.0);
    let long = world.one(COMPRESS, world.request(0, &[7; 4097], 4096));
    assert_eq!(long, Outcome::Software(Why::Unfit));
    world.check_at_rest();
}

#[test]
fn canned_mode_keeps_the_header_aside() {
    let world = World::new(with_mode(CompressionMode::Canned(Box::new(canned_tables())), true));
    let request = || world.request(0, &page(1), 4095);
    let before = world.one(COMPRESS, request());
    assert_eq!(
        before,
        Outcome::Software(Why::Unfit),
        "what cannot be read is not written"
    );
    world.driver.set_up_canned(&world.queues[0], || 0).unwrap();
    let stream = done(world.one(COMPRESS, request()));
    let body = world.buffer(1, stream.length);
    let whole = canned_tables().header().stream(&body);
    assert_eq!(inflate(&whole), page(1));
    let back = done(world.one(DECOMPRESS, world.request(1, &body, 4096)));
    assert_eq!((back.crc, world.buffer(3, 4096)), (stream.crc, page(1)));
    world.check_at_rest();
}

#[test]
fn canned_mode_needs_an_aecs_of_the_queues_generation() {
    let mut old = work_queue(1, 1, Mode::Shared);
    old.aecs = crate::aecs::DecompressAecs::Format1;
    let plan = with_mode(CompressionMode::Canned(Box::new(canned_tables())), false);
    let world = World::new(Plan {
        queues: vec![work_queue(1, 0, Mode::Shared), old],
        ..plan
    });
    world.driver.set_up_canned(&world.queues[1], || 0).unwrap();
    world.driver.set_up_canned(&world.queues[1], || 0).unwrap();
    assert_eq!(world.devices[1].log.lock().len(), 1, "made once");
    let other = world.driver.set_up_canned(&world.queues[0], || 0);
    assert_eq!(other, Err(AloneError::OtherFormat(1088)));
    for _ in 0..3 {
        done(world.one(COMPRESS, world.request(0, &page(1), 4095)));
    }
    assert!(world.devices[0].log.lock().is_empty());
}

#[test]
fn a_set_up_that_does_not_reach_the_first_symbol_is_refused() {
    let world = World::new(with_mode(CompressionMode::Canned(Box::new(canned_tables())), false));
    let written = world.memory.address(Area::Aecs, aecs_slot::DECOMPRESS);
    let silent = crate::completion::Completion {
        status: crate::completion::Status::SUCCESS,
        ..Default::default()
    };
    world.devices[0].script(&[Act::Say(silent)]);
    world
        .driver
        .buffers()
        .write(Area::Aecs, aecs_slot::DECOMPRESS, 1076, &[1]);
    let error = world.driver.set_up_canned(&world.queues[0], || 0).unwrap_err();
    assert_eq!(error, AloneError::State(DecompressState::Header));
    assert_eq!(error.to_string(), "the AECS is at Header: it must be at a symbol");
    assert_eq!(world.devices[0].log.lock()[0].src2_addr, written);
    let fixed = World::new(Plan::default());
    assert_eq!(
        fixed.driver.set_up_canned(&fixed.queues[0], || 0),
        Err(AloneError::NotCanned)
    );
}

#[test]
fn the_two_longest_streams_are_decompressed_first() {
    let world = World::new(Plan::default());
    let lengths = [100, 700, 300, 900, 700];
    let requests: Vec<_> = (0..5)
        .map(|i| world.request(i, &vec![0; lengths[i as usize]], 4096))
        .collect();
    let mut batch = world.batch();
    batch.submit(DECOMPRESS, 0, &requests, 0).unwrap();
    let sizes = |log: &[crate::descriptor::Descriptor]| -> Vec<u32> { log.iter().map(|d| d.src1_size).collect() };
    assert_eq!(sizes(&world.devices[0].log.lock()), [900, 700, 100, 300, 700]);
    settle(&mut batch);
    world.devices[0].log.lock().clear();
    batch.submit(COMPRESS, 0, &requests, 0).unwrap();
    assert_eq!(sizes(&world.devices[0].log.lock()), lengths.map(|length| length as u32));
}

#[test]
fn more_pages_than_slots_take_turns() {
    let world = World::new(Plan {
        slots: 3,
        ..Plan::default()
    });
    let requests: Vec<_> = (0..20).map(|i| world.request(i, &page(i as u8), 4095)).collect();
    let mut batch = world.batch();
    batch.submit(COMPRESS, 0, &requests, 0).unwrap();
    assert_eq!(world.driver.free_slots(), 0);
    settle(&mut batch).into_iter().for_each(|outcome| {
        done(outcome);
    });
    world.check_at_rest();
}

#[test]
fn a_batch_is_refused_while_the_one_before_is_under_way() {
    let world = World::new(Plan::default());
    *world.devices[0].always.lock() = Act::Hold;
    let mut batch = world.batch();
    let requests = [world.request(0, &page(1), 4095)];
    batch.submit(COMPRESS, 0, &requests, 0).unwrap();
    let error = batch.submit(COMPRESS, 0, &requests, 0).unwrap_err();
    assert_eq!(error.to_string(), "1 pages of the batch before are not settled");
    world.devices[0].answer_held();
    settle(&mut batch);
    let error = batch.submit(COMPRESS, 0, &[requests[0]; 33], 0).unwrap_err();
    assert_eq!(error.to_string(), "a batch of 33 pages: it has at most 32");
    world.check_at_rest();
}

#[test]
fn a_batch_that_is_given_up_leaves_its_buffers_withheld() {
    let world = World::new(Plan {
        slots: 2,
        ..Plan::default()
    });
    *world.devices[0].always.lock() = Act::Hold;
    let requests: Vec<_> = (0..3).map(|i| world.request(i, &page(1), 4095)).collect();
    let mut batch = world.batch();
    batch.submit(COMPRESS, 0, &requests, 0).unwrap();
    batch.cancel();
    let mut outcomes = Vec::new();
    batch.collect(|_, outcome| outcomes.push(outcome));
    let cancelled = |is_late| Outcome::Cancelled { is_late };
    assert_eq!(outcomes, [cancelled(true), cancelled(true), cancelled(false)]);
    assert_eq!((world.driver.free_slots(), world.driver.late()), (0, 2));
    world.check_at_rest();
    world.devices[0].answer_held();
    let mut back = Vec::new();
    assert_eq!(world.driver.sweep(|buffers| back.push(buffers)), 2);
    assert_eq!(back, [requests[0].buffers, requests[1].buffers]);
    world.check_at_rest();
}

#[test]
fn a_batch_that_is_dropped_frees_no_slot_that_a_device_has() {
    let world = World::new(Plan::default());
    *world.devices[0].always.lock() = Act::Hold;
    let mut batch = world.batch();
    batch
        .submit(COMPRESS, 0, &[world.request(0, &page(1), 4095)], 0)
        .unwrap();
    drop(batch);
    assert_eq!((world.driver.free_slots(), world.driver.late()), (7, 1));
    world.check_at_rest();
}

#[test]
fn queues_come_and_go_under_a_batch() {
    let world = World::new(Plan {
        queues: (0..2).map(|i| work_queue(1, i, Mode::Dedicated)).collect(),
        ..Plan::default()
    });
    let mut batch = world.batch();
    let run = |batch: &mut TestBatch, expected: [usize; 2]| {
        let requests: Vec<_> = (0..4).map(|i| world.request(i, &page(1), 4095)).collect();
        batch.submit(COMPRESS, 0, &requests, 0).unwrap();
        settle(batch).into_iter().for_each(|outcome| {
            done(outcome);
        });
        assert_eq!([0, 1].map(|i: usize| world.devices[i].log.lock().len()), expected);
    };
    run(&mut batch, [2, 2]);
    drop(world.driver.current().replace(table_of(&world.queues[1..])));
    run(&mut batch, [2, 6]);
    drop(world.driver.current().replace(table_of(&world.queues)));
    run(&mut batch, [4, 8]);
    world.check_at_rest();
}

#[test]
fn threads_share_a_driver_and_the_counters_add_up() {
    let world = World::new(Plan {
        settings: Settings {
            deadline_ns: u64::MAX / 2,
            tries: crate::settings::Tries {
                compress: u32::MAX,
                decompress: u32::MAX,
                dynamic: u32::MAX,
            },
            ..Settings::default()
        },
        slots: 5,
        queues: vec![work_queue(1, 0, Mode::Dedicated), work_queue(1, 1, Mode::Shared)],
    });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let world = &world;
            scope.spawn(move || {
                let mut batch = world.batch();
                for round in 0..3 {
                    let requests: Vec<_> = (0..6)
                        .map(|i| world.request(thread * 6 + i, &page(round), 4095))
                        .collect();
                    batch.submit(COMPRESS, thread as usize, &requests, 0).unwrap();
                    while batch.poll(0) != 0 {
                        std::thread::yield_now();
                    }
                    batch.collect(|_, outcome| assert_eq!(done(outcome).crc, crc32(&page(round))));
                }
            });
        }
    });
    world.check_at_rest();
    assert_eq!(world.driver.snapshot().compress.done, 4 * 3 * 6);
    assert_eq!(world.queues[0].in_flight(), Some(0));
}
