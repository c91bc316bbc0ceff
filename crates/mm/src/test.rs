//! The engine against a plain copy of the program's memory, in a simulated machine with limits so small that
//! everything is on its way somewhere all the time.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::machine::Machine;
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::sim::{SimMachine, VecArena};
use uzswap_acomp::{Algorithm, Compressor};

use crate::vmstat::Item;
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Change, Config, Effort, Fault, Idle, Mm, SwapOut, Worker};

type Engine = Mm<parking_lot::RawMutex, SimMachine>;

const BASE: u64 = 0x5555_0000;
const PAGES: u64 = 96;

fn config(swap_pages: u64) -> Config {
    Config {
        folio_order_max: 4,
        page_cluster: 3,
        store_batch: 8,
        staging_slots: 64,
        staged_target: 16,
        swap_pages,
        writes_plain: swap_pages == 20,
        pool: PoolKind {
            zpool: ZpoolType::Zsmalloc,
            compressor: Algorithm::Lz4 { acceleration: 1 }.into(),
        },
    }
}

struct World {
    mm: Engine,
    worker: Worker<SimMachine>,
    shadow: BTreeMap<Vpn, Vec<u8>>,
}

/// Contents of kind `seed % 4`: zeros, text or one word over and over, half noise, noise.
fn contents(seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut noise = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    match seed % 4 {
        0 => vec![0; PAGE_SIZE],
        1 if (seed / 4).is_multiple_of(3) => vec![seed as u8; PAGE_SIZE],
        1 => (0..PAGE_SIZE).map(|i| (i as u64 % 61 + seed % 7) as u8).collect(),
        2 => (0..PAGE_SIZE).map(|i| if i % 2 == 0 { noise() } else { 7 }).collect(),
        _ => (0..PAGE_SIZE).map(|_| noise()).collect(),
    }
}

impl World {
    fn new(swap_pages: u64) -> Self {
        let config = config(swap_pages);
        let mm = Engine::new(SimMachine::default(), VecArena::new(2048), config, SimMachine::vmstat());
        mm.manage(PageRange::new(Vpn::new(BASE), PAGES));
        Self {
            worker: Worker::new(&config, mm.machine()),
            mm,
            shadow: BTreeMap::new(),
        }
    }

    /// What a program's access does: fault until the page is there.
    fn touch(&mut self, vpn: Vpn) {
        for _ in 0..8 {
            if self.mm.machine().read(vpn).is_some() {
                return;
            }
            assert_ne!(self.mm.fault(&mut self.worker, vpn), Fault::Lost);
        }
        panic!("{vpn:?} faults for ever");
    }

    fn check(&mut self, vpn: Vpn) {
        self.touch(vpn);
        let seen = self.mm.machine().read(vpn).unwrap();
        match self.shadow.get(&vpn) {
            Some(expected) => assert!(seen[..] == expected[..], "{vpn:?} reads back different"),
            None => assert!(seen.iter().all(|b| *b == 0), "{vpn:?} should read as zeros"),
        }
    }

    fn write(&mut self, vpn: Vpn, seed: u64) {
        self.touch(vpn);
        self.mm
            .machine()
            .pages
            .borrow_mut()
            .get_mut(&vpn)
            .unwrap()
            .copy_from_slice(&contents(seed));
        self.shadow.insert(vpn, contents(seed));
    }

    fn remove(&mut self, range: PageRange) {
        self.mm.change(Change::Remove(range));
        self.mm
            .machine()
            .pages
            .borrow_mut()
            .retain(|vpn, _| !range.contains(*vpn));
        self.shadow.retain(|vpn, _| !range.contains(*vpn));
    }

    /// mremap to another place and back to the front: the second half swaps places with the first.
    fn remap(&mut self, from: PageRange, to: Vpn) {
        let key = |vpn: Vpn| to.add(vpn.number() - from.start.number());
        let mut pages = self.mm.machine().pages.borrow_mut();
        let target = PageRange::new(to, from.pages());
        pages.retain(|vpn, _| !target.contains(*vpn));
        let moved: Vec<_> = pages.keys().copied().filter(|vpn| from.contains(*vpn)).collect();
        for vpn in moved {
            let page = pages.remove(&vpn).unwrap();
            pages.insert(key(vpn), page);
        }
        drop(pages);
        self.shadow.retain(|vpn, _| !target.contains(*vpn));
        let moved: Vec<_> = self.shadow.keys().copied().filter(|vpn| from.contains(*vpn)).collect();
        for vpn in moved {
            let page = self.shadow.remove(&vpn).unwrap();
            self.shadow.insert(key(vpn), page);
        }
        self.mm.change(Change::Unmap(target));
        self.mm.change(Change::Remap { from, to });
        self.mm.change(Change::Unmap(from));
        self.mm.manage(from);
    }

    fn step(&mut self, op: u8, page: u64, len: u64, seed: u64) {
        let vpn = Vpn::new(BASE + page);
        let half = PAGES / 2;
        let len = len.min(PAGES - page);
        match op {
            0..=3 => self.write(vpn, seed),
            4..=6 => self.check(vpn),
            7 => self.remove(PageRange::new(vpn, len)),
            8 => drop(self.mm.shrink(
                &mut self.worker,
                16,
                [Effort::Background, Effort::Requested, Effort::Urgent][seed as usize % 3],
            )),
            9 => drop(self.mm.writeback(&mut self.worker, 8)),
            10 => self.remap(
                PageRange::new(Vpn::new(BASE + page % half), len.min(half - page % half)),
                Vpn::new(BASE + half),
            ),
            11 => self.mm.machine().disk_fails.set(seed.is_multiple_of(2)),
            12 => {
                self.mm.machine().pinned.borrow_mut().insert(vpn);
            }
            13 => {
                self.mm.machine().pinned.borrow_mut().clear();
                self.mm.machine().boundary.set(seed.is_multiple_of(2).then_some(vpn));
            }
            14 => {
                if self.mm.is_frozen() {
                    self.mm.thaw();
                } else {
                    let pin = self.mm.freeze();
                    self.mm.unpin(pin);
                }
            }
            15 => self.mm.set_pool_limit(seed % 12, seed % 10),
            16 => drop(self.mm.compact(seed % 4)),
            17 => self.mm.set_swap_out(SwapOut::from_word(seed % 3)),
            18 if seed.is_multiple_of(2) => self.mm.set_shrinker(seed.is_multiple_of(4)),
            18 => self.mm.set_enabled(!seed.is_multiple_of(5)),
            19 => self.mm.discard_swap(),
            20 => {
                self.mm.tick();
                let algorithm = Algorithm::Zstd { level: 3 };
                let since_ns = self.mm.machine().now_ns();
                while self.mm.recompress(&mut self.worker, Idle { algorithm, since_ns }) > 0 {}
            }
            _ => drop(self.mm.set_pool(PoolKind {
                zpool: ZpoolType::from_word(seed % 3),
                compressor: Compressor {
                    algorithm: [
                        Algorithm::Lz4 { acceleration: 1 },
                        Algorithm::Zstd { level: 1 },
                        Algorithm::Deflate { level: 1 },
                    ][seed as usize / 3 % 3],
                    is_parallel: seed.is_multiple_of(2),
                },
            })),
        }
    }

    fn check_all(&mut self) {
        for page in 0..PAGES {
            self.check(Vpn::new(BASE + page));
        }
        let gauges = self.mm.gauges();
        assert_eq!(gauges.staged, self.mm.machine().staged_frames() as u64);
        // Pages that were mapped while their range was not managed (a remap during a freeze) have no word.
        assert!(gauges.resident <= self.mm.machine().pages.borrow().len() as u64);
        assert_eq!(
            (gauges.stored, gauges.pool, gauges.swapped),
            (0, 0, 0),
            "all of it was loaded again"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 400 }, ..ProptestConfig::default() })]
    #[test]
    fn every_page_reads_back_what_was_written(
        swap in prop_oneof![Just(0u64), Just(20), Just(1000)],
        ops in proptest::collection::vec((0..22u8, 0..PAGES, 1..24u64, any::<u64>()), 1..300),
    ) {
        let mut world = World::new(swap);
        for (op, page, len, seed) in ops {
            world.step(op, page, len, seed);
        }
        world.mm.thaw();
        world.mm.machine().pinned.borrow_mut().clear();
        world.check_all();
    }
}

#[test]
fn the_path_of_a_page_through_every_state() {
    let mut world = World::new(1000);
    for page in 0..PAGES {
        world.write(Vpn::new(BASE + page), page * 4 + page % 4);
    }
    while world.mm.shrink(&mut world.worker, 32, Effort::Urgent).reclaimed > 0 {}
    let gauges = world.mm.gauges();
    assert_eq!(gauges.resident + gauges.staged, 0, "everything was stored");
    let stat = world.mm.stat();
    assert_eq!(
        stat.get(Item::ZswpOut) + stat.get(Item::SwpOutZero) + stat.get(Item::SameFilled),
        PAGES
    );
    assert!(stat.get(Item::SameFilled) > 0);
    assert!(
        stat.get(Item::ZswpWb) > 0,
        "reclaim without anything else to take writes back"
    );
    world.check_all();
    assert_eq!(stat.get(Item::RefaultAnon), PAGES);
}

#[test]
fn a_second_chance_costs_no_compression() {
    let mut world = World::new(0);
    for page in 0..16 {
        world.write(Vpn::new(BASE + page), 5);
    }
    world.mm.shrink(&mut world.worker, 16, Effort::Background);
    assert_eq!(world.mm.gauges().staged, 16);
    world.check(Vpn::new(BASE + 3));
    let stat = world.mm.stat();
    assert_eq!((stat.get(Item::RestoreAnon), stat.get(Item::ZswpOut)), (1, 0));
}

#[test]
fn a_full_disk_loses_nothing() {
    let mut world = World::new(1000);
    world.mm.machine().disk_fails.set(true);
    world.mm.set_pool_limit(2, 2);
    for page in 0..PAGES {
        world.write(Vpn::new(BASE + page), page * 4 + 3);
        world.mm.shrink(&mut world.worker, 16, Effort::Urgent);
    }
    assert!(world.mm.stat().get(Item::RejectReclaimFail) > 0);
    world.check_all();
}

#[test]
fn a_child_starts_from_the_frozen_state() {
    let mut world = World::new(1000);
    for page in 0..32 {
        world.write(Vpn::new(BASE + page), page * 4 + 1 + page % 2);
    }
    while world.mm.shrink(&mut world.worker, 32, Effort::Urgent).reclaimed > 0 {}
    let pin = world.mm.freeze();
    world.check(Vpn::new(BASE + 1));
    world.remove(PageRange::new(Vpn::new(BASE + 2), 1));
    world.mm.with_changes(|changes| changes.mark_fork());
    world.remove(PageRange::new(Vpn::new(BASE + 3), 1));
    let mut before = Vec::new();
    world.mm.changes_before_fork(|change| before.push(change));
    assert_eq!(before, [Change::Remove(PageRange::new(Vpn::new(BASE + 2), 1))]);
    for (page, seed) in [(0u64, 0u64), (3, 3)] {
        let mut seen = Vec::new();
        let keep = |bytes: Option<&[u8]>| seen = bytes.unwrap().to_vec();
        world
            .mm
            .fault_of_child(&mut world.worker, Vpn::new(BASE + page), &before, keep);
        assert_eq!(seen, contents(seed * 4 + 1 + seed % 2), "page {page} of the child");
    }
    let mut dropped = Vec::new();
    let keep = |bytes: Option<&[u8]>| dropped = bytes.unwrap().to_vec();
    world
        .mm
        .fault_of_child(&mut world.worker, Vpn::new(BASE + 2), &before, keep);
    assert!(dropped.iter().all(|b| *b == 0), "dropped before the fork");
    world.mm.thaw();
    world.mm.unpin(pin);
    world.check_all();
}

#[test]
fn machine_contract_is_met_by_the_simulation() {
    let machine = SimMachine::default();
    let vpn = Vpn::new(BASE);
    assert_eq!(machine.copy_in(vpn, &[7; PAGE_SIZE], true).pages, 1);
    assert_eq!(
        machine.copy_in(vpn, &[8; PAGE_SIZE], true).stop,
        Some(crate::machine::Stop::Present)
    );
    assert_eq!(
        machine.move_out(vpn, 4, 2),
        crate::machine::Done {
            pages: 1,
            stop: Some(crate::machine::Stop::Missing)
        }
    );
    assert_eq!(machine.move_in(4, vpn, 1).pages, 1);
    assert_eq!(machine.read(vpn).unwrap()[0], 7);
}
