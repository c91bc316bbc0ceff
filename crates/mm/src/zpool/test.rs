//! Every allocator against a plain list, and pools that change while they hold objects.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::sim::VecArena;

proptest! {
    #[test]
    fn objects_keep_their_bytes(
        zpool in (0..3u64).prop_map(ZpoolType::from_word),
        ops in proptest::collection::vec((0..3u8, 1..=4096usize, any::<u8>()), 1..400),
    ) {
        let mut pool = make(zpool, VecArena::new(4096));
        let mut live: Vec<(Place, usize, u8)> = Vec::new();
        for (op, len, byte) in ops {
            if op == 0 && !live.is_empty() {
                let (place, len, byte) = live.swap_remove(len % live.len());
                prop_assert!(pool.read(place, len).iter().all(|b| *b == byte));
                pool.free(place);
            } else if op == 1 && byte < 4 {
                pool.inherit();
            } else {
                live.push((pool.store(&vec![byte; len]).unwrap(), len, byte));
            }
            prop_assert_eq!(pool.objects(), live.len() as u64);
        }
        prop_assert!(pool.is_valid());
        for (place, len, byte) in live {
            prop_assert!(pool.read(place, len).iter().all(|b| *b == byte));
            pool.free(place);
        }
        prop_assert_eq!((pool.pages(), pool.objects()), (0, 0));
        prop_assert!(pool.is_valid());
    }

    #[test]
    fn a_pool_lives_until_its_last_object_leaves(
        ops in proptest::collection::vec((0..4u8, 1..=4096usize, 0..9u64), 1..200),
    ) {
        let kind = |n: u64| PoolKind {
            zpool: ZpoolType::from_word(n % 3),
            compressor: uzswap_acomp::Algorithm::Zstd { level: n as i32 / 3 + 1 }.into(),
        };
        let mut pools = Pools::new(kind(0), VecArena::new(1024));
        let mut live: Vec<(Handle, usize, PoolKind)> = Vec::new();
        for (op, len, n) in ops {
            match op {
                0 => {
                    let before = pools.current();
                    let switched = pools.switch(kind(n), || Some(VecArena::new(1024)));
                    prop_assert_eq!(pools.current(), if switched { kind(n) } else { before });
                    prop_assert!(switched || pools.count() == POOLS_MAX);
                }
                1 if !live.is_empty() => {
                    let (handle, len, kind) = live.swap_remove(len % live.len());
                    prop_assert_eq!(pools.kind(handle), kind);
                    prop_assert!(pools.read(handle, len).iter().all(|b| *b == len as u8));
                    pools.free(handle);
                }
                _ => {
                    let kind = pools.current();
                    live.push((pools.store(&vec![len as u8; len]).unwrap(), len, kind));
                }
            }
            let mut kinds: Vec<PoolKind> = live.iter().map(|(_, _, kind)| *kind).chain([pools.current()]).collect();
            kinds.sort_unstable_by_key(|kind| (kind.zpool.to_word(), kind.compressor.to_word()));
            kinds.dedup();
            prop_assert_eq!(pools.count(), kinds.len(), "a pool for each kind that is in use");
        }
    }
}

#[test]
fn a_full_arena_refuses_and_keeps_what_it_has() {
    for zpool in ZpoolType::ALL {
        let mut pool = make(zpool, VecArena::new(16));
        let mut whole = Vec::new();
        while let Ok(place) = pool.store(&[whole.len() as u8; 4096]) {
            whole.push(place);
        }
        assert_eq!(pool.store(&[3; 100]), Err(PoolFull), "{zpool}");
        pool.free(whole.remove(0));
        assert!(pool.store(&[3; 100]).is_ok(), "{zpool}");
        for (i, place) in (1..).zip(whole) {
            assert!(pool.read(place, 4096).iter().all(|byte| *byte == i), "{zpool}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hours")]
fn density_is_what_each_allocator_promises() {
    // Lengths about 2.3 times shorter than a page, as lz4 makes them of a heap.
    let lengths = (0..20_000usize).map(|i| 900 + i * 7919 % 1800);
    let bytes: usize = lengths.clone().sum();
    let pages = |zpool| {
        let mut pool = make(zpool, VecArena::new(1 << 15));
        for len in lengths.clone() {
            pool.store(&vec![1; len]).unwrap();
        }
        pool.pages() as usize * crate::page::PAGE_SIZE
    };
    let (zsmalloc, z3fold, zbud) = (
        pages(ZpoolType::Zsmalloc),
        pages(ZpoolType::Z3fold),
        pages(ZpoolType::Zbud),
    );
    assert!(zsmalloc * 100 <= bytes * 106, "{zsmalloc} for {bytes}");
    assert!(zsmalloc < z3fold && z3fold < zbud, "{zsmalloc} {z3fold} {zbud}");
}

#[test]
#[cfg_attr(miri, ignore = "hours")]
fn compaction_restores_density() {
    let mut pool = make(ZpoolType::Zsmalloc, VecArena::new(1 << 17));
    let len_of = |i: usize| 900 + i * 7919 % 1800;
    let places: Vec<Place> = (0..60_000)
        .map(|i| pool.store(&vec![i as u8; len_of(i)]).unwrap())
        .collect();
    let mut live: Vec<(usize, Place)> = places.into_iter().enumerate().collect();
    // A random seven tenths go.
    live.retain(|(i, place)| {
        let stays = i * 31_337 % 1009 < 303;
        if !stays {
            pool.free(*place);
        }
        stays
    });
    let bytes: usize = live.iter().map(|(i, _)| len_of(*i)).sum();
    let before = pool.pages();
    assert!(pool.begin_compaction() > 0);
    for (i, place) in &mut live {
        if let Some(to) = pool.relocate(*place, len_of(*i)) {
            *place = to;
        }
    }
    pool.end_compaction();
    assert!(pool.is_valid());
    assert!(
        live.iter()
            .all(|(i, place)| pool.read(*place, len_of(*i)).iter().all(|byte| *byte == *i as u8))
    );
    let after = pool.pages() as usize * crate::page::PAGE_SIZE;
    assert!(
        after * 100 <= bytes * 106,
        "{before} pages before, {after} bytes for {bytes}"
    );
}
