//! Deferral: what is not taken under our care yet.
//!
//! The kernel clears a page where it is touched, and serves it faster than anybody else. So a
//! process has a pager but nothing under its care as long as the group has room for all that its
//! processes may write to, touched or not. What a deferred process may touch unseen
//! (`Field::Unseen`) counts where it is asked whether there is room, but is not charged.
//!
//! ```text
//! deferred  no memory is registered, nothing of it can leave; its growth is sampled
//!    |
//!    v      the group has no room for more, or reclaim is asked for
//! managed   for good: kswapd goes through the mappings now and whenever they change
//! ```
//! Whoever maps memory looks, and kswapd at every tick. Where a mapping does not fit, `mmap`
//! returns when it is under our care (but for MAP_POPULATE, and where whoever changes mappings
//! keeps kswapd from it). What a process may touch is reckoned from what it ever mapped. Where all
//! its calls are seen, what may not be written to counts once it may, and kswapd counts what is
//! there before it finds no room: programs map and unmap again and again. It is also reckoned from
//! what it has in all, so what it touches on stacks makes it seem less.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use uzswap_ctl::Field;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::time;

use super::Memcg;
use crate::guard;
use crate::guest::order::InOrder;
use crate::guest::{mapped, stacks, vma};
use crate::pager::{self, Pager};

/// Mappings in total, of memory that may come under our care, at which a process gets its pager.
pub(crate) const ACTIVATE_BYTES: usize = 4 << 20;

/// Of the room that is left, a process may map one part in so many unseen: others may be doing the
/// same, and MAP_POPULATE or MADV_POPULATE_WRITE fill a mapping faster than anybody looks.
const UNSEEN_SHARE: u64 = 4;

/// Of `memory.high` so much is left free where anything is deferred: what is touched without having
/// been mapped is seen late.
const DEFERRAL_SHARE: u64 = 16;

/// What is opened by mprotect counts at once, but is claimed in pieces of so much: kswapd samples
/// besides. Bytes.
const OPENED_BYTES: usize = 256 << 10;

/// Bytes that may be written to, or more: all mapped so far, less what was found to be gone.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// Bytes opened since the last claim.
static OPENED: AtomicUsize = AtomicUsize::new(0);
/// One part in so many of kswapd's time is spent on counting what is there.
const COUNT_SHARE: u64 = 16;
/// When that may be counted again. Nanoseconds.
static NEXT_COUNT: AtomicU64 = AtomicU64::new(0);
/// All that there was has come under our care.
static HAS_SEEN_ALL: AtomicBool = AtomicBool::new(false);
/// Nothing is under our care yet, on purpose.
static IS_DEFERRED: AtomicBool = AtomicBool::new(true);
/// The program maps memory by calls that nobody sees.
static IS_BLIND: AtomicBool = AtomicBool::new(false);
/// Bytes mapped since the last scan: they may be touched without our seeing it.
static UNSEEN: AtomicUsize = AtomicUsize::new(0);

/// The program's image has `len` bytes that are not in its file. `is_blind`: nobody will see what
/// it maps, so that nothing is deferred.
pub(crate) fn note_image(len: usize, is_blind: bool) {
    IS_BLIND.store(is_blind, Ordering::Relaxed);
    note_mapped(if is_blind { len.max(ACTIVATE_BYTES) } else { len });
}

/// The program mapped `len` bytes at `start`, which it may write to at once if `is_usable`. Called
/// in its own thread, by the replaced wrappers.
pub(crate) fn note_growth(start: usize, len: usize, is_usable: bool) {
    // Where calls pass nobody sees when it may.
    note_mapped(if is_usable || !guard::sees_all() { len } else { 0 });
    let Some(pager) = pager::active() else { return };
    // Before it is counted as unseen, so that whoever scans for it finds it.
    mapped::note(start, start + len);
    wait_if_near(pager, len);
}

/// The program may write to `len` bytes at `start` that were mapped before. Called in its own
/// thread, perhaps in a handler.
pub(crate) fn note_opened(start: usize, len: usize) {
    if !guard::sees_all() {
        // It counted as it was mapped.
        return;
    }
    // What is managed was registered before it was opened. libc maps a stack closed.
    let is_managed = HAS_SEEN_ALL.load(Ordering::SeqCst);
    if !is_managed && stacks::covers(start, start + len) {
        return;
    }
    MAPPED.fetch_add(len, Ordering::Relaxed);
    if is_managed {
        return;
    }
    activate_if_big();
    let Some(pager) = pager::active() else { return };
    let is_little = OPENED.fetch_add(len, Ordering::Relaxed) + len < OPENED_BYTES;
    if !is_little || !is_deferred() {
        OPENED.store(0, Ordering::Relaxed);
        wait_if_near(pager, len);
    }
}

/// The program has mapped `len` bytes in all that are to be found by a walk. Called in its own
/// thread.
pub(crate) fn note_unrecorded_growth(len: usize) {
    note_mapped(len);
    if let Some(pager) = pager::active() {
        wait_if_near(pager, len);
    }
}

/// Wait until kswapd has looked at what was mapped, if there is little room beside it.
fn wait_if_near(pager: &Pager, len: usize) {
    let unseen = UNSEEN.fetch_add(len, Ordering::Relaxed) + len;
    let is_near = match is_deferred() {
        true => !pager.memcg.claim_unseen(pager),
        false => vma::are_many() || pager.memcg.unclaimed(pager) / UNSEEN_SHARE < unseen as u64,
    };
    if is_near {
        // No page of the new mapping may be touched unseen.
        pager.request_scan();
    }
}

fn note_mapped(len: usize) {
    MAPPED.fetch_add(len, Ordering::Relaxed);
    activate_if_big();
}

/// What was mapped, and is not any more, counts no longer, if that can be told and it is time to: a
/// walk takes as long as there are mappings. By kswapd.
pub(crate) fn recount(proc: &ProcSelf) {
    let began = time::now_ns();
    let is_due = began >= NEXT_COUNT.load(Ordering::Relaxed);
    // Where calls pass nobody sees when memory that may not be written to may be.
    if !is_due || !guard::sees_all() || !proc.scans() {
        return;
    }
    // Nothing moves meanwhile to where the walk has been.
    let Some(_turn) = InOrder::attempt() else { return };
    let (counted, mut there) = (MAPPED.load(Ordering::Relaxed), 0);
    // What is mapped from here on is counted on top, twice perhaps. Stacks are not counted as they
    // are mapped. What was written to before it was closed has been touched.
    let walk = proc.for_each_vma(|vma| {
        let is_counted = !vma::is_of_ours(vma.start, vma.end) && !stacks::covers(vma.start, vma.end);
        let [_, is_writable, _] = vma.access();
        if vma.is_private() && is_writable && is_counted {
            there += vma.end - vma.start;
        } else if vma.is_private_anonymous() && is_counted {
            let _ = proc.for_each_present(vma.start, vma.end, |from, to| there += to - from);
        }
    });
    if walk.is_ok() {
        MAPPED.fetch_sub(counted.saturating_sub(there), Ordering::Relaxed);
    }
    let now = time::now_ns();
    NEXT_COUNT.store(now + (now - began) * COUNT_SHARE, Ordering::Relaxed);
}

/// Start the pager of a process that has mapped enough.
pub(crate) fn activate_if_big() {
    if pager::active().is_none() && MAPPED.load(Ordering::Relaxed) >= ACTIVATE_BYTES {
        pager::activate();
    }
}

/// Whether nothing is under our care yet.
pub(crate) fn is_deferred() -> bool {
    IS_DEFERRED.load(Ordering::SeqCst)
}

/// A scan begins: what was mapped before it will be seen by it, and what is mapped from now on may
/// lie beside memory that is under our care.
pub(crate) fn begin_scan() {
    IS_DEFERRED.store(false, Ordering::SeqCst);
    UNSEEN.store(0, Ordering::Relaxed);
}

/// Nothing is under our care any more, or not all that was.
pub(crate) fn look_again() {
    HAS_SEEN_ALL.store(false, Ordering::SeqCst);
    mapped::miss();
    scan_again();
}

/// Calls pass unseen from now on: nothing is deferred any longer.
pub(crate) fn note_passing() {
    IS_BLIND.store(true, Ordering::Relaxed);
}

/// A scan saw all that there was when it began.
pub(crate) fn end_scan() {
    HAS_SEEN_ALL.store(true, Ordering::SeqCst);
}

/// The scan could not see all of it.
pub(crate) fn scan_again() {
    UNSEEN.fetch_max(1, Ordering::Relaxed);
}

/// Whether anything was mapped since the last scan, so that a mapping may be half registered.
pub(crate) fn has_unseen() -> bool {
    UNSEEN.load(Ordering::Relaxed) != 0 && !is_deferred()
}

/// A forked child starts as small as its parent was big: it is charged for what it has, not for
/// what was mapped.
pub(crate) fn reset_in_child() {
    UNSEEN.store(0, Ordering::Relaxed);
}

/// A pager has ended, and another is to begin: nothing is under its care yet.
pub(crate) fn begin_anew() {
    HAS_SEEN_ALL.store(false, Ordering::SeqCst);
    IS_DEFERRED.store(true, Ordering::SeqCst);
    UNSEEN.store(0, Ordering::Relaxed);
}

impl Memcg {
    /// Claim room for all that this process, which is deferred, may touch unseen. Said to the group
    /// before it is known whether there is any: of two that map the last of it at the same moment,
    /// each sees the other's claim. False: there is none: what was mapped has to come under our
    /// care before it is touched, and the scan that sees to it withdraws the claim.
    pub(crate) fn claim_unseen(&self, pager: &Pager) -> bool {
        if IS_BLIND.load(Ordering::Relaxed) {
            return false;
        }
        let touched = self.touched.load(Ordering::Relaxed);
        let unseen = MAPPED.load(Ordering::Relaxed).saturating_sub(touched);
        self.group.set_field(self.slot(), Field::Unseen, unseen as u64);
        // Our claim before the look at others'; and before the look at whether a scan has begun
        // meanwhile, which withdraws it at its end (pairs with `begin_scan` and `note_seen`).
        fence(Ordering::SeqCst);
        if !is_deferred() {
            self.note_seen();
            return false;
        }
        self.unclaimed(pager) >= self.high(pager) / DEFERRAL_SHARE
    }

    /// All that was mapped is under our care, or about to be.
    pub(crate) fn note_seen(&self) {
        self.group.set_field(self.slot(), Field::Unseen, 0);
    }

    /// As [`headroom`](Self::headroom), less what deferred processes may touch any moment.
    fn unclaimed(&self, pager: &Pager) -> u64 {
        self.headroom(pager).saturating_sub(self.group.sum(Field::Unseen))
    }
}
