//! A fault thread that waits where the program runs.
//!
//! A fault that is served on another core takes two wake-ups from core to core: 73 to 93 us, if both are halted before. On one core the two threads
//! take turns, which takes 3 (docs/speed.md). So the fault thread, before it sleeps, goes to the core of the thread that faulted last:
//!
//! ```text
//! ANYWHERE  one thread faults, and to spin (`spin`) is not worth it, or was cut short by others in the last BUSY_NS   -> FOLLOWING
//! FOLLOWING spinning is worth it, or another thread faults too                                                       -> ANYWHERE
//! FOLLOWING the program changed its core more often than is made up for by faults on one core                        -> RESTING
//! RESTING   so many waits are over                                                                                   -> ANYWHERE
//! ```
//! Nothing but the fault thread's affinity changes, and where it may not run, or does not learn where the program is, it stays anywhere. kswapd
//! keeps off the core meanwhile ([`Cores::followed`](crate::cores::Cores::followed)).
//!
//! That the program stays is the scheduler's doing: a thread that has had more of its core than is due to it stays in that core's queue while it
//! waits (delayed dequeue, Linux 6.12), and is woken there. Beside a fault thread that goes before it
//! ([`FAULT_NICE`](crate::pager::FAULT_NICE)) it has; beside one that may not, it does if its faults are some 20 us apart. Else it is woken on
//! an idle core, and on another each time if it is followed at once. Hence RESTING.
//!
//! A thread that is bound to one core can be kept from it by one of real-time priority. So such threads are not followed, and kswapd sets a fault thread
//! free that does not get on ([`Watch`]), unless it waits for a lock that the fault thread has: then it takes what the system leaves to others on
//! that core, 50 ms of each second (`sched_rt_runtime_us`; the fair server of Linux 6.12).

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use uzswap_sys::affinity::{self, Affinity, Place};
use uzswap_sys::procfs::ProcSelf;

use crate::cores::CORES;

/// Faults of one thread, with none of others between, that have it followed.
const STREAK: u32 = 4;
/// How long spinning is not tried after it was cut short. Nanoseconds.
const BUSY_NS: u64 = 20_000_000;
/// A sleep that takes longer may be one that took two wake-ups from core to core. Nanoseconds.
const LONG_NS: u64 = 30_000;
/// The program's core is asked for, for 2 us, once in so many sleeps by how long the last one took: less than that, less than a millisecond, more.
const ASK_EVERY: [u32; 3] = [16, 4, 1];
/// What a sleep where the program was is worth, in points, after a long time and after a short one, when spinning would have spared most of it; and what
/// it costs to follow.
const SAVED_LONG: i32 = 4;
const SAVED: i32 = 1;
const MOVE: i32 = 32;
/// Points that it begins with, and has at most.
const BEGIN: i32 = 64;
const MOST: i32 = 128;
/// Waits to rest for, twice as many each time, until it has proven worth it again.
const REST: u32 = 256;
const REST_MOST: u32 = 16 * 1024;

/// What others know of this process's. Hints, hence Relaxed.
static THREAD: AtomicI32 = AtomicI32::new(0);
static SLEEPS: AtomicU32 = AtomicU32::new(0);
static WAS_FREED: AtomicBool = AtomicBool::new(false);

/// Where the fault thread waits.
pub(crate) struct Follower {
    affinity: Affinity,
    /// Who faulted last, and how many times before.
    thread: i32,
    streak: u32,
    /// The core where the fault thread is kept.
    core: Option<usize>,
    /// Sleeps since the program's core was asked for, and after how many to ask again.
    sleeps: u32,
    ask_after: u32,
    points: i32,
    /// Waits to rest for yet, and the next time.
    resting: u32,
    rest: u32,
    busy_until: u64,
}

impl Follower {
    /// The calling thread's.
    pub(crate) fn new() -> Self {
        THREAD.store(uzswap_sys::thread::tid(), Ordering::Relaxed);
        Self {
            affinity: Affinity::default(),
            thread: 0,
            streak: 0,
            core: None,
            sleeps: 0,
            ask_after: 0,
            points: BEGIN,
            resting: 0,
            rest: REST,
            busy_until: 0,
        }
    }

    /// This thread faults.
    pub(crate) fn note_fault(&mut self, thread: i32) {
        self.streak = if thread == self.thread {
            self.streak.saturating_add(1)
        } else {
            0
        };
        self.thread = thread;
    }

    /// Spinning was cut short at `now`: others want the core.
    pub(crate) fn note_busy(&mut self, now: u64) {
        self.busy_until = now + BUSY_NS;
    }

    /// Whether to follow, in the wait that begins at `now`, rather than to spin, if that is `worthwhile`.
    pub(crate) fn follows(&mut self, worthwhile: bool, now: u64) -> bool {
        let may = self.streak >= STREAK && (!worthwhile || now < self.busy_until);
        if may && self.resting == 0 {
            return true;
        }
        self.resting = self.resting.saturating_sub(u32::from(may));
        self.leave();
        false
    }

    /// The fault thread, which follows, is about to sleep: be where the program is.
    pub(crate) fn go(&mut self, proc: &ProcSelf) {
        SLEEPS.fetch_add(1, Ordering::Relaxed);
        if WAS_FREED.swap(false, Ordering::Relaxed) {
            self.rest = REST_MOST;
            return self.rest();
        }
        self.sleeps += 1;
        if self.sleeps < self.ask_after {
            return;
        }
        self.sleeps = 0;
        let fair = proc.scheduling(self.thread).filter(|scheduling| scheduling.is_fair);
        let core = fair.map(|scheduling| scheduling.core);
        if core.is_some() && core == self.core {
            return;
        }
        self.points -= MOVE;
        let is_there = core.is_some_and(|core| self.points > 0 && self.affinity.take(Place::On(core), CORES.unbound()));
        if !is_there {
            return self.rest();
        }
        self.core = core;
        CORES.note_followed(core);
    }

    /// It slept for so long, following.
    pub(crate) fn note_slept(&mut self, ns: u64) {
        let (saved, length) = match ns {
            0..LONG_NS => (SAVED, 0),
            LONG_NS..1_000_000 => (SAVED_LONG, 1),
            _ => (SAVED_LONG, 2),
        };
        self.ask_after = ASK_EVERY[length];
        self.points = (self.points + saved).min(MOST);
        if self.points == MOST {
            self.rest = REST;
        }
    }

    fn rest(&mut self) {
        self.leave();
        self.points = BEGIN;
        self.resting = self.rest;
        self.rest = (2 * self.rest).min(REST_MOST);
    }

    fn leave(&mut self) {
        if self.core.take().is_some() {
            self.affinity.take(Place::Anywhere, CORES.unbound());
            CORES.note_followed(None);
            self.ask_after = 0;
        }
    }
}

/// Looks of kswapd at the fault thread: whether it gets its core.
#[derive(Default)]
pub(crate) struct Watch {
    sleeps: u32,
    was_runnable: bool,
}

impl Watch {
    /// A tick is over. A fault thread that would have run at its beginning, and would now, and has not slept since, does not get the core that it is bound
    /// to, or has work for more than a tick: in either case it is better off anywhere.
    pub(crate) fn tick(&mut self, proc: &ProcSelf) {
        let (thread, sleeps) = (THREAD.load(Ordering::Relaxed), SLEEPS.load(Ordering::Relaxed));
        let has_slept = core::mem::replace(&mut self.sleeps, sleeps) != sleeps;
        let would_run = CORES.followed().is_some() && proc.scheduling(thread).is_some_and(|it| it.is_runnable);
        let would_have = core::mem::replace(&mut self.was_runnable, would_run);
        if would_have && would_run && !has_slept {
            WAS_FREED.store(true, Ordering::Relaxed);
            affinity::release(thread, CORES.unbound());
        }
    }
}
