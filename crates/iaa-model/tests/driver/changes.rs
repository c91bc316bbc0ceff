//! Devices and queues that go and come while batches are under way.

use uzswap_iaa::completion::Direction;
use uzswap_iaa::outcome::{Outcome, Why};
use uzswap_iaa::settings::CompressionMode;
use uzswap_iaa_model::machine::Virtual;
use uzswap_iaa_model::options::Options;
use uzswap_iaa_model::random::Random;

use crate::adapters::{Time, Way};
use crate::codecs::modes;
use crate::pages::{KINDS, PAGE, inflate, page};
use crate::world::{BATCH, Plan, World};

const PAIRS: u32 = 256;

/// One thing that an administrator does to device 1 or 3.
pub fn change<C: Time>(world: &World<C>, random: &mut Random) {
    let device = 1 + 2 * random.below(2) as u32;
    let queue = format!("wq{device}.{}", random.below(2));
    match random.below(4) {
        0 => {
            world.machine.remove_device(device);
        }
        // Adding fails if it is there, unbinding if it is not: so does the administrator.
        1 => {
            world.machine.add_device_as(device);
        }
        2 => drop(world.machine.unbind(&queue)),
        _ => drop(world.machine.bind(&queue)),
    }
    world.refresh();
}

/// All devices and queues are there again.
pub fn mend<C: Time>(world: &World<C>) {
    for device in [1, 3] {
        world.machine.restore(device);
    }
    world.refresh();
}

fn world(mode: &CompressionMode, options: &str) -> World<Virtual> {
    let options: Options = options.parse().unwrap();
    let mut plan = Plan {
        config: options.config(),
        slots: PAIRS,
        pairs: PAIRS,
        way: if options.may_map { Way::Mapped } else { Way::Written },
        ..Plan::default()
    };
    plan.settings.mode = mode.clone();
    World::new(plan)
}

/// Changes in the midst of batches: pages are right, or software's for a reason that says so.
#[test]
fn queues_come_and_go_in_the_midst_of_batches() {
    let options = ["devices=2", "devices=2,mode=dedicated", "devices=2,map=no"];
    for (mode, options) in modes().iter().flat_map(|mode| options.map(|options| (mode, options))) {
        let world = world(mode, options);
        let mut batch = world.batch();
        let mut random = Random::new(11);
        let (mut done, mut software) = (0, 0);
        for number in 0..16u64 {
            let pages: Vec<_> = (0..BATCH as u64)
                .map(|i| page(KINDS[i as usize % 5], number * 64 + i))
                .collect();
            let requests: Vec<_> = pages
                .iter()
                .map(|page| world.request(page, PAGE - 1).unwrap())
                .collect();
            batch
                .submit(Direction::Compress, number as usize, &requests, world.now())
                .unwrap();
            change(&world, &mut random);
            while batch.poll(world.now()) != 0 {
                if random.below(4) == 0 {
                    change(&world, &mut random);
                }
                world.tick();
            }
            batch.collect(|i, outcome| {
                match outcome {
                    Outcome::Done(result) => {
                        let stream = world.load(requests[i].buffers.destination, result.length as usize);
                        assert_eq!(inflate(&crate::codecs::whole(mode, &stream)), pages[i]);
                        done += 1;
                    }
                    Outcome::Software(Why::Gone | Why::NoQueue | Why::Late) => software += 1,
                    outcome => panic!("{options}: {outcome:?}"),
                }
                if !outcome.is_withheld() {
                    world.pool.lock().unwrap().push(requests[i].buffers);
                }
            });
            world.sweep();
        }
        assert!(done > 0 && software > 0, "{options}: {done} done, {software} software");
        drop(batch);
        mend(&world);
        world.check_at_rest(PAIRS as usize);
    }
}

/// A queue whose opcodes are narrowed refuses; after the next discovery it is left out.
#[test]
fn a_narrowed_queue_is_left_out() {
    let world = world(&CompressionMode::Fixed, "wqs=2");
    let mut batch = world.batch();
    world.machine.inject(uzswap_iaa_model::fault::Fault::OpConfigNarrowed);
    let pages = [page(KINDS[2], 1)];
    let outcome = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1).remove(0).0;
    assert!(matches!(outcome, Outcome::Software(Why::Refused(..))), "{outcome:?}");
    world.refresh();
    let able = world
        .queues()
        .iter()
        .filter(|queue| queue.supports(Direction::Compress))
        .count();
    assert_eq!(able, 1);
    let outcome = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1).remove(0).0;
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    world.check_at_rest(PAIRS as usize);
}

/// A device that halts swallows what it is given: its queues become suspect, and are opened again
/// once the kernel has reset it.
#[test]
fn a_halted_device_is_found_out() {
    let world = world(&CompressionMode::Fixed, "wqs=2");
    let mut batch = world.batch();
    world.machine.inject(uzswap_iaa_model::fault::Fault::HardwareError);
    let pages: Vec<_> = (0..8).map(|i| page(KINDS[3], i)).collect();
    for (outcome, _) in world.run(&mut batch, Direction::Compress, &pages, PAGE - 1) {
        assert!(
            matches!(outcome, Outcome::Software(Why::Refused(..) | Why::Late)),
            "{outcome:?}"
        );
    }
    world.refresh();
    assert_eq!(world.queues().len(), 0, "a device that halted is not enabled");
    let outcomes = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1);
    assert!(
        outcomes
            .iter()
            .all(|(outcome, _)| *outcome == Outcome::Software(Why::NoQueue))
    );
    world.machine.restore(1);
    world.refresh();
    let outcomes = world.run(&mut batch, Direction::Compress, &pages, PAGE - 1);
    assert!(
        outcomes.iter().all(|(outcome, _)| matches!(outcome, Outcome::Done(_))),
        "{outcomes:?}"
    );
    drop(batch);
    // What was late on the dead device never comes; its queues were drained when it was reset.
    world.sweep();
    world.check_at_rest(PAIRS as usize);
}
