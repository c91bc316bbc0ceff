//! Bounded polling for what is read from the swap device (as block devices have it for the kernel:
//! `blk_poll`, block/blk-core.c).
//!
//! To sleep for a read costs as much as the read itself where idle cores are halted: this core has
//! to be woken. Before that it has become idle. So the program, which has waited here
//! ([`follow`](crate::cpu::follow)), will be woken on the other core and not in its place.
//! Therefore a thread that serves a fault looks for the end of its read, if nobody else wants the
//! core:
//!
//! ```text
//! READY  several threads fault                                -> sleeps for this one
//!        somebody else took the core meanwhile                -> sleeps for BUSY_NS
//!        most reads take longer than MOST_NS                  -> sleeps, until they do not
//! ```
//! What it takes ([`Aio`]) delays the end of the process, so it is made once that many reads have
//! been slept for that it is made up for.

use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::Mutex;
use uzswap_sys::aio::Aio;
use uzswap_sys::file::File;
use uzswap_sys::futex::RawLock;
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, thread};

use super::cores::CORES;

/// How long to look for the end of a read, at most.
const MOST_NS: u64 = 250_000;
/// How long reads are slept for after somebody else had the core.
const BUSY_NS: u64 = 5_000_000;
/// Reads that are slept for first: each loses some 100 us, the end of a process that polls 30 ms.
const FIRST_SLEPT: u32 = 300;
/// Of the last reads so many parts must have been brief; each has one part in so many of the say.
const SCALE: u32 = 128;
const WEIGHT: u32 = 8;

/// This process's.
pub(crate) static IO_POLL: IoPoll = IoPoll::new();

pub(crate) struct IoPoll {
    is_allowed: AtomicBool,
    state: Mutex<RawLock, State>,
}

struct State {
    /// Reads to sleep for before any is polled for.
    slept: u32,
    /// Part of the reads that were brief lately, in parts of [`SCALE`].
    brief: u32,
    busy_until: u64,
    aio: Aio,
    /// It cannot be had.
    is_refused: bool,
}

impl IoPoll {
    const fn new() -> Self {
        Self {
            is_allowed: AtomicBool::new(false),
            state: Mutex::new(State {
                slept: 0,
                brief: SCALE,
                busy_until: 0,
                aio: Aio::new(),
                is_refused: false,
            }),
        }
    }

    /// `allowed`: by whoever pays for the processor time.
    pub(crate) fn begin(&self, allowed: bool) {
        self.is_allowed.store(allowed && thread::cores() > 1, Ordering::Relaxed);
    }

    /// In a forked child: the context was the parent's.
    pub(crate) fn reset(&self) {
        if self.state.is_locked() {
            // SAFETY: locked by a thread of the parent's, which does not exist here. What it may
            // have been writing then are words, each one valid.
            unsafe { self.state.force_unlock() };
        }
        let mut state = self.state.lock();
        state.slept = 0;
        state.aio.abandon();
    }

    /// Fill `bytes` from `offset` of `file`.
    ///
    /// # Errors
    /// EIO, also when the file ends before `bytes` is full.
    pub(crate) fn read(&self, file: &File, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
        let is_alone = self.is_allowed.load(Ordering::Relaxed) && !CORES.is_crowded();
        let Some(mut state) = is_alone.then(|| self.state.try_lock()).flatten() else {
            return file.read_at(bytes, offset);
        };
        let began = now_ns();
        let done = state.poll(file, bytes, offset, began);
        let result = match done {
            done if done == bytes.len() => Ok(()),
            // The rest, or all of it; whatever was in the way of polling.
            done => file.read_at(&mut bytes[done..], offset + done as u64),
        };
        state.note_read(now_ns() - began);
        result
    }
}

impl State {
    /// How much could be read by polling.
    fn poll(&mut self, file: &File, bytes: &mut [u8], offset: u64, began: u64) -> usize {
        let is_worthwhile = self.brief >= SCALE / 2 && began >= self.busy_until;
        let Some(aio) = is_worthwhile.then(|| self.ready()).flatten() else {
            return 0;
        };
        let preemptions = thread::preemptions();
        let read = aio.read_at(file, bytes, offset, || now_ns() - began < MOST_NS);
        // A while without a look may as well be the host's; and by now whoever had the core is gone
        // again.
        if thread::preemptions() != preemptions {
            self.busy_until = began + BUSY_NS;
        }
        if let Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS) = read {
            self.is_refused = true;
        }
        read.unwrap_or(0)
    }

    fn ready(&mut self) -> Option<&mut Aio> {
        if self.slept < FIRST_SLEPT {
            self.slept += 1;
            return None;
        }
        self.is_refused = self.is_refused || self.aio.make().is_err();
        (!self.is_refused).then_some(&mut self.aio)
    }

    fn note_read(&mut self, ns: u64) {
        let brief = if ns < MOST_NS { SCALE } else { 0 };
        self.brief = (self.brief * (WEIGHT - 1) + brief) / WEIGHT;
    }
}
