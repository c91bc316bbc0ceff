//! What relatives share with us, and what becomes of it when they end.
//!
//! Each process is charged for its share of a page as the kernel reckons it, so a page that a forked child gives back becomes ours alone. A
//! child that ends gives back all it has, page by page, and is charged until it has: a share that is looked at meanwhile counts twice
//! what is given back already. So the share stays what it was until then, for [`UNSEEN_NS`] at most; the look and the end of the dead one's
//! charge come together. Where several relatives live on, the first to look returns the charge, and the others have their part of it after
//! their next look. Under a filter of system calls nobody learns who is ending (`uzswap_sys::robust`): then it counts twice.
//!
//! A look walks all page tables, milliseconds. Where it finds what was known already (a child that only reads) the next one waits twice as long, until looks take one part in
//! [`LOOK_SHARE`] of the time; whoever finds something else has all of the group look at once, since relatives share it. Between two looks who writes to a shared page is
//! charged for all of the copy, as the relatives do not know yet that theirs has become their own: of the kernel's count of minor faults, so many were waits for us and so many brought memory;
//! what is left are copies. Under a filter of system calls that is not known, and nobody waits longer.

use uzswap_ctl::Key;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::{thread, time};

use super::Kswapd;

/// How long an ending process keeps others from looking: what they write to meanwhile is copied, and not counted. Nanoseconds.
const UNSEEN_NS: u64 = 100_000_000;
/// A look that finds no more than this is like the one before. Bytes.
const NEWS_BYTES: usize = 512 << 10;
/// At most one part in so many of the time is spent on looks that find nothing new.
const LOOK_SHARE: u64 = 16;

/// What is known of it.
pub(super) struct Shares {
    /// Bytes charged to relatives, as the last look found them.
    seen: usize,
    /// Copies until then, beginning anywhere; `None`: nobody knows.
    copies: Option<i64>,
    /// How long looks wait, and until when the next one does. Nanoseconds.
    rest: u64,
    rests_until: u64,
    /// [`Key::Unshared`] as far as it is heeded.
    unshared: u64,
    /// Since when no look was of use, as a process of the group was ending.
    unseen_since: Option<u64>,
}

impl Shares {
    /// So many bytes are charged to relatives until the first look.
    pub(super) fn new(seen: usize) -> Self {
        Self {
            seen,
            copies: None,
            rest: 0,
            rests_until: 0,
            unshared: 0,
            unseen_since: None,
        }
    }

    /// What is charged to relatives when there were so many copies: those since the last look are charged to us.
    fn known(&self, copies: Option<i64>) -> usize {
        let since = self.copies.zip(copies).map_or(0, |(then, now)| (now - then).max(0));
        self.seen.saturating_sub(since as usize * PAGE_SIZE)
    }

    /// A look that began at `began` found `seen` bytes where `known` were known. Whether that is news.
    fn note_look(&mut self, seen: usize, known: usize, began: u64) -> bool {
        let now = time::now_ns();
        let took = now - began;
        let is_news = seen.abs_diff(known) > NEWS_BYTES;
        self.rest = match is_news || self.copies.is_none() {
            true => took,
            false => (self.rest * 2).clamp(took, took * LOOK_SHARE),
        };
        self.rests_until = now + self.rest;
        self.seen = seen;
        self.unseen_since = None;
        is_news
    }
}

impl Kswapd {
    /// The next looks come closely.
    pub(super) fn expect_news(&mut self) {
        (self.shares.rest, self.shares.rests_until) = (0, 0);
        self.pager.memcg.settle_shares(false);
    }

    /// Look again, unless nothing new is expected.
    pub(super) fn look_if_due(&mut self) {
        let found = self.pager.memcg.group().get(Key::Unshared);
        if found != self.shares.unshared {
            self.shares.unshared = found;
            self.expect_news();
        }
        if time::now_ns() >= self.shares.rests_until {
            self.look_at_shares();
        }
    }

    /// How much relatives share with us now; with that the dead are charged nothing any more.
    pub(super) fn look_at_shares(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        if !memcg.shares() || self.is_to_wait() {
            return;
        }
        // Before the look, and asked again after it: whoever ends during the look has given back some of what was looked at.
        let (dead, copies, began) = (memcg.dead(pager), self.copies(), time::now_ns());
        let known = self.shares.known(copies);
        let shared = pager.fds().proc.shared_anon().unwrap_or(known);
        if self.is_to_wait() {
            return;
        }
        self.shares.copies = copies;
        let is_news = self.shares.note_look(shared, known, began);
        if is_news {
            self.shares.unshared += 1;
            memcg.group().add(Key::Unshared, 1);
        }
        memcg.settle_shares(!is_news && copies.is_some());
        if shared == 0 {
            memcg.end_sharing();
            pager.mm.end_sharing();
        }
        self.sample();
        // Ours is told first: nobody may take for room what we inherit.
        memcg.charge(pager);
        memcg.return_charges_of(&dead);
    }

    /// Bytes charged to relatives now, as far as it is known.
    pub(super) fn known_shared(&self) -> usize {
        // Nothing is shared, as a rule: nobody is asked then.
        let copies = (self.shares.seen > 0).then(|| self.copies()).flatten();
        self.shares.known(copies)
    }

    /// How many pages were copied as somebody wrote to them, beginning anywhere.
    fn copies(&self) -> Option<i64> {
        let pager = self.pager;
        let minor = thread::minor_faults()? as i64;
        let sizes = pager.fds().proc.sizes().ok()?;
        // What the engine does not count, and of what it does, what nobody had to wait for.
        let brought = (sizes.anon / PAGE_SIZE) as i64 - pager.mm.usage_pages() as i64 + pager.mm.gauges().pool as i64;
        Some(minor - pager.memcg.faults() as i64 - brought)
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

    pub(super) fn sample(&self) {
        let pager = self.pager;
        let before = pager.mm.usage_pages();
        if let Ok(sizes) = pager.fds().proc.sizes() {
            let counted = before.max(pager.mm.usage_pages()) as usize * PAGE_SIZE;
            pager.memcg.sample(sizes.anon, counted, self.known_shared());
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
