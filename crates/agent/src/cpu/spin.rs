//! Bounded adaptive spinning of the fault thread.
//!
//! A fault that finds the thread asleep waits for it to be woken: a few microseconds where cores
//! are awake, tens in a virtual machine whose idle cores are halted. Where faults follow each other
//! closely the thread therefore looks for the next one for a while before it sleeps. It yields
//! between two looks, so that whoever can use the core does, and if somebody did, it sleeps: a
//! machine whose cores are busy has none to spin on. `--spin off`, or a processor quota, has it
//! sleep at once.

use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::thread;
use uzswap_sys::time::now_ns;

use super::cores::CORES;
use super::follow::Follower;
use super::vigil::VIGIL;

/// How long to look, at most.
const MOST_NS: u64 = 50_000;
/// A yield that takes longer let somebody else run.
const YIELD_NS: u64 = 5_000;
/// One that takes longer as well, if briefly.
const LENT_NS: u64 = 1_500;
/// A fault takes less than this lately: each is for a page or a few.
const BRIEF_NS: u64 = 32_000;
/// What a fault that waited for room counts as, at most.
const SLOW_NS: u64 = 8 * BRIEF_NS;
/// Of the last waits so many parts must have been shorter than [`MOST_NS`].
const SCALE: u32 = 128;
const WORTHWHILE: u32 = SCALE / 2;
/// A wait has one part in so many of the say.
const WEIGHT: u32 = 8;

/// When to spin.
pub(crate) struct Spin {
    /// Part of the waits that were short lately, in parts of [`SCALE`].
    short: u32,
    /// How long it takes to serve what one wait found.
    service_ns: u64,
    /// When the last wait was over.
    ended: u64,
    has_cores: bool,
    /// Where it waits otherwise.
    pub(crate) follower: Follower,
}

impl Spin {
    /// `allowed`: by whoever pays for the processor time.
    pub(crate) fn new(allowed: bool) -> Self {
        Self {
            short: 0,
            service_ns: 0,
            ended: 0,
            has_cores: allowed && thread::cores() > 1,
            follower: Follower::new(),
        }
    }

    /// Wait with `wait`, which is given a timeout in nanoseconds (`None`: for ever) and says
    /// whether there is anything to do. Before this sleeps it calls `settle`: whoever the vigil may
    /// have left waiting is woken.
    pub(crate) fn wait(&mut self, mut wait: impl FnMut(Option<u64>) -> bool, settle: impl Fn(), proc: &ProcSelf) {
        let began = now_ns();
        let (mut found, mut was_lent, mut is_there) = (false, false, false);
        let served = (began - self.ended).min(SLOW_NS);
        self.service_ns = (self.service_ns * u64::from(WEIGHT - 1) + served) / u64::from(WEIGHT);
        let spins = self.is_worthwhile();
        let follows = self.follower.follows(spins, began);
        if spins && !follows {
            let mut now = began;
            while !found && now - began < MOST_NS {
                found = wait(Some(0));
                if !found {
                    let yielded = now_ns();
                    thread::yield_now();
                    now = now_ns();
                    was_lent = now - yielded > LENT_NS;
                    if now - yielded > YIELD_NS {
                        self.follower.note_busy(now);
                        break;
                    }
                }
            }
        }
        if !found {
            was_lent = true;
            settle();
            is_there = follows && self.follower.go(proc);
            wait(None);
        }
        let now = now_ns();
        if is_there {
            self.follower.note_slept(now - began);
        }
        let short = if now - began < MOST_NS { SCALE } else { 0 };
        self.short = (self.short * (WEIGHT - 1) + short) / WEIGHT;
        CORES.note_fault(was_lent);
        if !follows && self.is_worthwhile() {
            VIGIL.extend(now);
        }
        self.ended = now;
    }

    /// Where many pages are mapped at a time the program is busy with them, and kswapd needs a
    /// core.
    fn is_worthwhile(&self) -> bool {
        self.has_cores && self.short >= WORTHWHILE && self.service_ns < BRIEF_NS
    }
}
