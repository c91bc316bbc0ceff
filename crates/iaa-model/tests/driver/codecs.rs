//! Pages of all kinds through all modes: the driver reads them back, and so does miniz_oxide.

use uzswap_iaa::completion::{Direction, ErrorCode, Status};
use uzswap_iaa::outcome::{Outcome, Why};
use uzswap_iaa::settings::{CompressionMode, Settings};
use uzswap_iaa_model::device::caps::Caps;
use uzswap_iaa_model::fault::Fault;
use uzswap_iaa_model::options::Options;

use crate::adapters::{Time, Way};
use crate::pages::{KINDS, Kind, PAGE, canned_tables, crc32, inflate, page, xor16};
use crate::world::{Plan, World};

pub fn modes() -> [CompressionMode; 3] {
    let canned = CompressionMode::Canned(Box::new(canned_tables()));
    [CompressionMode::Fixed, CompressionMode::Dynamic, canned]
}

/// The stream that any inflater reads.
pub fn whole(mode: &CompressionMode, stream: &[u8]) -> Vec<u8> {
    match mode {
        CompressionMode::Canned(tables) => tables.header().stream(stream),
        _ => stream.to_vec(),
    }
}

fn plan(mode: &CompressionMode, options: &str) -> Plan {
    let options: Options = options.parse().unwrap();
    Plan {
        config: options.config(),
        settings: Settings {
            mode: mode.clone(),
            ..Settings::default()
        },
        way: if options.may_map { Way::Mapped } else { Way::Written },
        ..Plan::default()
    }
}

fn round_trip<C: Time>(world: &World<C>) {
    let mode = &world.driver.settings().mode;
    let mut batch = world.batch();
    for seed in 0..4 {
        let pages: Vec<_> = KINDS.iter().map(|&kind| page(kind, seed)).collect();
        let compressed = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1);
        let mut streams = Vec::new();
        for ((kind, page), (outcome, stream)) in KINDS.iter().zip(&pages).zip(compressed) {
            let Outcome::Done(done) = outcome else {
                assert_eq!((*kind, outcome), (Kind::Noise, Outcome::Incompressible), "{mode:?}");
                continue;
            };
            assert_ne!(*kind, Kind::Noise);
            assert_eq!((done.crc, done.xor), (crc32(page), xor16(page)), "{kind:?} {mode:?}");
            assert_eq!(inflate(&whole(mode, &stream)), *page, "{kind:?} {mode:?}");
            streams.push(stream);
        }
        let read = world.run(&mut batch, Direction::Decompress, &streams, PAGE);
        for ((kind, page), (outcome, bytes)) in KINDS.iter().zip(&pages).zip(read) {
            assert!(
                matches!(outcome, Outcome::Done(done) if done.crc == crc32(page)),
                "{outcome:?}"
            );
            assert_eq!(bytes, *page, "{kind:?} {mode:?}");
        }
    }
    world.check_at_rest(64);
    let snapshot = world.driver.snapshot();
    assert_eq!((snapshot.compress.done, snapshot.decompress.done), (20, 20));
    assert_eq!(
        (snapshot.compress.incompressible, snapshot.errors.comp_buf_overflow),
        (4, 4)
    );
    assert_eq!((snapshot.errors.verify_calls, snapshot.errors.verify_failed), (20, 0));
    assert_eq!(world.machine.counters().dropped, 0);
}

#[test]
fn every_mode_over_every_portal() {
    let portals = ["", "mode=dedicated", "map=no", "mode=dedicated,map=no"];
    for (mode, portal) in modes().iter().flat_map(|mode| portals.map(|portal| (mode, portal))) {
        round_trip(&World::new(plan(mode, portal)));
        round_trip(&World::inline(plan(mode, portal)));
    }
}

#[test]
fn generation_1_does_all_but_dynamic() {
    let [fixed, dynamic, canned] = modes();
    for mode in [fixed, canned] {
        round_trip(&World::new(plan(&mode, "generation=1")));
    }
    let world = World::new(plan(&dynamic, "generation=1"));
    let pages = [page(Kind::Text, 1)];
    let outcomes = world.run(&mut world.batch(), Direction::Compress, &pages, PAGE - 1);
    assert_eq!(outcomes[0].0, Outcome::Software(Why::Unfit));
    world.check_at_rest(64);
}

#[test]
fn blocking_on_faults_changes_nothing() {
    for mode in modes() {
        let mut plan = plan(&mode, "");
        plan.settings.block_on_fault = true;
        round_trip(&World::new(plan));
    }
}

/// Streams of a software compressor, of whole pages and of more than one block.
#[test]
fn the_device_reads_software_streams() {
    let world = World::new(plan(&CompressionMode::Fixed, ""));
    let pages: Vec<_> = KINDS.iter().map(|&kind| page(kind, 9)).collect();
    for level in [0, 1, 6, 9] {
        let stream = |page: &Vec<u8>| miniz_oxide::deflate::compress_to_vec(page, level);
        let streams: Vec<_> = pages.iter().map(stream).collect();
        let read = world.run(&mut world.batch(), Direction::Decompress, &streams, PAGE);
        for (page, (outcome, bytes)) in pages.iter().zip(read) {
            assert!(matches!(outcome, Outcome::Done(_)), "level {level}: {outcome:?}");
            assert_eq!(bytes, *page);
        }
    }
    world.check_at_rest(64);
}

/// A distance beyond 4 KiB is no error of the stream: software reads it.
#[test]
fn a_longer_window_goes_to_software() {
    let world = World::new(plan(&CompressionMode::Fixed, ""));
    let mut source = page(Kind::Noise, 1);
    source.extend(page(Kind::Zeros, 0)[..1000].iter());
    source.extend_from_within(..1000);
    let stream = miniz_oxide::deflate::compress_to_vec(&source, 6);
    assert_eq!(inflate(&stream), source);
    let read = world.run(&mut world.batch(), Direction::Decompress, &[stream], source.len());
    assert_eq!(
        read[0].0,
        Outcome::Software(Why::Refused(Status::ANALYTICS, ErrorCode::DISTANCE))
    );
    world.check_at_rest(64);
}

/// What is longer than the queue's largest transfer is not submitted.
#[test]
fn a_transfer_that_is_too_long_is_unfit() {
    let mut plan = plan(&CompressionMode::Fixed, "");
    plan.config
        .queues
        .iter_mut()
        .for_each(|queue| queue.max_transfer_shift = 12);
    let world = World::new(plan);
    let mut batch = world.batch();
    let page = page(Kind::Text, 1);
    let fits = world.run(&mut batch, Direction::Compress, std::slice::from_ref(&page), PAGE - 1);
    assert!(matches!(fits[0].0, Outcome::Done(_)), "{:?}", fits[0].0);
    let longer = world.run(&mut batch, Direction::Compress, &[[page, vec![0]].concat()], PAGE - 1);
    assert_eq!(longer[0].0, Outcome::Software(Why::Unfit));
    world.check_at_rest(64);
}

#[test]
fn what_does_not_fit_is_incompressible_and_what_is_damaged_is_softwares() {
    for mode in modes() {
        let world = World::new(plan(&mode, ""));
        let mut batch = world.batch();
        let text = [page(Kind::Text, 3)];
        let (outcome, stream) = world.run(&mut batch, Direction::Compress, &text, PAGE - 1).remove(0);
        let Outcome::Done(done) = outcome else {
            panic!("{outcome:?}")
        };
        let exact = done.length as usize;
        let (outcome, again) = world.run(&mut batch, Direction::Compress, &text, exact).remove(0);
        assert_eq!((outcome, again), (Outcome::Done(done), stream.clone()));
        let (outcome, _) = world.run(&mut batch, Direction::Compress, &text, exact - 1).remove(0);
        assert_eq!(outcome, Outcome::Incompressible);
        let cut = [stream[..exact / 2].to_vec(), stream.clone()];
        let read = world.run(&mut batch, Direction::Decompress, &cut[..1], PAGE);
        assert!(
            matches!(read[0].0, Outcome::Software(Why::Refused(..))),
            "{:?}",
            read[0].0
        );
        let read = world.run(&mut batch, Direction::Decompress, &cut[1..], PAGE - 1);
        assert!(
            matches!(read[0].0, Outcome::Software(Why::Refused(..))),
            "{:?}",
            read[0].0
        );
        world.check_at_rest(64);
    }
}

#[test]
fn verification_sees_each_lie() {
    for mode in modes() {
        let world = World::new(plan(&mode, ""));
        for lie in [Fault::WrongData, Fault::FlippedByte, Fault::WrongCrc] {
            world.machine.inject(lie);
            let pages = [page(Kind::Text, 5)];
            let (outcome, _) = world
                .run(&mut world.batch(), Direction::Compress, &pages, PAGE - 1)
                .remove(0);
            // A flipped bit may also make a stream that cannot be read at all.
            let seen = matches!(outcome, Outcome::Software(Why::VerifyFailed | Why::Refused(..)));
            assert!(seen, "{lie:?} {mode:?}: {outcome:?}");
            world.refresh();
        }
        assert_eq!(world.driver.snapshot().errors.suspect, 3);
        world.check_at_rest(64);
    }
}

#[test]
fn a_missing_page_is_touched_and_tried_once_more() {
    use uzswap_iaa::buffers::{Area, Buffers};
    use uzswap_iaa_model::memory::Protection;
    for (is_source, block_on_fault) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut plan = plan(&CompressionMode::Fixed, "");
        plan.settings.block_on_fault = block_on_fault;
        assert!(plan.config.caps == Caps::generation_2());
        let world = World::new(plan);
        let buffers = *world.pool.lock().unwrap().last().unwrap();
        let slot = if is_source { buffers.source } else { buffers.destination };
        let memory = world.driver.buffers();
        let address = memory.address(Area::Buffer, slot);
        memory.regions.protect(address, PAGE, Protection::UntilTouched);
        let pages = [page(Kind::Text, 6)];
        let (outcome, stream) = world
            .run(&mut world.batch(), Direction::Compress, &pages, PAGE - 1)
            .remove(0);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        assert_eq!(inflate(&stream), pages[0]);
        // A device that blocks has the kernel bring the page.
        assert_eq!(world.driver.snapshot().errors.fault_retries, u64::from(!block_on_fault));
        world.check_at_rest(64);
    }
}
