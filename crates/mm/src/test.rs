//! The engine against a plain copy of the program's memory.

mod dictionary;

use alloc::vec::Vec;

use proptest::prelude::*;
use uzswap_acomp::Algorithm;

use crate::machine::{Clock, Mapper};
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::sim::{ARENA_PAGES, BASE, OPS, PAGES, SimMachine, contents};
use crate::vmstat::{Item, OrderItem};
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Change, Effort};

type World = crate::sim::World<parking_lot::RawMutex>;

/// So many cases of a property; Miri takes a thousand times longer.
pub fn config(cases: u32, under_miri: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if cfg!(miri) { under_miri } else { cases })
}

type Op = (u8, u64, u64, u64);

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let max = if cfg!(miri) { 30 } else { 300 };
    proptest::collection::vec((0..OPS, 0..PAGES, 1..24u64, any::<u64>()), 1..max)
}

fn swap_pages() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(20), Just(1000)]
}

/// All of `ops` while of 1000 steps of the machine `per_mille` fail.
fn run(swap: u64, arena: usize, ops: Vec<Op>, per_mille: u64) {
    run_on(World::new(swap, arena), ops, per_mille);
}

fn run_on(mut world: World, ops: Vec<Op>, per_mille: u64) {
    world.set_fail_rate(ops.len() as u64, per_mille);
    for (op, page, len, seed) in ops {
        world.step(op, page, len, seed);
    }
    world.finish();
}

proptest! {
    #![proptest_config(config(400, 3))]
    #[test]
    fn every_page_reads_back_what_was_written(swap in swap_pages(), ops in ops()) {
        run(swap, ARENA_PAGES, ops, 0);
    }
}

proptest! {
    #![proptest_config(config(200, 2))]
    #[test]
    fn every_page_reads_back_where_pages_cannot_move(swap in swap_pages(), ops in ops(), per_mille in 0..20u64) {
        let world = World::new(swap, ARENA_PAGES);
        world.mm.machine().copies.set(true);
        run_on(world, ops, per_mille);
    }
}

proptest! {
    #![proptest_config(config(300, 3))]
    #[test]
    fn every_page_reads_back_when_every_hundredth_step_fails(
        swap in swap_pages(),
        // Of a few pages, a pool is full most of the time.
        arena in prop_oneof![Just(6), Just(ARENA_PAGES)],
        ops in ops(),
    ) {
        run(swap, arena, ops, 10);
    }

    #[test]
    fn every_page_reads_back_when_every_fifth_step_fails(
        swap in swap_pages(),
        arena in prop_oneof![Just(6), Just(ARENA_PAGES)],
        ops in ops(),
    ) {
        run(swap, arena, ops, 200);
    }
}

/// Every kind of step, with all pages on their way somewhere between.
fn a_life(world: &mut World) {
    for page in 0..PAGES {
        world.write(Vpn::new(BASE + page), page * 7);
    }
    for effort in [Effort::Background, Effort::Requested, Effort::Urgent] {
        for _ in 0..3 {
            world.mm.shrink(&mut world.worker, 24, effort);
        }
        world.check(Vpn::new(BASE + 7));
    }
    world.mm.writeback(&mut world.worker, 12);
    for (i, op) in [8, 19, 8, 10, 9, 16, 14, 4, 7, 14, 15, 8, 8, 18, 15]
        .into_iter()
        .enumerate()
    {
        let i = i as u64;
        world.step(op, i * 5 % PAGES, 9, i * 11);
        world.check(Vpn::new(BASE + i * 13 % PAGES));
    }
    world.mm.set_pool_limit(0, 0);
    for round in 0..5 {
        world.mm.shrink(&mut world.worker, 32, Effort::Urgent);
        for page in (round..PAGES).step_by(9) {
            world.write(Vpn::new(BASE + page), page * 5 + round);
        }
    }
}

#[test]
fn any_one_step_may_fail() {
    let mut world = World::new(1000, ARENA_PAGES);
    a_life(&mut world);
    let steps = world.mm.machine().fail.calls();
    world.finish();
    assert!(cfg!(miri) || steps >= 200, "only {steps} steps");
    // Each twice, to be stopped in two ways. Miri has time for one of them all.
    let all = (1..=steps).flat_map(|n| [(n, n), (n, n + 1_000_000)]);
    let (skip, step) = if cfg!(miri) {
        (steps as usize, 2 * steps as usize)
    } else {
        (0, 1)
    };
    for (n, seed) in all.skip(skip).step_by(step) {
        let mut world = World::new(1000, ARENA_PAGES);
        world.mm.machine().fail.fail_nth(seed, n);
        a_life(&mut world);
        world.finish();
    }
}

#[test]
fn the_path_of_a_page_through_every_state() {
    let mut world = World::new(1000, ARENA_PAGES);
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
#[cfg_attr(miri, ignore = "one round of reclaim takes as many pages as there are")]
fn a_stored_page_is_its_own_shadow() {
    let mut world = World::new(0, ARENA_PAGES);
    for page in 0..PAGES {
        world.write(Vpn::new(BASE + page), page * 4 + 2);
    }
    let working_set = |world: &World| world.mm.stat().get(Item::ActivateAnon);
    assert!(world.mm.shrink(&mut world.worker, 32, Effort::Requested).reclaimed < PAGES / 2);
    world.check(Vpn::new(BASE));
    assert_eq!(
        working_set(&world),
        1,
        "fewer pages were stored since than are resident"
    );
    while world.mm.shrink(&mut world.worker, 32, Effort::Urgent).reclaimed > 0 {}
    world.check(Vpn::new(BASE));
    assert_eq!(working_set(&world), 1, "nothing is resident");
}

#[test]
fn who_has_nothing_resident_has_no_oldest_pages() {
    let mut world = World::new(0, ARENA_PAGES);
    assert_eq!(world.mm.oldest(), None);
    world.mm.tick();
    let began = world.mm.machine().now_ns();
    world.write(Vpn::new(BASE), 5);
    world.mm.tick();
    world.write(Vpn::new(BASE + 1), 5);
    assert!(world.mm.oldest().is_some_and(|oldest| oldest >= began));
    while world.mm.shrink(&mut world.worker, 32, Effort::Urgent).reclaimed > 0 {}
    assert_eq!(world.mm.oldest(), None);
}

#[test]
fn a_second_chance_costs_no_compression() {
    let mut world = World::new(0, ARENA_PAGES);
    for page in 0..16 {
        world.write(Vpn::new(BASE + page), 5);
    }
    world.mm.shrink(&mut world.worker, 16, Effort::Background);
    assert_eq!(world.mm.gauges().staged, 16);
    world.check(Vpn::new(BASE + 3));
    let stat = world.mm.stat();
    assert_eq!((stat.get(Item::RestoreAnon), stat.get(Item::ZswpOut)), (1, 0));
}

/// Two blocks may have the same handle, as the first ones of two size classes do: the one that is
/// kept is freed all the same.
#[test]
#[cfg_attr(miri, ignore = "C")]
fn the_block_that_is_kept_for_a_page_goes_when_another_takes_its_handle() {
    let mut world = World::new(0, ARENA_PAGES);
    let vpn = Vpn::new(BASE);
    let (half_noise, text) = (2, 5);
    world.write(vpn, half_noise);
    world.mm.shrink(&mut world.worker, 16, Effort::Urgent);
    world.mm.forked();
    world.check(vpn);
    assert_eq!(world.mm.gauges().cached, 1, "a relative has its block");
    world.write(vpn, text);
    world.mm.shrink(&mut world.worker, 16, Effort::Urgent);
    let gauges = world.mm.gauges();
    assert_eq!((gauges.stored, gauges.cached, gauges.resident), (1, 0, 0));
    world.check_all();
}

#[test]
#[cfg_attr(miri, ignore = "C")]
fn a_block_that_a_relative_has_too_is_kept_whatever_pages_are_stored_as_now() {
    let mut world = World::new(0, ARENA_PAGES);
    let vpn = Vpn::new(BASE);
    world.write(vpn, 5);
    world.mm.shrink(&mut world.worker, 16, Effort::Urgent);
    world.mm.forked();
    let zstd = Algorithm::Zstd { level: 1 }.into();
    world.mm.set_pool(PoolKind {
        zpool: ZpoolType::Zsmalloc,
        compressor: zstd,
    });
    world.check(vpn);
    assert_eq!(world.mm.gauges().cached, 1);
    world.mm.shrink(&mut world.worker, 16, Effort::Urgent);
    assert_eq!(world.mm.stat().get(Item::SwpOutClean), 1);
    world.check_all();
}

/// The first 16 pages, half noise, as one folio on the list.
fn one_folio(world: &mut World) {
    let range = PageRange::new(Vpn::new(BASE), 16);
    range.iter().zip(0..).for_each(|(vpn, i)| world.write(vpn, i * 4 + 2));
    world.mm.change(Change::Remove(range));
    world.mm.with_changes(|changes| changes.manage(range, &[range], false));
}

#[test]
fn a_folio_is_stored_whole() {
    let mut world = World::new(0, ARENA_PAGES);
    one_folio(&mut world);
    world.mm.shrink(&mut world.worker, 16, Effort::Requested);
    let stat = world.mm.stat();
    assert_eq!((stat.folios(OrderItem::ZswpOut, 4), stat.get(Item::ZswpOut)), (1, 16));
    assert_eq!(world.mm.gauges().staged, 0);
    world.check_all();
}

/// The pool has room for some of its pages: none stays there, and later they are tried one by one.
#[test]
fn a_folio_that_does_not_fit_is_unwound() {
    // One zspage.
    let mut world = World::new(0, 8);
    one_folio(&mut world);
    world.mm.shrink(&mut world.worker, 16, Effort::Requested);
    let stat = world.mm.stat();
    assert_eq!(stat.folios(OrderItem::SwpOutFallback, 4), 1);
    let gauges = world.mm.gauges();
    assert_eq!((gauges.stored, gauges.staged, stat.get(Item::ZswpOut)), (0, 16, 0));
    world.mm.shrink(&mut world.worker, 16, Effort::Requested);
    assert!((1..16).contains(&world.mm.gauges().stored));
    assert_eq!(stat.folios(OrderItem::ZswpOut, 4), 0);
    world.check_all();
}

#[test]
fn slots_of_runs_that_were_taken_back_are_found_again() {
    let mut world = World::new(1000, ARENA_PAGES);
    for page in (0..PAGES).step_by(4) {
        let vpn = Vpn::new(BASE + page);
        world.write(vpn, 5);
        assert_eq!(world.mm.isolate_range(PageRange::new(vpn, 1)), 1, "page {page}");
        world.check(vpn);
    }
    assert_eq!(world.mm.gauges().staged, 0);
    // The oldest run has nothing to store: the round goes on to the one that it isolated.
    assert!(world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0);
}

#[test]
fn a_full_disk_loses_nothing() {
    let mut world = World::new(1000, ARENA_PAGES);
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
    let mut world = World::new(1000, ARENA_PAGES);
    for page in 0..32 {
        world.write(Vpn::new(BASE + page), page * 4 + 1 + page % 2);
    }
    while world.mm.shrink(&mut world.worker, 32, Effort::Urgent).reclaimed > 0 {}
    let pin = world.mm.freeze();
    world.check(Vpn::new(BASE + 1));
    world.remove(PageRange::new(Vpn::new(BASE + 2), 1));
    let before = world.mm.with_changes(|changes| changes.logged());
    world.remove(PageRange::new(Vpn::new(BASE + 3), 1));
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

#[test]
fn what_does_not_compress_without_a_device_is_passed_by() {
    let mut world = World::new(0, ARENA_PAGES);
    let noise = |page: &u64| page.is_multiple_of(2);
    for page in 0..PAGES {
        // Noise, or the same line over and over.
        world.write(Vpn::new(BASE + page), page * 8 + if noise(&page) { 3 } else { 5 });
    }
    let shrink = |world: &mut World| world.mm.shrink(&mut world.worker, 8, Effort::Urgent).reclaimed;
    while shrink(&mut world) > 0 {}
    let refused = |world: &World| world.mm.stat().get(Item::RejectCompressPoor);
    let once = refused(&world);
    assert!(once >= PAGES / 2, "{once}");
    for page in (0..PAGES).filter(|page| !noise(page)).cycle().take(100) {
        world.check(Vpn::new(BASE + page));
        assert!(shrink(&mut world) > 0 || world.mm.gauges().staged > 0);
    }
    // One in so many of those that leave, and all of them when nothing else was left.
    let again = refused(&world) - once;
    assert!(again < 4 * PAGES, "{again}");
}

#[test]
fn what_must_stay_is_passed_by() {
    for swap_pages in [0, 4 * PAGES] {
        let mut world = World::new(swap_pages, ARENA_PAGES);
        let stays = |page: &u64| page.is_multiple_of(2);
        let pages = || (0..PAGES).map(|page| Vpn::new(BASE + page));
        for page in pages() {
            world.write(page, page.number() * 8 + 5);
        }
        let needed = pages().filter(|page| stays(&page.number()));
        world.mm.machine().needed.borrow_mut().extend(needed);
        let shrink = |world: &mut World| world.mm.shrink(&mut world.worker, 8, Effort::Urgent).reclaimed;
        while shrink(&mut world) > 0 {}
        let passed = |world: &World| world.mm.stat().get(Item::ReclaimNeeded);
        let once = passed(&world);
        for page in pages().filter(|page| !stays(&page.number())).cycle().take(100) {
            world.check(page);
            assert!(shrink(&mut world) > 0 || world.mm.gauges().staged > 0);
        }
        let again = passed(&world) - once;
        assert!(again < 8 * PAGES, "{again} with {swap_pages} pages of swap");
        // Once it need not, it leaves like any other.
        world.mm.machine().needed.borrow_mut().clear();
        while shrink(&mut world) > 0 {}
        assert_eq!(world.mm.gauges().resident, 0);
        world.check_all();
    }
}

#[test]
#[cfg_attr(miri, ignore = "too few pages say how they compress")]
fn what_a_relative_has_too_goes_where_all_pools_have_less_than_it() {
    // How it compresses, relatives, and whether it goes to the device.
    for (contents, relatives, goes) in [(3, 1, true), (5, 1, false), (3, 0, false), (5, 2, true)] {
        let mut world = World::new(4 * PAGES, ARENA_PAGES);
        for page in 0..PAGES {
            world.write(Vpn::new(BASE + page), page * 8 + contents);
        }
        world.mm.shrink(&mut world.worker, PAGES as u32 / 4 * 3, Effort::Urgent);
        world.mm.store_staged_beyond(&mut world.worker, 0);
        assert!(world.mm.gauges().stored > 0);
        world.mm.set_relatives(relatives);
        let written = world.mm.stat().get(Item::PswpOut);
        assert!(world.mm.isolate_range(PageRange::new(Vpn::new(BASE), PAGES)) > 0);
        world.mm.store_staged_beyond(&mut world.worker, 0);
        let went = world.mm.stat().get(Item::PswpOut) > written;
        assert_eq!(went, goes, "{contents} {relatives}");
        world.check_all();
    }
}

/// A world of which everything is stored, and four ranges of it.
fn all_stored() -> (World, [PageRange; 4]) {
    let mut world = World::new(0, ARENA_PAGES);
    for page in 0..PAGES {
        world.write(Vpn::new(BASE + page), page * 8 + 5);
    }
    while world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0 {}
    (
        world,
        [0, 1, 2, 3].map(|i| PageRange::new(Vpn::new(BASE + i * PAGES / 4), 8)),
    )
}

fn unmap(world: &mut World, range: PageRange) {
    world.forget(range);
    world.mm.change(Change::Unmap(range));
}

#[test]
fn what_has_landed_and_is_moved_on_is_not_taken_for_what_was_there_before() {
    let (mut world, [x, y, v, _]) = all_stored();
    unmap(&mut world, v);
    // One thread unmaps X, which is reported last; another moves Y there, and on to V.
    world.forget(x);
    world.carry(y, x.start);
    world.mm.change(Change::Remap { from: y, to: x.start });
    world.mm.change(Change::Unmap(y));
    world.carry(x, v.start);
    world.mm.machine().unmapped.borrow_mut().extend(x.iter());
    world.mm.change(Change::Remap { from: x, to: v.start });
    world.mm.change(Change::Unmap(x));
    world.mm.change(Change::Unmap(x));
    v.iter().for_each(|vpn| world.check(vpn));
}

#[test]
fn a_move_that_leaves_its_mapping_behind_is_followed_by_no_unmap() {
    let (mut world, [x, y, z, u]) = all_stored();
    unmap(&mut world, z);
    unmap(&mut world, u);
    world.mm.machine().keeps_mapping.set(true);
    world.carry(x, z.start);
    world.mm.change(Change::Remap { from: x, to: z.start });
    world.mm.machine().keeps_mapping.set(false);
    for (from, to) in [(x, u), (y, x)] {
        world.carry(from, to.start);
        world.mm.change(Change::Remap { from, to: to.start });
        world.mm.change(Change::Unmap(from));
    }
    x.iter().for_each(|vpn| world.check(vpn));
    unmap(&mut world, x);
    assert!(world.mm.managed().iter().all(|range| !range.contains(x.start)));
}
