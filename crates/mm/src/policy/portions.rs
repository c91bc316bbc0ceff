//! How much moves at a time.
//!
//! A folio is in the pool before its frames are given up, and what a fault maps must fit below the
//! limit as a whole. So memory is kept free for the largest that may come. There may be little
//! memory to work with: the limit is small, or relatives share most of it and what they share does
//! not leave (`shared`). Large folios would keep more of it free then than they could use.

use crate::policy::tunables::Sizing;

use core::sync::atomic::{AtomicU64, Ordering};

/// How much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portions {
    /// log2 of the pages that a fault maps at most at once.
    pub folio_order: u32,
    /// Slots whose frames are given up together.
    pub give_up: u32,
}

impl Portions {
    /// Where `pages` are there to work with.
    pub(crate) fn of(pages: u64, sizing: &Sizing) -> Self {
        Self {
            folio_order: (pages / sizing.folios_min).max(1).ilog2(),
            give_up: (pages / sizing.give_up_share).clamp(1, sizing.give_up_max) as u32,
        }
    }

    /// The lesser of either.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            folio_order: self.folio_order.min(other.folio_order),
            give_up: self.give_up.min(other.give_up),
        }
    }

    /// The greater of either.
    #[must_use]
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            folio_order: self.folio_order.max(other.folio_order),
            give_up: self.give_up.max(other.give_up),
        }
    }

    fn to_word(self) -> u64 {
        u64::from(self.folio_order) << 32 | u64::from(self.give_up)
    }

    fn from_word(word: u64) -> Self {
        Self {
            folio_order: (word >> 32) as u32,
            give_up: word as u32,
        }
    }
}

/// What they are now, and were before. While they grow room must be left for the greater before
/// anybody takes it; while they shrink, for as long as somebody may have begun with it. So who
/// takes heeds the lesser of the two, who leaves room the greater.
pub(crate) struct Current {
    now: AtomicU64,
    before: AtomicU64,
}

impl Current {
    pub(crate) fn new(portions: Portions) -> Self {
        Self {
            now: AtomicU64::new(portions.to_word()),
            before: AtomicU64::new(portions.to_word()),
        }
    }

    pub(crate) fn both(&self) -> [Portions; 2] {
        // Relaxed: each holds for as long as it takes to say the next.
        [&self.now, &self.before].map(|word| Portions::from_word(word.load(Ordering::Relaxed)))
    }
}

impl Current {
    /// They are `portions`, from the next time on that this is said if that is more.
    pub(crate) fn set(&self, portions: Portions) {
        self.before.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
        self.now.store(portions.to_word(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::tunables::Tunables;

    const SIZING: &Sizing = &Tunables::DEFAULT.sizing;

    #[test]
    fn little_memory_moves_in_small_portions() {
        let of = |pages| {
            let Portions { folio_order, give_up } = Portions::of(pages, SIZING);
            (folio_order, give_up)
        };
        assert_eq!((of(0), of(64), of(1 << 12)), ((0, 1), (0, 1), (6, 16)));
        assert_eq!(of(1 << 30), (24, 256));
        let portions = Portions::of(1 << 12, SIZING);
        assert_eq!(Portions::from_word(portions.to_word()), portions);
    }
}
