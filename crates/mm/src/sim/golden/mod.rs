//! Golden runs: what the engine decides in thousands of steps, as one line a run. A change that is
//! not to change any decision leaves all lines as they are; one that is has to write them anew
//! (`UZSWAP_GOLDEN=write`), in a commit of its own.

use std::boxed::Box;
use std::format;
use std::io::Write;
use std::string::String;
use std::vec::Vec;

use xxhash_rust::xxh3::xxh3_64;

use lives::LIVES;
use program::{PROGRAMS, program};

use super::{ARENA_PAGES, OPS, PAGES};
use crate::page::MAX_ORDER;
use crate::vmstat::{Item, OrderItem, Vmstat};
use crate::{Replacement, Tunables};

mod lives;
mod program;

type World = super::World<parking_lot::RawMutex>;

const RUNS: u64 = 32;
const STEPS: u64 = 10_000;
const TUNABLES: &Tunables = &Tunables::DEFAULT;
const LINES: &str = include_str!("golden.txt");

/// Numbers that differ, whatever the seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        xxh3_64(&self.0.to_le_bytes())
    }
}

/// The steps of a run.
fn play(world: &mut World, run: u64) {
    let mut numbers = Numbers(run << 32);
    for _ in 0..if cfg!(miri) { 50 } else { STEPS } {
        let [op, page, len, seed] = [(); 4].map(|()| numbers.next());
        world.step((op % u64::from(OPS)) as u8, page % PAGES, 1 + len % 23, seed);
    }
}

/// A run: its number, how often the engine called its machine, and digests of these calls and of
/// all counters.
fn line(run: u64, tunables: &'static Tunables) -> String {
    let swap = [0, 20, 1000, 1000][run as usize % 4];
    let arena = if run % 8 == 7 { 6 } else { ARENA_PAGES };
    let mut world = World::tuned(swap, arena, tunables);
    world.mm.machine().copies.set(run % 5 == 4);
    world.set_fail_rate(run, [0, 0, 10, 200][run as usize / 4 % 4]);
    play(&mut world, run);
    world.finish();
    let ledger = &world.mm.machine().ledger;
    let (calls, digest, counters) = (ledger.calls(), ledger.digest(), counters(world.mm.stat()));
    format!("{run} {calls} {digest:016x} {counters:016x}")
}

/// Of those that are not 0, so that one that is new changes no line.
fn counters(stat: Vmstat) -> u64 {
    let items = Item::ALL.iter().map(|item| (item.name(), stat.get(*item)));
    let items: Vec<u8> = items
        .filter(|(_, count)| *count > 0)
        .flat_map(|(name, count)| [name.as_bytes(), &count.to_le_bytes()].concat())
        .collect();
    let orders = (1..=MAX_ORDER).flat_map(|order| OrderItem::ALL.map(|item| stat.folios(item, order)));
    let histograms = stat.histograms().into_iter().flatten();
    let others = orders.chain(histograms).flat_map(u64::to_le_bytes);
    xxh3_64(&items.into_iter().chain(others).collect::<Vec<u8>>())
}

/// How many runs there are of all kinds.
const ALL: usize = RUNS as usize + PROGRAMS as usize + LIVES.len();

/// One of them.
fn nth(n: usize, tunables: &'static Tunables) -> String {
    const PROGRAMS_FROM: usize = RUNS as usize;
    const LIVES_FROM: usize = PROGRAMS_FROM + PROGRAMS as usize;
    match n {
        ..PROGRAMS_FROM => line(n as u64, tunables),
        PROGRAMS_FROM..LIVES_FROM => program((n - PROGRAMS_FROM) as u64, tunables),
        _ => LIVES[n - LIVES_FROM](tunables),
    }
}

#[test]
#[cfg_attr(miri, ignore = "its world is smaller, and it has no time for this")]
fn the_engine_decides_as_it_did() {
    let some = |odd| move || (odd..ALL).step_by(2).map(|n| (n, nth(n, TUNABLES))).collect::<Vec<_>>();
    let threads = [0, 1].map(|odd| std::thread::spawn(some(odd)));
    let mut found: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("its runs"))
        .collect();
    found.sort_unstable();
    let found: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
    if std::env::var_os("UZSWAP_GOLDEN").is_some_and(|what| what == "write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sim/golden/golden.txt");
        let mut file = std::fs::File::create(path).expect("golden.txt");
        found.iter().for_each(|line| writeln!(file, "{line}").expect("a line"));
        return;
    }
    let known: Vec<&str> = LINES.lines().collect();
    let differ: Vec<_> = found
        .iter()
        .zip(&known)
        .filter(|(found, known)| found != *known)
        .collect();
    assert!(
        differ.is_empty() && found.len() == known.len(),
        "{} of {} runs differ: {differ:#?}",
        differ.len(),
        known.len()
    );
}

/// Whether some run differs if this tunable is a few times as much.
fn changes_a_run(name: &str, value: f64) -> bool {
    let known: Vec<&str> = LINES.lines().collect();
    [value * 3.0, value * 8.0, (value / 4.0).ceil()]
        .into_iter()
        .any(|other| {
            let mut tunables = Tunables::DEFAULT;
            if other == value || tunables.set(name, other).is_err() {
                return false;
            }
            let tunables: &'static Tunables = Box::leak(Box::new(tunables));
            // The latter are the more particular ones.
            (0..ALL).rev().any(|n| nth(n, tunables) != known[n])
        })
}

/// Those that only say how much is done under one hold of the lock: what is done is the same.
const ONLY_HOLD: [&str; 2] = ["hold.dropped", "hold.compacted"];

#[test]
#[ignore = "plays the runs for each tunable: minutes"]
fn each_tunable_is_seen() {
    let unseen: Vec<_> = TUNABLES
        .iter()
        .filter(|one| !one.is_fixed && !ONLY_HOLD.contains(&one.name))
        .filter(|one| !changes_a_run(one.name, one.value))
        .inspect(|one| std::eprintln!("no run differs with another {}", one.name))
        .map(|one| one.name)
        .collect();
    assert!(unseen.is_empty(), "no run differs with another {unseen:?}");
}

#[test]
fn every_page_reads_back_in_whatever_order_pages_leave() {
    for (run, order) in (0..).zip(&Replacement::ALL[1..]) {
        for (swap, per_mille) in [(0, 10), (1000, 0)] {
            let mut world = World::replacing(swap, ARENA_PAGES, *order);
            world.set_fail_rate(run, per_mille);
            play(&mut world, run);
            world.finish();
        }
    }
}

#[test]
fn a_run_reaches_every_way_of_a_page() {
    let mut world = World::new(1000, ARENA_PAGES);
    play(&mut world, 6);
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
        Item::ZswpOutDense,
    ];
    let missing: Vec<Item> = ways.into_iter().filter(|way| world.mm.stat().get(*way) == 0).collect();
    assert!(cfg!(miri) || missing.is_empty(), "never: {missing:?}");
}
