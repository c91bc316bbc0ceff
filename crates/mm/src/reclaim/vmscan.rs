//! Reclaim: choose folios, take them out of the mapping, store those that stay cold.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::{Machine, Stop, Unwritten};
use crate::page::{PageRange, Vpn, extend_last};
use crate::pages::list_lru::LruEntry;
use crate::pages::range_set::RangeSet;
use crate::pages::resident::Lru;
use crate::pages::staging::StagedRun;
use crate::pages::swap_table::entry::Slot;
use crate::reclaim::spent::Spent;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm, SwapOut, UNIT};

/// How far a round of reclaim goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Some staged frames keep waiting for their second chance.
    Background,
    /// So many do, and nothing else gives way: memory is not short.
    Cold { waits: u64 },
    /// Every staged frame may be stored.
    Requested,
    /// As that, and when nothing is left to take, the pool's oldest pages are written back.
    Urgent,
}

/// What one round of reclaim came to.
#[derive(Default, Debug)]
pub struct Scan {
    /// Pages stored in the pool or written to the device.
    pub reclaimed: u64,
    /// Pages taken out of the mapping in this round.
    pub isolated: u32,
    /// Pages that could not move because the kernel pins them or a forked process has them that we
    /// do not know of. If nothing else is left, breaking the sharing (outside the lock) and
    /// [`Mm::isolate_range`] gets at the latter. Of those that we know of: [`Mm::take_shared`].
    pub shared: Vec<PageRange>,
    /// Pages that could not move because of what may be done with their mapping:
    /// [`Mm::isolate_by_copy`] gets at those that are not to be written to.
    pub unmovable: Vec<PageRange>,
    /// Pages passed over since they are needed.
    pub needed: u32,
    /// Reclaim must wait until events were read.
    pub again: bool,
    /// Nothing is left that could be isolated or stored.
    pub is_dry: bool,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// One round: isolate about `want` pages, then store the oldest staged runs: in the background
    /// until as many frames wait as are to, else until none does or as many as wanted were stored.
    pub fn shrink(&self, worker: &mut Worker<M>, want: u32, effort: Effort) -> Scan {
        let mut scan = Scan::default();
        let bypasses = self.bypasses_zswap();
        let takes_any = bypasses || self.is_enabled();
        if !takes_any || !self.open_round(worker, effort, bypasses, &mut scan) {
            return scan;
        }
        let has_looked = self.isolate(want.clamp(self.tunables().scan.cluster_max, UNIT * 32), &mut scan);
        let target = match effort {
            Effort::Background => self.with(|inner| inner.staged_target(self.config.staged_most)),
            Effort::Cold { waits } => waits,
            Effort::Requested | Effort::Urgent => 0,
        };
        let mut spent = Spent::default();
        let staged = |spent: &Spent| {
            let frames = self.with(|inner| inner.pages.staging.frames());
            frames.saturating_sub(spent.slots())
        };
        let mut left = staged(&spent);
        while left > target {
            let stored = if bypasses {
                self.swap_out_oldest(worker, &mut spent)
            } else {
                self.store_oldest(worker, &mut spent)
            };
            let Some(stored) = stored else { break };
            scan.reclaimed += stored;
            // In the background as many as are isolated, as a rule, or many more, where fewer are
            // to wait than did.
            let most = match effort {
                Effort::Background | Effort::Cold { .. } => want * 2,
                Effort::Requested | Effort::Urgent => want,
            };
            let is_enough = scan.reclaimed >= u64::from(most);
            // Nothing stored, and no frame given up either: what was refused now would be refused
            // again.
            let before = core::mem::replace(&mut left, staged(&spent));
            let is_stuck = stored == 0 && left >= before;
            if is_enough || is_stuck || (!bypasses && self.is_pool_full()) {
                break;
            }
        }
        self.give_up_spent(&mut spent);
        if !bypasses {
            self.shrink_zswap(worker, scan.reclaimed);
        }
        scan.is_dry = has_looked && !scan.again && scan.reclaimed == 0 && scan.isolated == 0;
        // Not what a relative has too, while there are resident pages that would free more.
        if scan.is_dry && effort == Effort::Urgent && !self.with(|inner| inner.has_shared()) {
            scan.reclaimed += self.writeback(worker, self.tunables().scan.cluster_max * 2);
        }
        scan
    }

    /// How many staged frames will wait once relatives share pages.
    pub fn staged_once_shared(&self) -> u64 {
        self.with(|inner| inner.policy.staged_shared(self.config.staged_most, inner.workable()))
    }

    /// Store the run that has been staged longest, if more frames are staged than wait for a second
    /// chance and zswap takes any. Returns how many pages were stored.
    pub fn store_staged(&self, worker: &mut Worker<M>) -> u64 {
        let waits = self.with(|inner| inner.staged_target(self.config.staged_most));
        self.store_staged_beyond(worker, waits)
    }

    /// As [`store_staged`](Self::store_staged), where so many frames wait.
    pub fn store_staged_beyond(&self, worker: &mut Worker<M>, waits: u64) -> u64 {
        let is_due = self.with(|inner| inner.pages.staging.frames() > waits);
        let takes = !self.bypasses_zswap() && self.is_enabled() && !self.is_pool_full();
        let mut spent = Spent::default();
        let stored = (is_due && takes)
            .then(|| self.store_oldest(worker, &mut spent))
            .flatten();
        self.give_up_spent(&mut spent);
        stored.unwrap_or(0)
    }

    /// Take the coldest folios out of their mapping until `want` pages are staged or everything was
    /// looked at once. False: it is not for us to take any.
    fn isolate(&self, want: u32, scan: &mut Scan) -> bool {
        let Some(isolation) = self.machine.begin_isolation() else {
            scan.again = true;
            return false;
        };
        let mut batch = Batch::default();
        let (mut budget, mut goes_on) = (None, true);
        while goes_on && budget != Some(0) {
            goes_on = self.with_for_reclaim(|inner| inner.isolate(&mut batch, &mut budget, want, scan));
        }
        if self.machine.copies() {
            self.give_up_leaving(&isolation);
        }
        self.with(|inner| batch.finish(inner));
        true
    }

    /// Take the resident pages of `range`, which refuse to move ([`Scan::unmovable`]), by copying
    /// them. Returns how many were isolated. Only for the thread that copies where none move.
    pub fn isolate_by_copy(&self, isolation: &M::Isolation, range: PageRange) -> u64 {
        let mut scan = Scan::default();
        let (mut refused, mut at) = (0, range.start);
        while at < range.end && !scan.again {
            let mut batch = Batch::default();
            at = self.with(|inner| inner.copy_run(&mut batch, PageRange { start: at, ..range }, &mut scan));
            refused += self.give_up_leaving(isolation);
            self.with(|inner| batch.finish(inner));
        }
        u64::from(scan.isolated) - refused
    }

    /// Try again for pages of `range` whose sharing was broken. Returns how many were isolated.
    pub fn isolate_range(&self, range: PageRange) -> u32 {
        if self.machine.copies() {
            // Nothing refuses for being shared.
            return 0;
        }
        let is_for_device = self.is_shared_for_device();
        self.with(|inner| {
            let mut scan = Scan::default();
            let mut batch = Batch {
                is_for_device,
                ..Batch::default()
            };
            if inner.flight.frozen.is_none() {
                for vpn in range.iter() {
                    if matches!(inner.pages.table.lookup(vpn), Slot::Resident { .. } | Slot::Cached(_)) {
                        inner.isolate_run(&mut batch, PageRange::new(vpn, 1), false, &mut scan);
                    }
                }
            }
            batch.finish(inner);
            scan.isolated
        })
    }

    /// Pages of `range` refuse to move as a mapping: they are not asked one by one until
    /// [`forget_unmovable`](Self::forget_unmovable).
    pub fn note_unmovable(&self, range: PageRange) {
        self.with(|inner| inner.flight.unmovable.insert(range));
    }

    /// What mappings refuse may have changed.
    pub fn forget_unmovable(&self) {
        self.with(|inner| inner.flight.unmovable = RangeSet::default());
    }
}

/// The runs that isolated pages are packed into: the one that takes more, and those that are full.
/// None of them is stored before [`finish`](Batch::finish).
#[derive(Default)]
struct Batch {
    open: Option<StagedRun>,
    closed: Vec<StagedRun>,
    /// All of them are.
    is_for_device: bool,
}

impl Batch {
    /// A run with room for `pages` more slots. `None`: the staging range is full.
    fn room<R: RawMutex, A: Arena>(&mut self, inner: &mut Inner<R, A>, pages: u32) -> Option<&mut StagedRun> {
        if self.open.is_none_or(|run| run.capacity - run.len < pages) {
            self.close(inner);
            // Long runs are given up at the price of short ones.
            self.open = inner
                .pages
                .staging
                .alloc(pages.max(inner.policy.tunables.scan.batch_slots))
                .or_else(|| inner.pages.staging.alloc(pages))
                // Nothing stores a run of no frames, so if all slots belong to such runs, this is
                // their only way out.
                .or_else(|| {
                    inner
                        .pages
                        .staging
                        .release_empty()
                        .then(|| inner.pages.staging.alloc(pages))
                        .flatten()
                });
        }
        self.open.as_mut()
    }

    fn close<R: RawMutex, A: Arena>(&mut self, inner: &mut Inner<R, A>) {
        let Some(mut run) = self.open.take() else { return };
        inner.pages.staging.trim(&mut run);
        run.is_for_device = self.is_for_device;
        if run.len > 0 {
            self.closed.push(run);
        }
    }

    /// The runs join those that wait.
    fn finish<R: RawMutex, A: Arena>(mut self, inner: &mut Inner<R, A>) {
        self.close(inner);
        self.closed.into_iter().for_each(|run| inner.pages.staging.push(run));
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// How many staged frames wait, of at most `most`.
    fn staged_target(&self, most: u64) -> u64 {
        self.policy.staged_target(most, self.workable())
    }

    fn workable(&self) -> u64 {
        self.reclaimable() + self.pages.staging.frames()
    }

    /// `run` and the old resident pages beside it in the windows of one batch that it begins and
    /// ends in.
    fn with_old_neighbours(&self, run: PageRange) -> PageRange {
        let is_old = |n: &u64| self.is_old(Vpn::new(*n));
        let unit = u64::from(self.policy.tunables.scan.batch_slots);
        let (start, end) = (run.start.number(), run.end.number());
        let below = (start / unit * unit..start).rev().take_while(is_old).count() as u64;
        let above = (end..end.next_multiple_of(unit)).take_while(is_old).count() as u64;
        PageRange::new(Vpn::new(start - below), below + run.pages() + above)
    }

    /// The frames of `pages` neighbours are in the staging slots from `slot` on: as many whole
    /// aligned folios as they make.
    fn publish_staged_run(&mut self, slot: u32, run: Vpn, pages: u64, order_max: u32, unwritten: &Unwritten) {
        for (vpn, order) in PageRange::new(run, pages).folios(order_max) {
            self.pages
                .staging
                .fill(slot + (vpn.number() - run.number()) as u32, vpn, order);
        }
        for (slot, vpn) in (slot..).zip(PageRange::new(run, pages).iter()) {
            self.pages.publish_staged(vpn, slot, false);
            let is_unwritten = unwritten.holds(vpn) && self.pages.staging.kept(slot).is_some();
            self.pages.staging.set_unwritten(slot, is_unwritten);
            if is_unwritten {
                self.note_protected();
            }
        }
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Isolate from the oldest entries, at most `budget` of them (`None`: not reckoned yet), for
    /// `hold.ns`. Whether there is more to isolate after that: fewer than `want` pages were, and
    /// more can be.
    fn isolate(&mut self, batch: &mut Batch, budget: &mut Option<usize>, want: u32, scan: &mut Scan) -> bool {
        let (mm, scans) = (self.mm, &self.policy.tunables.scan);
        let most = want as usize * scans.looks_per_page + scans.looks_more;
        let budget = budget.get_or_insert(self.lru_len().min(most));
        if *budget > 0 && self.flight.frozen.is_some() {
            scan.again = true;
        }
        if *budget == 0 || scan.again {
            return false;
        }
        let until = mm.machine.now_ns() + self.policy.tunables.hold.ns;
        while *budget > 0 {
            let is_desperate = scan.isolated == 0 && scan.needed < self.policy.tunables.victims.needed_max;
            let Some((lru, entry)) = self.pop_coldest(is_desperate) else {
                return false;
            };
            *budget -= 1;
            if self.policy.lets_pass(lru == Lru::Active) {
                self.let_pass(entry);
                continue;
            }
            let before = scan.isolated;
            self.isolate_folio(batch, lru, entry, scan);
            if scan.isolated >= want || scan.again || !self.flight.leaving.has_room(&self.policy.tunables.copied) {
                return false;
            }
            if scan.isolated - before >= self.policy.tunables.hold.many || mm.machine.now_ns() >= until {
                break;
            }
        }
        true
    }

    /// Isolate the pages of one LRU entry that still carry its tag, in runs of neighbours. Each run
    /// takes along what lies beside it in its window and is old too: a move costs a TLB flush on
    /// every core, however many pages it takes.
    fn isolate_folio(&mut self, batch: &mut Batch, lru: Lru, entry: LruEntry, scan: &mut Scan) {
        let mm = self.mm;
        let carries = |inner: &Self, vpn| lru.holds(inner.pages.table.lookup(vpn), entry);
        let end = entry.vpn.add(1 << entry.order);
        let mut at = entry.vpn;
        while at < end {
            if !carries(self, at) {
                at = at.add(1);
                continue;
            }
            let own = PageRange { start: at, end }
                .iter()
                .take_while(|vpn| carries(self, *vpn))
                .count() as u64;
            let own = PageRange::new(at, own);
            if self.flight.unmovable.covers(own) {
                mm.stat.add(Item::PgScan, own.pages());
                at = self.pass_over(own, scan);
                continue;
            }
            let run = self.with_old_neighbours(own);
            mm.stat.add(Item::PgScan, run.pages());
            self.isolate_run(batch, run, mm.machine.copies(), scan);
            at = run.end;
        }
    }

    /// A run that would refuse to move. Returns its end.
    fn pass_over(&mut self, run: PageRange, scan: &mut Scan) -> Vpn {
        for vpn in run.iter() {
            self.refused(vpn, Stop::Unmovable, 1, scan);
        }
        run.end
    }

    /// Copy the first resident pages of `range` that are neighbours, as many as may leave together.
    /// Returns where to go on.
    fn copy_run(&mut self, batch: &mut Batch, range: PageRange, scan: &mut Scan) -> Vpn {
        if self.flight.frozen.is_some() {
            scan.again = true;
            return range.start;
        }
        let is_mapped = |vpn: &Vpn| matches!(self.pages.table.lookup(*vpn), Slot::Resident { .. } | Slot::Cached(_));
        let Some(start) = range.iter().find(is_mapped) else {
            return range.end;
        };
        let rest = PageRange { start, ..range };
        let pages = rest
            .iter()
            .take(self.policy.tunables.copied.pages_max as usize)
            .take_while(is_mapped)
            .count() as u64;
        self.isolate_run(batch, PageRange::new(start, pages), true, scan);
        start.add(pages)
    }

    /// Isolate neighbours; `refused` says where the others go.
    fn isolate_run(&mut self, batch: &mut Batch, run: PageRange, copies: bool, scan: &mut Scan) {
        let mm = self.mm;
        let (mut vpn, mut left) = (run.start, run.pages() as u32);
        let mut most = left;
        while left > 0 {
            let Some(run) = batch.room(self, left).filter(|_| !scan.again) else {
                scan.again = true;
                return self.pages.publish_resident_run(vpn, u64::from(left));
            };
            let slot = run.slot + run.len;
            let tried = left.min(most);
            let unwritten = self.unwritten(PageRange::new(vpn, tried.into()));
            let done = match copies {
                true => mm.machine.copy_out(vpn, slot, tried),
                false => mm.machine.move_out(vpn, slot, tried),
            };
            run.len += done.pages;
            let order_max = match mm.swap_out() {
                SwapOut::Split => 0,
                SwapOut::Whole | SwapOut::Direct => mm.portions().folio_order,
            };
            self.publish_staged_run(slot, vpn, u64::from(done.pages), order_max, &unwritten);
            if copies {
                self.flight.leaving.add(PageRange::new(vpn, u64::from(done.pages)));
            }
            scan.isolated += done.pages;
            vpn = vpn.add(u64::from(done.pages));
            left -= done.pages;
            if done.pages == 0 && done.stop == Some(Stop::Unmovable) && tried > 1 {
                // A run that spans two mappings is refused as a whole.
                most = tried / 2;
                continue;
            }
            if let (Some(stop), true) = (done.stop, left > 0) {
                let passed = self.refused(vpn, stop, left, scan);
                vpn = vpn.add(u64::from(passed));
                left -= passed;
            }
        }
    }

    /// Which pages of a run that is about to move hold what their blocks hold, if it has any
    /// (`swap_cache`).
    fn unwritten(&self, run: PageRange) -> Unwritten {
        let mm = self.mm;
        let has_block = run
            .iter()
            .any(|vpn| matches!(self.pages.table.lookup(vpn), Slot::Cached(_)));
        match has_block {
            true => mm.machine.unwritten(run),
            false => Unwritten::NONE,
        }
    }

    /// Page `vpn` refused to move. Returns how many of the `left` pages are dealt with.
    fn refused(&mut self, vpn: Vpn, stop: Stop, left: u32, scan: &mut Scan) -> u32 {
        let mm = self.mm;
        match stop {
            // Dropped by the program in the moment between an event and the drop itself.
            Stop::Missing => self.pages.publish(vpn, Slot::None),
            Stop::Busy => {
                mm.stat.add(Item::ReclaimBusy, 1);
                if self.policy.sharing.shares {
                    self.pages.publish_folio(Lru::Shared, vpn, 0);
                } else {
                    remember(&mut scan.shared, vpn, self.policy.tunables.scan.remembered_max);
                    self.pages.publish_resident(vpn);
                }
            }
            Stop::Unmovable | Stop::Present => {
                mm.stat.add(Item::ReclaimUnmovable, 1);
                if self.policy.sharing.shares && !mm.machine.copies() {
                    // A relative may have it too, which copying does not ask.
                    self.pages.publish_folio(Lru::Shared, vpn, 0);
                } else {
                    remember(&mut scan.unmovable, vpn, self.policy.tunables.scan.remembered_max);
                    self.pages.publish_resident(vpn);
                }
            }
            Stop::Needed => {
                mm.stat.add(Item::ReclaimNeeded, 1);
                scan.needed += 1;
                self.policy.victims.note_needed();
                self.pages.publish_folio(Lru::Unevictable, vpn, 0);
            }
            Stop::Again | Stop::NoMemory => {
                scan.again = true;
                self.pages.publish_resident_run(vpn, u64::from(left));
                return left;
            }
        }
        1
    }
}

/// Add a page to a list of at most `most` ranges.
fn remember(ranges: &mut Vec<PageRange>, vpn: Vpn, most: usize) {
    if !extend_last(ranges, vpn) && ranges.len() < most {
        ranges.push(PageRange::new(vpn, 1));
    }
}
