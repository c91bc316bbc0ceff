//! What relatives share with us, and what becomes of it when they end.
//!
//! Each process is charged for its share of a page as the kernel reckons it, so a page that a forked child gives back becomes ours alone. A
//! child that ends gives back all it has, page by page, and is charged until it has: a share that is looked at meanwhile counts twice
//! what is given back already. So the share stays what it was until then, for [`UNSEEN_NS`] at most; the look and the end of the dead one's
//! charge come together. Where several relatives live on, the first to look returns the charge, and the others have their part of it after
//! their next look. Under a filter of system calls nobody learns who is ending (`uzswap_sys::robust`): then it counts twice.
//!
//! A new child is charged for what it has alone until its first look. Its parent, which may have looked before, is charged for the child's share until then:
//! or the group would have room that is none. Then the child's share is charged to both, and counts once, until the parent heeds that (`Field::ChargedTo`).
//!
//! A look walks all page tables, milliseconds. Where it finds what was known already (a child that only reads) the next one waits twice as long, until looks take one part in
//! [`LOOK_SHARE`] of the time; whoever finds something else, or that somebody is dead, has all of the group look at once, since relatives share it. Between two looks who writes to a
//! shared page is charged for all of the copy, as the relatives do not know yet that theirs has become their own: of the kernel's count of faults, so many were waits for us and so
//! many brought memory; what is left are copies, and other faults that bring nothing (of files, of zeros that are read). So copies are charged more than there are rather than less; but
//! not more of them than was charged to relatives, and who gives up shared memory is charged too little: where much has changed by one or the other, no look waits for more than the time
//! that one takes. Where copies are not known (a filter of system calls; pages that are copied out, each a fault of ours; huge pages of what is deferred) none waits for more either.

use uzswap_ctl::Key;
use uzswap_mm::machine::Machine;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::{thread, time};

use super::Kswapd;
use crate::arena;
use crate::memcg::deferral;
use crate::pager::Pager;

/// How long an ending process keeps others from looking. Nanoseconds.
const UNSEEN_NS: u64 = 100_000_000;
/// A look that finds no more than this is like the one before, nor where that is one part in [`NEWS_SHARE`] of what is shared. Bytes: what is counted at different moments differs by
/// a window or two.
const NEWS_BYTES: usize = 512 << 10;
const NEWS_SHARE: usize = 64;
/// If so much of what was charged to relatives may have changed, a look is due.
const DOUBT_SHARE: usize = 8;
/// At most one part in so many of the time is spent on looks that find nothing new.
const LOOK_SHARE: u64 = 16;

/// What is known of it.
pub(super) struct Shares {
    /// Bytes charged to relatives, as the last look found them.
    seen: usize,
    /// No more is, as a new child is not charged yet; and whether we have looked since that was forked.
    most: Option<usize>,
    has_looked: bool,
    at: Moment,
    /// When that was, how long it took, and how long the next one waits. Nanoseconds.
    looked: u64,
    took: u64,
    rest: u64,
    /// [`Key::Unshared`] as far as it is heeded.
    unshared: u64,
    /// Since when no look was of use, as a process of the group was ending.
    unseen_since: Option<u64>,
}

/// What may say that memory is not shared any more.
#[derive(Clone, Copy, Default)]
struct Moment {
    /// `RssAnon`, bytes.
    anon: usize,
    /// Pages that were copied as somebody wrote to them, beginning anywhere; `None`: nobody knows.
    copies: Option<i64>,
}

impl Shares {
    /// Nobody has looked, and nothing is shared or all.
    pub(super) fn new(pager: &Pager) -> Self {
        let at = Moment::now(pager);
        Self {
            // A child's, until it looks: what it has now.
            seen: if pager.memcg.shares() { at.anon } else { 0 },
            most: None,
            has_looked: false,
            at,
            looked: 0,
            took: 0,
            rest: 0,
            unshared: 0,
            unseen_since: None,
        }
    }

    /// What is charged to relatives, at that moment: copies since the last look are charged to us.
    fn known(&self, at: Moment) -> usize {
        let since = self
            .at
            .copies
            .zip(at.copies)
            .map_or(0, |(then, now)| (now - then).max(0));
        self.seen.saturating_sub(since as usize * PAGE_SIZE)
    }

    /// Whether much may have changed since the last look.
    fn is_doubtful(&self, at: Moment) -> bool {
        let margin = NEWS_BYTES.max(self.seen / DOUBT_SHARE);
        self.known(at) + margin < self.seen || at.anon + margin < self.at.anon
    }

    /// Whether a look is due, at a moment which is now.
    fn is_due(&self, at: Moment) -> bool {
        let rest = if self.is_doubtful(at) { self.took } else { self.rest };
        time::now_ns() >= self.looked + rest
    }

    /// A look that began at `began`, and at that moment, found `seen` bytes; `is_news`: not what was known.
    fn note_look(&mut self, seen: usize, at: Moment, began: u64, is_news: bool) {
        self.looked = time::now_ns();
        self.took = self.looked - began;
        self.rest = match is_news || at.copies.is_none() {
            true => self.took,
            false => (self.rest * 2).clamp(self.took, self.took * LOOK_SHARE),
        };
        (self.seen, self.at, self.has_looked) = (seen, at, true);
        self.unseen_since = None;
    }
}

impl Moment {
    fn now(pager: &Pager) -> Self {
        let before = pager.mm.usage_pages();
        let Ok(sizes) = pager.fds().proc.sizes() else {
            return Self::default();
        };
        let counted = before.max(pager.mm.usage_pages());
        // What the engine does not count, and of what it does, what nobody had to wait for.
        let brought = (sizes.anon / PAGE_SIZE) as i64 - counted as i64 + pager.mm.gauges().pool as i64;
        let explained = (pager.memcg.faults() + arena::released()) as i64;
        let is_known = !pager.mm.machine().copies() && !deferral::is_deferred();
        let faults = is_known.then(thread::faults).flatten();
        Self {
            anon: sizes.anon,
            copies: faults.map(|faults| faults as i64 - explained - brought),
        }
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
        let found = self.pager.memcg.group().get(Key::Unshared);
        if found != self.shares.unshared {
            self.shares.unshared = found;
            self.expect_news();
        }
        match self.shares.is_due(Moment::now(self.pager)) {
            true => self.look_at_shares(),
            false => self.sample(),
        }
    }

    /// How much relatives share with us now; with that the dead are charged nothing any more.
    pub(super) fn look_at_shares(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() || self.is_to_wait() {
            return;
        }
        // Before the look, and asked again after it: whoever ends during the look has given back some of what was looked at.
        let (dead, at, began) = (memcg.dead(pager), Moment::now(pager), time::now_ns());
        let Ok(shared) = pager.fds().proc.shared_anon() else {
            (self.shares.looked, self.shares.took) = (began, UNSEEN_NS);
            return;
        };
        if self.is_to_wait() {
            return;
        }
        let margin = NEWS_BYTES.max(shared / NEWS_SHARE);
        let is_news = shared.abs_diff(self.shares.known(at)) > margin;
        let is_settled =
            !is_news && at.copies.is_some() && !self.shares.is_doubtful(at) && !self.is_charged_for_child();
        self.shares.note_look(shared, at, began, is_news);
        if is_news {
            self.shares.unshared += 1;
            memcg.group().add(Key::Unshared, 1);
        }
        memcg.settle_shares(is_settled);
        if shared == 0 {
            memcg.end_sharing();
            pager.mm.end_sharing();
        }
        memcg.charge_share(shared as u64);
        self.sample();
        // Ours is told first: nobody may take for room what we inherit.
        memcg.charge(pager);
        memcg.return_charges_of(&dead);
    }

    /// A child is about to be forked, or somebody tries to.
    pub(super) fn expect_child(&mut self) {
        let known = self.known_shared();
        self.shares.most = Some(self.shares.most.map_or(known, |most| most.min(known)));
        self.shares.has_looked = false;
    }

    /// Whether a new child's share may be charged to us.
    pub(super) fn is_charged_for_child(&self) -> bool {
        self.shares.most.is_some() && self.pager.memcg.is_charged_for_child()
    }

    /// Bytes charged to relatives now, as far as it is known.
    pub(super) fn known_shared(&self) -> usize {
        // Nothing is shared, as a rule: nobody is asked then.
        if self.shares.seen == 0 {
            return 0;
        }
        let known = self.shares.known(Moment::now(self.pager));
        self.shares.most.map_or(known, |most| most.min(known))
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

    pub(super) fn sample(&mut self) {
        let pager = self.pager;
        let before = pager.mm.usage_pages();
        if let Ok(sizes) = pager.fds().proc.sizes() {
            let counted = before.max(pager.mm.usage_pages()) as usize * PAGE_SIZE;
            self.charge_sample(sizes.anon, counted);
        }
    }

    /// `anon` bytes were sampled, of which the engine counted `counted`.
    pub(super) fn charge_sample(&mut self, anon: usize, counted: usize) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        let is_settled = self.shares.most.is_some() && self.shares.has_looked && !memcg.awaits_children();
        if is_settled {
            self.shares.most = None;
        }
        memcg.sample(anon, counted, self.known_shared());
        if is_settled {
            memcg.settle_children(pager);
        }
    }

    /// What the dead were charged is nobody's, or ours, if they shared it with us.
    pub(super) fn return_charges(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() {
            memcg.return_charges(pager);
        } else if !memcg.dead(pager).is_empty() {
            self.look_at_shares();
        }
    }
}
