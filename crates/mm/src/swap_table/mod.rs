//! The swap table: one [`Word`] a page, in clusters of 512 words (2 MiB of address space).
//!
//! A cluster is taken when the first of its pages gets a word and given back when the last word is
//! NONE again, so a program pays 8 bytes for each page it has touched and nothing for address
//! space. What names the cluster of a range is its *entry*, in a directory over the 47-bit user
//! address space; without one, every page is NONE. The directory has four levels, all of them
//! small: a program that places each of its chunks at random (V8) pays for each no more than 2.5
//! KiB of it.
//!
//! ```text
//! entry   | generation:29 @35 | LOCK @34 | used:10 @24 | cluster + 1:24 @0 |      0 in the low 24 bits: none
//! ```
//!
//! # Who may do what
//! Lookups take no lock. Updates take the lock of their range, a bit of its entry, so two of different ranges never wait for
//! each other. Clusters are memory that is never unmapped (`mm/swap_table.h` has RCU instead): one that was given back
//! may be another range's by the time that a lookup reads it, so the lookup reads the entry again afterwards.
//! * The word is read with Acquire. If it was written for another range, that writer had taken the cluster from the free ones
//!   (Acquire), where it was put (Release) after this range's entry had been cleared: so the second read of the entry
//!   sees that, and the lookup starts again.
//! * The generation counts how often the entry was cleared: the same cluster may have come back meanwhile.
//!
//! The engine looks up and publishes under its own lock as well, which orders words against everything else.

pub mod entry;

use alloc::boxed::Box;
use alloc::vec::Vec;

use once_cell::race::OnceBox;

use crate::page::{PageRange, VPN_BITS, Vpn};
use atomic::{AtomicU64, Ordering};
use entry::{Slot, Word};

/// The atomics of core, or those of the model checker.
pub mod atomic {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{AtomicU64, Ordering};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

/// log2 of the pages of a cluster, of the entries of a leaf, and of what the two levels above it
/// hold: few in the model checker, which follows every word.
const CLUSTER_ORDER: u32 = if cfg!(loom) { 1 } else { 9 };
const LEAF_BITS: u32 = if cfg!(loom) { 1 } else { 6 };
const INNER_BITS: u32 = if cfg!(loom) { 0 } else { 7 };
const TOP_BITS: u32 = if cfg!(loom) {
    0
} else {
    VPN_BITS - CLUSTER_ORDER - LEAF_BITS - 2 * INNER_BITS
};
/// Pages of a cluster.
pub const CLUSTER_PAGES: usize = 1 << CLUSTER_ORDER;
const LEAF: usize = 1 << LEAF_BITS;
const INNER: usize = 1 << INNER_BITS;
const TOP: usize = 1 << TOP_BITS;

const ID_BITS: u32 = 24;
const USED_ONE: u64 = 1 << ID_BITS;
const USED_BITS: u32 = 10;
const LOCK: u64 = 1 << (ID_BITS + USED_BITS);
const GENERATION_ONE: u64 = LOCK << 1;

/// Memory for clusters: zeros at first, and where `release` was called.
#[derive(Clone, Copy)]
pub struct TableMemory {
    /// Whole clusters, fewer than 2^24 of them.
    pub words: &'static [AtomicU64],
    /// Give the memory of a cluster back to the system; its words are zeros afterwards.
    pub release: fn(&'static [AtomicU64]),
}

/// The entries of neighbouring clusters, and the levels above.
type Leaf = [AtomicU64; LEAF];
type Lower = [OnceBox<Leaf>; INNER];
type Upper = [OnceBox<Lower>; INNER];

/// The table of one address space.
pub struct SwapTable {
    directory: Box<[OnceBox<Upper>]>,
    memory: TableMemory,
    /// A bit for each cluster: it is some range's.
    taken: Box<[AtomicU64]>,
    clusters: AtomicU64,
}

/// Where the entry of a page's cluster is: an index for each level, from the top.
fn path(vpn: Vpn) -> [usize; 4] {
    let cluster = (vpn.number() >> CLUSTER_ORDER) as usize;
    let lower = cluster >> LEAF_BITS;
    let upper = lower >> INNER_BITS;
    [
        upper >> INNER_BITS,
        upper & (INNER - 1),
        lower & (INNER - 1),
        cluster & (LEAF - 1),
    ]
}

/// Which word of its cluster is the page's.
fn index(vpn: Vpn) -> usize {
    vpn.number() as usize & (CLUSTER_PAGES - 1)
}

/// The cluster that an entry names.
fn cluster(entry: u64) -> Option<usize> {
    ((entry & (USED_ONE - 1)) as usize).checked_sub(1)
}

/// What must not have changed for a word to be the range's: cluster and generation.
fn identity(entry: u64) -> u64 {
    entry & !(LOCK | (LOCK - USED_ONE))
}

/// Replace a word under its entry's lock. Release: pairs with `lookup`, see above.
fn replace(word: &AtomicU64, bits: u64) -> u64 {
    // Two plain moves, where one locked instruction would wait for the cache line. To the model checker the writer's own load
    // would hide those of others from what it has to reorder (it keeps only the last access).
    #[cfg(loom)]
    return word.swap(bits, Ordering::Release);
    #[cfg(not(loom))]
    {
        let old = word.load(Ordering::Relaxed);
        word.store(bits, Ordering::Release);
        old
    }
}

/// A locked entry: what it says, for whoever holds the lock to change.
struct Locked<'a> {
    entry: &'a AtomicU64,
    value: u64,
}

impl<'a> Locked<'a> {
    fn new(entry: &'a AtomicU64) -> Self {
        loop {
            // Acquire: what the last holder did is seen (pairs with `unlock`).
            let value = entry.fetch_or(LOCK, Ordering::Acquire);
            if value & LOCK == 0 {
                return Self { entry, value };
            }
            core::hint::spin_loop();
        }
    }

    fn unlock(self, value: u64) {
        self.entry.store(value, Ordering::Release);
    }
}

impl SwapTable {
    /// An empty table.
    pub fn new(memory: TableMemory) -> Self {
        let clusters = memory.words.len() / CLUSTER_PAGES;
        assert!(clusters < 1 << ID_BITS, "an entry holds 24 bits of a cluster's number");
        let mut taken: Vec<AtomicU64> = (0..clusters.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        if let (Some(last), 1..) = (taken.last_mut(), clusters % 64) {
            // Those that are not there are nobody's to take.
            *last = AtomicU64::new(u64::MAX << (clusters % 64));
        }
        Self {
            directory: (0..TOP).map(|_| OnceBox::new()).collect(),
            memory,
            taken: taken.into(),
            clusters: AtomicU64::new(0),
        }
    }

    fn words(&self, cluster: usize) -> &'static [AtomicU64] {
        &self.memory.words[cluster * CLUSTER_PAGES..(cluster + 1) * CLUSTER_PAGES]
    }

    /// The entry of a page's cluster. Where there is none: log2 of the pages around it that have
    /// none.
    fn entry(&self, vpn: Vpn) -> Result<&AtomicU64, u32> {
        const LEAF_ORDER: u32 = CLUSTER_ORDER + LEAF_BITS;
        let [top, upper, lower, leaf] = path(vpn);
        let uppers = self.directory[top].get().ok_or(LEAF_ORDER + 2 * INNER_BITS)?;
        let lowers = uppers[upper].get().ok_or(LEAF_ORDER + INNER_BITS)?;
        let leaves = lowers[lower].get().ok_or(LEAF_ORDER)?;
        Ok(&leaves[leaf])
    }

    /// The same, made if there is none.
    fn entry_made(&self, vpn: Vpn) -> &AtomicU64 {
        let [top, upper, lower, leaf] = path(vpn);
        let uppers = self.directory[top].get_or_init(|| Box::new([const { OnceBox::new() }; INNER]));
        let lowers = uppers[upper].get_or_init(|| Box::new([const { OnceBox::new() }; INNER]));
        let leaves = lowers[lower].get_or_init(|| Box::new(core::array::from_fn(|_| AtomicU64::new(0))));
        &leaves[leaf]
    }

    /// The word of a page. Takes no lock.
    pub fn lookup(&self, vpn: Vpn) -> Slot {
        let Ok(entry) = self.entry(vpn) else {
            return Slot::None;
        };
        let word = index(vpn);
        loop {
            let before = entry.load(Ordering::Acquire);
            let Some(cluster) = cluster(before) else {
                return Slot::None;
            };
            let slot = Word::from_bits(self.words(cluster)[word].load(Ordering::Acquire)).into();
            if identity(entry.load(Ordering::Relaxed)) == identity(before) {
                return slot;
            }
        }
    }

    /// Replace the word of a page and return the old one.
    pub fn publish(&self, vpn: Vpn, slot: Slot) -> Slot {
        let word = index(vpn);
        let locked = Locked::new(self.entry_made(vpn));
        let mut value = locked.value;
        let id = match cluster(value) {
            Some(id) => id,
            None if slot == Slot::None => {
                locked.unlock(value);
                return Slot::None;
            }
            None => {
                let id = self.take_cluster();
                value += id as u64 + 1;
                id
            }
        };
        let old = replace(&self.words(id)[word], Word::from(slot).to_bits());
        let old: Slot = Word::from_bits(old).into();
        value += if old == Slot::None { USED_ONE } else { 0 };
        value -= if slot == Slot::None { USED_ONE } else { 0 };
        let is_empty = value & (LOCK - USED_ONE) == 0;
        if is_empty {
            value = (value & !(LOCK - 1)).wrapping_add(GENERATION_ONE);
        }
        locked.unlock(value);
        if is_empty {
            self.give_back(id);
        }
        old
    }

    fn take_cluster(&self) -> usize {
        for (i, taken) in self.taken.iter().enumerate() {
            let free = |bits: u64| (bits != u64::MAX).then(|| bits | (bits + 1));
            // Acquire: pairs with `give_back`.
            if let Ok(before) = taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
                self.clusters.fetch_add(1, Ordering::Relaxed);
                return i * 64 + before.trailing_ones() as usize;
            }
        }
        panic!(
            "no room in the swap table for more than {} clusters",
            self.taken.len() * 64
        );
    }

    /// No entry names the cluster any more, and its words are all NONE.
    fn give_back(&self, id: usize) {
        (self.memory.release)(self.words(id));
        self.clusters.fetch_sub(1, Ordering::Relaxed);
        self.taken[id / 64].fetch_and(!(1 << (id % 64)), Ordering::Release);
    }

    /// Call `f` for each page of `range` that has a word; it may change the table in between.
    pub fn for_each(&self, range: PageRange, mut f: impl FnMut(&Self, Vpn, Slot)) {
        let mut vpn = range.start;
        while vpn < range.end {
            let step = match self.entry(vpn) {
                Err(order) => Some(order),
                Ok(entry) if cluster(entry.load(Ordering::Acquire)).is_none() => Some(CLUSTER_ORDER),
                Ok(_) => None,
            };
            match step {
                Some(order) => vpn = Vpn::new((vpn.number() | ((1 << order) - 1)) + 1),
                None => {
                    match self.lookup(vpn) {
                        Slot::None => {}
                        slot => f(self, vpn, slot),
                    }
                    vpn = vpn.add(1);
                }
            }
        }
    }

    /// Bytes of metadata: the clusters, their entries and bits.
    pub fn bytes(&self) -> u64 {
        let clusters = self.clusters.load(Ordering::Relaxed);
        clusters * (CLUSTER_PAGES * size_of::<Word>() + size_of::<u64>()) as u64
    }
}

#[cfg(all(test, loom))]
mod loom_test;

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use crate::sim::SimMachine;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const OPS_MAX: usize = if cfg!(miri) { 12 } else { 300 };

    proptest! {
        #![proptest_config(crate::test::config(256, 1))]
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0..2000u64, 0..4u8), 1..OPS_MAX)) {
            let (table, mut map) = (SwapTable::new(SimMachine::memory(OPS_MAX.min(256))), BTreeMap::new());
            for (n, kind) in ops {
                // Spread over clusters and leaves.
                let vpn = Vpn::new((n % 40) + (n / 40) * 300_000);
                let slot = match kind {
                    0 => Slot::None,
                    1 => Slot::Filled { word: 7 },
                    _ => Slot::Resident { order: 1, tag: n as u32, note: kind.into() },
                };
                let old = table.publish(vpn, slot);
                prop_assert_eq!(old, map.remove(&vpn).unwrap_or(Slot::None));
                if slot != Slot::None { map.insert(vpn, slot); }
            }
            let mut seen = BTreeMap::new();
            table.for_each(PageRange::new(Vpn::new(0), 1 << (VPN_BITS - 1)), |_, vpn, slot| { seen.insert(vpn, slot); });
            prop_assert_eq!(&seen, &map);
            for vpn in map.keys() { table.publish(*vpn, Slot::None); }
            prop_assert_eq!(table.bytes(), 0);
        }
    }

    #[test]
    fn updates_of_one_cluster_lose_nothing() {
        let rounds = if cfg!(miri) { 20 } else { 4_000 };
        let table = SwapTable::new(SimMachine::memory(3));
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (table, vpn) = (&table, Vpn::new(7 + u64::from(writer)));
                scope.spawn(move || {
                    for _ in 0..rounds {
                        assert_eq!(table.publish(vpn, Slot::Filled { word: writer }), Slot::None);
                        assert_eq!(table.publish(vpn, Slot::None), Slot::Filled { word: writer });
                    }
                });
            }
        });
        assert_eq!(table.bytes(), 0);
    }

    /// The bytes of directory that were made.
    fn directory_bytes(table: &SwapTable) -> usize {
        let uppers = table.directory.iter().flat_map(OnceBox::get);
        let lowers = || uppers.clone().flatten().flat_map(OnceBox::get);
        uppers.clone().count() * size_of::<Upper>()
            + lowers().count() * size_of::<Lower>()
            + lowers().flatten().flat_map(OnceBox::get).count() * size_of::<Leaf>()
    }

    /// As V8 places its chunks of 256 KiB: the directory is 1 % of them at most, the clusters are
    /// 1.6 %.
    #[test]
    fn spread_addresses_cost_little_directory() {
        const CHUNKS: u64 = 400;
        const CHUNK: u64 = 64;
        let table = SwapTable::new(SimMachine::memory(CHUNKS as usize));
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..CHUNKS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let vpn = Vpn::new((random >> (64 - VPN_BITS)) / CHUNK * CHUNK);
            table.publish(vpn, Slot::Filled { word: 1 });
        }
        let used = CHUNKS as usize * CHUNK as usize * crate::page::PAGE_SIZE;
        let (directory, most) = (directory_bytes(&table), used / 100);
        assert!(directory <= most, "{directory} bytes of {used}");
    }

    /// Lookups while clusters come and go under them, with real threads. `loom_test` has the small exhaustive cases.
    #[test]
    fn lookups_never_see_the_word_of_another_range() {
        const RANGES: u64 = 6;
        let rounds = if cfg!(miri) { 20 } else { 4_000 };
        let table = SwapTable::new(SimMachine::memory(4));
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..rounds {
                        // At most one of its three ranges has a cluster at a time.
                        let range = writer * 3 + round % 3;
                        let vpn = Vpn::new(range * CLUSTER_PAGES as u64 + 5);
                        assert_eq!(table.publish(vpn, Slot::Filled { word: range as u32 }), Slot::None);
                        let word = range as u32;
                        assert_eq!(table.publish(vpn, Slot::None), Slot::Filled { word });
                    }
                });
            }
            for i in 0..rounds * 2 {
                let range = i % RANGES;
                let seen = table.lookup(Vpn::new(range * CLUSTER_PAGES as u64 + 5));
                let word = range as u32;
                assert!(
                    seen == Slot::None || seen == Slot::Filled { word },
                    "{seen:?} in range {range}"
                );
            }
        });
        assert_eq!(table.bytes(), 0);
    }
}
