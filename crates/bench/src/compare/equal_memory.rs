//! Equal memory: what is resident and what the pool takes, together, are the same for every side.
//!
//! uzswap's limit is on that sum. A v1 control group charges what is resident but not the pool,
//! whichever kernel pool it is, so its limit is lower: as low as it was found to have to be. A v2
//! group charges zswap's pool too.

use std::collections::BTreeMap;

use super::results::MemoryUse;
use super::side::Side;

/// Bytes of pages for each byte of a pool, until something was measured.
const EXPECTED_RATIO: f64 = 2.3;
/// How far a sum may be off.
const TOLERANCE: f64 = 0.05;
/// Percent of the limit.
const POOL_SPARE: u64 = 25;

/// What a workload is to get. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Nothing is held to anything.
    Unlimited,
    /// So much may be resident under the kernel's zswap; the others get that and what its pool
    /// took.
    Resident { bytes: u64, working_set: u64 },
    /// So much for both. A control group is never given less than `resident_least`, although then
    /// the sum is not held: less than a program's hot set would measure nothing but thrashing.
    Total {
        bytes: u64,
        working_set: u64,
        resident_least: u64,
    },
}

/// The limits of the sides, from run to run.
#[derive(Debug)]
pub(crate) struct EqualMemory {
    budget: Budget,
    /// For resident and pool together; 0: no limit.
    target: u64,
    /// Of the kernel's sides.
    limits: BTreeMap<Side, u64>,
}

/// `bytes` resident and the rest of `working_set` in a pool.
fn with_pool(bytes: u64, working_set: u64) -> u64 {
    bytes + (working_set.saturating_sub(bytes) as f64 / EXPECTED_RATIO) as u64
}

/// How much of `target` may be resident if the rest of it is the pool of the rest of `working_set`.
fn without_pool(target: u64, working_set: u64) -> u64 {
    let share = (target as f64 - working_set as f64 / EXPECTED_RATIO) / (1.0 - 1.0 / EXPECTED_RATIO);
    (share.max(0.0) as u64).clamp(target / 8, target)
}

impl EqualMemory {
    /// Before the first run.
    pub(crate) fn new(budget: Budget) -> Self {
        let (target, limit) = match budget {
            Budget::Unlimited => (0, 0),
            Budget::Resident { bytes, working_set } => (with_pool(bytes, working_set), bytes),
            Budget::Total {
                bytes,
                working_set,
                resident_least,
            } => (bytes, without_pool(bytes, working_set).max(resident_least)),
        };
        Self {
            budget,
            target,
            limits: [Side::Zswap, Side::Zram].map(|side| (side, limit)).into(),
        }
    }

    /// Of resident memory and pool together; 0: none.
    pub(crate) fn target(&self) -> u64 {
        self.target
    }

    /// What a side is to be limited to; 0: nothing.
    pub(crate) fn limit(&self, side: Side) -> u64 {
        match side {
            Side::NoLimit => 0,
            Side::Uzswap => self.target,
            Side::Zswap | Side::Zram => self.limits[&side],
        }
    }

    /// What of its limit uzswap's pool may take, percent: on neither side is the size of the pool
    /// to be what limits it, so it is what the kernel's pool is expected to take and some more.
    pub(crate) fn max_pool_percent(&self) -> Option<u64> {
        let resident = self.limits[&Side::Zswap];
        let pool = self.target.checked_sub(resident).filter(|pool| *pool > 0)?;
        Some(
            (pool * 100)
                .div_ceil(self.target)
                .saturating_add(POOL_SPARE)
                .clamp(50, 95),
        )
    }

    /// Whether a run that used `memory` is to be done again, as the limit of its side is another
    /// now.
    pub(crate) fn is_to_be_repeated(&self, side: Side, memory: &MemoryUse) -> bool {
        side.is_kernel() && memory.is_held() == Some(false) && self.limit(side) != memory.limit
    }

    /// Whether limits are to be found by runs that do not count.
    pub(crate) fn is_to_be_found(&self) -> bool {
        matches!(self.budget, Budget::Total { .. })
    }

    /// A side has run with its limit: those of the next runs follow from what it took.
    pub(crate) fn note(&mut self, side: Side, memory: &MemoryUse) {
        if memory.total_peak == 0 || self.budget == Budget::Unlimited || !side.is_kernel() {
            return;
        }
        if side == Side::Zswap && matches!(self.budget, Budget::Resident { .. }) {
            self.target = memory.total_peak;
            return;
        }
        let limit = self.limits.entry(side).or_default();
        let corrected = (*limit + self.target).saturating_sub(memory.total_peak);
        let least = match self.budget {
            Budget::Total { resident_least, .. } => resident_least,
            Budget::Resident { bytes, .. } => bytes / 2,
            Budget::Unlimited => 0,
        };
        *limit = corrected.clamp(least, self.target);
    }
}

impl MemoryUse {
    /// How far the sum was off what it was to be, as a share of that. `None`: it was not limited.
    pub(crate) fn off_target(&self) -> Option<f64> {
        (self.target > 0).then(|| self.total_peak as f64 / self.target as f64 - 1.0)
    }

    /// Whether a side used no more than it was to (less is its own loss), and `None` if it was not
    /// limited.
    pub(crate) fn is_held(&self) -> Option<bool> {
        Some(self.off_target()? <= TOLERANCE)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn took(total_peak: u64) -> MemoryUse {
        MemoryUse {
            total_peak,
            ..MemoryUse::default()
        }
    }

    #[test]
    fn uzswap_gets_what_zswap_took() {
        let mut equal = EqualMemory::new(Budget::Resident {
            bytes: 384 * MIB,
            working_set: 1536 * MIB,
        });
        assert_eq!(equal.limit(Side::Zswap), 384 * MIB);
        assert_eq!(equal.limit(Side::NoLimit), 0);
        equal.note(Side::Zswap, &took(900 * MIB));
        assert_eq!((equal.limit(Side::Uzswap), equal.target()), (900 * MIB, 900 * MIB));
        assert_eq!(equal.limit(Side::Zswap), 384 * MIB);
    }

    #[test]
    fn zram_is_given_less_when_it_took_more() {
        let mut equal = EqualMemory::new(Budget::Resident {
            bytes: 384 * MIB,
            working_set: 1536 * MIB,
        });
        equal.note(Side::Zswap, &took(900 * MIB));
        equal.note(Side::Zram, &took(950 * MIB));
        assert_eq!(equal.limit(Side::Zram), 334 * MIB);
    }

    #[test]
    fn the_limit_for_a_sum_is_found() {
        let budget = Budget::Total {
            bytes: 600 * MIB,
            working_set: 1000 * MIB,
            resident_least: 0,
        };
        let mut equal = EqualMemory::new(budget);
        let first = equal.limit(Side::Zswap);
        assert!((with_pool(first, 1000 * MIB) as f64 / (600.0 * MIB as f64) - 1.0).abs() < 0.01);
        equal.note(Side::Zswap, &took(560 * MIB));
        assert_eq!(equal.limit(Side::Zswap), first + 40 * MIB);
        assert_eq!(equal.limit(Side::Uzswap), 600 * MIB);
    }

    #[test]
    fn pools_are_not_what_limits() {
        let mut equal = EqualMemory::new(Budget::Resident {
            bytes: 384 * MIB,
            working_set: 1536 * MIB,
        });
        equal.note(Side::Zswap, &took(900 * MIB));
        assert_eq!(equal.max_pool_percent(), Some(83));
        assert_eq!(EqualMemory::new(Budget::Unlimited).max_pool_percent(), None);
    }

    #[test]
    fn a_hot_set_is_left() {
        let mut equal = EqualMemory::new(Budget::Total {
            bytes: 400 * MIB,
            working_set: 1000 * MIB,
            resident_least: 220 * MIB,
        });
        assert_eq!(equal.limit(Side::Zswap), 220 * MIB);
        equal.note(Side::Zswap, &took(560 * MIB));
        assert_eq!(equal.limit(Side::Zswap), 220 * MIB);
    }

    #[test]
    fn a_run_that_took_too_much_is_repeated_with_less() {
        let mut equal = EqualMemory::new(Budget::Total {
            bytes: 600 * MIB,
            working_set: 1000 * MIB,
            resident_least: 0,
        });
        let memory = MemoryUse {
            limit: equal.limit(Side::Zram),
            target: 600 * MIB,
            ..took(700 * MIB)
        };
        equal.note(Side::Zram, &memory);
        assert!(equal.is_to_be_repeated(Side::Zram, &memory));
        assert!(!equal.is_to_be_repeated(Side::Uzswap, &memory));
        let memory = MemoryUse {
            limit: equal.limit(Side::Zram),
            ..memory
        };
        assert!(!equal.is_to_be_repeated(Side::Zram, &memory));
    }

    #[test]
    fn less_than_the_target_is_no_advantage() {
        let memory = |total_peak, target| MemoryUse {
            target,
            ..took(total_peak)
        };
        assert_eq!(memory(104, 100).is_held(), Some(true));
        assert_eq!(memory(106, 100).is_held(), Some(false));
        assert_eq!(memory(80, 100).is_held(), Some(true));
        assert_eq!(memory(80, 0).is_held(), None);
    }
}
