//! Where background reclaim starts and where it stops.
//!
//! ```text
//! memory.max
//!   | unseen   what relatives that share pages take before it is charged
//! max          a fault waits
//!   | room     what one fault and those who store may take (`Pager::room`)
//!   | spare    what the program takes while kswapd wakes up
//! high         kswapd starts
//!   | spare, but for what is too much to reclaim at a time
//! low          kswapd stops
//! ```
//! Each of several relatives has batches in flight, and copies that the kernel has made since the
//! last sample. So a part of the limit stays free while pages are shared. It is used where somebody
//! would be killed for it, or the sharing of two would be broken.
//!
//! Memory that is free serves nobody, so there is as little of it as the program's faults need.
//! Each that has to wait doubles what is spare, and with time it shrinks again
//! (`watermark_boost_factor` of the kernel).

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_ctl::{Limit, Notice};
use uzswap_sys::time::now_ns;

use super::Memcg;
use crate::pager::Pager;

/// The part of the limit that stays free for what is unseen.
const UNSEEN_SHARE: u64 = 12;
const UNSEEN_MAX: u64 = 16 << 20;
/// Only where at least so much stays free is it used before the sharing of two is broken.
const UNSEEN_SPARED: u64 = 4 << 20;
/// At most such a part of what those are charged who share.
const UNSEEN_PART: u64 = 4;
/// How long that is used once it was needed, and as long as it is in use.
/// Nanoseconds.
const NEEDS_ALL_NS: u64 = 60_000_000_000;
/// As long as a stall takes. Nanoseconds.
const JUST_NOW_NS: u64 = 3_000_000_000;

/// Of the memory to work with, the part that is spare where no fault waits.
const SPARE_SHARE: u64 = 256;
const SPARE_MIN: u64 = 128 << 10;
const SPARE_MAX: u64 = 8 << 20;
/// The part up to which it is doubled, room included.
const STEP_SHARE: u64 = 32;
const STEP_MIN: u64 = 1 << 20;
const STEP_MAX: u64 = 64 << 20;
/// Most that kswapd reclaims at a time, of the memory to work with.
const GAP_SHARE: u64 = 64;
const GAP_MIN: u64 = 1 << 19;
const GAP_MAX: u64 = 32 << 20;
/// Without a fault that waits it shrinks by an eighth in this time. Nanoseconds.
const SHRINKS_NS: u64 = 100_000_000;

/// What is spare beyond the least.
pub(super) struct Boost {
    bytes: AtomicU64,
    /// When it was changed.
    since: AtomicU64,
}

impl Boost {
    pub(super) const fn new() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }
}

fn spare(bytes: u64) -> u64 {
    (bytes / SPARE_SHARE).clamp(SPARE_MIN, SPARE_MAX)
}

fn step(bytes: u64) -> u64 {
    (bytes / STEP_SHARE).clamp(STEP_MIN, STEP_MAX)
}

impl Memcg {
    /// What may be charged. All processes of the group reckon with the same, or some would wait for
    /// what others do not give.
    pub(super) fn max(&self) -> u64 {
        let is_used = self.is_recent(Notice::NeedsAllAt, NEEDS_ALL_NS) || self.is_spared();
        self.group.memory_max() - if is_used { 0 } else { self.unseen() }
    }

    fn is_recent(&self, notice: Notice, ns: u64) -> bool {
        let at = self.group.get(notice);
        at != 0 && now_ns().saturating_sub(at) < ns
    }

    /// What stays free for what is unseen: of those who share, as much as their memory may need.
    fn unseen(&self) -> u64 {
        let share = self.group.memory_max() / UNSEEN_SHARE;
        share.min(UNSEEN_MAX).min(self.group.sharing() / UNSEEN_PART)
    }

    /// Whether what stays free is used so that no sharing is broken. Not once more than two share:
    /// they have more in flight.
    fn is_spared(&self) -> bool {
        self.is_recent(Notice::SparedAt, NEEDS_ALL_NS) && self.group.sharers_count() <= 2
    }

    /// A process would be killed, as nothing is left that could leave. Whether `want` bytes fit
    /// into what stays free otherwise, which is used for a while. False: it is used already. Where
    /// it was used before for another reason, who waits is given one more stall.
    pub(crate) fn needs_all(&self, pager: &Pager, want: u64) -> bool {
        let is_new = !self.is_recent(Notice::NeedsAllAt, NEEDS_ALL_NS) && self.unseen() > 0;
        let was_used = self.is_spared();
        if is_new {
            self.group.tell(Notice::NeedsAllAt, now_ns());
        }
        // Others may have said so a moment ago, when we waited already.
        let is_now = is_new || self.is_recent(Notice::NeedsAllAt, JUST_NOW_NS);
        is_now && (is_new && was_used || self.excess(pager, want) == 0)
    }

    /// The sharing of pages would be broken, as nothing else is left that could leave. Whether what
    /// stays free otherwise is enough for all who wait, and is used from now on. Only where two
    /// share: two stored copies take about as much as the page, so breaking it gains nothing.
    pub(crate) fn spares_sharing(&self, pager: &Pager) -> bool {
        let (unseen, want) = (self.unseen(), pager.room().max(self.lacked()));
        let is_used = self.is_recent(Notice::NeedsAllAt, NEEDS_ALL_NS) || self.is_spared();
        let spares = !is_used
            && unseen >= UNSEEN_SPARED
            && self.group.sharers_count() <= 2
            && self.excess(pager, want) <= unseen;
        if spares {
            self.group.tell(Notice::SparedAt, now_ns());
        }
        spares
    }

    /// By kswapd, at each tick: what is in use stays so.
    pub(crate) fn keep_all(&self, pager: &Pager) {
        let (is_needed, is_spared) = (self.is_recent(Notice::NeedsAllAt, NEEDS_ALL_NS), self.is_spared());
        if !is_needed && !is_spared || self.current(pager) <= self.group.memory_max() - self.unseen() {
            return;
        }
        for (notice, is_used) in [(Notice::NeedsAllAt, is_needed), (Notice::SparedAt, is_spared)] {
            if is_used {
                self.group.tell(notice, now_ns());
            }
        }
    }

    /// `memory.high`: where background reclaim starts.
    pub(crate) fn high(&self, pager: &Pager) -> u64 {
        let max = self.max();
        let step = (pager.room() + self.spare()).min(self.step_max(pager));
        self.group.get(Limit::MemoryHigh).min(max.saturating_sub(step))
    }

    /// Where background reclaim stops.
    pub(crate) fn low(&self, pager: &Pager) -> u64 {
        let gap = (self.workable() / GAP_SHARE).clamp(GAP_MIN, GAP_MAX);
        self.high(pager).saturating_sub(self.spare().min(gap))
    }

    /// Small steps leave no more than room.
    fn step_max(&self, pager: &Pager) -> u64 {
        step(self.group.memory_max()).min(step(self.workable()).max(pager.room() * 2))
    }

    fn spare(&self) -> u64 {
        spare(self.workable()).max(self.boost.bytes.load(Ordering::Relaxed))
    }

    /// A fault waits for room, by the thread that serves it.
    pub(crate) fn note_stall(&self, pager: &Pager, now: u64) {
        let boosted = (self.spare() * 2).min(self.step_max(pager));
        self.boost.bytes.store(boosted, Ordering::Relaxed);
        self.boost.since.store(now, Ordering::Relaxed);
    }

    /// By kswapd, at each tick. A stall noted meanwhile may be lost: the next one counts.
    pub(crate) fn shrink_spare(&self, now: u64) {
        let boosted = self.boost.bytes.load(Ordering::Relaxed);
        let since = self.boost.since.load(Ordering::Relaxed);
        if boosted == 0 || now.saturating_sub(since) < SHRINKS_NS {
            return;
        }
        let less = boosted - boosted.div_ceil(8);
        let is_least = less <= spare(self.workable());
        self.boost
            .bytes
            .store(if is_least { 0 } else { less }, Ordering::Relaxed);
        self.boost.since.store(now, Ordering::Relaxed);
    }
}
