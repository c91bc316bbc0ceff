//! Any sequence of operations on the engine, with any rate of failing steps: every page reads back
//! what was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uzswap_mm::sim::{ARENA_PAGES, OPS, PAGES, World};

fuzz_target!(|bytes: &[u8]| {
    let Some(([kind, rate], ops)) = bytes.split_first_chunk() else {
        return;
    };
    let swap = [0, 20, 1000, 1000][usize::from(kind % 4)];
    let arena = if kind & 4 == 0 { ARENA_PAGES } else { 6 };
    let mut world = World::<parking_lot::RawMutex>::new(swap, arena);
    world.set_fail_rate(u64::from(*kind), u64::from(*rate) * 2);
    for [op, page, len, low, high] in ops.as_chunks().0 {
        let seed = u64::from(u16::from_le_bytes([*low, *high]));
        world.step(op % OPS, u64::from(*page) % PAGES, u64::from(len % 24) + 1, seed);
    }
    world.finish();
});
