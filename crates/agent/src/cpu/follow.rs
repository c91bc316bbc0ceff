//! A fault thread that waits where the program runs.
//!
//! A fault that is served on another core takes two wake-ups from core to core, which may cost ten
//! times as much as serving it. On one core the two threads take turns (docs/design/waiting.md). So
//! the fault thread, before it sleeps, goes to the core of the thread that faulted last:
//!
//! ```text
//! ANYWHERE  one thread faults, and to spin (`spin`) is not worth it,
//!           or was cut short in the last BUSY_NS                             -> FOLLOWING
//! FOLLOWING spinning is worth it, another thread faults too,
//!           or the vigil sets it free                                        -> ANYWHERE
//! FOLLOWING the program changes its core more often
//!           than is made up for by faults on one core                        -> RESTING
//! RESTING   so many waits are over                                           -> ANYWHERE
//! ```
//! All that changes is where the fault thread may run, that it does not spin meanwhile, and that
//! kswapd keeps off that core
//! ([`Vigil::out_of_the_way`](crate::cpu::vigil::Vigil::out_of_the_way)). Where it may not be, or
//! does not learn where the program is, it stays anywhere.
//!
//! That the program stays is the scheduler's doing. A thread that has had more of its core than is
//! due to it stays in that core's queue while it waits (delayed dequeue, Linux 6.12). It is woken
//! there. Beside a fault thread that goes before it
//! ([`FAULT_NICE`](crate::fault::servers::FAULT_NICE)) it has; beside one that may not, it does if
//! its faults are some 20 us apart. Else it is woken on an idle core, and on another each time if
//! it is followed at once. Hence RESTING.
//!
//! A thread that is bound to one core can be kept from it by one of real-time priority. So such
//! threads are not followed, nor is any for long after its last fault, and the vigil, which waits
//! for no lock, sets a fault thread free that does not get on ([`Watch`]).

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use uzswap_sys::affinity::{self, Affinity, Place};
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::{thread, time};

use super::cores::CORES;
use super::vigil::VIGIL;

/// Faults of one thread after which it is followed, with none of others between.
const STREAK: u32 = 5;
/// How long spinning is not tried after it was cut short: the program, or another, had the fault
/// thread's core. Nanoseconds.
const BUSY_NS: u64 = 20_000_000;
/// Sleeps below this are short: the program wants the next page at once. Nanoseconds.
const SHORT_NS: u64 = 30_000;
const SPARSE_NS: u64 = 1_000_000;
/// The fault thread asks for the program's core once in so many sleeps, by how long the last one
/// took: a short one, one that is not, a sparse one. It takes 2 us, or 8 to 20 where caches are
/// cold.
const ASK_EVERY: [u32; 3] = [16, 4, 4];
/// Points. What a sleep is worth: a short one that spinning would have spared most of, or another;
/// what it costs to begin, and to go from core to core.
const SHORT: i32 = 1;
const LONG: i32 = 4;
const BEGIN: i32 = 4;
const MOVE: i32 = 32;
/// Points that it has at first, and at most.
const FIRST: i32 = 64;
const MOST: i32 = 128;
/// Waits to rest for, twice as many each time until following has proven worth it again.
const REST: u32 = 256;
const REST_MOST: u32 = 16 * 1024;

/// What the vigil and the fault thread tell each other. Hints, hence Relaxed: at worst the fault
/// thread is free for a while, or bound for one.
static THREAD: AtomicI32 = AtomicI32::new(0);
static SLEEPS: AtomicU32 = AtomicU32::new(0);
static FREED: AtomicU32 = AtomicU32::new(NOT_FREED);
const NOT_FREED: u32 = 0;
const FREED_IDLE: u32 = 1;
const FREED_STARVED: u32 = 2;

/// Where the fault thread waits.
pub(crate) struct Follower {
    affinity: Affinity,
    /// There is more than one core to be on.
    has_cores: bool,
    /// Who faulted last, and how many times in a row.
    thread: i32,
    streak: u32,
    /// The core where the fault thread is kept.
    core: Option<usize>,
    /// Sleeps there since the program's core was asked for, and after how many to ask again.
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
        THREAD.store(thread::tid(), Ordering::Relaxed);
        // A parent's, in a forked child.
        FREED.store(NOT_FREED, Ordering::Relaxed);
        Self {
            affinity: Affinity::default(),
            has_cores: thread::cores() > 1,
            thread: 0,
            streak: 0,
            core: None,
            sleeps: 0,
            ask_after: 0,
            points: FIRST,
            resting: 0,
            rest: REST,
            busy_until: 0,
        }
    }

    /// This thread faults.
    pub(crate) fn note_fault(&mut self, thread: i32) {
        let before = if thread == self.thread { self.streak } else { 0 };
        self.streak = before.saturating_add(1);
        self.thread = thread;
    }

    /// Spinning was cut short at `now`.
    pub(crate) fn note_busy(&mut self, now: u64) {
        self.busy_until = now + BUSY_NS;
    }

    /// Whether to follow, in the wait that begins at `now`, rather than to spin, if that is
    /// `worthwhile`.
    pub(crate) fn follows(&mut self, worthwhile: bool, now: u64) -> bool {
        let freed = FREED.swap(NOT_FREED, Ordering::Relaxed);
        if freed != NOT_FREED {
            self.affinity.lose();
            self.leave();
        }
        if freed == FREED_STARVED {
            self.rest();
        }
        let may = self.has_cores && self.streak >= STREAK && (!worthwhile || now < self.busy_until);
        if may && self.resting == 0 {
            return true;
        }
        self.resting = self.resting.saturating_sub(u32::from(may));
        self.leave();
        false
    }

    /// The fault thread is about to sleep: be where the program is. False: it is anywhere.
    pub(crate) fn go(&mut self, proc: &ProcSelf) -> bool {
        SLEEPS.fetch_add(1, Ordering::Relaxed);
        self.sleeps += 1;
        if self.core.is_some() && self.sleeps < self.ask_after {
            return true;
        }
        self.sleeps = 0;
        let fair = proc.scheduling(self.thread).filter(|scheduling| scheduling.is_fair);
        let core = fair.map(|scheduling| scheduling.core);
        if core.is_some() && core == self.core {
            return true;
        }
        self.points -= if self.core.is_some() { MOVE } else { BEGIN };
        let is_there = core.is_some_and(|core| self.points > 0 && self.affinity.take(Place::On(core), CORES.unbound()));
        match is_there {
            true => {
                let begins = self.core.is_none();
                self.core = core;
                CORES.note_followed(core);
                if begins {
                    VIGIL.watch();
                }
            }
            false => self.rest(),
        }
        is_there
    }

    /// It slept for so long where it [went](Self::go).
    pub(crate) fn note_slept(&mut self, ns: u64) {
        let (points, length) = match ns {
            0..SHORT_NS => (SHORT, 0),
            SHORT_NS..SPARSE_NS => (LONG, 1),
            _ => (LONG, 2),
        };
        self.ask_after = ASK_EVERY[length];
        self.points = (self.points + points).min(MOST);
        if self.points == MOST {
            self.rest = REST;
        }
    }

    fn rest(&mut self) {
        self.leave();
        self.points = FIRST;
        self.resting = self.rest;
        self.rest = (2 * self.rest).min(REST_MOST);
    }

    fn leave(&mut self) {
        if self.core.take().is_some() {
            CORES.note_followed(None);
        }
        // Refused by a filter that was set since: it stays there, which is slower where several
        // threads fault, nothing else.
        self.affinity.take(Place::Anywhere, CORES.unbound());
    }
}

/// Between two looks, at most and at least. Nanoseconds.
pub(crate) const LOOK_NS: u64 = 10_000_000;
const LOOK_LEAST_NS: u64 = 5_000_000;
/// After so many without a sleep between it is set free.
const IDLE_LOOKS: u32 = 8;

/// The vigil's looks at the fault thread: whether it gets its core, and needs it.
#[derive(Default)]
pub(crate) struct Watch {
    looked: u64,
    sleeps: u32,
    was_runnable: bool,
    /// Looks since the fault thread slept last.
    idle: u32,
}

impl Watch {
    /// To be called every [`LOOK_NS`] while it follows. A fault thread may be ready to run at two
    /// looks, with no sleep between. Then it does not get the core that it is bound to, or has work
    /// for that long. In either case it is better off elsewhere. So is one that has slept for long
    /// when it is woken at last.
    pub(crate) fn look(&mut self, proc: &ProcSelf) {
        let now = time::now_ns();
        let Some(core) = CORES.followed().filter(|_| now >= self.looked + LOOK_LEAST_NS) else {
            return;
        };
        self.looked = now;
        let (thread, sleeps) = (THREAD.load(Ordering::Relaxed), SLEEPS.load(Ordering::Relaxed));
        let has_slept = core::mem::replace(&mut self.sleeps, sleeps) != sleeps;
        let is_runnable = !has_slept && proc.scheduling(thread).is_some_and(|it| it.is_runnable);
        let was_runnable = core::mem::replace(&mut self.was_runnable, is_runnable);
        self.idle = if has_slept { 0 } else { self.idle + 1 };
        let (why, place) = match is_runnable {
            // Anywhere would be there: who is ready to run stays in the queue.
            true if was_runnable => (FREED_STARVED, Place::Off(core)),
            false if self.idle >= IDLE_LOOKS => (FREED_IDLE, Place::Anywhere),
            _ => return,
        };
        FREED.store(why, Ordering::Relaxed);
        affinity::put(thread, place, CORES.unbound());
        CORES.note_followed(None);
    }
}
