//! What a round of reclaim does before it takes resident pages.

use crate::policy::Policy;
use crate::policy::view::View;

/// A round begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundFacts {
    /// It is kswapd's own, and waits for nothing.
    pub(crate) is_background: bool,
    /// Pages go straight to the device.
    pub(crate) bypasses: bool,
    /// The pool takes nothing before it is drained.
    pub(crate) is_full: bool,
    /// Whether the pool may give way to the working set (`--balance`).
    pub(crate) balances: bool,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing: take resident pages.
    Isolate,
    /// Drain the pool by so many entries, the oldest first, then ask again whether it is full.
    /// Sending the newest page to the device instead would invert the LRU.
    Drain(u32),
    /// So many entries give way to the working set.
    SendOn(u32),
}

impl Policy {
    /// What a round of reclaim begins with, once the pool is [compact](Self::worth_compacting).
    pub(crate) fn round(&self, round: RoundFacts, view: &View) -> Plan {
        if !round.bypasses && round.is_full {
            return Plan::Drain(self.tunables.scan.cluster_max * 2);
        }
        self.give_way(round, view)
    }

    fn give_way(&self, round: RoundFacts, view: &View) -> Plan {
        let may = round.is_background && !round.bypasses && round.balances;
        // What a relative has too frees nothing when it goes to the device.
        let owed = if may && view.frees_by_sending_on() {
            self.balance.due()
        } else {
            0
        };
        match owed {
            0 => Plan::Isolate,
            owed => Plan::SendOn(owed),
        }
    }

    /// The oldest entries lie among younger ones: what is written back leaves holes, and frees next
    /// to nothing before they are compacted. Without this several times as many would go to the
    /// device as have to. The pages that a compaction must free, if it is due in a table of so many
    /// `words`.
    pub(crate) fn worth_compacting(&self, view: &View, words: impl FnOnce() -> u64) -> Option<u64> {
        let (tunables, emptied) = (&self.tunables.compaction, self.balance.emptied());
        let least = (view.objects / tunables.emptied_share).max(tunables.emptied_least);
        let is_due = emptied >= least && emptied >= words() / tunables.words_per_entry;
        is_due.then(|| (view.pool / tunables.gain_share).max(tunables.gain_least))
    }

    /// Entries that the shrinker writes back for `reclaimed` resident pages.
    pub(crate) fn shrinks(&mut self, view: &View, reclaimed: u64) -> u32 {
        // What is kept for mapped pages cannot be sent on.
        let objects = view.objects.saturating_sub(view.working.cached);
        if objects == 0 || !view.frees_by_sending_on() {
            return 0;
        }
        let owed = self.shrinker.owed(objects, view.pool, view.resident, reclaimed);
        owed.min(self.tunables.shrinker.round) as u32
    }

    /// How many staged frames wait, of at most `most`. Few while nothing is shared: a frame that
    /// waits is hit as often as a resident one, and each hit is a fault.
    pub(crate) fn staged_target(&self, most: u64, workable: u64) -> u64 {
        let sizing = &self.tunables.sizing;
        match self.sharing.shares {
            true => self.staged_shared(most, workable),
            false => (most / sizing.staged_unshared).max(sizing.staged_least.min(most)),
        }
    }

    /// The same while relatives share pages: `most`, or fewer where those leave little memory to
    /// work with.
    pub(crate) fn staged_shared(&self, most: u64, workable: u64) -> u64 {
        most.min(workable / self.tunables.sizing.staged_share)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::replacement::Replacement;
    use crate::policy::tunables::Tunables;
    use crate::policy::{Depth, Event, PARTS, Packing};

    const ROUND: RoundFacts = RoundFacts {
        is_background: true,
        bypasses: false,
        is_full: false,
        balances: true,
    };

    #[test]
    fn few_frames_wait_while_nothing_is_shared() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::Workingset, false);
        let targets = |policy: &Policy| [16, 128, 4096].map(|most| policy.staged_target(most, 1 << 20));
        assert_eq!(targets(&policy), [16, 64, 1024]);
        policy.sharing.shares = true;
        assert_eq!(targets(&policy), [16, 128, 4096]);
        assert_eq!(policy.staged_target(4096, 400), 100);
    }

    #[test]
    fn a_full_pool_is_drained_first_and_one_that_owes_gives_way() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        let view = View {
            drains: true,
            ..View::default()
        };
        assert_eq!(policy.round(ROUND, &view), Plan::Isolate);
        (0..100).for_each(|_| {
            let pool = Packing { entries: 3, pages: 1 };
            policy.note(Event::Loaded(Depth::new(Some(1), PARTS, pool)));
        });
        assert_eq!(policy.round(ROUND, &view), Plan::SendOn(32));
        let full = RoundFacts { is_full: true, ..ROUND };
        assert_eq!(policy.round(full, &view), Plan::Drain(64));
        let others = [
            RoundFacts {
                is_background: false,
                ..ROUND
            },
            RoundFacts {
                bypasses: true,
                is_full: true,
                ..ROUND
            },
            RoundFacts {
                balances: false,
                ..ROUND
            },
        ];
        assert!(others.iter().all(|round| policy.round(*round, &view) == Plan::Isolate));
        let shared = View {
            shares_pool: true,
            ..view
        };
        assert_eq!(policy.round(ROUND, &shared), Plan::Isolate);
    }

    #[test]
    fn a_pool_is_compacted_once_enough_entries_have_left_it() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        let view = View {
            objects: 64 * 1024,
            pool: 32 * 1024,
            ..View::default()
        };
        policy.note(Event::Emptied(2047));
        assert_eq!(policy.worth_compacting(&view, || 0), None);
        policy.note(Event::Emptied(1));
        assert_eq!(policy.worth_compacting(&view, || 0), Some(512));
        assert_eq!(policy.worth_compacting(&view, || 1 << 20), None);
        policy.note(Event::Compacted);
        assert_eq!(policy.worth_compacting(&view, || 0), None);
    }
}
