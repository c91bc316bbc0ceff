//! The swap table: one [`Word`] a page, in leaves of 16 words (64 KiB of address space).
//!
//! A leaf is taken when the first of its pages gets a word and given back when the last word is
//! NONE again. A tree without detours leads to it (`tree.rs`). A program pays some 9 bytes for each
//! page where they are dense, and 128 to 256 for one that lies alone. Address space costs nothing.
//!
//! # Who may do what
//! Lookups take no lock. Updates take the lock of their 2 MiB, which as many others share as there
//! are, and those that add or remove a leaf take the tree's as well. A word never moves as long as
//! it is not NONE: a leaf that an update found stays, since whoever gives it up holds that lock
//! too. Leaves and nodes are memory that is never unmapped (`mm/swap_table.h` has RCU instead). One
//! that was given back may be anything else by the time that a lookup reads it, so the lookup reads
//! the tree's generation before and after.
//! * Off the tree, then the generation goes up, then it is changed or given back: by whoever has
//!   the tree's lock, as does whoever takes it next.
//! * A lookup that begins after the generation went up (Acquire, Release) does not get there any
//!   more.
//! * One that began before and sees what was written there since (Acquire; all is written with
//!   Release) sees that the generation went up, and starts again. If it sees what was there before,
//!   that was true as it began.
//! * What is added is complete before the one store that links it: there is the old tree or the
//!   new.
//!
//! The engine looks up and publishes under its own lock as well, which orders words against
//! everything else.

pub mod entry;
mod lock;
mod tree;
mod units;

use alloc::boxed::Box;

use crate::page::{PageRange, Vpn};
use atomic::{AtomicU64, Ordering};
use entry::{Slot, Word};
use lock::Lock;
use tree::{Key, Tree};
use units::{UNIT, UNIT_ORDER, Units};

/// The atomics of core, or those of the model checker.
pub mod atomic {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{AtomicU64, Ordering};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

/// Pages of a leaf.
pub const LEAF_PAGES: usize = UNIT;
/// log2 of the pages that share a lock, and of the locks.
const LOCK_ORDER: u32 = if cfg!(loom) { UNIT_ORDER } else { 9 };
const LOCKS_BITS: u32 = if cfg!(loom) { 1 } else { 8 };

/// Memory for leaves and nodes: zeros at first, and where `release` was called.
#[derive(Clone, Copy)]
pub struct TableMemory {
    /// Whole pages.
    pub words: &'static [AtomicU64],
    /// Give the memory of a page back to the system; its words are zeros before and afterwards.
    pub release: fn(&'static [AtomicU64]),
}

impl TableMemory {
    /// Words with room for so many leaves, wherever they are.
    pub const fn words_for(leaves: usize) -> usize {
        // A node for each at most.
        Units::words_of((2 * leaves * UNIT).div_ceil(units::SLAB_WORDS) + 1)
    }
}

/// The table of one address space.
pub struct SwapTable {
    tree: Tree,
    locks: Box<[Lock]>,
}

/// Which leaf has the word of a page, and which of its words it is.
fn place(vpn: Vpn) -> (Key, usize) {
    let number = vpn.number();
    ((number >> UNIT_ORDER) as Key, number as usize % UNIT)
}

/// The first page behind `vpn` that may have a leaf, where the tree has none for so many digits.
fn beyond(vpn: Vpn, digits: u32, end: Vpn) -> Vpn {
    let others = ((UNIT as u64) << (UNIT_ORDER * digits)) - 1;
    Vpn::new(((vpn.number() | others) + 1).min(end.number()))
}

/// Replace a word under its lock. Release: pairs with `lookup`, see above.
fn replace(word: &AtomicU64, bits: u64) -> u64 {
    // Two plain moves, where one locked instruction would wait for the cache line. To the model
    // checker the writer's own load would hide those of others from what it has to reorder (it
    // keeps only the last access).
    #[cfg(loom)]
    return word.swap(bits, Ordering::Release);
    #[cfg(not(loom))]
    {
        let old = word.load(Ordering::Relaxed);
        word.store(bits, Ordering::Release);
        old
    }
}

impl SwapTable {
    /// An empty table.
    pub fn new(memory: TableMemory) -> Self {
        Self {
            tree: Tree::new(memory),
            locks: (0..1 << LOCKS_BITS).map(|_| Lock::new()).collect(),
        }
    }

    /// What updates of a page hold. Spread: threads that go through memory side by side seldom
    /// meet.
    fn lock_of(&self, vpn: Vpn) -> &Lock {
        let spread = (vpn.number() >> LOCK_ORDER).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.locks[(spread >> (64 - LOCKS_BITS)) as usize]
    }

    fn bits(&self, vpn: Vpn) -> Result<u64, u32> {
        let (key, at) = place(vpn);
        let read = |leaf: &[AtomicU64]| leaf.get(at).map_or(0, |word| word.load(Ordering::Acquire));
        self.tree.read(key, read)
    }

    /// The word of a page. Takes no lock.
    pub fn lookup(&self, vpn: Vpn) -> Slot {
        Word::from_bits(self.bits(vpn).unwrap_or(0)).into()
    }

    /// Replace the word of a page and return the old one.
    pub fn publish(&self, vpn: Vpn, slot: Slot) -> Slot {
        let (key, at) = place(vpn);
        let bits = Word::from(slot).to_bits();
        let _guard = self.lock_of(vpn).lock();
        let leaf = match self.tree.read(key, |leaf| leaf) {
            Ok(leaf) => leaf,
            Err(_) if bits == 0 => return Slot::None,
            Err(_) => self.tree.change().insert(key),
        };
        let old = replace(&leaf[at], bits);
        if bits == 0 && leaf.iter().all(|word| word.load(Ordering::Relaxed) == 0) {
            self.tree.change().remove(key);
        }
        Word::from_bits(old).into()
    }

    /// Call `f` for each page of `range` that has a word; it may change the table in between.
    pub fn for_each(&self, range: PageRange, mut f: impl FnMut(&Self, Vpn, Slot)) {
        let mut vpn = range.start;
        while vpn < range.end {
            match self.bits(vpn) {
                Ok(0) => vpn = vpn.add(1),
                Ok(bits) => {
                    f(self, vpn, Word::from_bits(bits).into());
                    vpn = vpn.add(1);
                }
                Err(digits) => vpn = beyond(vpn, digits, range.end),
            }
        }
    }

    /// The first page of `range` that lies beside one with a word, or has one. What has none is
    /// passed over as fast as the tree is wide.
    pub fn first_near(&self, range: PageRange) -> Option<Vpn> {
        let mut vpn = range.start;
        while vpn < range.end {
            match self.bits(vpn) {
                Ok(_) => return Some(vpn),
                Err(digits) => vpn = beyond(vpn, digits, range.end),
            }
        }
        None
    }

    /// Bytes of metadata: the leaves and the tree that leads to them.
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }
}

#[cfg(all(test, loom))]
mod loom_test;

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use crate::page::VPN_BITS;
    use crate::sim::SimMachine;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const OPS_MAX: usize = if cfg!(miri) { 12 } else { 300 };
    const PAGE: u64 = crate::page::PAGE_SIZE as u64;

    fn filled(word: u64) -> Slot {
        Slot::Filled { word: word as u32 }
    }

    proptest! {
        #![proptest_config(crate::test::config(512, 1))]
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0..2000u64, 0..4u8), 1..OPS_MAX)) {
            let (table, mut map) = (SwapTable::new(SimMachine::memory(OPS_MAX)), BTreeMap::new());
            for (n, kind) in ops {
                // Near each other, and in every digit of a key.
                let vpn = Vpn::new(n % 40 + ((n / 40 % 5) << (n / 200 * 4 + 4)) % (1 << (VPN_BITS - 2)));
                let slot = match kind {
                    0 => Slot::None,
                    1 => filled(7),
                    _ => Slot::Resident { order: 1, tag: n as u32, note: kind.into() },
                };
                prop_assert_eq!(table.lookup(vpn), map.get(&vpn).copied().unwrap_or(Slot::None));
                let old = table.publish(vpn, slot);
                prop_assert_eq!(old, map.remove(&vpn).unwrap_or(Slot::None));
                if slot != Slot::None { map.insert(vpn, slot); }
            }
            let mut seen = Vec::new();
            table.for_each(PageRange::ALL, |_, vpn, slot| { seen.push((vpn, slot)); });
            prop_assert_eq!(seen, map.iter().map(|(vpn, slot)| (*vpn, *slot)).collect::<Vec<_>>());
            let first = table.first_near(PageRange::ALL).map(|vpn| vpn.number() >> UNIT_ORDER);
            prop_assert_eq!(first, map.keys().next().map(|vpn| vpn.number() >> UNIT_ORDER));
            for vpn in map.keys() { prop_assert_eq!(table.first_near(PageRange::new(*vpn, 1)), Some(*vpn)); }
            for vpn in map.keys() { table.publish(*vpn, Slot::None); }
            prop_assert_eq!(table.bytes(), 0);
            table.for_each(PageRange::ALL, |_, vpn, _| panic!("{vpn:?}"));
            prop_assert_eq!(table.first_near(PageRange::ALL), None);
        }
    }

    /// Give all of these pages words, and none has another's. Returns bytes for each page.
    fn fill(table: &SwapTable, pages: &[Vpn]) -> u64 {
        for (word, vpn) in (0..).zip(pages) {
            assert_eq!(table.publish(*vpn, filled(word)), Slot::None, "{vpn:?}");
        }
        for (word, vpn) in (0..).zip(pages) {
            assert_eq!(table.lookup(*vpn), filled(word));
        }
        table.bytes() / pages.len() as u64
    }

    fn clear<'a>(table: &SwapTable, pages: impl IntoIterator<Item = &'a Vpn>) {
        for vpn in pages {
            assert_ne!(table.publish(*vpn, Slot::None), Slot::None);
        }
    }

    fn random(count: u64) -> impl Iterator<Item = u64> {
        let next = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let numbers = core::iter::successors(Some(0x9e37_79b9_7f4a_7c15), next);
        numbers.map(|n: u64| n >> (64 - (VPN_BITS - 1))).take(count as usize)
    }

    /// 2 % of the pages is 82 bytes each, and a mebibyte may be for pages that lie alone.
    #[test]
    #[cfg_attr(miri, ignore = "it counts the bytes of a million pages")]
    fn what_pages_cost_follows_from_how_they_lie() {
        let table = |pages: u64| SwapTable::new(SimMachine::memory(pages as usize));
        let count = 1_000_000;
        let dense: Vec<Vpn> = (0..count).map(|n| Vpn::new(77 + n)).collect();
        assert!((8..=9).contains(&fill(&table(count / 8), &dense)));

        // V8: 256 KiB wherever a random number says.
        let chunks = random(4_000).map(|n| n & !63);
        let spread: Vec<Vpn> = chunks.flat_map(|n| (n..n + 64).map(Vpn::new)).collect();
        assert!(fill(&table(spread.len() as u64 / 8), &spread) <= PAGE * 3 / 1000);

        // A tebibyte, touched evenly and at random.
        let (count, tib) = (3_000, 1 << 28);
        let even: Vec<Vpn> = (0..count)
            .map(|n| Vpn::new(tib / count * n % (1 << VPN_BITS)))
            .collect();
        let at_random: Vec<Vpn> = random(count).map(|n| Vpn::new(n % tib)).collect();
        for sparse in [even, at_random] {
            assert!(fill(&table(count), &sparse) <= 192);
        }
        // The worst: each leaf has a node of its own.
        let pairs: Vec<Vpn> = random(count).flat_map(|n| [n & !16, n | 16]).map(Vpn::new).collect();
        assert!(fill(&table(count * 2), &pairs) <= 256 + 8);
    }

    #[test]
    fn what_goes_leaves_nothing_behind() {
        let count = if cfg!(miri) { 100 } else { 40_000 };
        let table = SwapTable::new(SimMachine::memory(count as usize));
        let mut pages: Vec<Vpn> = random(count).map(Vpn::new).collect();
        fill(&table, &pages);
        let full = table.bytes();
        // Half of them, scattered: slabs are not empty then, but others get what is left.
        pages.sort_unstable();
        let (gone, kept): (Vec<_>, Vec<_>) = pages.iter().copied().enumerate().partition(|(n, _)| n % 2 == 0);
        let pages = |half: Vec<(usize, Vpn)>| half.into_iter().map(|(_, vpn)| vpn).collect::<Vec<_>>();
        let (gone, kept) = (pages(gone), pages(kept));
        clear(&table, &gone);
        let others: Vec<Vpn> = gone
            .iter()
            .map(|vpn| Vpn::new(vpn.number() ^ 1 << (VPN_BITS - 1)))
            .collect();
        for vpn in &others {
            table.publish(*vpn, filled(1));
        }
        // Of few pages, slabs are most.
        let is_little = table.bytes() <= full + full / 16;
        assert!(cfg!(miri) || is_little, "{} after {full}", table.bytes());
        // All that came last goes: what is left is in the lowest slabs.
        clear(&table, &kept);
        clear(&table, &others);
        assert_eq!(table.bytes(), 0);
    }

    /// Mappings come and go for ever, each at another address.
    #[test]
    fn addresses_are_not_used_up() {
        let table = SwapTable::new(SimMachine::memory(200));
        let live = |n: u64| Vpn::new(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - VPN_BITS));
        let rounds = if cfg!(miri) { 250 } else { 200_000 };
        for n in 0..rounds {
            assert_eq!(table.publish(live(n), filled(n)), Slot::None);
            if let Some(old) = n.checked_sub(100) {
                assert_eq!(table.lookup(live(old)), filled(old));
                assert_eq!(table.publish(live(old), Slot::None), filled(old));
            }
        }
        assert!(table.bytes() <= 100 * 264, "{}", table.bytes());
    }

    #[test]
    fn updates_of_one_leaf_lose_nothing() {
        let rounds = if cfg!(miri) { 20 } else { 4_000 };
        let table = SwapTable::new(SimMachine::memory(3));
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (table, vpn) = (&table, Vpn::new(7 + writer));
                scope.spawn(move || {
                    for _ in 0..rounds {
                        assert_eq!(table.publish(vpn, filled(writer)), Slot::None);
                        assert_eq!(table.publish(vpn, Slot::None), filled(writer));
                    }
                });
            }
        });
        assert_eq!(table.bytes(), 0);
    }

    /// Lookups while leaves and nodes come and go under them, with real threads: each word that is
    /// seen is the page's own, and what stays is always seen. `loom_test` has the small exhaustive
    /// cases.
    #[test]
    fn lookups_never_see_the_word_of_another_page() {
        let rounds = if cfg!(miri) { 10 } else { 4_000 };
        let table = SwapTable::new(SimMachine::memory(100));
        let at = |n: u64| Vpn::new((n % 3) << 4 | (n / 3 % 4) << (VPN_BITS - 8) | (n / 12 % 2) << 16 | (n % 7));
        // A third of all stay.
        let is_kept = |n: u64| n % 3 == 1;
        (0..24)
            .filter(|n| is_kept(*n))
            .for_each(|n| _ = table.publish(at(n), filled(n)));
        let is_done = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (table, is_done) = (&table, &is_done);
                scope.spawn(move || {
                    let mut n = reader;
                    while !is_done.load(Ordering::Relaxed) {
                        n = (n + 7) % 24;
                        let seen = table.lookup(at(n));
                        let may_be_none = !is_kept(n) && seen == Slot::None;
                        assert!(may_be_none || seen == filled(n), "{seen:?} of {n}");
                    }
                });
            }
            let writers = [0, 1].map(|writer| {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..rounds {
                        for n in (0..24).filter(|n| !is_kept(*n) && n % 2 == writer) {
                            assert_eq!(table.publish(at(n), filled(n)), Slot::None);
                            if round % 2 == 0 {
                                assert_eq!(table.publish(at(n), Slot::None), filled(n));
                            }
                        }
                        if round % 2 == 1 {
                            let mine = (0..24).filter(|n| !is_kept(*n) && n % 2 == writer);
                            mine.for_each(|n| assert_eq!(table.publish(at(n), Slot::None), filled(n)));
                        }
                    }
                })
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
        });
        (0..24)
            .filter(|n| is_kept(*n))
            .for_each(|n| _ = table.publish(at(n), Slot::None));
        assert_eq!(table.bytes(), 0);
    }
}
