//! Any sequence of stores, frees, changes of the pool, compactions and forks: objects keep their
//! bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uzswap_acomp::Algorithm;
use uzswap_mm::sim::VecArena;
use uzswap_mm::zpool::{Handle, PoolKind, Pools, ZpoolType};

const ARENA_PAGES: usize = 64;

struct Object {
    handle: Handle,
    len: usize,
    byte: u8,
    kind: PoolKind,
}

fn kind(n: u8) -> PoolKind {
    PoolKind {
        zpool: ZpoolType::from_word(u64::from(n) % 3),
        compressor: Algorithm::Deflate { level: n / 3 % 4 + 1 }.into(),
    }
}

/// Different at every offset, so that a moved object is seen.
fn bytes(len: usize, byte: u8) -> Vec<u8> {
    (0..len).map(|i| byte.wrapping_add((i % 251) as u8)).collect()
}

fn check(pools: &Pools<parking_lot::RawMutex, VecArena>, object: &Object) {
    let expected = bytes(object.len, object.byte);
    pools.with_bytes(object.handle, object.len, |bytes| assert_eq!(bytes, expected));
    assert_eq!(pools.kind(object.handle), object.kind);
}

/// Nothing is shared any more.
fn reopen(pools: &mut Pools<parking_lot::RawMutex, VecArena>) {
    for pool in pools.get_all() {
        while pool.reopen_some() {}
        pools.put(pool);
    }
}

/// Move what can be moved, with every `gap`th object freed meanwhile, as a load does.
fn compact(pools: &mut Pools<parking_lot::RawMutex, VecArena>, live: &mut Vec<Object>, gap: usize) {
    let (before, promised) = (pools.pages(), pools.begin_compaction());
    let mut n = 0;
    live.retain_mut(|object| {
        n += 1;
        if gap > 0 && n % gap == 0 {
            pools.free(object.handle, object.len);
            return false;
        }
        if let Some(to) = pools.relocate(object.handle, object.len) {
            object.handle = to;
        }
        true
    });
    pools.end_compaction();
    assert!(pools.pages() <= before && promised <= before);
}

fuzz_target!(|input: &[u8]| {
    let mut pools = Pools::new(kind(0), VecArena::new(ARENA_PAGES));
    let mut live: Vec<Object> = Vec::new();
    for [op, byte, low, high] in input.as_chunks().0 {
        let n = usize::from(u16::from_le_bytes([*low, *high]));
        match op % 8 {
            0 | 1 if !live.is_empty() => {
                let object = live.swap_remove(n % live.len());
                check(&pools, &object);
                pools.free(object.handle, object.len);
            }
            2 => compact(&mut pools, &mut live, n % 8),
            3 if *byte < 16 => pools.inherit(),
            3 if *byte < 32 => reopen(&mut pools),
            4 => drop(pools.switch(kind(*byte), || (n % 5 > 0).then(|| VecArena::new(ARENA_PAGES)))),
            _ => {
                let (len, kind) = (n % 4096 + 1, pools.current());
                if let Ok(handle) = pools.store(&bytes(len, *byte)) {
                    live.push(Object {
                        handle,
                        len,
                        byte: *byte,
                        kind,
                    });
                }
            }
        }
        assert_eq!(pools.objects(), live.len() as u64);
    }
    for object in live {
        check(&pools, &object);
        pools.free(object.handle, object.len);
    }
    assert_eq!((pools.objects(), pools.pages(), pools.count()), (0, 0, 1));
});
