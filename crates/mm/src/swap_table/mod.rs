//! The swap table: one [`Word`](entry::Word) a page, in clusters of 512 words (2 MiB of address space).
//!
//! A cluster is allocated when the first of its pages gets a word and freed when the last word is NONE again, so a
//! program pays 8 bytes for each page it has touched and nothing for address space. Clusters hang in a two-level
//! array over the 47-bit user address space; a missing cluster reads as NONE everywhere.

pub mod entry;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::page::{PageRange, VPN_BITS, Vpn};
use entry::{Slot, Word};

const CLUSTER_ORDER: u32 = 9;
const CLUSTER_PAGES: usize = 1 << CLUSTER_ORDER;
const LEAF_BITS: u32 = 13;
const LEAF: usize = 1 << LEAF_BITS;
const TOP: usize = 1 << (VPN_BITS - CLUSTER_ORDER - LEAF_BITS);

struct Cluster {
    words: [Word; CLUSTER_PAGES],
    /// Words that are not NONE. The cluster is freed when this returns to 0.
    used: u32,
}

type Leaf = Box<[Option<Box<Cluster>>]>;

/// The table of one address space.
pub struct SwapTable {
    top: Vec<Option<Leaf>>,
    clusters: u64,
}

/// Where the word of a page lives.
fn index(vpn: Vpn) -> (usize, usize, usize) {
    let cluster = (vpn.number() >> CLUSTER_ORDER) as usize;
    (
        cluster >> LEAF_BITS,
        cluster & (LEAF - 1),
        vpn.number() as usize & (CLUSTER_PAGES - 1),
    )
}

impl SwapTable {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            top: (0..TOP).map(|_| None).collect(),
            clusters: 0,
        }
    }

    /// The word of a page.
    pub fn lookup(&self, vpn: Vpn) -> Slot {
        let (top, leaf, word) = index(vpn);
        let cluster = self.top[top].as_ref().and_then(|l| l[leaf].as_ref());
        cluster.map_or(Slot::None, |cluster| cluster.words[word].into())
    }

    /// Replace the word of a page and return the old one.
    pub fn publish(&mut self, vpn: Vpn, slot: Slot) -> Slot {
        let (top, leaf, word) = index(vpn);
        if slot == Slot::None && self.lookup(vpn) == Slot::None {
            return Slot::None;
        }
        let leaf_ref = self.top[top].get_or_insert_with(|| (0..LEAF).map(|_| None).collect());
        let home = &mut leaf_ref[leaf];
        let cluster = home.get_or_insert_with(|| {
            self.clusters += 1;
            Box::new(Cluster {
                words: [Word::default(); CLUSTER_PAGES],
                used: 0,
            })
        });
        let old: Slot = core::mem::replace(&mut cluster.words[word], slot.into()).into();
        cluster.used += u32::from(old == Slot::None);
        cluster.used -= u32::from(slot == Slot::None);
        if cluster.used == 0 {
            *home = None;
            self.clusters -= 1;
        }
        old
    }

    /// Call `f` for each page of `range` that has a word, with the table borrowed for changes in between.
    pub fn for_each(&mut self, range: PageRange, mut f: impl FnMut(&mut Self, Vpn, Slot)) {
        let mut vpn = range.start;
        while vpn < range.end {
            let (top, leaf, _) = index(vpn);
            let step = match &self.top[top] {
                None => Some(CLUSTER_ORDER + LEAF_BITS),
                Some(l) if l[leaf].is_none() => Some(CLUSTER_ORDER),
                Some(_) => None,
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

    /// Bytes of metadata: the words and their clusters.
    pub fn bytes(&self) -> u64 {
        self.clusters * size_of::<Cluster>() as u64
    }
}

impl Default for SwapTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0..2000u64, 0..4u8), 1..300)) {
            let (mut table, mut map) = (SwapTable::new(), BTreeMap::new());
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
            table.for_each(PageRange::new(Vpn::new(0), 1 << 35), |_, vpn, slot| { seen.insert(vpn, slot); });
            prop_assert_eq!(&seen, &map);
            for vpn in map.keys() { table.publish(*vpn, Slot::None); }
            prop_assert_eq!(table.bytes(), 0);
        }
    }
}
