//! Faults at random: every page comes back equal or goes to software, within its deadlines.

use std::collections::BTreeSet;

use uzswap_iaa::completion::Direction;
use uzswap_iaa::outcome::{Outcome, Why};
use uzswap_iaa::settings::{CompressionMode, Settings};
use uzswap_iaa_model::options::Options;

use crate::adapters::{Time, Way};
use crate::codecs::{modes, whole};
use crate::pages::{KINDS, Kind, PAGE, crc32, inflate, page};
use crate::world::{BATCH, Plan, World};

const PAIRS: u32 = 2048;

/// What became of pages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    pub pages: u64,
    pub equal: u64,
    pub incompressible: u64,
    pub software: u64,
    /// The device said that it was done, and the reader's checksum said that it was not.
    pub lies: u64,
}

impl Tally {
    pub fn is_complete(&self) -> bool {
        self.pages == self.equal + self.incompressible + self.software + self.lies
    }
}

/// A batch of pages there and back. What the driver calls done is checked.
pub fn there_and_back<C: Time>(
    world: &World<C>,
    batch: &mut crate::world::TestBatch,
    pages: &[Vec<u8>],
    tally: &mut Tally,
) {
    let mode = &world.driver.settings().mode;
    tally.pages += pages.len() as u64;
    let (mut kept, mut streams) = (Vec::new(), Vec::new());
    for (page, (outcome, stream)) in pages.iter().zip(world.run(batch, Direction::Compress, pages, PAGE - 1)) {
        match outcome {
            Outcome::Done(_) => {
                assert_eq!(
                    inflate(&whole(mode, &stream)),
                    *page,
                    "a verified stream reads back equal"
                );
                kept.push(page);
                streams.push(stream);
            }
            Outcome::Incompressible => tally.incompressible += 1,
            Outcome::Software(_) => tally.software += 1,
            Outcome::Cancelled { .. } => panic!("nobody cancels"),
        }
    }
    for (page, (outcome, bytes)) in kept.iter().zip(world.run(batch, Direction::Decompress, &streams, PAGE)) {
        match outcome {
            // Nothing verifies a decompression but who reads it.
            Outcome::Done(done) if done.crc != crc32(&bytes) => tally.lies += 1,
            Outcome::Done(_) => {
                assert!(bytes == **page, "a page whose checksum is right is the page");
                tally.equal += 1;
            }
            Outcome::Software(_) => tally.software += 1,
            Outcome::Incompressible | Outcome::Cancelled { .. } => panic!("{outcome:?}"),
        }
    }
}

fn world(mode: &CompressionMode, options: &str) -> World<uzswap_iaa_model::machine::Virtual> {
    let options: Options = options.parse().unwrap();
    let world = World::new(Plan {
        config: uzswap_iaa_model::machine::Config {
            permille: 0,
            ..options.config()
        },
        settings: Settings {
            mode: mode.clone(),
            ..Settings::default()
        },
        slots: PAIRS,
        pairs: PAIRS,
        way: if options.may_map { Way::Mapped } else { Way::Written },
    });
    // Only now: without its AECS canned mode does nothing.
    world.machine.set_permille(options.permille.into());
    world
}

/// `batches` of pages under `options`; between them the owner of the queues looks after them.
fn play(mode: &CompressionMode, options: &str, batches: u64) -> (Tally, BTreeSet<&'static str>) {
    let world = world(mode, options);
    let mut batch = world.batch();
    let mut tally = Tally::default();
    for number in 0..batches {
        let kind = |i: u64| KINDS[(i % KINDS.len() as u64) as usize];
        let first = number * BATCH as u64;
        let pages: Vec<_> = (first..first + BATCH as u64).map(|i| page(kind(i), i)).collect();
        there_and_back(&world, &mut batch, &pages, &mut tally);
        world.refresh();
    }
    assert!(tally.is_complete(), "{tally:?}");
    // All queues are there again, so that each can drain.
    world.machine.set_permille(0);
    for device in [1, 3] {
        world.machine.restore(device);
    }
    drop(batch);
    world.refresh();
    world.check_at_rest(PAIRS as usize);
    let snapshot = world.driver.snapshot();
    assert_eq!(snapshot.compress.requests, tally.pages);
    assert_eq!(snapshot.compress.done, snapshot.decompress.requests);
    assert_eq!(snapshot.decompress.done, tally.equal + tally.lies);
    let injected = world.machine.injected();
    (tally, injected.into_iter().map(|(name, _)| name).collect())
}

#[test]
fn without_faults_no_page_goes_to_software() {
    let options = ["devices=2,wqs=2", "devices=2,mode=dedicated", "devices=2,map=no"];
    for (mode, options) in modes().iter().zip(options) {
        let (tally, injected) = play(mode, options, 32);
        assert_eq!((tally.software, tally.lies, injected.len()), (0, 0, 0), "{mode:?}");
        let noise = (0..tally.pages)
            .filter(|i| KINDS[*i as usize % KINDS.len()] == Kind::Noise)
            .count();
        assert_eq!(tally.incompressible, noise as u64);
    }
}

/// More than 10,000 pages in all, beside those of the next test.
fn faults(mode: usize, options: &str) {
    let options = format!("devices=2,faults=50,{options}");
    let (tally, injected) = play(&modes()[mode], &options, 80);
    assert!(tally.equal > tally.pages / 2, "{options}: {tally:?}");
    assert!(tally.software > 0 && tally.lies > 0, "{options}: {tally:?}");
    for name in [
        "never_completes",
        "late",
        "wrong_crc",
        "flipped_byte",
        "page_fault_write",
        "record_fault",
    ] {
        assert!(injected.contains(name), "{options}: {injected:?}");
    }
    assert_eq!(
        play(&modes()[mode], &options, 4),
        play(&modes()[mode], &options, 4),
        "same seed, same pages"
    );
}

#[test]
fn faults_in_fixed_mode() {
    faults(0, "seed=1");
}

#[test]
fn faults_in_dynamic_mode() {
    faults(1, "seed=2,mode=dedicated");
}

#[test]
fn faults_in_canned_mode() {
    faults(2, "seed=3,wqs=4");
}

#[test]
fn faults_of_written_descriptors() {
    faults(0, "seed=4,map=no");
}

/// Queues and devices break, and the kernel mends them after 3 ms.
#[test]
fn broken_queues_are_mended() {
    for (seed, mode) in modes().iter().enumerate() {
        for queues in ["mode=shared", "mode=dedicated", "map=no"] {
            let options = format!("devices=2,faults=50,outage=3,seed={seed},{queues}");
            let (tally, injected) = play(mode, &options, 12);
            assert!(tally.equal > 0, "{options}: {tally:?}");
            assert!(injected.len() > 15, "{options}: {injected:?}");
        }
    }
}

/// With faults at every descriptor all goes to software, and nothing hangs.
#[test]
fn nothing_but_faults() {
    let world = world(&CompressionMode::Fixed, "faults=1000,seed=5");
    let mut batch = world.batch();
    for seed in 0..10 {
        let pages: Vec<_> = (0..BATCH as u64).map(|i| page(Kind::Text, seed * 100 + i)).collect();
        for (outcome, _) in world.run(&mut batch, Direction::Compress, &pages, PAGE - 1) {
            let settled = matches!(
                outcome,
                Outcome::Software(_) | Outcome::Incompressible | Outcome::Done(_)
            );
            assert!(settled && outcome != Outcome::Software(Why::Implausible), "{outcome:?}");
        }
    }
    drop(batch);
    world.check_at_rest(PAIRS as usize);
}
