//! What holds of every page whenever the engine's lock is free. Walks all words: for the simulator
//! and tests.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::page::{PageRange, Vpn};
use crate::pages::Pages;
use crate::pages::block::BlockRef;
use crate::pages::counts::Counts;
use crate::pages::swap_table::entry::Slot;
use crate::zpool::Arena;

impl<R: RawMutex, A: Arena> Pages<R, A> {
    /// Panics, saying what differs, unless all that is counted is what the words say.
    pub(crate) fn assert_valid(&self) {
        let mut words = Vec::new();
        self.table
            .for_each(PageRange::ALL, |_, vpn, slot| words.push((vpn, slot)));
        self.assert_counts(words.iter().map(|(_, slot)| *slot));
        self.assert_blocks(words.iter().map(|(_, slot)| *slot));
        self.assert_staged(&words);
        self.stored.ages.assert_valid(words.iter().map(|(_, slot)| *slot));
    }

    fn assert_counts(&self, slots: impl Iterator<Item = Slot>) {
        let mut counts = Counts::default();
        slots.for_each(|slot| counts += Counts::of(slot));
        assert_eq!(self.counts, counts, "counted, and what the words say");
    }

    /// Each block of the pool has one page: in its word, or beside its staging slot.
    fn assert_blocks(&self, slots: impl Iterator<Item = Slot>) {
        let of_words = slots.filter_map(BlockRef::of);
        let blocks: Vec<BlockRef> = of_words.chain(self.staging.blocks()).collect();
        assert_eq!(
            self.pool.objects(),
            blocks.len() as u64,
            "blocks of the pool, and who has one"
        );
        let places: BTreeSet<_> = blocks
            .iter()
            .map(|kept| (kept.handle().to_bits(), kept.len()))
            .collect();
        assert_eq!(places.len(), blocks.len(), "two pages have one block");
    }

    /// Each staged page has a slot of its own, which knows its page.
    fn assert_staged(&self, words: &[(Vpn, Slot)]) {
        let mut taken = BTreeSet::new();
        for (vpn, slot) in words {
            if let Slot::Staged { slot, .. } = slot {
                assert!(taken.insert(*slot), "{vpn:?} is in a slot of another page");
            }
        }
        assert!(
            taken.len() as u64 <= self.staging.frames(),
            "{} words are staged, of {} frames",
            taken.len(),
            self.staging.frames()
        );
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Effort;
    use crate::sim::{ARENA_PAGES, BASE, PAGES, World};

    fn stored() -> World<parking_lot::RawMutex> {
        let mut world = World::new(1000, ARENA_PAGES);
        (0..PAGES).for_each(|n| world.write(Vpn::new(BASE + n), n * 4 + 2));
        (0..8).for_each(|_| drop(world.mm.shrink(&mut world.worker, 32, Effort::Requested)));
        assert!(world.mm.gauges().stored > 0);
        world.mm.assert_valid();
        world
    }

    #[test]
    #[should_panic(expected = "counted, and what the words say")]
    fn a_count_that_is_off_is_found() {
        let world = stored();
        world.mm.with(|inner| inner.pages.counts.resident += 1);
        world.mm.assert_valid();
    }

    #[test]
    #[should_panic(expected = "blocks of the pool, and who has one")]
    fn a_block_that_nobody_has_is_found() {
        let world = stored();
        world
            .mm
            .with(|inner| inner.pages.take(PageRange::new(Vpn::new(BASE), PAGES), |_, _| {}));
        world.mm.assert_valid();
    }
}
