//! A crew: threads that help one thread at a time with a row of equal pieces of work, such as the
//! pages of a batch.
//!
//! The caller rings the bell, works itself, and is done when every piece is. Whoever hears the bell
//! in time takes pieces too; who hears it late finds the job closed, so the caller never waits for
//! a helper that has not begun.
//! ```text
//! caller   publish the job -> state OPEN -> bell -> take pieces until none is left -> close
//!          -> wait for state 0
//! helper   bell -> state OPEN? count itself in -> take pieces -> count itself out
//!          (the last one out wakes the caller)
//! ```
//! A second caller while one is at work does all its pieces itself.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::futex;
use crate::thread::{Descriptors, ThreadMemory, is_over, yield_now};
use crate::time::now_ns;

/// Most helpers of a crew.
pub const HELPERS_MAX: usize = 7;
/// A yield that takes longer let somebody else run.
const YIELD_NS: u64 = 5_000;
/// In `state`: the job takes helpers. The other bits count those at work.
const OPEN: u32 = 1 << 31;

/// One call's work, on the caller's stack.
struct Job<'a> {
    piece: &'a (dyn Fn(usize) + Sync),
    next: AtomicUsize,
    pieces: usize,
}

impl Job<'_> {
    fn work(&self) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.pieces {
                return;
            }
            (self.piece)(at);
        }
    }
}

/// The helpers and what they work on.
pub struct Crew {
    name: &'static CStr,
    prepare: fn(),
    /// How long both sides look for each other before they sleep.
    spin_ns: AtomicU64,
    threads: [ThreadMemory; HELPERS_MAX],
    helpers: AtomicUsize,
    is_taken: AtomicBool,
    bell: AtomicU32,
    state: AtomicU32,
    job: AtomicPtr<Job<'static>>,
}

impl Crew {
    /// A crew without helpers, for jobs that are worth a wake-up. Each helper does `prepare` when
    /// it begins.
    pub const fn new(name: &'static CStr, prepare: fn()) -> Self {
        Self {
            name,
            prepare,
            spin_ns: AtomicU64::new(0),
            threads: [const { ThreadMemory::new() }; HELPERS_MAX],
            helpers: AtomicUsize::new(0),
            is_taken: AtomicBool::new(false),
            bell: AtomicU32::new(0),
            state: AtomicU32::new(0),
            job: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Jobs are shorter than a wake-up and follow each other: helper and caller look for each other
    /// for so long before they sleep.
    pub fn set_spin(&self, ns: u64) {
        self.spin_ns.store(ns, Ordering::Relaxed);
    }

    /// How many helpers there are.
    pub fn helpers(&self) -> usize {
        self.helpers.load(Ordering::Acquire)
    }

    /// Have at least `helpers` helpers, or as many as there may be. Called by one thread, which
    /// lends them its descriptors.
    pub fn grow(&'static self, helpers: usize) {
        let have = self.helpers.load(Ordering::Relaxed);
        for thread in &self.threads[have..helpers.clamp(have, HELPERS_MAX)] {
            let spawned = thread.spawn(self.name, Descriptors::Shared, || {
                (self.prepare)();
                self.help()
            });
            if spawned.is_err() {
                return;
            }
            self.helpers.fetch_add(1, Ordering::Release);
        }
    }

    /// Have the helpers look whether they are to end ([`is_over`]).
    pub fn dismiss(&self) {
        self.bell.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.bell, false);
    }

    /// In a forked child: the helpers, and who they worked for, do not exist here.
    pub fn reset(&self) {
        self.helpers.store(0, Ordering::Relaxed);
        self.state.store(0, Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Release);
    }

    /// Do `work` on each of `lanes`, several at a time, and return when all are done.
    pub fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L) + Sync) {
        struct Lanes<L>(*mut L);
        // SAFETY: each lane is handed to one thread only (below), which `L: Send` allows.
        unsafe impl<L: Send> Sync for Lanes<L> {}
        impl<L> Lanes<L> {
            fn at(&self, i: usize) -> *mut L {
                // SAFETY: `i` is below the length of the slice that the pointer was made from: see
                // the callers.
                unsafe { self.0.add(i) }
            }
        }
        let (base, pieces) = (Lanes(lanes.as_mut_ptr()), lanes.len());
        let piece = |i: usize| {
            // SAFETY: `Job::work` calls this once for each i below `pieces`, so no two references
            // to one lane exist; the slice stays exclusively borrowed until `run` returns, after
            // which nobody calls it.
            work(unsafe { &mut *base.at(i) });
        };
        let is_alone = pieces < 2 || self.helpers.load(Ordering::Relaxed) == 0;
        if is_alone || self.is_taken.swap(true, Ordering::Acquire) {
            (0..pieces).for_each(piece);
            return;
        }
        self.run(&Job {
            piece: &piece,
            next: AtomicUsize::new(0),
            pieces,
        });
        self.is_taken.store(false, Ordering::Release);
    }

    fn run(&self, job: &Job<'_>) {
        self.job
            .store(core::ptr::from_ref(job).cast_mut().cast(), Ordering::Relaxed);
        // Release: a helper that counts itself in sees the job (pairs with `help`).
        self.state.store(OPEN, Ordering::Release);
        self.bell.fetch_add(1, Ordering::Release);
        futex::wake(&self.bell, job.pieces as u32 - 1, false);
        job.work();
        // Acquire, here and below: what the helpers wrote is seen by the caller (pairs with
        // `help`).
        let mut left = self.state.fetch_and(!OPEN, Ordering::AcqRel) & !OPEN;
        while left != 0 {
            self.wait_while(&self.state, left);
            left = self.state.load(Ordering::Acquire);
        }
    }

    /// Wait until `word` is something else, or for no reason.
    fn wait_while(&self, word: &AtomicU32, value: u32) {
        let most = self.spin_ns.load(Ordering::Relaxed);
        let mut now = if most > 0 { now_ns() } else { 0 };
        let until = now + most;
        while now < until {
            if word.load(Ordering::Relaxed) != value {
                return;
            }
            let yielded = now;
            yield_now();
            now = now_ns();
            if now - yielded > YIELD_NS {
                // Somebody else wants the core.
                break;
            }
        }
        futex::wait(word, value, None, false);
    }

    fn help(&self) {
        let mut heard = 0;
        while !is_over() {
            self.wait_while(&self.bell, heard);
            heard = self.bell.load(Ordering::Acquire);
            let join = |state: u32| (state & OPEN != 0).then_some(state + 1);
            if self
                .state
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, join)
                .is_err()
            {
                continue;
            }
            // SAFETY: counted in while the job was open, so `run` waits for us before the job
            // leaves its stack.
            unsafe { &*self.job.load(Ordering::Relaxed) }.work();
            if self.state.fetch_sub(1, Ordering::Release) == 1 {
                futex::wake(&self.state, 1, false);
            }
        }
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;

    /// With threads of std for helpers: those of [`ThreadMemory`] are made by a system call that
    /// Miri does not know.
    #[test]
    fn each_piece_is_done_once_and_before_the_call_returns() {
        const ROUNDS: u64 = if cfg!(miri) { 25 } else { 5_000 };
        static CREW: Crew = Crew::new(c"test", || {});
        for _ in 0..2 {
            std::thread::spawn(|| CREW.help());
            CREW.helpers.fetch_add(1, Ordering::Relaxed);
        }
        let call = || {
            // A vector a round: a helper that came too late would touch one that is gone.
            for round in 0..ROUNDS {
                let mut lanes: std::vec::Vec<u64> = (0..5).map(|i| round + i).collect();
                let add = round * 1000;
                CREW.spread(&mut lanes, |lane| *lane += add);
                assert!(lanes.into_iter().eq((0..5).map(|i| round + i + add)));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(call);
            call();
        });
    }
}
