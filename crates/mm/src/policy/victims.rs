//! What is known of the folios that left last, and whether those that do not compress are asked.

use crate::policy::Policy;

/// What was taken off the lists.
#[derive(Default)]
pub(crate) struct Victims {
    /// Folios.
    pops: u32,
    /// The last page of the unevictable list that was looked at must stay.
    is_last_needed: bool,
    /// Folios that were let pass since one left.
    passes: u32,
    /// Pages that came back from far since one of them was active.
    far: u32,
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

    /// Whether a folio that may be let pass is, at most so many times in a row: a round of reclaim
    /// has to get at something.
    pub(super) fn lets_pass(&mut self, may: bool, most: u32) -> bool {
        let passes = may && self.passes < most;
        self.passes = if passes { self.passes + 1 } else { 0 };
        passes
    }

    /// Whether a page that comes back from far is active all the same: one of so many is.
    pub(super) fn takes_far(&mut self, every: u32) -> bool {
        self.far += 1;
        let takes = self.far >= every;
        if takes {
            self.far = 0;
        }
        takes
    }
}

impl Policy {
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
    use crate::policy::replacement::Replacement;
    use crate::policy::tunables::Tunables;

    #[test]
    fn pages_that_do_not_compress_are_asked_now_and_then() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        assert!(policy.is_unevictable_due(true));
        policy.victims.note_needed();
        assert_eq!((0..640).filter(|_| policy.is_unevictable_due(true)).count(), 10);
        policy.victims.note_unevictable();
        assert!(policy.is_unevictable_due(true));
    }
}
