//! A core that is kept awake while faults follow each other.
//!
//! A program that waits for a page leaves its core idle. In a virtual machine an idle core is
//! halted at once, and to wake it takes the hypervisor tens of microseconds: several times what the
//! page takes. So while faults come closely ([`Spin`](crate::cpu::spin::Spin)), a thread that only
//! runs where nobody else would (SCHED_IDLE) keeps that core from being halted; the program's
//! thread takes its place the moment it is woken. It sleeps [`LINGER_NS`] after the last such
//! fault, or at once while pages are unmapped ([`Vigil::leave`]).
//!
//! It takes turns with all others before it sleeps. The last thread of a process that ends frees
//! all of its memory: one that waits for an idle core would keep a busy machine's process for
//! seconds, and whoever waits for that. So it is there only while it may come back (CAP_SYS_NICE),
//! and is recalled before that, or the process, is given up ([`Vigil::recall`]). Who serves the
//! next fault, or kswapd, fetches one that is kept off its core. That stays away for a while then:
//! where no core is idle none has to be kept awake.
//!
//! Waking the program from another core takes an interrupt between the two, which the hypervisor
//! makes cost 5 us or more on both. The vigil is on the core that the program left, as a rule
//! ([`Cores`](crate::cpu::cores::Cores)), and wakes it there for the price of a system call. So the
//! thread that has mapped a page leaves the waking to it then:
//!
//! ```text
//! server   copied without waking -> POSTED -> not taken within [`TAKE_SPINS`] looks?
//!                                             NONE again, and wakes the program itself
//! vigil                             POSTED -> TAKEN -> wakes it -> NONE
//! ```
//! The vigil may lose its core between TAKEN and the wake-up, for as long as others want it. To
//! wake twice does no harm, so whoever finds an errand TAKEN, with another to post or somebody to
//! wake itself, or before it sleeps or works for long ([`Vigil::settle`]), wakes that range too.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use uzswap_mm::page::{PageRange, Vpn};
use uzswap_sys::affinity::{Affinity, Place, current_core};
use uzswap_sys::futex::Mailbox;
use uzswap_sys::thread::{self, Descriptors, ThreadMemory};
use uzswap_sys::time::now_ns;
use uzswap_sys::{creds, sched};

use super::cores::CORES;
use super::follow::LOOK_NS;
use crate::fault::inline;

/// How long it stays after a fault.
const LINGER_NS: u64 = 100_000;
/// A vigil that is there, and has not run for so long, is kept off its core. Nanoseconds.
const KEPT_OFF_NS: u64 = 10_000_000;
/// For so long it stays away then. Nanoseconds.
const AWAY_NS: u64 = 1_000_000_000;
/// How long others keep off its core after that.
const KEEP_NS: u64 = 20_000_000;
/// Bits of the mail: keep the core awake; look after a fault thread that follows.
const COME: u32 = 1;
const WATCH: u32 = 2;

/// Looks at an errand before it is taken back: about a microsecond.
const TAKE_SPINS: u32 = 60;

/// Looks at whether one that is recalled has left: some ten microseconds.
const RECALL_SPINS: u32 = 400;

/// An errand is a range, its first page above [`PAGES_BITS`] bits with one less than its pages, and
/// which of these it is.
const PAGES_BITS: u32 = 12;
const POSTED: u64 = 1 << 63;
const TAKEN: u64 = 1 << 62;
const NONE: u64 = 0;

static THREAD: ThreadMemory = ThreadMemory::new();

/// This process's.
pub(crate) static VIGIL: Vigil = Vigil::new();

/// Until when the core is kept awake, and what is to be done there.
pub(crate) struct Vigil {
    /// Counts while the thread runs: whoever sees two values knows that it does.
    beat: AtomicU64,
    errand: AtomicU64,
    /// When it ran last.
    seen: AtomicU64,
    until: AtomicU64,
    /// It does not come before.
    away_until: AtomicU64,
    is_there: AtomicBool,
    /// It leaves at its next look, or does not come the next time.
    is_recalled: AtomicBool,
    thread: AtomicI32,
    mail: Mailbox,
}

impl Vigil {
    const fn new() -> Self {
        Self {
            beat: AtomicU64::new(0),
            errand: AtomicU64::new(NONE),
            seen: AtomicU64::new(0),
            until: AtomicU64::new(0),
            away_until: AtomicU64::new(0),
            is_there: AtomicBool::new(false),
            is_recalled: AtomicBool::new(false),
            thread: AtomicI32::new(0),
            mail: Mailbox::new(),
        }
    }

    /// A fault was served at `now`, and the next is expected soon.
    pub(crate) fn extend(&self, now: u64) {
        // SeqCst, as in `run`: either this sees that nobody is there, or the thread sees the later
        // end.
        self.until.store(now + LINGER_NS, Ordering::SeqCst);
        if self.is_there.load(Ordering::SeqCst) {
            self.fetch_if_kept_off(now);
        } else if now >= self.away_until.load(Ordering::Relaxed) {
            self.mail.post(COME);
        }
    }

    /// Have it take turns if it is kept off its core. Called by kswapd.
    pub(crate) fn fetch(&self) {
        if self.is_there.load(Ordering::SeqCst) {
            self.fetch_if_kept_off(now_ns());
        }
    }

    fn fetch_if_kept_off(&self, now: u64) {
        let seen = self.seen.load(Ordering::Relaxed);
        // Once for each time: many faults may come before it runs.
        let is_first = || {
            self.seen
                .compare_exchange(seen, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if now > seen + KEPT_OFF_NS && is_first() {
            sched::take_turns(self.thread.load(Ordering::Relaxed));
        }
    }

    /// Have it take turns, and leave: before nobody may fetch it any more, and before this process
    /// ends, or is another program.
    pub(crate) fn recall(&self) {
        self.is_recalled.store(true, Ordering::SeqCst);
        // Where it runs it leaves at once.
        for _ in 0..RECALL_SPINS {
            if !self.is_there.load(Ordering::SeqCst) {
                return;
            }
            core::hint::spin_loop();
        }
        sched::take_turns(self.thread.load(Ordering::Relaxed));
    }

    /// The calling thread moves pages out: a core where a thread of the process runs, and be it
    /// this one, has to be interrupted for each. Where several threads fault there is one as a
    /// rule, vigil or not.
    pub(crate) fn leave(&self) {
        CORES.note_kswapd();
        if !CORES.is_crowded() && self.until.load(Ordering::Relaxed) != 0 {
            self.until.store(0, Ordering::Relaxed);
        }
    }

    /// Where kswapd is not in the way: off the core where the program is followed, or that is kept
    /// awake for it, or was a moment ago.
    pub(crate) fn out_of_the_way(&self) -> Place {
        let is_kept = now_ns() < self.seen.load(Ordering::Relaxed) + KEEP_NS;
        let core = CORES.followed().or_else(|| is_kept.then(|| CORES.vigil()));
        core.map_or(Place::Anywhere, Place::Off)
    }

    /// In a forked child: nobody is there, and its errands were the parent's.
    pub(crate) fn reset(&self) {
        self.is_there.store(false, Ordering::SeqCst);
        self.is_recalled.store(false, Ordering::SeqCst);
        self.errand.store(NONE, Ordering::SeqCst);
        self.seen.store(0, Ordering::Relaxed);
        self.mail.reset();
    }

    /// A look at whether the thread runs, for [`wake`](Self::wake), if it is to wake whoever is
    /// waiting now. `None`: it is not there, or was not where the program ran.
    pub(crate) fn beat(&self) -> Option<u64> {
        // In any case: what it goes by is used up.
        let is_there = CORES.is_program_on_vigils() && self.is_there.load(Ordering::Relaxed);
        is_there.then(|| self.beat.load(Ordering::Relaxed))
    }

    /// Have whoever waits for `range` woken, by the vigil if it has been running since `beat`, else
    /// by `wake`.
    pub(crate) fn wake(&self, beat: u64, range: PageRange, wake: impl Fn(PageRange)) {
        let posted = POSTED | pack(range);
        let runs = self.beat.load(Ordering::Relaxed) != beat;
        // Release: pairs with the vigil's Acquire. What it is about is in the page tables, and the
        // kernel orders that.
        let post = |from, to| {
            self.errand
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        };
        if runs && post(NONE, posted).is_ok() {
            for _ in 0..TAKE_SPINS {
                if self.errand.load(Ordering::Relaxed) != posted {
                    return;
                }
                core::hint::spin_loop();
            }
            if post(posted, NONE).is_err() {
                return;
            }
        }
        self.settle(&wake);
        wake(range);
    }

    /// An errand may have been taken and not been done: do it.
    pub(crate) fn settle(&self, wake: impl Fn(PageRange)) {
        let errand = self.errand.load(Ordering::Acquire);
        if errand & TAKEN != 0 {
            wake(unpack(errand));
        }
    }

    /// The fault thread has begun to follow.
    pub(crate) fn watch(&self) {
        self.mail.post(WATCH);
    }

    /// Start the thread, where there is a core for it. Without it faults are slower, nothing else.
    /// `wake` wakes whoever waits for a page, `look` looks after a fault thread that follows.
    pub(crate) fn begin(&'static self, wake: impl Fn(PageRange) + Send + 'static, look: impl FnMut() + Send + 'static) {
        if thread::cores() > 1 {
            let _ = THREAD.spawn(c"uzswap-vigil", Descriptors::Shared, move || self.run(wake, look));
        }
    }

    /// Have the thread look whether it is to end ([`thread::is_over`]).
    pub(crate) fn dismiss(&self) {
        self.mail.post(WATCH);
    }

    /// Watch until the program is over.
    fn run(&self, wake: impl Fn(PageRange), mut look: impl FnMut()) {
        // Who serves his own faults does not wait for others.
        let may_come = || !inline::serves() && !thread::is_filtered() && creds::may_schedule();
        self.thread.store(thread::tid(), Ordering::Relaxed);
        let mut affinity = Affinity::default();
        while !thread::is_over() {
            let mail = self.mail.wait(COME | WATCH, CORES.followed().map(|_| LOOK_NS));
            if mail & COME != 0 && may_come() {
                self.keep_awake(&wake, &mut affinity);
            }
            if let Some(core) = CORES.followed() {
                // Where it is not kept waiting by the same thread as the fault thread.
                affinity.take(Place::Off(core), CORES.unbound());
                look();
            }
        }
    }

    fn keep_awake(&self, wake: &impl Fn(PageRange), affinity: &mut Affinity) {
        let came = now_ns();
        self.seen.store(came, Ordering::Relaxed);
        // Before it gives way: either whoever recalls it sees it, or it sees that below.
        self.is_there.store(true, Ordering::SeqCst);
        // Else it would take the core from somebody.
        if self.is_recalled.swap(false, Ordering::SeqCst) || !sched::give_way_to_all() {
            return self.is_there.store(false, Ordering::SeqCst);
        }
        let mut last = 0;
        loop {
            let now = now_ns();
            CORES.note_vigil(now - last);
            if now > last.max(came) + KEPT_OFF_NS {
                self.away_until.store(now + AWAY_NS, Ordering::Relaxed);
                break;
            }
            last = now;
            if now >= self.until.load(Ordering::SeqCst) || self.is_recalled.load(Ordering::SeqCst) {
                break;
            }
            self.seen.store(now, Ordering::Relaxed);
            self.beat.fetch_add(1, Ordering::Relaxed);
            self.do_errand(wake);
            self.stay_apart(affinity);
            core::hint::spin_loop();
        }
        sched::take_turns(0);
        self.is_there.store(false, Ordering::SeqCst);
        if self.is_recalled.swap(false, Ordering::SeqCst) {
            return;
        }
        let now = now_ns();
        if now < self.until.load(Ordering::SeqCst) && now >= self.away_until.load(Ordering::Relaxed) {
            self.mail.post(COME);
        }
    }

    /// Where the fault thread is, no program has been left waiting.
    fn stay_apart(&self, affinity: &mut Affinity) {
        let fault_core = CORES.fault_thread();
        if current_core() == fault_core {
            affinity.take(Place::Off(fault_core), CORES.unbound());
        }
    }

    fn do_errand(&self, wake: &impl Fn(PageRange)) {
        let errand = self.errand.load(Ordering::Relaxed);
        let taken = errand ^ POSTED | TAKEN;
        let take = |from, to| {
            self.errand
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
        };
        if errand & POSTED != 0 && take(errand, taken).is_ok() {
            wake(unpack(errand));
            // Later, as a rule: the program that was woken has the core.
            self.errand.store(NONE, Ordering::Release);
        }
    }
}

fn pack(range: PageRange) -> u64 {
    range.start.number() << PAGES_BITS | (range.pages() - 1)
}

fn unpack(errand: u64) -> PageRange {
    let range = errand & !(POSTED | TAKEN);
    let pages = (range & ((1 << PAGES_BITS) - 1)) + 1;
    PageRange::new(Vpn::new(range >> PAGES_BITS), pages)
}
