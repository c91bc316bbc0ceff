//! How many words say what. Changed with each word ([`publish`](crate::pages::publish)), and by
//! nobody else.

use core::ops::{AddAssign, SubAssign};

use crate::page::PAGE_SIZE;
use crate::pages::resident::Lru;
use crate::pages::swap_table::entry::{Slot, ZswapEntry};

/// Pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) resident: u64,
    /// Of them, pages whose blocks are kept, and pages of the active, the shared and the
    /// unevictable list.
    pub(crate) cached: u64,
    pub(crate) active: u64,
    pub(crate) shared: u64,
    pub(crate) unevictable: u64,
    /// Stored as they are.
    pub(crate) incompressible: u64,
}

impl Counts {
    /// What a word counts for.
    pub(crate) fn of(slot: Slot) -> Self {
        let none = Self::default();
        match slot {
            Slot::Resident { tag, .. } => {
                let is_on = |list| u64::from(Lru::of_resident(tag) == list);
                Self {
                    resident: 1,
                    active: is_on(Lru::Active),
                    shared: is_on(Lru::Shared),
                    unevictable: is_on(Lru::Unevictable),
                    ..none
                }
            }
            Slot::Cached(_) => Self {
                resident: 1,
                cached: 1,
                ..none
            },
            Slot::Zswap(ZswapEntry { len, .. }) => Self {
                incompressible: u64::from(len as usize == PAGE_SIZE),
                ..none
            },
            Slot::None | Slot::Staged { .. } | Slot::Filled { .. } | Slot::Swap(_) | Slot::Bad => none,
        }
    }

    fn each(&mut self) -> [&mut u64; 6] {
        [
            &mut self.resident,
            &mut self.cached,
            &mut self.active,
            &mut self.shared,
            &mut self.unevictable,
            &mut self.incompressible,
        ]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, mut other: Self) {
        for (count, more) in self.each().into_iter().zip(other.each()) {
            *count += *more;
        }
    }
}

impl SubAssign for Counts {
    fn sub_assign(&mut self, mut other: Self) {
        for (count, less) in self.each().into_iter().zip(other.each()) {
            *count -= *less;
        }
    }
}
