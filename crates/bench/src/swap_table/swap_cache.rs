//! The contestants: where every page is, for many threads at a time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use parking_lot::Mutex;
use uzswap_mm::page::Vpn;
use uzswap_mm::swap_table::entry::{Slot, Word};
use uzswap_mm::swap_table::{SwapTable, TableMemory};
use uzswap_sys::words::{discard_words, words};

/// Where every page is.
pub(crate) trait SwapCache: Default + Sync {
    /// Where a page is.
    fn lookup(&self, vpn: Vpn) -> Slot;
    /// Replace that, and return what it was.
    fn publish(&self, vpn: Vpn, slot: Slot) -> Slot;
    /// Bytes of memory.
    fn bytes(&self) -> u64;
}

/// The engine's table: lookups take no lock, updates that of their range.
pub(crate) struct EngineTable(SwapTable);

/// Address space for clusters: more than any course needs, and backed as it is touched.
const TABLE_BYTES: usize = 512 << 20;

impl Default for EngineTable {
    fn default() -> Self {
        Self(SwapTable::new(TableMemory {
            words: words(TABLE_BYTES).expect("address space for the table"),
            release: discard_words,
        }))
    }
}

impl SwapCache for EngineTable {
    fn lookup(&self, vpn: Vpn) -> Slot {
        self.0.lookup(vpn)
    }

    fn publish(&self, vpn: Vpn, slot: Slot) -> Slot {
        self.0.publish(vpn, slot)
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

/// The same behind one lock, as the engine uses it: there words change together with other things.
#[derive(Default)]
pub(crate) struct LockedTable(Mutex<EngineTable>);

impl SwapCache for LockedTable {
    fn lookup(&self, vpn: Vpn) -> Slot {
        self.0.lock().lookup(vpn)
    }

    fn publish(&self, vpn: Vpn, slot: Slot) -> Slot {
        self.0.lock().publish(vpn, slot)
    }

    fn bytes(&self) -> u64 {
        self.0.lock().bytes()
    }
}

/// A shard covers 64 MiB of address space, as the kernel's swap cache was split before it had a
/// table.
const SHARD_PAGES: u64 = 1 << 14;
const SHARDS: usize = 64;

type Map = HashMap<u64, Word, BuildHasherDefault<MultiplyHasher>>;

/// What the table replaces: maps from page to word, each behind a lock of its own. Only this
/// benchmark has it.
pub(crate) struct ShardedMaps([Mutex<Map>; SHARDS]);

impl Default for ShardedMaps {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl ShardedMaps {
    fn shard(&self, vpn: Vpn) -> &Mutex<Map> {
        &self.0[(vpn.number() / SHARD_PAGES) as usize % SHARDS]
    }
}

impl SwapCache for ShardedMaps {
    fn lookup(&self, vpn: Vpn) -> Slot {
        let shard = self.shard(vpn).lock();
        shard.get(&vpn.number()).map_or(Slot::None, |word| (*word).into())
    }

    fn publish(&self, vpn: Vpn, slot: Slot) -> Slot {
        let mut shard = self.shard(vpn).lock();
        let old = match slot {
            Slot::None => shard.remove(&vpn.number()),
            slot => shard.insert(vpn.number(), slot.into()),
        };
        old.map_or(Slot::None, Slot::from)
    }

    /// Buckets of key, word and a control byte; seven of eight may be in use.
    fn bytes(&self) -> u64 {
        let bucket = size_of::<(u64, Word)>() + 1;
        let buckets = |capacity: usize| (capacity * 8 / 7).next_power_of_two();
        let maps = self.0.iter().map(|shard| shard.lock().capacity());
        maps.filter(|capacity| *capacity > 0)
            .map(|capacity| (buckets(capacity) * bucket) as u64)
            .sum()
    }
}

/// One multiplication: a hash that costs much would be what is measured.
#[derive(Default)]
struct MultiplyHasher(u64);

impl Hasher for MultiplyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        // The map takes its bits from both ends.
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn behaves_as_a_map<C: SwapCache>() {
        let cache = C::default();
        let at = |n: u64| Vpn::new(n * 9_973);
        let slot = |n: u64| Slot::Filled { word: n as u32 };
        for n in 1..3000 {
            assert_eq!(cache.publish(at(n), slot(n)), Slot::None);
        }
        for n in (1..3000).step_by(3) {
            assert_eq!(cache.publish(at(n), Slot::None), slot(n));
        }
        for n in 1..3000 {
            let expected = if n % 3 == 1 { Slot::None } else { slot(n) };
            assert_eq!(cache.lookup(at(n)), expected);
        }
        assert!(cache.bytes() >= 2000 * 8);
    }

    #[test]
    fn contestants_agree() {
        behaves_as_a_map::<EngineTable>();
        behaves_as_a_map::<LockedTable>();
        behaves_as_a_map::<ShardedMaps>();
    }
}
