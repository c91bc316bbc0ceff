//! Golden runs: what the engine decides in thousands of steps, as one line a run. A change that is
//! not to change any decision leaves all lines as they are; one that is has to write them anew
//! (`UZSWAP_GOLDEN=write`), in a commit of its own.

use std::boxed::Box;
use std::format;
use std::io::Write;
use std::string::String;
use std::vec::Vec;

use xxhash_rust::xxh3::xxh3_64;

use uzswap_acomp::Algorithm;

use super::{ARENA_PAGES, BASE, OPS, PAGES, SimMachine, VecArena, contents};
use crate::page::{MAX_ORDER, PageRange, Vpn};
use crate::vmstat::{Item, OrderItem, Vmstat};
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Config, Effort, Fault, Mm, Portions, Tunables, Worker};

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

/// A program of many pages, most of them on the device, that touches them as programs do: hot
/// clusters, sequences, now and then anything. What neighbours are worth, how much of the pool goes
/// to the device and what is read along is decided here, and not among the few pages of a
/// [`World`].
fn program(run: u64, tunables: &'static Tunables) -> String {
    let mut program = Program::new(run, tunables);
    let mut numbers = Numbers(run << 40);
    for touch in 0..TOUCHES {
        let [kind, at] = [(); 2].map(|()| numbers.next());
        let page = match (kind % 100, run % 4) {
            (0..70, 0 | 1) => (at % HOT * 37 % (PROGRAM / 4)) * 4 + kind / 100 % 4,
            (0..70, 2) => touch * 2 / 3 % PROGRAM,
            (0..70, _) => at % (PROGRAM / 8),
            (70..90, _) => (at % 64 * 61 + touch / 8) % PROGRAM,
            _ => at % PROGRAM,
        };
        program.touch(page, kind.is_multiple_of(3));
    }
    let machine = program.mm.machine();
    let (calls, digest) = (machine.ledger.calls(), machine.ledger.digest());
    format!(
        "program {run} {calls} {digest:016x} {:016x}",
        counters(program.mm.stat())
    )
}

const TUNABLES: &Tunables = &Tunables::DEFAULT;
const PROGRAM: u64 = 4096;
/// Of the swap table, with room for those that are locked.
const LEAVES: usize = 1024;
const HOT: u64 = 96;
const TOUCHES: u64 = 15_000;
const PROGRAMS: u64 = 8;
/// Of it, pages that may be resident, and pages of the pool.
const RESIDENT: u64 = 640;
const POOL: u64 = 320;

struct Program {
    mm: Mm<parking_lot::RawMutex, SimMachine>,
    worker: Worker<SimMachine>,
}

impl Program {
    fn new(run: u64, tunables: &'static Tunables) -> Self {
        let machine = SimMachine::default();
        machine.table.set(Some(SimMachine::memory(LEAVES)));
        machine.copies.set(run == 5);
        let config = Config {
            portions: Portions {
                folio_order: run as u32 % 3 * 2,
                give_up: 16,
            },
            page_cluster: 3,
            store_batch: 8,
            staging_slots: 2048,
            staged_target: 64,
            zswap_segment: 64,
            swap_pages: 2 * PROGRAM,
            writes_plain: false,
            pool: PoolKind {
                zpool: ZpoolType::Zsmalloc,
                compressor: Algorithm::Lz4 { acceleration: 1 }.into(),
            },
            tunables,
        };
        let mm = Mm::new(machine, VecArena::new(8 * POOL as usize), config, SimMachine::vmstat());
        mm.manage(PageRange::new(Vpn::new(BASE), PROGRAM));
        mm.set_pool_limit(POOL, POOL * 9 / 10);
        mm.set_shrinker(run % 2 == 1);
        let worker = Worker::new(&config, mm.machine());
        Self { mm, worker }
    }

    fn is_mapped(&self, vpn: Vpn) -> bool {
        self.mm.machine().pages.borrow().contains_key(&vpn)
    }

    fn touch(&mut self, page: u64, writes: bool) {
        let vpn = Vpn::new(BASE + page);
        let is_new = !self.is_mapped(vpn);
        while !self.is_mapped(vpn) {
            assert!(self.mm.fault(&mut self.worker, vpn) != Fault::Lost, "{vpn:?} is lost");
        }
        if writes {
            let is_protected = || self.mm.machine().protected.borrow().contains(&vpn);
            while is_protected() {
                self.mm.write_fault(vpn, false);
            }
            let bytes = contents(4 * page + 2);
            let mut pages = self.mm.machine().pages.borrow_mut();
            pages.get_mut(&vpn).expect("mapped").copy_from_slice(&bytes);
        }
        if is_new {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        self.mm.tick();
        for _ in 0..64 {
            let gauges = self.mm.gauges();
            if gauges.resident + gauges.staged <= RESIDENT {
                return;
            }
            let scan = self.mm.shrink(&mut self.worker, 32, Effort::Background);
            if scan.is_dry {
                self.mm.shrink(&mut self.worker, 32, Effort::Requested);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "its world is smaller, and it has no time for this")]
fn the_engine_decides_as_it_did() {
    let half = |odd| {
        move || {
            let programs = (odd..PROGRAMS).step_by(2).map(|run| program(run, TUNABLES));
            let runs = (odd..RUNS).step_by(2).map(|run| line(run, TUNABLES));
            runs.chain(programs).collect::<Vec<_>>()
        }
    };
    let (even, odd) = (std::thread::spawn(half(0)), std::thread::spawn(half(1)));
    let (even, odd) = (even.join().expect("even runs"), odd.join().expect("odd runs"));
    let found: Vec<String> = even.into_iter().zip(odd).flat_map(<[String; 2]>::from).collect();
    if std::env::var_os("UZSWAP_GOLDEN").is_some_and(|what| what == "write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sim/golden.txt");
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
            let programs = (0..PROGRAMS).map(|run| program(run, tunables));
            let mut runs = programs.chain((0..RUNS).map(|run| line(run, tunables)));
            runs.any(|found| !known.contains(&&*found))
        })
}

#[test]
#[ignore = "plays the runs for each tunable: minutes"]
fn each_tunable_is_seen() {
    let unseen: Vec<_> = TUNABLES
        .iter()
        .filter(|one| !one.is_fixed && !changes_a_run(one.name, one.value))
        .inspect(|one| std::eprintln!("no run differs with another {}", one.name))
        .map(|one| one.name)
        .collect();
    assert!(unseen.is_empty(), "no run differs with another {unseen:?}");
}

#[test]
fn a_run_reaches_every_way_of_a_page() {
    let mut world = World::new(1000, ARENA_PAGES);
    play(&mut world, 3);
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
