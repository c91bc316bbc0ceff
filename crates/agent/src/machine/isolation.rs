//! How pages leave the program's mapping: moved, where the kernel can (UFFDIO_MOVE, Linux 6.8),
//! else copied (`mm/flight/leaving.rs` has the states). The kernel moves no page of memory that is
//! read-only or executable: kswapd copies those.
//!
//! Copying knows nothing of pins. The kernel writes behind the protection to what it holds for
//! direct I/O under way, or for buffers registered with io_uring. A copy made before that is old. A
//! move refuses such pages; here nothing can tell. docs/compatibility.md says so.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use uzswap_mm::machine::{Done, Frames, Mapper, Stop, Unwritten};
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_sys::mapping::{Discard, drop_pages, merges, own, unshare};
use uzswap_sys::proc_mem::ProcMem;
use uzswap_sys::procfs::Vma;
use uzswap_sys::time::now_ns;
use uzswap_sys::uffd::Uffd;
use uzswap_sys::{Errno, thread};

use super::{AgentMachine, done, filled_in, not_protected, stop};
use crate::guard;
use crate::guest::mmap;
use crate::guest::mutexes::{self, Taking};
use crate::guest::order::InOrder;

/// What each way needs.
pub(crate) enum Isolation {
    /// A userfaultfd for the trash range; and where read-only memory is read, if it can be.
    Move(Uffd, Option<ProcMem>),
    /// Where the program's memory is read.
    Copy(ProcMem),
    /// Where the program's memory is read; what leaves is [`closed`].
    Close(ProcMem),
}

/// Whether pages that are loaded can be protected. Only once some are to be, since forks cost more
/// from then on ([`Uffd::begin_protecting`]): a load wants it and goes on without, kswapd turns it
/// on.
#[derive(Default)]
pub(crate) struct Protection(AtomicU8);

const UNWANTED: u8 = 0;
const WANTED: u8 = 1;
const ON: u8 = 2;

impl Protection {
    /// Of a new process: what its parent had protected is not any more.
    pub(crate) fn reset(&self) {
        self.0.store(UNWANTED, Ordering::Relaxed);
    }

    fn want(&self) {
        // Refused when it is wanted or on already.
        let _ = self
            .0
            .compare_exchange(UNWANTED, WANTED, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WANTED
    }

    /// All memory is registered for it.
    pub(crate) fn turn_on(&self) {
        self.0.store(ON, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire) == ON
    }
}

/// Bytes that are copied from read-only memory at a time, over the stack.
const COPY_PIECE: usize = 8 * PAGE_SIZE;

/// How often a frame of our own that refuses to leave its slot is tried before giving up on the
/// process.
const DROP_TRIES: u32 = 10_000;

/// How long the turn may be somebody else's.
const KEPT_OUT_NS: u64 = 20_000_000;

/// Who copies out, and what is being dropped.
#[derive(Default)]
pub(crate) struct CopyOut {
    /// The only thread that may: it waits for the fault thread.
    thread: AtomicI32,
    /// Since when it waits for the turn to change mappings; 0: it does not.
    waits_since: AtomicU64,
    /// First byte and end of what it drops now.
    dropping: [AtomicUsize; 2],
}

impl CopyOut {
    /// The calling thread isolates from now on.
    pub(crate) fn take_on(&self) {
        self.thread.store(thread::tid(), Ordering::Relaxed);
    }

    /// This thread's turn to change mappings, if it may isolate and nobody else has it.
    pub(crate) fn begin(&self) -> Option<InOrder> {
        let is_mine = self.thread.load(Ordering::Relaxed) == thread::tid();
        if !is_mine {
            return None;
        }
        let turn = InOrder::attempt();
        let since = match &turn {
            Some(_) => 0,
            None => self.waits_since.load(Ordering::Relaxed).max(1),
        };
        // One thread writes this.
        let since = if since == 1 { now_ns() } else { since };
        self.waits_since.store(since, Ordering::Relaxed);
        turn
    }

    /// Whether a thread of the program keeps the turn for so long that it may wait for us: for a
    /// page, in a signal handler perhaps. It must have it then, whatever the limit says.
    pub(crate) fn is_kept_out(&self) -> bool {
        let since = self.waits_since.load(Ordering::Relaxed);
        since != 0 && now_ns() - since > KEPT_OUT_NS
    }

    /// Whether the event is about what we drop. A drop by the program of the same pages at the same
    /// moment, by a raw system call, would be taken for ours: they would keep their contents.
    pub(crate) fn is_own(&self, start: usize, end: usize) -> bool {
        let [first, limit] = &self.dropping;
        // Pairs with the stores of `drop_run`: the event was raised after them, and `end_drop`
        // comes after the lock was taken that this is asked under.
        first.load(Ordering::SeqCst) <= start && end <= limit.load(Ordering::SeqCst)
    }

    /// Drop a run of pages. Returns those that refuse.
    fn drop_run(&self, run: PageRange) -> Vec<Vpn> {
        let [first, limit] = &self.dropping;
        first.store(run.start.addr(), Ordering::SeqCst);
        limit.store(run.end.addr(), Ordering::SeqCst);
        let mut kept = Vec::new();
        if drop_pages(run.start.addr(), run.pages() as usize * PAGE_SIZE).is_err() {
            // Some may be gone already: dropping them again changes nothing.
            kept.extend(run.iter().filter(|vpn| drop_pages(vpn.addr(), PAGE_SIZE).is_err()));
        }
        kept
    }

    /// The events of the last drop were recognised.
    pub(crate) fn end_drop(&self) {
        self.dropping[1].store(0, Ordering::SeqCst);
    }
}

impl AgentMachine {
    /// `copy_out`: protect, copy, and see that the mapping is still the one that was protected.
    pub(crate) fn copy_run(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        let _taking = Taking::begin();
        // The kernel passes over what is protected as over what is missing.
        let needed = self.first_needed(vpn, pages);
        let (free, behind) = (needed.unwrap_or(pages), needed.map(|_| Stop::Needed));
        if free == 0 {
            return Done { pages: 0, stop: behind };
        }
        let (addr, len) = (vpn.addr(), free as usize * PAGE_SIZE);
        let managed = &self.fds().managed;
        match managed.protect(addr, len) {
            Ok(()) => {}
            // It spans mappings, not all of which are registered.
            Err(Errno::NOENT) if free > 1 => return self.copy_run(vpn, slot, 1),
            Err(Errno::NOENT) => return Done::none(Stop::Unmovable),
            Err(errno) => return Done::none(stop(errno)),
        }
        let copied = self.fill_slots(slot, len, addr);
        // What was replaced before this would have been reported since the protection, which was
        // refused if it was earlier.
        let is_changing = managed.is_changing(self.nowhere());
        let taken = if is_changing { 0 } else { copied };
        if taken < copied {
            self.discard_copies(slot, taken, copied);
        }
        if taken < len {
            // If that is refused, whoever writes is woken one by one.
            managed.unprotect_and_wake(addr + taken, len - taken);
        }
        Done {
            pages: (taken / PAGE_SIZE) as u32,
            stop: match is_changing {
                true => Some(Stop::Again),
                false if taken < len => Some(Stop::Missing),
                false => behind,
            },
        }
    }

    /// Bytes `from..to` of what was copied to the slots from `slot` on stay where they were.
    fn discard_copies(&self, slot: u32, from: usize, to: usize) {
        let first = from / PAGE_SIZE;
        self.drop_staged(&[(slot + first as u32, (to / PAGE_SIZE - first) as u32)]);
    }

    /// Move pages to the slots from `slot` on.
    pub(crate) fn move_run(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        if let Isolation::Close(memory) = &self.fds().isolation {
            return self.close_run(memory, vpn, slot, pages);
        }
        let (to, len) = (self.slot_addr(slot), pages as usize * PAGE_SIZE);
        let filled = self.fds().managed.move_pages(to, vpn.addr(), len, false);
        done(self.in_truth(filled, len, to, true))
    }

    /// The first of `pages` pages from `vpn` on that has to stay. Under the engine's lock, which is
    /// released when the words of those that go are published; during a [`Taking`].
    fn first_needed(&self, vpn: Vpn, pages: u32) -> Option<u32> {
        let unheld = guard::begin_moves(PageRange::new(vpn, pages.into())) as u32;
        let held = (unheld < pages).then_some(unheld);
        mutexes::first_needed(self.memory(), vpn, unheld).or(held)
    }

    /// As [`move_run`](Self::move_run), up to the first page that is needed where it is
    /// ([`mutexes`]).
    pub(crate) fn move_unneeded(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        let _taking = Taking::begin();
        match self.first_needed(vpn, pages) {
            None => self.move_run(vpn, slot, pages),
            Some(0) => Done::none(Stop::Needed),
            Some(free) => {
                let moved = self.move_run(vpn, slot, free);
                Done {
                    stop: moved.stop.or(Some(Stop::Needed)),
                    ..moved
                }
            }
        }
    }

    /// Where the program's memory can be read without waiting, if it can.
    pub(crate) fn memory(&self) -> Option<&ProcMem> {
        match &self.fds().isolation {
            Isolation::Copy(memory) | Isolation::Close(memory) | Isolation::Move(_, Some(memory)) => Some(memory),
            Isolation::Move(_, None) => None,
        }
    }

    /// Fill slots with copies of the program's memory from `addr` on. Returns the bytes of whole
    /// pages copied, up to the first page that is not there.
    fn fill_slots(&self, slot: u32, len: usize, addr: usize) -> usize {
        let offset = slot as usize * PAGE_SIZE;
        match &self.fds().isolation {
            Isolation::Copy(memory) | Isolation::Close(memory) => {
                self.staging().fill(offset, len, memory, addr) / PAGE_SIZE * PAGE_SIZE
            }
            Isolation::Move(_, Some(memory)) => {
                // Whoever touched a slot would wait for itself.
                let mut piece = [0; COPY_PIECE];
                let mut copied = 0;
                while copied < len {
                    let want = COPY_PIECE.min(len - copied);
                    let read = memory.read(addr + copied, &mut piece[..want]) / PAGE_SIZE * PAGE_SIZE;
                    let to = self.staging().addr() + offset + copied;
                    let filled = self.fds().managed.copy(to, &piece[..read], false).bytes;
                    copied += filled;
                    if filled < want {
                        break;
                    }
                }
                copied
            }
            Isolation::Move(_, None) => 0,
        }
    }

    /// Whether pages of this mapping refuse to move for what may be done with it, and can be
    /// copied.
    pub(crate) fn can_copy(&self, vma: &Vma) -> bool {
        matches!(self.fds().isolation, Isolation::Move(_, Some(_))) && !vma.is_plain_data()
    }

    /// `move_in` by copying.
    pub(crate) fn copy_back(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        let staged = self.staged_bytes(slot, pages);
        let filled = self.managed().copy(vpn.addr(), staged, true);
        self.discard_slots(slot, done(filled).pages);
        filled_in(filled)
    }

    /// Whether it can be told here who writes to a page. Where pages are copied, protection is for
    /// those that leave. What KSM merges forgets that it was protected, so that it might be written
    /// to between our look and the move.
    pub(crate) fn protects(&self) -> bool {
        self.protection.is_on() && !mmap::merges() && !merges()
    }

    /// Have kswapd make that possible, if it can be.
    pub(crate) fn want_protection(&self) {
        if self.managed().can_protect() && !self.copies() && !mmap::merges() && !merges() {
            self.protection.want();
        }
    }

    /// `unprotect`.
    pub(crate) fn unprotect_run(&self, run: PageRange) -> Option<Stop> {
        if let Some(done) = self.fail.stop(&[Stop::Again]) {
            return done.stop;
        }
        guard::begin_moves(run);
        let len = run.pages() as usize * PAGE_SIZE;
        let unprotected = self.managed().unprotect(run.start.addr(), len);
        unprotected.err().map(not_protected)
    }

    /// `protect`, but for what a call holds: the kernel would not wait there.
    pub(crate) fn protect_run(&self, run: PageRange) -> Option<Stop> {
        let mut rest = run;
        while rest.start < rest.end {
            let unheld = guard::begin_moves(rest);
            let len = unheld as usize * PAGE_SIZE;
            if len > 0
                && let Err(errno) = self.managed().protect(rest.start.addr(), len)
            {
                return Some(not_protected(errno));
            }
            rest.start = rest.start.add(unheld + 1);
        }
        None
    }

    /// `unwritten`.
    pub(crate) fn unwritten_of(&self, run: PageRange) -> Unwritten {
        let mut unwritten = Unwritten::NONE;
        let (addr, len) = (run.start.addr(), run.pages() as usize * PAGE_SIZE);
        let push = |start, end| unwritten.push(PageRange::of_bytes(start, end));
        let scanned = self
            .opened()
            .proc
            .protected_runs::<{ Unwritten::RUNS }>(addr, len, push);
        // Asked after the scan: what may be merged from now on was seen while it was protected.
        match scanned {
            Ok(()) if self.protects() => unwritten,
            Ok(()) | Err(_) => Unwritten::NONE,
        }
    }

    /// Move the frames of these slots to the same place of the trash range.
    pub(crate) fn move_to_trash(&self, trash: &Uffd, slot: u32, pages: u32) {
        let (offset, len) = (slot as usize * PAGE_SIZE, pages as usize * PAGE_SIZE);
        let mut moved = 0;
        let mut last = None;
        for _ in 0..DROP_TRIES {
            let (from, to) = (
                self.staging().addr() + offset + moved,
                self.trash.addr() + offset + moved,
            );
            let filled = trash.move_pages(to, from, len - moved, false);
            moved += self.in_truth(filled, len - moved, to, true).bytes;
            if moved == len {
                return;
            }
            last = filled.stop.or(last);
            // Shared with a forked child: make it ours. The page is there, and is not of a range
            // that is protected, so this raises no fault.
            match filled.stop {
                Some(Errno::BUSY) => drop(unshare(from, PAGE_SIZE)),
                // The process is being locked as a whole (mlockall), and one of the two ranges is
                // unlocked again.
                Some(Errno::INVAL) => own::unlock(),
                _ => {}
            }
        }
        panic!(
            "a staged frame cannot be given up: page {} of {pages}: {last:?}",
            moved / PAGE_SIZE
        );
    }

    /// `give_up`.
    pub(crate) fn give_up_run(&self, run: PageRange) -> Vec<Vpn> {
        // They are mapped still, so a call may have found them since they were copied.
        let kept = match guard::begin_drop(run) {
            true => self.copy_out.drop_run(run),
            false => run.iter().collect(),
        };
        guard::end_drop();
        for vpn in &kept {
            self.fds().managed.unprotect_and_wake(vpn.addr(), PAGE_SIZE);
        }
        kept
    }

    /// Empty staging slots that hold copies.
    pub(crate) fn discard_slots(&self, slot: u32, pages: u32) {
        let (offset, len) = (slot as usize * PAGE_SIZE, pages as usize * PAGE_SIZE);
        if len > 0 && self.staging().discard(offset, len, Discard::DontNeed).is_err() {
            panic!("MADV_DONTNEED on the staging range");
        }
    }
}
