//! What the engine needs from the machine, as the sum of seven parts: the program's mapping
//! ([`Mapper`]), [`Frames`] in staging slots, a [`Device`], [`Memory`] of its own, [`Threads`],
//! [`Accelerators`] and a [`Clock`]. The agent implements them with userfaultfd and files,
//! [`crate::sim`] with vectors. Nothing here blocks on the engine's lock, so any of it may be
//! called while the lock is held. The file operations may take milliseconds: only a frozen engine,
//! or one that gives all memory back, calls them with it.

use alloc::vec::Vec;

use uzswap_acomp::Algorithm;

use crate::page::{PageRange, Vpn};
use crate::pages::swap_table::TableMemory;
use crate::zpool::Arena;

/// What the page after the last one done met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The page to move is not there.
    Missing,
    /// The place to fill is taken.
    Present,
    /// Shared with a forked process, or pinned by the kernel.
    Busy,
    /// The mapping cannot take part: read-only, locked, unmapped, not anonymous.
    Unmovable,
    /// It must be there whenever the program ends: it stays for now.
    Needed,
    /// The mappings are changing: events wait to be read before anything else can be done.
    Again,
    /// No memory.
    NoMemory,
}

/// How many pages were done, and why not more (`None`: all were).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Pages done, from the first on.
    pub pages: u32,
    /// What stopped the rest.
    pub stop: Option<Stop>,
}

impl Done {
    /// All `pages` were done.
    pub const fn all(pages: u32) -> Self {
        Self { pages, stop: None }
    }

    /// None was done.
    pub const fn none(stop: Stop) -> Self {
        Self {
            pages: 0,
            stop: Some(stop),
        }
    }
}

/// The swap device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoError {
    /// No room (ENOSPC, quota).
    NoSpace,
    /// Anything else.
    Failed,
}

/// A buffer that the swap device can read and write directly.
pub trait IoBuffer {
    /// Its first `len` bytes.
    fn bytes(&self, len: usize) -> &[u8];
    /// The same, for writing.
    fn bytes_mut(&mut self, len: usize) -> &mut [u8];
    /// Its memory returns to the system, and what it holds is lost.
    fn give_back(&mut self) {}
    /// Whether that would free any.
    fn has_memory(&self) -> bool {
        false
    }
}

/// Pages that nobody has written to since they were [mapped](Mapper::copy_in_protected), as runs:
/// those that a machine has found.
#[derive(Clone, Copy, Debug)]
pub struct Unwritten {
    runs: [PageRange; Self::RUNS],
    len: usize,
}

impl Unwritten {
    /// Runs that are remembered. Pages are loaded by the window, so those that a run of neighbours
    /// has are few.
    pub const RUNS: usize = 8;
    /// No pages.
    pub const NONE: Self = Self {
        runs: [PageRange::new(Vpn::new(0), 0); Self::RUNS],
        len: 0,
    };

    /// One more run, if there is room for it.
    pub fn push(&mut self, run: PageRange) {
        if let Some(place) = self.runs.get_mut(self.len) {
            *place = run;
            self.len += 1;
        }
    }

    /// Whether a page is in one of them.
    pub fn holds(&self, page: Vpn) -> bool {
        self.runs[..self.len].iter().any(|run| run.contains(page))
    }
}

/// A page that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPage {
    /// Which.
    pub page: Vpn,
    /// The staging slot where its frame is.
    pub slot: u32,
    /// Bytes of its block; 0: it is one word over and over; those of a page: it is as it was.
    pub bytes: u32,
}

/// Pages of a scatter list.
pub const SCATTER_MAX: usize = uzswap_acomp::SCATTER_MAX;

/// The program's mapping: pages leave it, and come back.
pub trait Mapper {
    /// Held while pages are isolated.
    type Isolation;
    /// Ask to take pages out of their mapping; without the engine's lock. `None`: not now, or not
    /// by this thread.
    fn begin_isolation(&self) -> Option<Self::Isolation>;
    /// Whether pages cannot move here, so that all leave by [`copy_out`](Self::copy_out);
    /// [`move_in`](Self::move_in) copies back.
    fn copies(&self) -> bool;
    /// Whether pages without a frame may be guards, which copying in would take away: only the page
    /// that faulted is certainly none.
    fn may_have_guards(&self) -> bool {
        false
    }
    /// log2 of the pages that a fault brings at least, where each run of pages is a mapping of its
    /// own, of which there are few.
    fn unit_order(&self) -> u32 {
        0
    }
    /// Unmap a run of pages that were copied out, all of them, without the engine's lock: this
    /// waits until the thread that applies changes has seen it. Returns which pages refused; they
    /// are as they were before, and not protected any more.
    fn give_up(&self, isolation: &Self::Isolation, run: PageRange) -> Vec<Vpn>;
    /// To be called after each [`give_up`](Self::give_up), under the engine's lock: changes are
    /// read and applied under one hold of it, so what was read of the drop has been recognised by
    /// now.
    fn gave_up(&self);
    /// Move the mapped pages from `vpn` on into staging slots from `slot` on, atomically for each
    /// page: the program's next touch faults.
    fn move_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done;
    /// Copy the mapped pages from `vpn` on into staging slots from `slot` on. They stay mapped,
    /// protected from writing, until [`give_up`](Self::give_up) takes them away (`leaving`).
    fn copy_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done;
    /// Move staged pages back and wake whoever waits for them.
    fn move_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done;
    /// Whether the program has anything mapped at this page now.
    fn is_mapped(&self, page: Vpn) -> bool;
    /// Whether a move of `from` that is being reported has left its mapping behind
    /// (MREMAP_DONTUNMAP), as far as is known.
    fn keeps_mapping(&self, from: PageRange) -> bool;
    /// Map copies of `bytes` (whole pages) at `vpn`; `wake` whoever waits for them.
    fn copy_in(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done;
    /// As [`copy_in`](Self::copy_in). Where the machine can tell who writes, whoever does so first
    /// waits until the page is [unprotected](Self::unprotect).
    fn copy_in_protected(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        self.copy_in(vpn, bytes, wake)
    }
    /// Let everybody write to these pages, and wake who waits to. Only under the engine's lock, as
    /// [`unwritten`](Self::unwritten). What stopped it, if anything did: some are unprotected then,
    /// perhaps.
    fn unprotect(&self, run: PageRange) -> Option<Stop> {
        let _ = run;
        None
    }
    /// Have whoever writes to one of these pages that are mapped wait until it is
    /// [unprotected](Self::unprotect). Only under the engine's lock. What stopped it, if anything
    /// did.
    fn protect(&self, run: PageRange) -> Option<Stop> {
        let _ = run;
        None
    }
    /// Which of the mapped pages of `run` are protected still, so that they hold what was copied
    /// in. Others may as well.
    fn unwritten(&self, run: PageRange) -> Unwritten {
        let _ = run;
        Unwritten::NONE
    }
    /// Wake whoever waits for these pages.
    fn wake(&self, vpn: Vpn, pages: u32);
    /// The engine's lock is about to be released: the words of all pages that were moved out or
    /// protected under it say so by now.
    fn end_moves(&self) {}
}

/// Frames in staging slots.
pub trait Frames {
    /// Look at the bytes of staged pages, at most [`SCATTER_MAX`] of them. Only while they are in
    /// their slots and marked busy, or under the engine's lock.
    fn with_staged<T>(&self, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T;
    /// Give the frames in these slots (runs of first slot and pages, in order; none is empty) back
    /// to the system.
    fn drop_staged(&self, runs: &[(u32, u32)]);
    /// For whoever records what becomes of pages: these were stored, and their frames are in their
    /// slots still. Under the engine's lock.
    fn note_stored(&self, stored: impl Iterator<Item = StoredPage>) {
        drop(stored);
    }
}

/// Swap devices: our own, and those of relatives.
pub trait Device {
    /// Buffers for the swap device.
    type Io: IoBuffer;
    /// A buffer of `pages` pages.
    fn io_buffer(&self, pages: usize) -> Self::Io;
    /// How many of `want` more slots of our own swap device may be taken, when `in_use` are:
    /// `memory.swap.max` holds for a group of engines (`mem_cgroup_try_charge_swap`). Asked under
    /// the engine's lock; the charge stands until the next call.
    fn charge_swap(&self, in_use: u64, want: u64) -> u64;
    /// Write whole pages to our own swap device from slot `slot` on, each sealed by itself. `bytes`
    /// is undefined afterwards.
    ///
    /// # Errors
    /// The slots hold undefined bytes then.
    fn write_swap(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError>;
    /// Read whole pages of a swap device, as they lie there, from slot `slot` on;
    /// [`open_swap`](Self::open_swap) opens them.
    ///
    /// # Errors
    /// `bytes` is undefined then.
    fn read_swap(&self, device: u8, slot: u32, bytes: &mut [u8]) -> Result<(), IoError>;
    /// Make a page that was read from `slot` what was written there. To be called once for each
    /// page that is needed: those in between may have been empty, or are just being written. False:
    /// it is not what was written.
    fn open_swap(&self, device: u8, slot: u32, page: &mut [u8]) -> bool;
    /// Slots of our own swap device are empty: their space may go back to the filesystem.
    fn discard_swap(&self, slot: u32, slots: u32);
}

/// What the engine keeps its own things in.
pub trait Memory {
    /// Memory of the compressed pool.
    type Arena: Arena;
    /// Memory for the swap table.
    fn table_memory(&self) -> TableMemory;
    /// Address space for another pool. `None`: there is none.
    fn arena(&self) -> Option<Self::Arena>;
}

/// The threads that work for an engine.
pub trait Threads {
    /// Pages of a piece of a load at least: bringing it takes some times as long as waking a
    /// thread.
    const PIECE_MIN: usize = 16;
    /// How many threads [`spread`](Self::spread) uses at most.
    fn lanes(&self) -> usize;
    /// Do `work` on every lane, each by one thread, and return when all are done. Every thread gets
    /// at the machine.
    fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L, &Self) + Sync);
    /// How many threads [`spread_load`](Self::spread_load) uses at most.
    fn servers(&self) -> usize {
        1
    }
    /// As [`spread`](Self::spread), for the pieces of a load: with the other threads that serve
    /// faults, unless faults are just being dealt out among them.
    fn spread_load<L: Send>(&self, pieces: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        pieces.iter_mut().for_each(|piece| work(piece, self));
    }
    /// Between two pieces of reclaim, without the lock: let threads that have faults to serve go
    /// first, as long as they wait for the lock, but not for ever (`cond_resched`).
    fn cond_resched(&self, faults_wait: impl Fn() -> bool) {
        let _ = faults_wait;
    }
}

/// Devices that compress beside the processor.
pub trait Accelerators {
    /// A thread's way to one.
    type Acomp: uzswap_acomp::Device + Send;
    /// An accelerator that does what `algorithm` does, for the thread that asks. `None`: software
    /// does it.
    fn acomp(&self, algorithm: Algorithm) -> Option<Self::Acomp> {
        let _ = algorithm;
        None
    }
}

/// The time.
pub trait Clock {
    /// Nanoseconds on a clock that never goes back.
    fn now_ns(&self) -> u64;
}

/// The machine under the engine.
pub trait Machine: Mapper + Frames + Device + Memory + Threads + Accelerators + Clock {}

impl<M: Mapper + Frames + Device + Memory + Threads + Accelerators + Clock> Machine for M {}
