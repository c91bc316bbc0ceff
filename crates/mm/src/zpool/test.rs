//! Every allocator against a plain list, and pools that change while they hold objects.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::pools::Pool;
use super::*;
use crate::page::PAGE_SIZE;
use crate::sim::VecArena;
use crate::test::config;

/// How many steps a case has.
fn ops(max: usize) -> Range<usize> {
    1..if cfg!(miri) { max / 12 } else { max }
}

type Raw = parking_lot::RawMutex;

/// An empty allocator.
fn make<A: Arena>(zpool: ZpoolType, arena: A) -> Pool<Raw, A> {
    let kind = PoolKind {
        zpool,
        compressor: Compressor::from_word(0),
    };
    let allocator = Allocator::new(zpool, arena);
    Pool { allocator, kind }
}

/// Whether an object is what was stored.
fn holds(pool: &dyn Zpool, place: Place, bytes: &[u8]) -> bool {
    let mut is_same = false;
    pool.with(place, bytes.len(), &mut |stored, _| is_same = stored == bytes);
    is_same
}

/// An arena that knows which of its pages the system had to back.
struct BackedArena {
    memory: VecArena,
    taken: AtomicUsize,
    backed: Arc<Mutex<BTreeSet<usize>>>,
}

impl BackedArena {
    fn new(pages: usize) -> (Self, Arc<Mutex<BTreeSet<usize>>>) {
        let (memory, backed) = (VecArena::new(pages), Arc::default());
        let arena = Self {
            memory,
            taken: AtomicUsize::new(0),
            backed: Arc::clone(&backed),
        };
        (arena, backed)
    }

    /// Numbers of pages of the span that was taken as the `number`th.
    fn pages(number: usize, bytes: &Range<usize>) -> Range<usize> {
        let first = number * SPAN_PAGES;
        first + bytes.start / PAGE_SIZE..first + bytes.end.div_ceil(PAGE_SIZE)
    }
}

impl Arena for BackedArena {
    type Span = (usize, Vec<u8>);

    fn take(&self) -> Option<Self::Span> {
        let span = self.memory.take()?;
        Some((self.taken.fetch_add(1, Ordering::Relaxed), span))
    }

    fn bytes<'a>(&'a self, span: &'a Self::Span, range: Range<usize>) -> &'a [u8] {
        self.memory.bytes(&span.1, range)
    }

    fn bytes_mut<'a>(&'a self, span: &'a mut Self::Span, range: Range<usize>) -> &'a mut [u8] {
        self.backed.lock().extend(Self::pages(span.0, &range));
        self.memory.bytes_mut(&mut span.1, range)
    }

    fn release(&self, span: &mut Self::Span, pages: Range<usize>) {
        let gone = span.0 * SPAN_PAGES + pages.start..span.0 * SPAN_PAGES + pages.end;
        self.backed.lock().retain(|page| !gone.contains(page));
        self.memory.release(&mut span.1, pages);
    }
}

proptest! {
    #![proptest_config(config(256, 3))]
    #[test]
    fn objects_keep_their_bytes(
        zpool in (0..3u64).prop_map(ZpoolType::from_word),
        ops in proptest::collection::vec((0..3u8, 1..=4096usize, any::<u8>()), ops(400)),
    ) {
        let pool = make(zpool, VecArena::new(4096));
        let pool = pool.zpool();
        let mut live: Vec<(Place, usize, u8)> = Vec::new();
        for (op, len, byte) in ops {
            if op == 0 && !live.is_empty() {
                let (place, len, byte) = live.swap_remove(len % live.len());
                prop_assert!(holds(pool, place, &vec![byte; len]));
                pool.free(place, len);
            } else if op == 1 && byte < 4 {
                pool.inherit();
            } else if op == 1 && byte < 8 {
                while pool.reopen_some() {}
            } else {
                live.push((pool.store(&vec![byte; len], None).unwrap(), len, byte));
            }
            prop_assert_eq!(pool.objects(), live.len() as u64);
        }
        prop_assert!(pool.is_valid());
        for (place, len, byte) in live {
            prop_assert!(holds(pool, place, &vec![byte; len]));
            pool.free(place, len);
        }
        prop_assert_eq!((pool.pages(), pool.objects()), (0, 0));
        prop_assert!(pool.is_valid());
    }

    #[test]
    fn compaction_moves_objects_and_keeps_their_bytes(
        ops in proptest::collection::vec((0..12u8, 0..1200usize, any::<u8>()), ops(600)),
    ) {
        let (arena, backed) = BackedArena::new(1 << 14);
        let pool = make(ZpoolType::Zsmalloc, arena);
        let pool = pool.zpool();
        let mut live: Vec<(Place, usize, u8)> = Vec::new();
        for (op, n, byte) in ops {
            match op {
                0..=2 if !live.is_empty() => {
                    let (place, len, byte) = live.swap_remove(n % live.len());
                    prop_assert!(holds(pool, place, &vec![byte; len]));
                    pool.free(place, len);
                }
                3 => {
                    pool.begin_compaction();
                }
                4 => for (place, len, _) in live.iter_mut().skip(n % 8) {
                    *place = pool.relocate(*place, *len).unwrap_or(*place);
                },
                5 => {
                    pool.end_compaction();
                    prop_assert!(pool.is_valid());
                }
                6 if byte < 8 => pool.inherit(),
                6 if byte < 12 => drop(pool.reopen_some()),
                6 if byte < 24 => while pool.reopen_some() {},
                // Few lengths, so that zspages of many objects fill.
                _ => {
                    let len = [40, 400, 1100, 2500][n % 4];
                    live.push((pool.store(&vec![byte; len], None).unwrap(), len, byte));
                }
            }
            prop_assert!(backed.lock().len() as u64 <= pool.pages(), "every page that is backed is counted");
            prop_assert_eq!(pool.objects(), live.len() as u64);
        }
        pool.end_compaction();
        prop_assert!(pool.is_valid());
        for (place, len, byte) in live {
            prop_assert!(holds(pool, place, &vec![byte; len]));
            pool.free(place, len);
        }
        prop_assert_eq!((pool.pages(), pool.objects(), backed.lock().len()), (0, 0, 0));
    }

    #[test]
    fn a_pool_lives_until_its_last_object_leaves(
        ops in proptest::collection::vec((0..4u8, 1..=4096usize, 0..9u64), ops(200)),
    ) {
        let kind = |n: u64| PoolKind {
            zpool: ZpoolType::from_word(n % 3),
            compressor: uzswap_acomp::Algorithm::Zstd { level: n as i32 / 3 + 1 }.into(),
        };
        let mut pools = Pools::<Raw, _>::new(kind(0), VecArena::new(1024));
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
                    prop_assert!(pools.with_bytes(handle, len, |bytes| bytes == vec![len as u8; len]));
                    pools.free(handle, len);
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
        let pool = make(zpool, VecArena::new(16));
        let pool = pool.zpool();
        let mut whole = Vec::new();
        while let Ok(place) = pool.store(&[whole.len() as u8; 4096], Some(0)) {
            whole.push(place);
        }
        assert_eq!(pool.store(&[3; 100], None), Err(PoolFull), "{zpool}");
        pool.free(whole.remove(0), 4096);
        assert!(pool.store(&[3; 100], None).is_ok(), "{zpool}");
        for (i, place) in (1..).zip(whole) {
            assert!(holds(pool, place, &[i; 4096]), "{zpool}");
        }
    }
}

/// An arena that allows fewer pages than it has.
struct TightArena(BackedArena, u64);

impl Arena for TightArena {
    type Span = (usize, Vec<u8>);

    fn pages_max(&self) -> u64 {
        self.1
    }

    fn take(&self) -> Option<Self::Span> {
        self.0.take()
    }

    fn bytes<'a>(&'a self, span: &'a Self::Span, range: Range<usize>) -> &'a [u8] {
        self.0.bytes(span, range)
    }

    fn bytes_mut<'a>(&'a self, span: &'a mut Self::Span, range: Range<usize>) -> &'a mut [u8] {
        self.0.bytes_mut(span, range)
    }

    fn release(&self, span: &mut Self::Span, pages: Range<usize>) {
        self.0.release(span, pages);
    }
}

proptest! {
    #![proptest_config(config(256, 3))]
    #[test]
    fn no_more_pages_are_in_use_than_may_be(
        zpool in (0..3u64).prop_map(ZpoolType::from_word),
        pages_max in 1..24u64,
        ops in proptest::collection::vec((0..9u8, 0..1200usize, any::<u8>()), ops(400)),
    ) {
        let (arena, backed) = BackedArena::new(1 << 14);
        let pool = make(zpool, TightArena(arena, pages_max));
        let pool = pool.zpool();
        let mut live: Vec<(Place, usize, u8)> = Vec::new();
        for (op, n, byte) in ops {
            match op {
                0..=1 if !live.is_empty() => {
                    let (place, len, byte) = live.swap_remove(n % live.len());
                    prop_assert!(holds(pool, place, &vec![byte; len]));
                    pool.free(place, len);
                }
                2 => {
                    pool.begin_compaction();
                    for (place, len, _) in live.iter_mut().skip(n % 8) {
                        *place = pool.relocate(*place, *len).unwrap_or(*place);
                    }
                    pool.end_compaction();
                }
                _ => {
                    let len = [40, 400, 1100, 2500, 4096][n % 5];
                    match pool.store(&vec![byte; len], (len == 4096).then_some(1)) {
                        Ok(place) => live.push((place, len, byte)),
                        Err(PoolFull) => prop_assert!(pool.pages() + 1 > pages_max || zpool != ZpoolType::Zsmalloc),
                    }
                }
            }
            prop_assert!(pool.pages() <= pages_max && backed.lock().len() as u64 <= pool.pages());
            prop_assert_eq!(pool.objects(), live.len() as u64);
        }
        prop_assert!(pool.is_valid());
        for (place, len, byte) in live {
            prop_assert!(holds(pool, place, &vec![byte; len]));
            pool.free(place, len);
        }
        prop_assert_eq!((pool.pages(), pool.objects(), backed.lock().len()), (0, 0, 0));
    }
}

/// Objects of the density tests. Miri's few are of few size classes, since each class wastes part
/// of a zspage.
const OBJECTS: usize = if cfg!(miri) { 400 } else { 20_000 };
const LENGTHS_APART: usize = if cfg!(miri) { 450 } else { 1 };

/// Lengths about 2.3 times shorter than a page, as lz4 makes them of a heap.
fn len_of(i: usize) -> usize {
    900 + (i * 7919 % 1800) / LENGTHS_APART * LENGTHS_APART
}

#[test]
fn density_is_what_each_allocator_promises() {
    let lengths = (0..OBJECTS).map(len_of);
    let bytes: usize = lengths.clone().sum();
    let pages = |zpool| {
        let pool = make(zpool, VecArena::new(1 << 15));
        let pool = pool.zpool();
        for len in lengths.clone() {
            pool.store(&vec![1; len], None).unwrap();
        }
        pool.pages() as usize * PAGE_SIZE
    };
    let (zsmalloc, z3fold, zbud) = (
        pages(ZpoolType::Zsmalloc),
        pages(ZpoolType::Z3fold),
        pages(ZpoolType::Zbud),
    );
    assert!(zsmalloc * 100 <= bytes * 106, "{zsmalloc} for {bytes}");
    assert!(zsmalloc < z3fold && z3fold < zbud, "{zsmalloc} {z3fold} {zbud}");
}

/// Stored, a random seven tenths freed, compacted: pool bytes in percent of the stored bytes when
/// full and at the end.
fn density_full_and_compacted(objects: usize) -> (usize, usize) {
    let (arena, backed) = BackedArena::new(objects * 8);
    let pool = make(ZpoolType::Zsmalloc, arena);
    let pool = pool.zpool();
    let mut live: Vec<(usize, Place)> = (0..objects)
        .map(|i| (i, pool.store(&vec![i as u8; len_of(i)], None).unwrap()))
        .collect();
    let percent = |pages: u64, live: &[(usize, Place)]| {
        let bytes: usize = live.iter().map(|(i, _)| len_of(*i)).sum();
        (pages as usize * PAGE_SIZE * 100).div_ceil(bytes)
    };
    let full = percent(pool.pages(), &live);
    live.retain(|(i, place)| {
        let stays = i * 31_337 % 1009 < 303;
        if !stays {
            pool.free(*place, len_of(*i));
        }
        stays
    });
    let before = pool.pages();
    let gain = pool.begin_compaction();
    for (i, place) in &mut live {
        *place = pool.relocate(*place, len_of(*i)).unwrap_or(*place);
    }
    pool.end_compaction();
    assert!(pool.is_valid());
    assert!(
        before - pool.pages() >= gain,
        "what was promised is freed: {gain}, {}",
        before - pool.pages()
    );
    assert_eq!(pool.pages(), backed.lock().len() as u64, "what is counted is backed");
    let is_whole = |(i, place): &(usize, Place)| holds(pool, *place, &vec![*i as u8; len_of(*i)]);
    assert!(live.iter().all(is_whole));
    (full, percent(pool.pages(), &live))
}

#[test]
fn density_after_freeing_70_percent() {
    // 36 MB and 18 MB of compressed pages, of which three tenths stay.
    let runs: &[usize] = if cfg!(miri) {
        &[OBJECTS]
    } else {
        &[OBJECTS, OBJECTS / 2]
    };
    for &objects in runs {
        let (full, compacted) = density_full_and_compacted(objects);
        assert!(
            full <= 106 && compacted <= 106,
            "{objects} objects: {full} % full, {compacted} % compacted"
        );
    }
}

/// A page that is stored as it is has no checksum behind it: its fingerprint is kept beside the
/// pool.
#[test]
fn a_page_that_changes_in_the_pool_is_told_from_what_was_stored() {
    for zpool in ZpoolType::ALL {
        let kind = PoolKind {
            zpool,
            compressor: Compressor::from_word(0),
        };
        let mut pools = Pools::<Raw, _>::new(kind, VecArena::new(80));
        let pages: Vec<Vec<u8>> = (0..8u8).map(|i| vec![i ^ 0x5a; PAGE_SIZE]).collect();
        let store = |page: &Vec<u8>| pools.get_current().store_page(page, fingerprint(page)).unwrap();
        let handles: Vec<Handle> = pages.iter().map(store).collect();
        pools.free(handles[3], PAGE_SIZE);
        let small = pools.store(&[1; 100]).unwrap();
        let fingerprint = |handle, len| pools.with_block(handle, len, |block| block.fingerprint);
        assert_eq!(fingerprint(small, 100), None, "{zpool}");
        for (i, handle) in handles.iter().enumerate().filter(|(i, _)| *i != 3) {
            pools.with_block(*handle, PAGE_SIZE as u32, |block| {
                assert!(block.bytes == pages[i] && block.is_page_intact(), "{zpool}: page {i}");
                let mut bytes = block.bytes.to_vec();
                bytes[i * 500] ^= 1;
                let bytes = &bytes[..];
                assert!(!Block { bytes, ..block }.is_page_intact(), "{zpool}: page {i}");
            });
        }
    }
}
