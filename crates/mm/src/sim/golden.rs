//! Golden runs: what the engine decides in thousands of steps, as one line a run. A change that is
//! not to change any decision leaves all lines as they are; one that is has to write them anew
//! (`UZSWAP_GOLDEN=write`), in a commit of its own.

use std::format;
use std::io::Write;
use std::string::String;
use std::vec::Vec;

use xxhash_rust::xxh3::xxh3_64;

use super::{ARENA_PAGES, OPS, PAGES};
use crate::page::MAX_ORDER;
use crate::vmstat::{Item, OrderItem, Vmstat};

type World = super::World<parking_lot::RawMutex>;

const RUNS: u64 = 32;
const STEPS: u64 = 10_000;
const LINES: &str = include_str!("golden.txt");

/// Numbers that differ, whatever the seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        xxh3_64(&self.0.to_le_bytes())
    }
}

/// A run: its number, how often the engine called its machine, and digests of these calls and of
/// all counters.
fn line(run: u64) -> String {
    let mut numbers = Numbers(run << 32);
    let swap = [0, 20, 1000, 1000][run as usize % 4];
    let arena = if run % 8 == 7 { 6 } else { ARENA_PAGES };
    let mut world = World::new(swap, arena);
    world.mm.machine().copies.set(run % 5 == 4);
    world.set_fail_rate(run, [0, 0, 10, 200][run as usize / 4 % 4]);
    for _ in 0..STEPS {
        let [op, page, len, seed] = [(); 4].map(|()| numbers.next());
        world.step((op % u64::from(OPS)) as u8, page % PAGES, 1 + len % 23, seed);
    }
    world.finish();
    let ledger = &world.mm.machine().ledger;
    let (calls, digest, counters) = (ledger.calls(), ledger.digest(), counters(world.mm.stat()));
    format!("{run} {calls} {digest:016x} {counters:016x}")
}

fn counters(stat: Vmstat) -> u64 {
    let items = Item::ALL.iter().map(|item| stat.get(*item));
    let orders = (1..=MAX_ORDER).flat_map(|order| OrderItem::ALL.map(|item| stat.folios(item, order)));
    let histograms = stat.histograms().into_iter().flatten();
    let bytes: Vec<u8> = items
        .chain(orders)
        .chain(histograms)
        .flat_map(u64::to_le_bytes)
        .collect();
    xxh3_64(&bytes)
}

#[test]
#[cfg_attr(miri, ignore = "its world is smaller, and it has no time for this")]
fn the_engine_decides_as_it_did() {
    let half = |odd| move || (odd..RUNS).step_by(2).map(line).collect::<Vec<_>>();
    let (even, odd) = (std::thread::spawn(half(0)), std::thread::spawn(half(1)));
    let (even, odd) = (even.join().expect("even runs"), odd.join().expect("odd runs"));
    let found: Vec<String> = even.into_iter().zip(odd).flat_map(<[String; 2]>::from).collect();
    if std::env::var_os("UZSWAP_GOLDEN").is_some_and(|what| what == "write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sim/golden.txt");
        let mut file = std::fs::File::create(path).expect("golden.txt");
        found.iter().for_each(|line| writeln!(file, "{line}").expect("a line"));
        return;
    }
    let differ: Vec<&String> = found
        .iter()
        .filter(|line| !LINES.lines().any(|old| old == *line))
        .collect();
    assert!(differ.is_empty(), "{} of {RUNS} runs differ: {differ:#?}", differ.len());
}

#[test]
fn a_run_reaches_every_way_of_a_page() {
    let mut world = World::new(1000, ARENA_PAGES);
    let mut numbers = Numbers(3 << 32);
    for _ in 0..if cfg!(miri) { 50 } else { STEPS } {
        let [op, page, len, seed] = [(); 4].map(|()| numbers.next());
        world.step((op % u64::from(OPS)) as u8, page % PAGES, 1 + len % 23, seed);
    }
    let ways = [
        Item::ZswpOut,
        Item::ZswpIn,
        Item::SwpOutClean,
        Item::ZswpWb,
        Item::PswpIn,
        Item::PswpOut,
        Item::SwapRa,
        Item::RestoreAnon,
        Item::PagesCompacted,
        Item::Recompressed,
    ];
    let missing: Vec<Item> = ways.into_iter().filter(|way| world.mm.stat().get(*way) == 0).collect();
    assert!(cfg!(miri) || missing.is_empty(), "never: {missing:?}");
}
