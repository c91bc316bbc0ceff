//! Which list of resident folios the next one leaves from.

use crate::policy::Policy;
use crate::policy::view::Working;

/// What was taken off the lists.
#[derive(Default)]
pub(crate) struct Victims {
    /// Folios.
    pops: u32,
    /// The last page of the unevictable list that was looked at must stay.
    is_last_needed: bool,
}

impl Victims {
    /// The last unevictable page that was looked at must stay: they are not asked for a while.
    pub(crate) fn note_needed(&mut self) {
        self.is_last_needed = true;
    }

    /// One of them was taken, who knows what it says.
    pub(crate) fn note_unevictable(&mut self) {
        self.is_last_needed = false;
    }
}

impl Policy {
    /// Whether active pages leave next: the others are few.
    pub(crate) fn is_active_due(&self, working: Working) -> bool {
        let evictable = working.pages - working.unevictable;
        (evictable - working.active) * self.tunables.victims.active_share < evictable
    }

    /// Whether cached pages leave before inactive ones that are older: they are many.
    pub(crate) fn is_cached_due(&self, working: Working) -> bool {
        working.cached * self.tunables.victims.cached_share > working.pages
    }

    /// A folio is to leave: whether the first to be asked are those that did not compress.
    pub(crate) fn is_unevictable_due(&mut self, drains: bool) -> bool {
        self.victims.pops = self.victims.pops.wrapping_add(1);
        // With a device there is a place for what does not compress, but not for what must stay.
        let has_place = drains && !self.victims.is_last_needed;
        has_place
            || self
                .victims
                .pops
                .is_multiple_of(self.tunables.victims.unevictable_share)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::tunables::Tunables;

    #[test]
    fn lists_take_turns_by_their_lengths() {
        let mut policy = Policy::new(&Tunables::DEFAULT, false);
        let working = |active, cached| Working {
            pages: 1600,
            active,
            cached,
            unevictable: 0,
        };
        assert!(!policy.is_active_due(working(1500, 0)) && policy.is_active_due(working(1501, 0)));
        assert!(!policy.is_cached_due(working(0, 200)) && policy.is_cached_due(working(0, 201)));
        assert!(policy.is_unevictable_due(true));
        policy.victims.note_needed();
        assert_eq!((0..640).filter(|_| policy.is_unevictable_due(true)).count(), 10);
        policy.victims.note_unevictable();
        assert!(policy.is_unevictable_due(true));
    }
}
