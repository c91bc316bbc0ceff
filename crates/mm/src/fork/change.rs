//! What happens to mappings: the words of a range are dropped or moved.
//!
//! The kernel reports these as userfaultfd events. The agent reads them and applies them under one
//! hold of the lock ([`Mm::with_changes`]). From the moment an event was read the kernel lets pages
//! move again. So reclaim must not run between that moment and the one at which the words follow
//! it.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::flight::departing::Departure;
use crate::flight::event::Change;
use crate::flight::freeze_log::Log;
use crate::machine::Machine;
use crate::page::{PageRange, Vpn};
use crate::pages::resident::Lru;
use crate::pages::swap_table::entry::{Slot, ZswapEntry};
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

/// The lock, held while events are read and applied.
pub struct Changes<'a, R, M: Machine>(pub(crate) Held<'a, R, M>);

impl<R: RawMutex, M: Machine> Changes<'_, R, M> {
    /// Apply one change, or log it while the engine is frozen for a fork. Then the log must have
    /// room for it: [`has_room`](Self::has_room) asks before events are read.
    pub fn apply(&mut self, change: Change) {
        match &mut self.0.flight.frozen {
            Some(log) => log.push_change(change),
            None => self.0.apply(change),
        }
    }

    /// Whether a batch of changes can be taken now.
    pub fn has_room(&self) -> bool {
        self.0.flight.frozen.as_ref().is_none_or(Log::has_room)
    }

    /// The parts of `range` that are not under our care. No page of them has a word.
    pub fn gaps(&self, range: PageRange) -> Vec<PageRange> {
        self.0.pages.managed.gaps(range)
    }

    /// Whether an event is expected that may never come: ask whether changes are under way, and if
    /// not, [`settle`](Self::settle).
    pub fn is_expecting(&self) -> bool {
        self.0.flight.frozen.is_none() && !self.0.flight.departing.is_empty()
    }

    /// No change is under way: each that was made has had its event read.
    pub fn settle(&mut self) {
        if !self.is_expecting() {
            return;
        }
        let never_left = self.0.flight.departing.settle();
        never_left
            .into_iter()
            .filter_map(Departure::waiting)
            .for_each(|range| self.0.forget(range));
    }

    /// Take `range` under our care. Pages without a word that `present` names are mapped already:
    /// they are adopted. With `present_wins`, pages that are mapped are adopted whatever their word
    /// says: only under the same hold of the lock as the look at what is present, and not while
    /// pages are staged and busy. Returns how many were adopted.
    pub fn manage(&mut self, range: PageRange, present: &[PageRange], present_wins: bool) -> u64 {
        self.0.pages.managed.insert(range);
        present.iter().map(|run| self.0.adopt(*run, present_wins)).sum()
    }

    /// `range`, all of which is mapped that was touched, is not under our care any more.
    pub fn give_up(&mut self, range: PageRange) {
        self.0.forget(range);
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Run `f`, which reads events and applies them, under the lock.
    pub fn with_changes<T>(&self, f: impl FnOnce(&mut Changes<'_, R, M>) -> T) -> T {
        self.with_for_fault(|inner| f(&mut Changes(inner.reborrow())))
    }

    /// Apply one change.
    pub fn change(&self, change: Change) {
        self.with_changes(|changes| changes.apply(change));
    }

    /// Take `range`, of which nothing is mapped, under our care.
    pub fn manage(&self, range: PageRange) {
        self.with_changes(|changes| changes.manage(range, &[], false));
    }

    /// The ranges under our care.
    pub fn managed(&self) -> Vec<PageRange> {
        self.with(|inner| inner.pages.managed.iter().collect())
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Remove(range) => self.drop_words(range),
            Change::Unmap(range) => self.unmap(range),
            Change::Remap { from, to } => self.remap(from, to),
        }
    }

    fn remap(&mut self, from: PageRange, to: Vpn) {
        let (left, there_now) = self.departures_of_move(from);
        // What is still at the target has left: the kernel would have put nothing there otherwise.
        for range in self.pages.managed.parts_in(PageRange::new(to, from.pages())) {
            let nowhere = self.flight.departing.expect_words(range);
            self.move_words(range, nowhere);
        }
        let target = |page: Vpn| to.add(page.number() - from.start.number());
        for departure in left {
            if let Some(waiting) = departure.waiting() {
                self.move_words(waiting, target(departure.range.start));
            }
        }
        for range in there_now {
            self.move_words(range, target(range.start));
        }
        if !self.mm.machine.keeps_mapping(from) {
            self.flight.departing.expect_unmap(from);
        }
    }

    /// What a move takes along: of what was expected to leave `from`, and of what is there now.
    fn departures_of_move(&mut self, from: PageRange) -> (Vec<Departure>, Vec<PageRange>) {
        // Something has landed there since, and one of the two is moved on. If nothing is mapped
        // any more, it is the later one, and what was there before is still to be unmapped.
        let has_landed = self.flight.departing.waits(from) && !self.pages.managed.parts_in(from).is_empty();
        if has_landed && !self.mm.machine.is_mapped(from.start) {
            return (Vec::new(), Vec::from([from]));
        }
        self.flight.departing.depart(from, false)
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    fn unmap(&mut self, range: PageRange) {
        let (left, there_now) = self.flight.departing.depart(range, true);
        let waiting = left.into_iter().filter_map(Departure::waiting);
        for range in waiting.chain(there_now) {
            self.forget(range);
        }
    }

    fn forget(&mut self, range: PageRange) {
        self.drop_words(range);
        self.pages.managed.remove(range);
    }

    fn drop_words(&mut self, range: PageRange) {
        // Collected first: giving up what a word points to needs all of self.
        let mut pages = Vec::new();
        self.pages.table.for_each(range, |_, vpn, _| pages.push(vpn));
        for vpn in pages {
            self.pages.publish(vpn, Slot::None);
        }
    }

    /// No block is kept of mapped pages any more. A page that moves takes its protection along
    /// (`swap_cache`), and raw system calls of several threads may be reported in any order. Were a
    /// word to come to lie at another page that is protected, that one would be taken for
    /// unwritten.
    fn drop_blocks(&mut self, range: PageRange) {
        let mut cached = Vec::new();
        self.pages.table.for_each(range, |_, vpn, slot| {
            if matches!(slot, Slot::Cached(_)) {
                cached.push(vpn);
            }
        });
        for vpn in cached {
            self.pages.publish_resident(vpn);
        }
    }

    /// Re-key the words of `from` to `to`. LRU entries name page numbers, so moved pages get new
    /// ones.
    fn move_words(&mut self, from: PageRange, to: Vpn) {
        let target = PageRange::new(to, from.pages());
        self.drop_words(target);
        self.drop_blocks(from);
        let mut moved = Vec::new();
        self.pages.take(from, |vpn, slot| {
            moved.push((to.add(vpn.number() - from.start.number()), slot));
        });
        for (vpn, word) in moved {
            let slot = match word {
                Slot::Resident { tag, note, .. } => Slot::Resident {
                    order: 0,
                    tag: self.pages.lru_add(Lru::of_resident(tag), vpn, 0),
                    note,
                },
                // A writeback in flight finds its mark gone and gives its slots back.
                Slot::Zswap(entry) => Slot::Zswap(ZswapEntry {
                    writeback: false,
                    tag: self.pages.add_stored(vpn, 0),
                    ..entry
                }),
                Slot::Staged { slot, .. } => {
                    self.pages.staging.set_owner(slot, vpn);
                    word
                }
                // CACHED: none any more.
                Slot::None | Slot::Cached(_) | Slot::Filled { .. } | Slot::Swap(_) | Slot::Bad => word,
            };
            self.pages.publish(vpn, slot);
        }
        // What was not under our care (a mapping that grew) is not now either: the scan finds and
        // adopts it.
        let gaps = self.pages.managed.gaps(from);
        self.pages.managed.remove(from);
        self.pages.managed.insert(target);
        for gap in gaps {
            let shifted = to.add(gap.start.number() - from.start.number());
            self.pages.managed.remove(PageRange::new(shifted, gap.pages()));
        }
    }

    fn adopt(&mut self, run: PageRange, present_wins: bool) -> u64 {
        let (mut start, mut adopted) = (run.start, 0);
        while start < run.end {
            let adoptable = |inner: &Self, vpn| match inner.pages.table.lookup(vpn) {
                Slot::None => true,
                // A staged frame goes with its run, which finds the word changed.
                Slot::Zswap(_) | Slot::Filled { .. } | Slot::Swap(_) | Slot::Staged { busy: false, .. } => present_wins,
                Slot::Resident { .. } | Slot::Cached(_) | Slot::Staged { busy: true, .. } | Slot::Bad => false,
            };
            let mut end = start;
            while end < run.end && adoptable(self, end) {
                end = end.add(1);
            }
            let pages = end.number() - start.number();
            adopted += pages;
            if pages > 0 {
                // Folios of at most one staging unit: adopted memory is of unknown temperature.
                for chunk in (0..pages).step_by(crate::UNIT as usize) {
                    self.pages
                        .publish_resident_run(start.add(chunk), (pages - chunk).min(u64::from(crate::UNIT)));
                }
            }
            start = end.add(u64::from(pages == 0));
        }
        adopted
    }
}
