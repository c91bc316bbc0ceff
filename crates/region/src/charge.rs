//! What counts against the limit, and where reclaim begins and ends.
//!
//! ```text
//! limit
//!   | margin
//! usable       a fault waits for room
//!   | room     what a fault and those who store may take
//!   | spare    what is taken while kswapd wakes up
//! high         kswapd starts
//! low          kswapd stops
//! ```
//! Where nothing can be reclaimed the limit gives way, by steps, and comes back with time: to try
//! in vain at each fault would serve nobody.

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::Mm;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::futex::RawLock;

use crate::machine::RegionMachine;

/// Of the limit, the part that is never counted on: what several threads take at the same moment
/// beyond the room that each leaves.
const MARGIN_SHARE: u64 = 32;
/// Of the limit, the part that is spare, and its bounds; the same of what kswapd takes at a time.
const SPARE_SHARE: u64 = 256;
const SPARE: (u64, u64) = (128 << 10, 8 << 20);
/// Room and spare together are at most this part of the limit.
const STEP_SHARE: u64 = 4;
/// The part of the limit by which it gives way, and of that what it comes back by.
const WAY_SHARE: u64 = 64;
const BACK_SHARE: u64 = 8;
/// Who may be storing a folio, or giving up frames, at the same time: the fault thread and kswapd.
const STORING: u64 = 2;

/// What counts against the limit.
pub(crate) struct Charge {
    limit: AtomicU64,
    /// Bytes of the swap table, as last seen.
    table: AtomicU64,
    peak: AtomicU64,
    /// By how much the limit has given way, in bytes, and how often it had to.
    given: AtomicU64,
    exceeded: AtomicU64,
}

impl Charge {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            table: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            given: AtomicU64::new(0),
            exceeded: AtomicU64::new(0),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_table(&self, bytes: u64) {
        self.table.store(bytes, Ordering::Relaxed);
    }

    /// A fault has waited for room in vain.
    pub(crate) fn give_way(&self) {
        self.exceeded.fetch_add(1, Ordering::Relaxed);
        let step = self.spare().max(self.limit() / WAY_SHARE);
        self.given.fetch_add(step, Ordering::Relaxed);
    }

    /// Whether one has lately.
    pub(crate) fn has_given_way(&self) -> bool {
        self.given.load(Ordering::Relaxed) > 0
    }

    /// By kswapd, now and then. A step that is made meanwhile may be lost: the next one counts.
    pub(crate) fn come_back(&self) {
        let given = self.given.load(Ordering::Relaxed);
        let less = given - given.div_ceil(BACK_SHARE);
        self.given
            .store(if less < self.spare() { 0 } else { less }, Ordering::Relaxed);
    }

    /// The limit, less its margin, and what it has given way by.
    fn usable(&self) -> u64 {
        let limit = self.limit();
        (limit - limit / MARGIN_SHARE).saturating_add(self.given.load(Ordering::Relaxed))
    }

    pub(crate) fn exceeded(&self) -> u64 {
        self.exceeded.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Bytes that are charged now.
    pub(crate) fn current(&self, mm: &Mm<RawLock, RegionMachine>) -> u64 {
        let current = mm.usage_pages() * PAGE_SIZE as u64 + self.table.load(Ordering::Relaxed);
        self.peak.fetch_max(current, Ordering::Relaxed);
        current
    }

    /// Whether a fault can be served within the limit.
    pub(crate) fn has_room(&self, mm: &Mm<RawLock, RegionMachine>) -> bool {
        self.current(mm).saturating_add(room(mm)) <= self.usable()
    }

    /// Where kswapd starts.
    pub(crate) fn high(&self, mm: &Mm<RawLock, RegionMachine>) -> u64 {
        let usable = self.usable();
        usable - (room(mm) + self.spare()).min(usable / STEP_SHARE)
    }

    /// Where it stops.
    pub(crate) fn low(&self, mm: &Mm<RawLock, RegionMachine>) -> u64 {
        self.high(mm).saturating_sub(self.spare())
    }

    fn spare(&self) -> u64 {
        (self.limit() / SPARE_SHARE).clamp(SPARE.0, SPARE.1)
    }
}

/// What must be free before a page is mapped: what a fault maps at most, the folios that may be
/// being stored, and frames whose contents are in the pool already and that are to be given up.
fn room(mm: &Mm<RawLock, RegionMachine>) -> u64 {
    let portions = mm.portions_expected();
    let window = 1 << portions.folio_order.max(mm.page_cluster());
    let pages = window * (1 + STORING) + STORING * u64::from(portions.give_up);
    pages * PAGE_SIZE as u64
}
