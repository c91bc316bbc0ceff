//! In which order resident pages leave (`--policy`).
//!
//! An order is an answer to four questions: which list is asked first, whether it lets a page pass,
//! and where pages are put that come back, from staging and from where they were stored. Lists,
//! staging and all other policies are the same under each. Nobody sees touches: what stands for an
//! accessed bit is a fault while a page is staged.

use crate::policy::Policy;
use crate::policy::admission::{Admit, LoadFacts};
use crate::policy::view::Working;

/// The orders of replacement, from which a run chooses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Replacement {
    /// Two lists: what proved that it is wanted leaves when the others are few.
    #[default]
    Workingset = 0,
    /// As pages came, and no other list.
    Fifo = 1,
    /// As pages came, but what was wanted while it was staged is let pass once.
    Clock = 2,
    /// A small queue for what is new and a main one for what is wanted.
    S3Fifo = 3,
}

/// Which list is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Active,
    /// Inactive and cached pages.
    Others,
    /// Whichever has the page that is there longest.
    Oldest,
}

impl Replacement {
    /// The names, for messages.
    pub const NAMES: &str = "workingset, fifo, clock and s3-fifo";

    /// Every order, in the order of its word.
    pub const ALL: [Self; 4] = [Self::Workingset, Self::Fifo, Self::Clock, Self::S3Fifo];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workingset => "workingset",
            Self::Fifo => "fifo",
            Self::Clock => "clock",
            Self::S3Fifo => "s3-fifo",
        }
    }

    /// The same in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Workingset => "pages that come back soon leave last",
            Self::Fifo => "in the order in which pages came",
            Self::Clock => "the same, with a second chance",
            Self::S3Fifo => "new pages pass through a tenth of the memory",
        }
    }

    /// The order of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == text)
    }

    /// The inverse of `as u64`; anything else reads as the default.
    pub fn from_word(word: u64) -> Self {
        Self::ALL.get(word as usize).copied().unwrap_or_default()
    }

    /// A page was loaded that would still be there if memory were larger by as many pages as were
    /// stored since it was: whether it is wanted.
    fn wants(self, page: LoadFacts, working: Working, small_share: u64) -> bool {
        let within = |pages: u64| page.distance.is_some_and(|distance| distance <= pages);
        match self {
            Self::Workingset => within(working.pages),
            Self::Fifo | Self::Clock => false,
            Self::S3Fifo => within(working.pages - working.pages / small_share),
        }
    }
}

impl Policy {
    /// Whether a page that was loaded is wanted: others leave before it.
    ///
    /// Where active pages fill the memory more is wanted than fits, and for each that becomes
    /// active another leaves that is wanted as much. In the order in which they came a loop over
    /// more than fits would miss all of it. So most of those that come back from far are inactive,
    /// and the active ones stay. The loop then misses little more than what does not fit. Now and
    /// then one is active, or a hot set that moves would find no place (bimodal insertion).
    pub(crate) fn wants(&mut self, page: LoadFacts, working: Working) -> bool {
        let victims = &self.tunables.victims;
        let wants = self.replacement.wants(page, working, victims.small_share);
        let is_near = page
            .distance
            .is_some_and(|distance| distance <= working.pages / victims.near_share);
        let is_any = self.replacement != Replacement::Workingset || is_near || !self.is_crowded(working);
        wants && (is_any || self.victims.takes_far(victims.far_every))
    }

    /// Whether active pages fill the memory.
    fn is_crowded(&self, working: Working) -> bool {
        let evictable = working.pages - working.unevictable;
        (evictable - working.active) * self.tunables.victims.crowded_share < evictable
    }

    /// Where a page is put that was faulted while it was staged.
    pub(crate) fn readmit(&self) -> Admit {
        match self.replacement {
            Replacement::Fifo => Admit::Inactive,
            Replacement::Workingset | Replacement::Clock | Replacement::S3Fifo => Admit::Active,
        }
    }

    /// Which list the next folio leaves from, while it has any.
    pub(crate) fn first(&self, working: Working) -> First {
        let evictable = working.pages - working.unevictable;
        let others = evictable - working.active;
        let are_few = match self.replacement {
            Replacement::Workingset => others * self.tunables.victims.active_share < evictable,
            Replacement::S3Fifo => others * self.tunables.victims.small_share < evictable,
            Replacement::Fifo | Replacement::Clock => return First::Oldest,
        };
        if are_few { First::Active } else { First::Others }
    }

    /// Whether cached pages leave before inactive ones that are older: they are many.
    pub(crate) fn is_cached_due(&self, working: Working) -> bool {
        match self.replacement {
            Replacement::Workingset | Replacement::S3Fifo => {
                working.cached * self.tunables.victims.cached_share > working.pages
            }
            Replacement::Fifo | Replacement::Clock => false,
        }
    }

    /// A folio was taken off the active list or another: whether it is let pass, as the youngest of
    /// those that were never wanted.
    pub(crate) fn lets_pass(&mut self, is_active: bool) -> bool {
        let may = self.replacement == Replacement::Clock && is_active;
        self.victims.lets_pass(may, self.tunables.victims.passes_max)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::tunables::Tunables;

    fn policy(replacement: Replacement) -> Policy {
        Policy::new(&Tunables::DEFAULT, replacement, false)
    }

    fn working(active: u64, cached: u64) -> Working {
        Working {
            pages: 1600,
            active,
            cached,
            unevictable: 0,
        }
    }

    #[test]
    fn a_name_says_which() {
        for order in Replacement::ALL {
            assert_eq!(Replacement::parse(order.name()), Some(order));
            assert_eq!(Replacement::from_word(order as u64), order);
            assert!(Replacement::NAMES.contains(order.name()));
        }
        assert_eq!(Replacement::parse("lru"), None);
        assert_eq!(Replacement::from_word(99), Replacement::default());
    }

    #[test]
    fn lists_take_turns_by_their_lengths() {
        let first = |order, active| policy(order).first(working(active, 0));
        for (order, share) in [(Replacement::Workingset, 1500), (Replacement::S3Fifo, 1440)] {
            assert_eq!(
                [share, share + 1].map(|active| first(order, active)),
                [First::Others, First::Active]
            );
        }
        for order in [Replacement::Fifo, Replacement::Clock] {
            assert_eq!([0, 1600].map(|active| first(order, active)), [First::Oldest; 2]);
        }
    }

    #[test]
    fn cached_pages_leave_first_where_they_are_many_unless_age_is_all() {
        let is_due = |order| [200, 201].map(|cached| policy(order).is_cached_due(working(0, cached)));
        assert_eq!(is_due(Replacement::Workingset), [false, true]);
        assert_eq!(is_due(Replacement::S3Fifo), [false, true]);
        assert_eq!(is_due(Replacement::Fifo), [false; 2]);
        assert_eq!(is_due(Replacement::Clock), [false; 2]);
    }

    #[test]
    fn a_page_is_wanted_if_the_queue_would_have_kept_it() {
        let wants = |order| {
            [Some(1440), Some(1441), Some(1600), Some(1601), None].map(|distance| {
                let page = LoadFacts {
                    distance,
                    is_keepable: false,
                    is_inherited: false,
                };
                policy(order).wants(page, working(0, 0))
            })
        };
        assert_eq!(wants(Replacement::Workingset), [true, true, true, false, false]);
        assert_eq!(wants(Replacement::S3Fifo), [true, false, false, false, false]);
        assert_eq!(wants(Replacement::Fifo), [false; 5]);
        assert_eq!(wants(Replacement::Clock), [false; 5]);
    }

    #[test]
    fn where_active_pages_fill_the_memory_one_in_so_many_that_come_from_far_is_wanted() {
        let active = |order, active, distance| {
            let page = LoadFacts {
                distance: Some(distance),
                is_keepable: false,
                is_inherited: false,
            };
            let mut policy = policy(order);
            (0..320).filter(|_| policy.wants(page, working(active, 0))).count()
        };
        let (order, near, far) = (Replacement::Workingset, 200, 201);
        assert_eq!(active(order, 1400, far), 320, "there is room for it");
        assert_eq!(active(order, 1401, far), 10);
        assert_eq!(active(order, 1401, near), 320);
        assert_eq!(active(order, 1401, 1601), 0, "no memory would have kept it");
        assert_eq!(active(Replacement::S3Fifo, 1401, far), 320, "as published");
    }

    #[test]
    fn only_a_clock_lets_pages_pass_and_not_for_ever() {
        let mut clock = policy(Replacement::Clock);
        assert!(!clock.lets_pass(false));
        let most = Tunables::DEFAULT.victims.passes_max;
        for _ in 0..2 {
            assert!((0..most).all(|_| clock.lets_pass(true)));
            assert!(!clock.lets_pass(true), "one leaves");
        }
        assert!(!policy(Replacement::Workingset).lets_pass(true));
    }
}
