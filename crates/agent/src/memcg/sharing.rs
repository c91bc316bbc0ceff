//! Forked relatives that share pages: what each tells the others of it, and when it was charged.

use core::sync::atomic::Ordering;

use uzswap_ctl::{Field, Notice};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::thread;
use uzswap_sys::time::now_ns;

use super::{CHILD_OWN, Memcg};
use crate::pager::Pager;

/// Who is charged for what a process shares.
#[derive(Clone, Copy)]
pub(crate) enum Sharers {
    Living,
    /// Only those who have ended, so many bytes: nobody is charged for it in their place yet.
    Dead(u64),
    Nobody,
}

impl Memcg {
    /// Whether relatives may share pages.
    pub(crate) fn shares(&self) -> bool {
        self.shares.load(Ordering::Relaxed) != 0
    }

    /// A child was forked, or we are one.
    pub(crate) fn begin_sharing(&self) {
        self.settle_shares(false);
        self.shares.store(1, Ordering::Relaxed);
        self.group.begin_sharing(self.slot());
    }

    /// What relatives share with us is what it was, or is not.
    pub(crate) fn settle_shares(&self, is_settled: bool) {
        self.is_settled.store(is_settled, Ordering::Relaxed);
    }

    /// Whether relatives share pages with us, and what is known of them holds.
    pub(super) fn has_settled_shares(&self) -> bool {
        self.shares() && self.is_settled.load(Ordering::Relaxed)
    }

    /// What is shared does not leave, so what is left to work with may be little: then less of it
    /// is kept free, and less moves at a time.
    pub(crate) fn fit(&self, pager: &Pager) {
        let relatives = if self.shares() { self.relatives() } else { 0 };
        pager.mm.set_relatives(relatives as u64);
        let max = self.group.memory_max();
        let is_settled = self.has_settled_shares();
        let pages = is_settled.then(|| pager.mm.workable_pages()).flatten();
        let workable = pages.map_or(max, |pages| {
            max.saturating_sub(self.current(pager)) + pages * PAGE_SIZE as u64
        });
        self.workable.store(workable, Ordering::Relaxed);
        pager.mm.fit_portions(workable / PAGE_SIZE as u64);
    }

    /// Whether relatives share pages with us, and which is not known: pages that would leave may be
    /// theirs as well.
    pub(crate) fn has_unsettled_shares(&self) -> bool {
        self.shares() && !self.is_settled.load(Ordering::Relaxed)
    }

    /// Whether whoever writes to what relatives share waits for room.
    pub(crate) fn is_gated(&self) -> bool {
        self.is_gated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_gated(&self, is_gated: bool) {
        self.is_gated.store(is_gated, Ordering::Relaxed);
    }

    /// A writer is to wait for room. True: the last that did not has gone for `ns`.
    pub(crate) fn has_waited_to_copy(&self, ns: u64) -> bool {
        let (now, since) = (now_ns(), self.copied_at.load(Ordering::Relaxed));
        let has_waited = now.saturating_sub(since) > ns;
        if has_waited {
            self.copied_at.store(now, Ordering::Relaxed);
        }
        has_waited
    }

    /// So many bytes may become copies.
    pub(crate) fn tell_copyable(&self, bytes: u64) {
        self.group.set_field(self.slot(), Field::Copyable, bytes);
    }

    /// Whether the group would outgrow its limit if all that may be copied were.
    pub(crate) fn may_outgrow(&self, pager: &Pager) -> bool {
        self.group.sum(Field::Copyable) > self.headroom(pager)
    }

    /// A page that was shared is about to be copied: charged at once, the next sample finds it.
    pub(crate) fn note_copied(&self) {
        self.beyond.fetch_add(PAGE_SIZE as i64, Ordering::Relaxed);
    }

    /// No relative has pages of ours any more.
    pub(crate) fn end_sharing(&self) {
        self.tell_copyable(0);
        self.shares.store(0, Ordering::Relaxed);
        self.group.end_sharing(self.slot());
        self.pool_inherited.store(0, Ordering::Relaxed);
    }

    /// The process goes on without its pager, whose slot is cleared. The launcher's census counts
    /// it from now on, and relatives are to be charged for what was charged here.
    pub(crate) fn leave(&self) {
        self.group.set_field(self.slot(), Field::Left, thread::pid() as u64);
        if self.shares() {
            self.group.add(Notice::Unshared, 1);
        }
    }

    /// A child is about to be forked, or somebody tries to.
    pub(crate) fn begin_fork(&self) {
        self.group.begin_fork(self.slot());
    }

    /// It is there and charged, or there is none.
    pub(crate) fn end_fork(&self) {
        self.group.end_fork(self.slot(), now_ns());
    }

    /// Whether we or a relative were forking at any moment from `since` on.
    pub(crate) fn has_forked(&self, since: u64) -> bool {
        self.group.has_forked(self.slot(), since)
    }

    /// In a forked child, which has the parent's slot still: what both share is the parent's until
    /// it may count as ours.
    pub(crate) fn charge_to_parent(&self, slot: usize) {
        self.group.set_field(slot, Field::Charge, CHILD_OWN);
        // An heir from now on: our parent may be dead before we have threads that look.
        self.group.adopt_child(slot, self.slot(), now_ns());
    }

    /// We have looked at what we share, from `began` on. `is_charged`: for no less than that found.
    pub(crate) fn note_look(&self, began: u64, is_charged: bool) {
        self.group.note_look(self.slot(), began, is_charged);
    }

    /// Whether a relative has been found dead since `then`, and was not charged for what it would
    /// have found.
    pub(crate) fn has_relative_died_uncharged(&self, then: u64) -> bool {
        self.group.has_died_uncharged(self.slot(), then)
    }

    /// How many others that live may share memory with us.
    fn relatives(&self) -> usize {
        self.group.relatives_count(self.slot())
    }

    /// Who is charged for what we share.
    pub(crate) fn sharers(&self, pager: &Pager) -> Sharers {
        let (group, slot) = (self.group, self.slot());
        let leases = &pager.fds().leases;
        if !self.shares() {
            return Sharers::Nobody;
        }
        if group.has_relative(slot, |other| leases.is_held(other)) {
            return Sharers::Living;
        }
        match group.relatives_charge(slot) {
            0 => Sharers::Nobody,
            bytes => Sharers::Dead(bytes),
        }
    }

    /// Whether all who shared memory with us are dead, and one of them is charged still.
    pub(crate) fn are_relatives_dead(&self) -> bool {
        self.group.are_relatives_dead(self.slot())
    }

    /// Since when there may be something to find.
    pub(crate) fn shares_since(&self) -> u64 {
        self.group.field(self.slot(), Field::RaisedAt)
    }

    /// No child came of a fork, though it may have begun as one.
    pub(crate) fn has_no_child(&self) {
        if !self.shares() {
            self.group.end_sharing(self.slot());
        }
    }

    /// We are to be charged for what we found in the look that began at `began`: `more` bytes are
    /// relatives' than was known; less than nothing: they are ours. `sample`: has that count, and
    /// is told how much of what we give up nobody has taken.
    pub(crate) fn settle(&self, pager: &Pager, began: u64, more: i64, sample: impl FnOnce(u64)) {
        let (group, slot) = (self.group, self.slot());
        let inherited = group.begin_to_take(slot, (-more).max(0) as u64, began);
        let untaken = group.give_up(slot, more.max(0) as u64);
        sample(untaken);
        self.charge(pager);
        // Told before what the dead are charged becomes less.
        group.take_from_the_dead(slot, inherited);
        group.note_charged(slot, began);
        group.note_settled(slot, began);
        self.end_twice();
    }

    /// Have what is charged to nobody be charged to who took it, where no relative gives it up.
    pub(crate) fn end_twice(&self) {
        self.group.end_twice(now_ns());
    }

    /// Whether all relatives have looked since `then`.
    pub(crate) fn have_relatives_looked(&self, then: u64) -> bool {
        self.group.have_looked(self.slot(), then, now_ns())
    }

    /// Whether all relatives are charged for what they found since `then`.
    pub(crate) fn have_relatives_charged(&self, then: u64) -> bool {
        self.group.have_charged(self.slot(), then, now_ns())
    }

    /// In a forked child, until the first sample: everything but [`CHILD_OWN`] is the parent's.
    pub(crate) fn assume_shared(&self, pager: &Pager) {
        let counted = (pager.mm.usage_pages() as usize * PAGE_SIZE) as i64;
        self.beyond.store(CHILD_OWN as i64 - counted, Ordering::Relaxed);
        self.pool_inherited.store(pager.mm.gauges().pool, Ordering::Relaxed);
        self.set_gated(false);
        self.begin_sharing();
    }
}
