//! What relatives share with us, and what becomes of it when they end.
//!
//! Each process is charged for its part of a page, as the kernel reckons it (Pss). It learns that
//! by a look of its own, which walks all page tables: milliseconds. So a look is one process's, at
//! its own time, and what it changes must be changed by all or by none. `uzswap_ctl::relatives` has
//! the order:
//!
//! ```text
//!   look, more is ours  ---- all relatives have looked since it became so ---->  charged for it
//!   look, less is ours  ---- all relatives are charged since our look --------->  charged for less
//! ```
//!
//! Until then the last look counts, so nobody looks again before. A new child is charged for what
//! it has alone ([`CHILD_OWN`]), its parent for the rest, as before the fork. Who dies is charged
//! until all heirs are.
//!
//! Between two looks, and from a fork to the first one, copies are charged in full to the writer.
//! They are the faults of the kernel's count that nobody had to wait for and that brought nothing.
//! The writer may be charged for all of the old page already, which relatives have now and do not
//! know of: then he is charged more than he has. Other faults are taken for copies too, so rather
//! more is charged than there is. What else is given up is taken for relatives' in the part that
//! all of it was. Much of either makes a look due. Where copies are not known (a filter of system
//! calls, pages that are copied out, what is deferred) looks come one after the other, as long as
//! each takes.
//!
//! A look that finds what was known already has the next one wait twice as long, up to
//! [`LOOK_SHARE`] of the time. Whoever finds something else, or that somebody is dead, has all of
//! the group look at once. A process that ends gives back page by page, and a look meanwhile is of
//! no use: none counts then, for [`UNSEEN_NS`] at most.
//!
//! A child that was forked since a look may have a part of what that found to be relatives', and is
//! not charged for it yet. So of such a look no more is given up than others have taken, for
//! [`UNTAKEN_NS`] at most.

use core::cmp::Ordering;

use uzswap_ctl::{Look, Moment, Notice};
use uzswap_mm::machine::Mapper;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::{closed, thread, time};

use super::Kswapd;
use crate::machine::arena;
use crate::memcg::{CHILD_OWN, Sharers, deferral};
use crate::pager::Pager;

/// How long an ending process keeps others from looking. Nanoseconds.
const UNSEEN_NS: u64 = 100_000_000;
/// How long what nobody has taken is kept where relatives fork all the time, or is charged to who
/// wrote to it. Nanoseconds.
const UNTAKEN_NS: u64 = 1_000_000_000;
/// How long somebody is expected to read the memory of a process that has ended. Nanoseconds.
const READ_NS: u64 = 500_000_000;
/// A look that finds no more than this is like the one before, nor where that is one part in
/// [`NEWS_SHARE`] of what is shared. Bytes: what is counted at different moments differs by a
/// window or two.
const NEWS_BYTES: usize = 512 << 10;
const NEWS_SHARE: usize = 64;
/// If so much of what was charged to relatives may have changed, a look is due.
const DOUBT_SHARE: usize = 8;
/// At most one part in so many of the time is spent on looks that find nothing new.
const LOOK_SHARE: u64 = 16;

/// What is known of it.
pub(super) struct Shares {
    /// What counts.
    look: Look,
    /// What is to count next, once relatives have looked as well. Until it does there is no other.
    next: Option<Look>,
    /// Whether we have looked since the last fork.
    has_looked: bool,
    /// Since when copies are charged besides what a look has found: a fork.
    assumed_since: Option<u64>,
    /// When the last look began and ended, how long it took, and how long the next one waits.
    /// Nanoseconds.
    began: u64,
    looked: u64,
    took: u64,
    rest: u64,
    /// [`Notice::Unshared`] as far as it is heeded.
    unshared: u64,
    /// Since when no look was of use, as a process of the group was ending.
    unseen_since: Option<u64>,
    /// Since when something is kept that nobody has taken.
    untaken_since: Option<u64>,
    /// Since when the dead had memory.
    read_since: Option<u64>,
}

impl Shares {
    /// Nobody has looked, and nothing is shared or all.
    pub(super) fn new(pager: &Pager) -> Self {
        let (at, now) = (moment(pager), time::now_ns());
        // A child's, until it looks: what it has now, but for what its pager has just taken.
        let seen = match pager.memcg.shares() {
            true => at.anon.saturating_sub(CHILD_OWN as usize) as i64,
            false => 0,
        };
        let began = match pager.memcg.shares_since() {
            0 => now,
            since => since,
        };
        Self {
            look: Look::assumed(seen, at, began, began),
            next: None,
            has_looked: false,
            assumed_since: None,
            began,
            looked: 0,
            took: 0,
            rest: 0,
            unshared: 0,
            unseen_since: None,
            untaken_since: None,
            read_since: None,
        }
    }

    /// Bytes that may be relatives' share now, if we have looked since the last fork.
    pub(super) fn most(&self, pager: &Pager) -> Option<usize> {
        let at = moment(pager);
        let next = self.next.map_or(0, |next| next.known(at));
        let most = next.max(self.look.known(at));
        self.has_looked.then_some(most.max(0) as usize)
    }

    /// All may be shared from `at` on, with a child about whom nobody knows yet. `shared_with`:
    /// those whose part is known.
    fn expect_child(&mut self, at: Moment, shared_with: Sharers) {
        self.has_looked = false;
        if at.anon == 0 {
            // It could not be read: what was known has to do.
            return;
        }
        let assumed = |look: Look| {
            let seen = match shared_with {
                Sharers::Living => look.known(at),
                // What they were charged for is charged still. What they had besides is gone.
                Sharers::Dead(bytes) => look.known(at).clamp(0, bytes as i64),
                Sharers::Nobody => 0,
            };
            Look::assumed(seen, at, look.began, look.before)
        };
        (self.look, self.next) = (assumed(self.look), self.next.map(assumed));
        self.assumed_since.get_or_insert(time::now_ns());
    }

    /// What relatives have besides they have looked for by now, or are late.
    fn forget_assumed(&mut self, at: Moment) {
        let is_old = |since| time::now_ns() - since > UNTAKEN_NS;
        if self.assumed_since.is_some_and(is_old) {
            self.assumed_since = None;
            if self.look.known(at) < 0 {
                self.look = Look::found(0, at, self.look.began, self.look.before);
            }
        }
    }

    /// Whether much may have changed since the last look.
    fn is_doubtful(&self, at: Moment) -> bool {
        let seen = self.look.seen;
        let margin = NEWS_BYTES.max(seen.max(0) as usize / DOUBT_SHARE);
        self.look.known(at) + (margin as i64) < seen || at.anon + margin < self.look.at.anon
    }

    /// Whether a look is due, at a moment which is now.
    fn is_due(&self, at: Moment) -> bool {
        let rest = if self.is_doubtful(at) { self.took } else { self.rest };
        self.next.is_none() && time::now_ns() >= self.looked + rest
    }

    /// A look that began at `began`, and at that moment, found `seen` bytes; `is_news`: not what
    /// was known.
    fn note_look(&mut self, seen: usize, at: Moment, began: u64, is_news: bool) {
        self.looked = time::now_ns();
        self.took = self.looked - began;
        self.rest = match is_news || at.copies.is_none() {
            true => self.took,
            false => (self.rest * 2).clamp(self.took, self.took * LOOK_SHARE),
        };
        self.next = Some(Look::found(seen, at, began, self.began));
        (self.began, self.has_looked, self.unseen_since) = (began, true, None);
    }
}

/// What may say now that memory is not shared any more.
fn moment(pager: &Pager) -> Moment {
    let before = pager.mm.usage_pages();
    let Ok(sizes) = pager.fds().proc.sizes() else {
        return Moment::default();
    };
    let counted = before.max(pager.mm.usage_pages());
    // What the engine does not count, and of what it does, what nobody had to wait for.
    let brought = (sizes.anon / PAGE_SIZE) as i64 - counted as i64 + pager.mm.gauges().pool as i64;
    let explained = (pager.memcg.faults() + arena::released() + closed::faults()) as i64;
    let is_known = !pager.mm.machine().copies() && !deferral::is_deferred();
    let faults = is_known.then(thread::faults).flatten();
    Moment {
        anon: sizes.anon,
        copies: faults.map(|faults| faults as i64 - explained - brought),
    }
}

impl Kswapd {
    /// The next looks come closely.
    pub(super) fn expect_news(&mut self) {
        (self.shares.rest, self.shares.took) = (0, 0);
        self.pager.memcg.settle_shares(false);
    }

    /// Look again, unless nothing new is expected; what is known is charged then.
    pub(super) fn look_if_due(&mut self) {
        let found = self.pager.memcg.group().get(Notice::Unshared);
        if found != self.shares.unshared {
            self.shares.unshared = found;
            self.expect_news();
        }
        match self.shares.is_due(moment(self.pager)) {
            true => self.look_at_shares(),
            false => self.sample(),
        }
    }

    /// Look how much relatives share with us now, unless the last look does not count yet.
    pub(super) fn look_at_shares(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() || self.shares.next.is_some() || self.is_gate_awaited() || self.is_to_wait() {
            return self.sample();
        }
        let (at, began) = (moment(pager), time::now_ns());
        let Ok(shared) = pager.fds().proc.shared_anon() else {
            (self.shares.looked, self.shares.took) = (began, UNSEEN_NS);
            return;
        };
        // Asked again: whoever ends during the look has given back some of what was looked at.
        if self.is_to_wait() {
            return;
        }
        if shared > NEWS_BYTES && self.are_dead_read(began) {
            return;
        }
        let (known, margin) = (self.shares.look.known(at), NEWS_BYTES.max(shared / NEWS_SHARE));
        let is_news = (shared as i64).abs_diff(known) > margin as u64;
        let is_settled = !is_news && at.copies.is_some() && !self.shares.is_doubtful(at);
        self.shares.note_look(shared, at, began, is_news);
        // Before others are told, who look whether we have.
        memcg.note_look(began, shared as i64 >= known);
        if is_news {
            self.shares.unshared += 1;
            memcg.group().add(Notice::Unshared, 1);
        }
        memcg.settle_shares(is_settled);
        if shared == 0 {
            self.let_count();
            memcg.end_sharing();
            pager.mm.end_sharing();
        }
        self.sample();
        memcg.return_charges(pager);
    }

    /// Have the last look count, if it is time. Where more is ours than we are charged for, it
    /// counts once relatives have looked since it became so. Where less is, it counts once they are
    /// charged for what they found, or not at all where one of them died before that. So the sum of
    /// all charges is neither less nor much more than what there is.
    fn settle_look(&mut self) {
        let Some(next) = self.shares.next else { return };
        let (memcg, at) = (&self.pager.memcg, moment(self.pager));
        let (seen, known) = (next.known(at), self.shares.look.known(at));
        // Whoever died is charged until we are charged for what we found after that: we cannot miss
        // him.
        if seen > known && memcg.has_relative_died_uncharged(next.began) {
            self.shares.next = None;
            return self.expect_news();
        }
        let is_time = match seen.cmp(&known) {
            // Too little for anybody to give up.
            Ordering::Less if known - seen <= NEWS_BYTES as i64 => true,
            Ordering::Less => memcg.have_relatives_looked(next.before),
            _ => memcg.have_relatives_charged(next.began),
        };
        if is_time {
            self.let_count();
        }
    }

    fn let_count(&mut self) {
        let (pager, at) = (self.pager, moment(self.pager));
        let Some(next) = self.shares.next.take() else { return };
        let more = next.known(at) - self.shares.look.known(at);
        (self.shares.look, self.shares.assumed_since) = (next, None);
        pager.memcg.settle(pager, next.began, more, |untaken| {
            self.keep_untaken(untaken as usize, next.began);
            self.charge_now();
        });
    }

    /// Of what a look that began at `began` would have us give up, nobody has taken so much. Who
    /// was forked since may yet, and we are charged for it until another look.
    fn keep_untaken(&mut self, untaken: usize, began: u64) {
        if untaken == 0 || !self.pager.memcg.has_forked(began) {
            self.shares.untaken_since = None;
            return;
        }
        let now = time::now_ns();
        if now - *self.shares.untaken_since.get_or_insert(now) < UNTAKEN_NS {
            self.shares.look.seen -= untaken as i64;
            self.expect_news();
        }
    }

    /// A child is about to be forked, or somebody tries to.
    pub(super) fn expect_child(&mut self) {
        let memcg = &self.pager.memcg;
        let shared_with = memcg.sharers(self.pager);
        self.shares.expect_child(moment(self.pager), shared_with);
        memcg.begin_fork();
    }

    /// Bytes charged to relatives now, as far as it is known; less than nothing: what they have is
    /// charged to us.
    pub(super) fn known_shared(&self) -> i64 {
        // Nothing is shared, as a rule: nobody is asked then.
        match self.pager.memcg.shares() {
            false => 0,
            true => self.shares.look.known(moment(self.pager)),
        }
    }

    /// Whether a process is ending, and has not been for long.
    fn is_to_wait(&mut self) -> bool {
        let pager = self.pager;
        if !pager.memcg.is_one_ending(pager) {
            return false;
        }
        let now = time::now_ns();
        now - *self.shares.unseen_since.get_or_insert(now) < UNSEEN_NS
    }

    /// Whether all who may share something are dead, in a look that found something and began at
    /// `began`: whoever reads their memory (`smaps`) has it until he is done.
    fn are_dead_read(&mut self, began: u64) -> bool {
        let now = time::now_ns();
        if !self.pager.memcg.are_relatives_dead() {
            self.shares.read_since = None;
            return false;
        }
        (self.shares.looked, self.shares.took) = (now, now - began);
        now - *self.shares.read_since.get_or_insert(now) < READ_NS
    }

    pub(super) fn sample(&mut self) {
        self.settle_look();
        if self.pager.memcg.shares() {
            self.shares.forget_assumed(moment(self.pager));
            self.pager.memcg.end_twice();
        }
        self.charge_now();
    }

    fn charge_now(&mut self) {
        let pager = self.pager;
        let before = pager.mm.usage_pages();
        if let Ok(sizes) = pager.fds().proc.sizes() {
            let counted = before.max(pager.mm.usage_pages()) as usize * PAGE_SIZE;
            self.charge_sample(sizes.anon, counted);
        }
    }

    /// `anon` bytes were sampled, of which the engine counted `counted`.
    pub(super) fn charge_sample(&mut self, anon: usize, counted: usize) {
        self.pager.memcg.shrink_spare(time::now_ns());
        self.pager.memcg.keep_all(self.pager);
        self.pager.memcg.sample(anon, counted, self.known_shared());
    }

    /// What the dead were charged is nobody's, or ours, if they shared it with us.
    pub(super) fn return_charges(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if memcg.shares() && memcg.has_dead(pager) {
            self.look_at_shares();
        }
        memcg.return_charges(pager);
    }
}
