//! Descriptor slots: a fixed number, taken and given back without a lock, never waited for.
//!
//! A slot stands for a completion record. It is taken from when the record is zeroed until the
//! device has written it, or is known never to.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const BITS: usize = 64;

/// The slots: bit set, slot free.
#[derive(Debug)]
pub struct Slab {
    free: Box<[AtomicU64]>,
    slots: u32,
    /// The word to look at first, so that threads start at different ones.
    next: AtomicUsize,
}

impl Slab {
    /// `slots` free slots.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        let words = (slots as usize).div_ceil(BITS);
        let word = |i: usize| match slots as usize - i * BITS {
            left if left < BITS => (1 << left) - 1,
            _ => u64::MAX,
        };
        Self {
            free: (0..words).map(|i| AtomicU64::new(word(i))).collect(),
            slots,
            next: AtomicUsize::new(0),
        }
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// How many are free.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones())
            .sum()
    }

    /// Take a slot: one look at each word, no waiting.
    pub fn take(&self) -> Option<u32> {
        let words = self.free.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let slots = (0..words).map(|i| (first.wrapping_add(i)) % words);
        slots.into_iter().find_map(|i| self.take_of(i))
    }

    fn take_of(&self, i: usize) -> Option<u32> {
        // The lowest free bit goes. Acquire pairs with the Release of `give`: what the last owner
        // did to the record comes before what the next one does.
        let take = |word: u64| (word != 0).then(|| word & (word - 1));
        let before = self.free[i]
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, take)
            .ok()?;
        Some((i * BITS) as u32 + before.trailing_zeros())
    }

    /// Give a slot back.
    ///
    /// # Panics
    /// It is free already: two owners would share a record.
    pub fn give(&self, slot: u32) {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let bit = 1 << (slot as usize % BITS);
        let before = self.free[slot as usize / BITS].fetch_or(bit, Ordering::Release);
        assert!(before & bit == 0, "slot {slot} is free already");
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn each_slot_is_taken_once() {
        for slots in [1, 63, 64, 65, 130] {
            let slab = Slab::new(slots);
            let mut taken: Vec<u32> = core::iter::from_fn(|| slab.take()).collect();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..slots), "{slots}");
            slab.give(slots / 2);
            assert_eq!((slab.free(), slab.take(), slab.take()), (1, Some(slots / 2), None));
        }
    }

    #[test]
    fn threads_never_share_a_slot() {
        let slab = Slab::new(3);
        let owners: [AtomicU64; 3] = Default::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for slot in (0..2000).filter_map(|_| slab.take()) {
                        let owner = &owners[slot as usize];
                        assert_eq!(owner.swap(1, Ordering::Relaxed), 0);
                        owner.store(0, Ordering::Relaxed);
                        slab.give(slot);
                    }
                });
            }
        });
        assert_eq!(slab.free(), 3);
    }

    #[test]
    #[should_panic(expected = "slot 1 is free already")]
    fn a_slot_is_given_once() {
        Slab::new(2).give(1);
    }

    #[test]
    fn no_slots_are_no_slot() {
        assert_eq!(Slab::new(0).take(), None);
    }
}
