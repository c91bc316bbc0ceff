//! Reclaim by whoever does it: kswapd, who serves faults, background compression. None begins while
//! a fork is under way, and what comes of it is counted for those who wait for memory.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lock_api::Mutex;
use uzswap_ctl::Field;
use uzswap_mm::machine::Mapper;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::{Effort, Mm, Scan, Worker};
use uzswap_sys::closed;
use uzswap_sys::futex::RawLock;
use uzswap_sys::time;

use super::unsharing::Unsharing;
use crate::machine::AgentMachine;
use crate::pager::{Pager, pause};

/// Who may reclaim, and what came of it.
pub(crate) struct Reclaim {
    /// Working memory of kswapd, locked by it for good. Made before it runs.
    pub(crate) worker: Mutex<RawLock, Worker<AgentMachine>>,
    /// Where kswapd is breaking copy-on-write sharing.
    pub(crate) unsharing: Unsharing,
    /// Set before the engine is frozen: no new reclaim begins.
    is_freezing: AtomicBool,
    /// Pieces of reclaim that are under way.
    running: AtomicU32,
    /// Pages taken out of their mapping and pages reclaimed, ever (wrapping).
    isolated: AtomicU32,
    reclaimed: AtomicU32,
    /// How often kswapd has come by (wrapping).
    rounds: AtomicU32,
}

impl Reclaim {
    /// With kswapd's working memory.
    pub(crate) fn new(worker: Mutex<RawLock, Worker<AgentMachine>>) -> Self {
        Self {
            worker,
            unsharing: Unsharing::default(),
            is_freezing: AtomicBool::new(false),
            running: AtomicU32::new(0),
            isolated: AtomicU32::new(0),
            reclaimed: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
        }
    }
}

/// What reclaim had done at one moment.
#[derive(Clone, Copy)]
struct Progress {
    isolated: u32,
    reclaimed: u32,
    rounds: u32,
}

impl Reclaim {
    /// Whether none may begin, since a fork is under way.
    pub(crate) fn is_freezing(&self) -> bool {
        self.is_freezing.load(Ordering::SeqCst)
    }

    /// Let none begin from here on, and wait until none is under way.
    pub(crate) fn freeze(&self) {
        self.is_freezing.store(true, Ordering::SeqCst);
        while self.running.load(Ordering::SeqCst) != 0 {
            pause(20_000);
        }
    }

    /// It may begin again.
    pub(crate) fn thaw(&self) {
        self.is_freezing.store(false, Ordering::SeqCst);
    }

    /// In a forked child: the threads that reclaimed do not exist here.
    pub(crate) fn reset_in_child(&self) {
        self.running.store(0, Ordering::SeqCst);
    }

    /// `None`: a fork was under way, or what kswapd does.
    fn count_scan(&self, scan: Option<Scan>) -> Scan {
        let scan = scan.unwrap_or(Scan {
            again: true,
            ..Scan::default()
        });
        self.isolated.fetch_add(scan.isolated, Ordering::Relaxed);
        self.count(scan.reclaimed);
        scan
    }

    fn count(&self, pages: u64) {
        self.reclaimed.fetch_add(pages as u32, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        Progress {
            isolated: self.isolated.load(Ordering::Relaxed),
            reclaimed: self.reclaimed.load(Ordering::Relaxed),
            rounds: self.rounds.load(Ordering::Relaxed),
        }
    }
}

impl Progress {
    /// What was done from `then` until now.
    fn since(self, then: Self) -> Self {
        Self {
            isolated: self.isolated.wrapping_sub(then.isolated),
            reclaimed: self.reclaimed.wrapping_sub(then.reclaimed),
            rounds: self.rounds.wrapping_sub(then.rounds),
        }
    }
}

impl Pager {
    /// kswapd comes by, or goes on. While it does not, nobody counts the group as out of memory:
    /// neither who serves faults here, nor the launcher. It sees to devices on its way.
    pub(crate) fn come_by(&self) {
        self.mm.machine().tend_devices();
        self.reclaim.rounds.fetch_add(1, Ordering::Relaxed);
        let (group, slot) = (self.memcg.group(), self.memcg.slot());
        group.set_field(slot, Field::CameBy, time::now_ns());
    }

    /// One round of reclaim, unless a fork is under way.
    pub(crate) fn shrink(&self, worker: &mut Worker<AgentMachine>, want: u32, effort: Effort) -> Scan {
        self.memcg.share_limits(self);
        self.reclaim
            .count_scan(self.unless_freezing(|mm| mm.shrink(worker, want, effort)))
    }

    /// One round of direct reclaim, by whoever serves faults. None while kswapd breaks sharing:
    /// what it has just made our own would be taken before it is done, and brought back for it,
    /// again and again.
    pub(crate) fn shrink_directly(&self, worker: &mut Worker<AgentMachine>, want: u32) -> Scan {
        if self.reclaim.unsharing.is_active() {
            return self.reclaim.count_scan(None);
        }
        self.memcg.share_limits(self);
        self.reclaim.count_scan(self.unless_freezing(|mm| Scan {
            // Freed here: as soon as a fork may begin this thread leaves the heap alone.
            shared: Vec::new(),
            unmovable: Vec::new(),
            ..mm.shrink(worker, want, Effort::Urgent)
        }))
    }

    /// Store pages that wait for it, if there are more than have to wait. Returns how many, 0 also
    /// while a fork is under way.
    pub(crate) fn store_staged(&self, worker: &mut Worker<AgentMachine>) -> u64 {
        self.count_stored(|mm| mm.store_staged(worker))
    }

    /// As [`store_staged`](Self::store_staged), where so many have to wait.
    pub(crate) fn store_staged_beyond(&self, worker: &mut Worker<AgentMachine>, waits: u64) -> u64 {
        self.count_stored(|mm| mm.store_staged_beyond(worker, waits))
    }

    fn count_stored(&self, store: impl FnOnce(&Mm<RawLock, AgentMachine>) -> u64) -> u64 {
        let stored = self.unless_freezing(store).unwrap_or(0);
        self.reclaim.count(stored);
        stored
    }

    /// Write all that is staged to the device.
    pub(crate) fn swap_out_staged(&self, worker: &mut Worker<AgentMachine>) {
        let gone = self.unless_freezing(|mm| mm.swap_out_staged(worker)).unwrap_or(0);
        self.reclaim.count(gone);
    }

    /// Bytes that one fault maps at most.
    fn window(&self) -> u64 {
        let order = self.mm.portions_expected().folio_order;
        (PAGE_SIZE as u64) << order.max(self.mm.page_cluster()).max(closed::unit_order())
    }

    /// What must be free before a page is mapped: room for what each server maps, for the folio
    /// that each thread may be storing, and for what kswapd and the servers that make room give up
    /// together. What they give up is in the pool before its frames are given up.
    pub(crate) fn room(&self) -> u64 {
        let reclaiming = 1 + self.seats.that_make_room();
        let storing = reclaiming + self.kcompressd.workers.len() as u64;
        self.window() * (self.seats.servers() + storing)
            + reclaiming * Mm::<RawLock, AgentMachine>::bytes(self.mm.portions_expected().give_up.into())
    }

    /// What must be free before a fault of ours is served: room, and what is others'.
    pub(crate) fn room_beside_others(&self) -> u64 {
        let room = self.room();
        room.saturating_add(self.memcg.reserved(room))
    }

    /// Whether faults wait for room that those who serve them may not be able to make: another
    /// process of the group has the memory, or only kswapd copies pages out.
    pub(crate) fn lacks_room(&self) -> bool {
        let own = if self.mm.machine().copies() {
            self.room_beside_others()
        } else {
            0
        };
        let room = self.memcg.lacked().max(own);
        room > 0 && self.memcg.excess(self, room) > 0
    }

    /// Run a piece of reclaim. `None`: a fork is under way, and none may begin.
    pub(crate) fn unless_freezing<T>(&self, reclaim: impl FnOnce(&Mm<RawLock, AgentMachine>) -> T) -> Option<T> {
        // SeqCst on both sides: either `freeze` sees the count, or the count's owner sees the flag.
        self.reclaim.running.fetch_add(1, Ordering::SeqCst);
        let result = (!self.reclaim.is_freezing()).then(|| reclaim(&self.mm));
        self.reclaim.running.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// How long reclaim must be fruitless before the group counts as out of memory. A relative may be
/// waiting for its turn; a program that merely thrashes reclaims as much as it looks at.
const OUT_OF_MEMORY_NS: u64 = 3_000_000_000;
/// How often kswapd must have come by in that time, as often as the kernel retries. It may have
/// lacked a core, or waited for a slow disk; after [`HANGS_NS`] it is not waited for.
const ROUNDS: u32 = 16;
const HANGS_NS: u64 = 30_000_000_000;
/// Fruitless: of so many pages that reclaim took out and looked at, not even one was stored.
const LOOKED_AT_PER_PAGE: u32 = 16;
/// Longer than this between two looks: no fault waited, or the process was stopped, or the machine
/// asleep.
const GAP_NS: u64 = 1_000_000_000;

/// Watches how much direct reclaim gets for its work.
#[derive(Default)]
pub(crate) struct Stall {
    /// When this look began, nanoseconds, and what had been done by then.
    since: Option<(u64, Progress)>,
    /// When the last look was.
    looked: u64,
    /// Room was found since this look began, whoever made it.
    found_room: bool,
    /// When this look began, pools had taken nearly all of the limit already.
    was_choked: bool,
}

impl Stall {
    /// Direct reclaim is at it: whether it has been fruitless for too long.
    pub(crate) fn is_over(&mut self, pager: &Pager) -> bool {
        let (now, progress) = (time::now_ns(), pager.reclaim.progress());
        self.found_room &= self.since.is_some();
        if self.since.is_none() {
            self.was_choked = pager.memcg.is_choked();
        }
        let (since, then) = *self.since.get_or_insert((now, progress));
        let last = core::mem::replace(&mut self.looked, now);
        if now - last > GAP_NS {
            self.since = None;
            return false;
        }
        let done = progress.since(then);
        if now - since < OUT_OF_MEMORY_NS || done.rounds < ROUNDS && now - since < HANGS_NS {
            return false;
        }
        self.since = None;
        // Nothing of ours to take, but others make room: that is no stall.
        let others_do = self.found_room && done.isolated == 0;
        let is_fruitless = done.reclaimed <= done.isolated / LOOKED_AT_PER_PAGE && !others_do;
        is_fruitless || self.was_choked && pager.memcg.is_choked()
    }

    /// There was room for a fault.
    pub(crate) fn note_room(&mut self) {
        self.found_room = true;
    }
}
