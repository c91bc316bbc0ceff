//! Which resident folio leaves next, of the lists that there are
//! ([`resident`](crate::pages::resident)).

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::page::Vpn;
use crate::pages::counts::Counts;
use crate::pages::list_lru::{LruEntry, LruList};
use crate::pages::resident::Lru;
use crate::pages::swap_table::entry::Slot;
use crate::policy::admission::Admit;
use crate::policy::replacement::First;
use crate::policy::view::{View, Working};
use crate::zpool::Arena;
use crate::{Inner, Mm};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// When the resident pages that would leave next came, or proved that they are wanted, by the
    /// clock of the machine.
    pub fn oldest(&self) -> Option<u64> {
        self.with(|inner| inner.oldest())
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Entries that [`pop_coldest`](Self::pop_coldest) gets at, stale ones included.
    pub(crate) fn lru_len(&self) -> usize {
        let all: usize = self.pages.lru.iter().map(LruList::len).sum();
        match self.policy.sharing.shares {
            true => all - self.pages.lru[Lru::Shared as usize].len(),
            false => all,
        }
    }

    /// Resident pages but for those that do not leave because a relative has them.
    pub(crate) fn reclaimable(&self) -> u64 {
        match self.policy.sharing.shares {
            true => self.pages.counts.resident - self.pages.counts.shared,
            false => self.pages.counts.resident,
        }
    }

    /// The memory to work with.
    pub(crate) fn working(&self) -> Working {
        let Counts {
            active,
            cached,
            unevictable,
            ..
        } = self.pages.counts;
        Working {
            pages: self.reclaimable(),
            active,
            cached,
            unevictable,
        }
    }

    /// What there is, for a decision.
    pub(crate) fn view(&self) -> View {
        View {
            working: self.working(),
            resident: self.pages.counts.resident,
            staged: self.pages.staging.frames(),
            objects: self.pages.pool.objects(),
            pool: self.pages.pool.pages(),
            on_device: self.pages.slots.in_use(),
            drains: self.drains(),
            shares_pool: self.shares_pool(),
        }
    }

    /// When what [`pop_coldest`](Self::pop_coldest) takes next was added.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        match self.is_active_first() {
            true => self.oldest_of([Lru::Active]),
            false => self.oldest_of([Lru::Inactive, Lru::Cached]),
        }
    }

    fn oldest_of<const N: usize>(&mut self, lists: [Lru; N]) -> Option<u64> {
        let times = lists.map(|lru| self.pages.lru[lru as usize].oldest().map(|(_, time)| time));
        times.into_iter().flatten().min()
    }

    /// Whether the active list is asked before the inactive and the cached.
    fn is_active_first(&mut self) -> bool {
        match self.policy.first(self.working()) {
            First::Active => true,
            First::Others => false,
            First::Oldest => {
                let others = self.oldest_of([Lru::Inactive, Lru::Cached]);
                let active = self.oldest_of([Lru::Active]);
                active.is_some_and(|active| others.is_none_or(|others| active < others))
            }
        }
    }

    /// The list of pages that are faulted while they are staged.
    pub(crate) fn readmits_to(&self) -> Lru {
        match self.policy.readmit() {
            Admit::Active => Lru::Active,
            Admit::Inactive | Admit::Cached => Lru::Inactive,
        }
    }

    /// Take the folio whose turn it is to leave off its list; one that does not compress if nothing
    /// else is left and the caller is desperate. The caller checks its words.
    pub(crate) fn pop_coldest(&mut self, is_desperate: bool) -> Option<(Lru, LruEntry)> {
        if !self.policy.sharing.shares
            && let Some(entry) = self.pages.lru[Lru::Shared as usize].pop_oldest()
        {
            return Some((Lru::Shared, entry));
        }
        let drains = self.drains();
        if self.policy.is_unevictable_due(drains)
            && let Some(entry) = self.pages.lru[Lru::Unevictable as usize].pop_oldest()
        {
            self.policy.victims.note_unevictable();
            return Some((Lru::Unevictable, entry));
        }
        let [first, last] = if self.is_active_first() {
            [Lru::Active, Lru::Inactive]
        } else {
            [Lru::Inactive, Lru::Active]
        };
        self.pop_from(first)
            .or_else(|| self.pop_from(last))
            .or_else(|| is_desperate.then(|| self.pop_from(Lru::Unevictable))?)
    }

    /// As [`pop_coldest`](Self::pop_coldest), from the active list or from the other two.
    fn pop_from(&mut self, lru: Lru) -> Option<(Lru, LruEntry)> {
        let lru = match lru {
            Lru::Active | Lru::Shared | Lru::Unevictable => lru,
            Lru::Inactive | Lru::Cached if self.policy.is_cached_due(self.working()) => Lru::Cached,
            Lru::Inactive | Lru::Cached => {
                let [inactive, cached] = [Lru::Inactive, Lru::Cached].map(|lru| self.pages.lru[lru as usize].oldest());
                match (inactive, cached) {
                    (Some((_, inactive)), Some((_, cached))) if cached < inactive => Lru::Cached,
                    (None, _) => Lru::Cached,
                    (Some(_), _) => Lru::Inactive,
                }
            }
        };
        self.pages.lru[lru as usize].pop_oldest().map(|entry| (lru, entry))
    }

    /// Let a folio pass that was taken off the active list: it is the youngest of those that were
    /// never wanted.
    pub(crate) fn let_pass(&mut self, entry: LruEntry) {
        for vpn in entry.pages() {
            if Lru::Active.holds(self.pages.table.lookup(vpn), entry) {
                self.pages.publish_resident(vpn);
            }
        }
    }

    /// Whether a page is resident and in the older half of a list whose pages leave first.
    pub(crate) fn is_old(&self, vpn: Vpn) -> bool {
        match self.pages.table.lookup(vpn) {
            Slot::Resident { tag, .. } => match Lru::of_resident(tag) {
                Lru::Inactive | Lru::Cached => self.pages.lru[Lru::Inactive as usize].is_old(tag),
                Lru::Shared => !self.policy.sharing.shares,
                Lru::Active | Lru::Unevictable => false,
            },
            Slot::Cached(entry) => self.pages.lru[Lru::Cached as usize].is_old(entry.tag),
            _ => false,
        }
    }
}
