//! The engine with `deflate-iaa` behind its contract, over the driver, over the model: a program's
//! pages go out and come back, and each is compared with what the program wrote.

use std::sync::Arc;

use uzswap_acomp::{Algorithm, Codec, Compressor, Counts, Device, Op, Outcome};
use uzswap_acomp_iaa::{DeflateIaa, FALLBACK};
use uzswap_iaa::settings::CompressionMode;
use uzswap_iaa_model::machine::Virtual;
use uzswap_iaa_model::random::Random;
use uzswap_mm::sim::{ARENA_PAGES, OPS, PAGES};
use uzswap_mm::vmstat::Item;
use uzswap_mm::zpool::{PoolKind, ZpoolType};

use crate::codecs::modes;
use crate::contract::{Deflate, PAIRS, Rig};
use crate::world::World;

type Engine = uzswap_mm::sim::World<parking_lot::RawMutex>;

/// The device, whose time passes when the engine looks at it.
struct Ticking {
    device: Deflate,
    world: Arc<World<Virtual>>,
}

impl Device for Ticking {
    fn codec(&self) -> Codec {
        self.device.codec()
    }

    fn batch_size(&self) -> usize {
        self.device.batch_size()
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, _: u64) {
        self.device.submit(op, src, unit, self.world.now());
    }

    fn poll(&mut self, _: u64) {
        let now = self.world.tick();
        self.device.poll(now);
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        self.device.collect(page, out)
    }

    fn cancel(&mut self) {
        self.device.cancel();
    }
}

/// Steps of a program, among them that its pages are stored with another compressor.
fn play(mode: &CompressionMode, options: &str, seed: u64) -> Counts {
    let rig = Rig::new(mode.clone(), options, PAIRS);
    let (world, bounce) = (rig.world.clone(), rig.bounce.clone());
    let device = move |algorithm: Algorithm| -> Option<Box<dyn Device + Send>> {
        (algorithm.codec() == FALLBACK.codec()).then(|| {
            let (device, world) = (DeflateIaa::new(bounce.clone(), 0), world.clone());
            Box::new(Ticking { device, world }) as _
        })
    };
    let mut engine = Engine::accelerated(1000, ARENA_PAGES, Box::new(device));
    let pool = PoolKind {
        zpool: ZpoolType::Zsmalloc,
        compressor: Compressor::from(FALLBACK),
    };
    let mut random = Random::new(seed);
    for step in 0..2000 {
        if step % 16 == 0 {
            // One of the steps takes another compressor.
            engine.mm.set_pool(pool);
            rig.world.refresh();
        }
        let [op, page, len, seed] = [(); 4].map(|()| random.bits() >> 7);
        engine.step((op % u64::from(OPS)) as u8, page % PAGES, 1 + len % 23, seed);
    }
    engine.finish();
    assert_eq!(engine.mm.stat().get(Item::DecompressFail), 0);
    let counts = engine.worker.accelerator_counts();
    assert!(counts.is_valid(), "{counts:?}");
    drop(engine);
    rig.world.machine.set_permille(0);
    rig.world.refresh();
    rig.check_at_rest();
    assert_eq!(rig.bounce.free(), PAIRS as usize);
    counts
}

#[test]
fn a_program_pages_through_the_device() {
    for (mode, seed) in modes()[..2].iter().zip(1..) {
        let counts = play(mode, "devices=2,wqs=2", seed);
        assert_eq!(counts.fallbacks(), 0, "{counts:?}");
        assert!(counts.done > 100, "{counts:?}");
    }
}

#[test]
fn a_program_pages_through_a_device_that_errs() {
    let mut all = Vec::new();
    for (mode, seed) in modes()[..2].iter().zip(3..) {
        for portal in ["", ",mode=dedicated", ",map=no"] {
            all.push(play(mode, &format!("devices=2,faults=50,seed={seed}{portal}"), seed));
        }
    }
    let all: Counts = all.into_iter().sum();
    assert!(all.done > 1000 && all.refused > 0 && all.wrong > 0, "{all:?}");
}
