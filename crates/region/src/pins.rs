//! Pages that have to stay where they are, as system calls use them.

use lock_api::{Mutex, MutexGuard};
use uzswap_mm::page::{PageRange, Vpn};
use uzswap_sys::futex::RawLock;
use uzswap_sys::region::without_signals;

use crate::pager::Pager;

/// A part of a region that stays where it is until this is dropped, so that system calls can use
/// it.
#[must_use = "what is pinned may leave as soon as this is dropped"]
pub struct Pinned(Option<(&'static Pager, u64)>);

impl Pinned {
    /// Of what stays anyway.
    pub(crate) const NOTHING: Self = Self(None);

    pub(crate) fn new(pager: &'static Pager, number: u64) -> Self {
        Self(Some((pager, number)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some((pager, number)) = self.0.filter(|(pager, _)| pager.is_ours()) {
            without_signals(|| pager.mm.machine().pins.lock().remove(number));
        }
    }
}

impl core::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Pinned")
            .field(&self.0.map(|(_, number)| number))
            .finish()
    }
}

/// What is pinned, by numbers that are never used again.
#[derive(Default)]
pub(crate) struct Set {
    ranges: Vec<(u64, PageRange)>,
    numbers: u64,
}

impl Set {
    /// Pin `range` too, unless more than `most` pages would be then. Returns its number.
    ///
    /// # Errors
    /// So many are.
    pub(crate) fn add(&mut self, range: PageRange, most: u64) -> Result<u64, u64> {
        let pinned = self.pages();
        if pinned + range.pages() > most {
            return Err(pinned);
        }
        self.numbers += 1;
        self.ranges.push((self.numbers, range));
        Ok(self.numbers)
    }

    fn remove(&mut self, number: u64) {
        self.ranges.retain(|(of, _)| *of != number);
    }

    /// How many pages are pinned; one that is twice counts twice.
    pub(crate) fn pages(&self) -> u64 {
        self.ranges.iter().map(|(_, range)| range.pages()).sum()
    }

    /// How many of `pages` pages from `vpn` on come before the first that is pinned.
    pub(crate) fn before(&self, vpn: Vpn, pages: u32) -> u32 {
        let run = PageRange::new(vpn, pages.into());
        let meets = |range: &PageRange| range.start < run.end && run.start < range.end;
        let pinned = self.ranges.iter().map(|(_, range)| range).filter(|range| meets(range));
        let first = pinned.map(|range| range.start.max(vpn)).min().unwrap_or(run.end);
        (first.number() - vpn.number()) as u32
    }
}

/// Held while pages are moved out: what is pinned before is not among them.
#[derive(Default)]
pub(crate) struct Pins(Mutex<RawLock, Set>);

impl Pins {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RawLock, Set> {
        self.0.lock()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_comes_before_a_pin_may_leave() {
        let mut set = Set::default();
        let range = |start, pages| PageRange::new(Vpn::new(start), pages);
        assert_eq!(set.before(Vpn::new(0), 8), 8);
        let far = set.add(range(20, 4), 100).unwrap();
        let near = set.add(range(12, 10), 100).unwrap();
        let before = |set: &Set| [0, 10, 12, 15, 21, 24].map(|start| set.before(Vpn::new(start), 8));
        assert_eq!(before(&set), [8, 2, 0, 0, 0, 8]);
        set.remove(near);
        assert_eq!(before(&set), [8, 8, 8, 5, 0, 8]);
        assert_eq!((set.add(range(0, 97), 100), set.pages()), (Err(4), 4));
        set.remove(far);
        assert_eq!((set.pages(), before(&set)), (0, [8; 6]));
    }
}
