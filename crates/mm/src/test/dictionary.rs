//! Pages that were stored with dictionaries.

use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Dictionary, Verdict};

use super::{World, one_folio};
use crate::page::Vpn;
use crate::sim::{ARENA_PAGES, BASE, PAGES, contents};
use crate::vmstat::Item;
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Effort, Idle};

/// A page of records that other pages have in another order: it compresses with them, not by
/// itself.
fn records(page: u64) -> Vec<u8> {
    let record = |number: u64| contents(number * 4 + 3).into_iter().take(32).chain([0; 16]);
    (0..85)
        .flat_map(|i| record((page * 31 + i * (page % 7 * 2 + 3)) % 199))
        .chain([0; 16])
        .collect()
}

fn zstd_dict(dictionary: Option<Dictionary>) -> Algorithm {
    Algorithm::ZstdDict { level: 1, dictionary }
}

fn pool_of(algorithm: Algorithm) -> PoolKind {
    PoolKind {
        zpool: ZpoolType::Zsmalloc,
        compressor: algorithm.into(),
    }
}

fn store_all(world: &mut World) {
    for page in 0..PAGES {
        world.write_bytes(Vpn::new(BASE + page), records(page));
    }
    for _ in 0..PAGES {
        world.mm.shrink(&mut world.worker, 32, Effort::Requested);
    }
    let gauges = world.mm.gauges();
    assert!(gauges.stored > PAGES * 3 / 4, "{gauges:?}");
}

fn train(world: &mut World) -> Verdict {
    let mut training = world.mm.begin_dictionary(1);
    core::iter::repeat_with(|| world.mm.train_dictionary(&mut world.worker, &mut training))
        .flatten()
        .next()
        .expect("an end")
}

/// Stored without, with, and with another dictionary, compressed again, written back, and read
/// while frozen.
#[test]
#[cfg_attr(miri, ignore = "C")]
fn pages_come_back_whichever_dictionary_they_were_stored_with() {
    let mut world = World::new(1000, ARENA_PAGES);
    world.mm.set_pool(pool_of(zstd_dict(None)));
    store_all(&mut world);
    let without = world.mm.gauges().pool;
    let Verdict::Wins(dictionary) = train(&mut world) else {
        panic!("these pages have much in common");
    };
    // Against the first, with another sample of few pages: either way.
    train(&mut world);
    let stat = world.mm.stat();
    let counted = (stat.get(Item::DictionaryWins), stat.get(Item::DictionaryLoses));
    assert!(matches!(counted, (1, 1) | (2, 0)), "{counted:?}");
    assert!(world.mm.set_pool(pool_of(zstd_dict(Some(dictionary)))));
    world.check(Vpn::new(BASE + 5));
    world.write_bytes(Vpn::new(BASE + 6), records(106));
    world.mm.shrink(&mut world.worker, 4, Effort::Requested);
    assert_eq!(world.mm.pool().1, 2, "the older blocks stay in their pool");
    world.mm.tick();
    let idle = Idle {
        algorithm: zstd_dict(Some(dictionary)),
        since_ns: u64::MAX,
    };
    while world.mm.recompress(&mut world.worker, idle) > 0 {}
    assert!(world.mm.gauges().pool * 10 < without * 9, "{without} pages without");
    assert!(world.mm.writeback(&mut world.worker, 20) > 0);
    let pin = world.mm.freeze();
    for page in (0..PAGES).step_by(5) {
        world.check(Vpn::new(BASE + page));
    }
    world.mm.thaw();
    world.mm.unpin(pin);
    world.check_all();
}

#[test]
#[cfg_attr(miri, ignore = "C")]
fn a_training_changes_nothing_that_is_stored() {
    let mut world = World::new(0, ARENA_PAGES);
    assert_eq!(train(&mut world), Verdict::Loses, "nothing is stored");
    one_folio(&mut world);
    world.mm.shrink(&mut world.worker, 16, Effort::Requested);
    let before = world.mm.gauges();
    let mut training = world.mm.begin_dictionary(1);
    while world.mm.train_dictionary(&mut world.worker, &mut training).is_none() {}
    assert_eq!(world.mm.gauges(), before, "a training changes nothing");
    world.check_all();
}
