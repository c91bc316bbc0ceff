//! The pager's threads: how they begin, and what becomes of the process when one ends.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_sys::cell::Leaked;
use uzswap_sys::thread::{Descriptors, ThreadMemory};
use uzswap_sys::{Errno, futex, lent, sched, shield, thread};

use super::missing::{Missing, Part};
use super::{ACTIVE, FAILED, Pager, STARTING, STATE, WAIT_NS, group, settle};
use crate::codec::kcompressd;
use crate::cpu::cores::CORES;
use crate::cpu::follow::Watch;
use crate::cpu::vigil::VIGIL;
use crate::fault::servers::FAULT_NICE;
use crate::fault::{self, servers};
use crate::kswapd;

/// Stacks of the pager's threads. A forked child's threads run on its copies of the parent's.
static FAULT_THREAD: ThreadMemory = ThreadMemory::new();
static KSWAPD_THREAD: ThreadMemory = ThreadMemory::new();
static WATCHDOG_THREAD: ThreadMemory = ThreadMemory::new();
static KCOMPRESSD_THREADS: [ThreadMemory; kcompressd::THREADS_MAX] =
    [const { ThreadMemory::new() }; kcompressd::THREADS_MAX];

/// LeakSanitizer, a part of the program, stops all threads and reads memory meanwhile.
static IS_STOPPED_BY_PROGRAM: AtomicBool = AtomicBool::new(false);

static FAILURE: Leaked<Missing> = Leaked::new();

/// Run `body` as the fault thread and wait until it has made the pager active.
///
/// # Errors
/// What was missing, and what the system answered.
pub(super) fn start(body: fn() -> Result<&'static Pager, Missing>) -> Result<(), Missing> {
    let spawned = FAULT_THREAD.spawn(c"uzswap-fault", Descriptors::Private, move || {
        lent::close_all_others();
        if IS_STOPPED_BY_PROGRAM.load(Ordering::Relaxed) {
            // Before it makes the others. Without it all is well until the program looks for leaks.
            let _ = shield::raise();
        }
        match body() {
            Ok(pager) => {
                sched::go_before_others(FAULT_NICE);
                // Before anybody forks: it allocates.
                let fault_thread = fault::FaultThread::new(pager);
                pager.fork.handover.begin();
                settle(ACTIVE);
                fault_thread.run();
            }
            Err(missing) => {
                FAILURE.set(missing);
                settle(FAILED);
            }
        }
    });
    if let Err(errno) = spawned {
        FAILURE.set(Missing::new(Part::Thread, errno));
        settle(FAILED);
    }
    while STATE.load(Ordering::Acquire) == STARTING {
        futex::wait(&STATE, STARTING, Some(WAIT_NS), false);
        // One that failed says so before it ends.
        if thread::has_one_ended() && STATE.load(Ordering::Acquire) == STARTING {
            FAILURE.set(Missing::named(
                "a thread that a filter of the program lets live",
                Errno::PERM,
            ));
            settle(FAILED);
        }
    }
    match STATE.load(Ordering::Acquire) {
        FAILED => Err(FAILURE
            .get()
            .copied()
            .unwrap_or(Missing::named("its pager", Errno::NOSYS))),
        _ => Ok(()),
    }
}

/// Stop the process if one of the pager's threads ends: nobody would serve its faults, and with the
/// last of them the kernel would forget the managed ranges, which read as zeros then. A system call
/// filter of the program may end a thread alone (SECCOMP_RET_KILL_THREAD). The watchdog shares
/// their descriptors, so the ranges are managed as long as it lives.
fn watch() {
    thread::wait_for_an_end();
    // A pager that did not start has nothing under its care yet: `start` says what becomes of the
    // process.
    if thread::is_over() || STATE.load(Ordering::Acquire) != ACTIVE {
        return;
    }
    const ENDED: &str =
        "uzswap: stopping the process: a thread of its pager was ended, by a system call filter perhaps\n";
    group().into_iter().for_each(|group| group.set_last_words(ENDED));
    thread::crash()
}

/// LeakSanitizer is in the program. In the constructor.
pub(crate) fn note_stopping() {
    IS_STOPPED_BY_PROGRAM.store(true, Ordering::Relaxed);
}

/// Whether the program has LeakSanitizer, which stops all threads.
pub(crate) fn is_stopped_by_program() -> bool {
    IS_STOPPED_BY_PROGRAM.load(Ordering::Relaxed)
}

/// In a forked child whose parent had a pager: start our own.
///
/// # Errors
/// What was missing.
pub(crate) fn start_in_child(body: fn() -> Result<&'static Pager, Missing>) -> Result<(), Missing> {
    STATE.store(STARTING, Ordering::Release);
    start(body)
}

impl Pager {
    /// Start the watchdog and the reclaim and compression threads, which share the fault thread's
    /// descriptors. Called by the fault thread.
    pub(crate) fn start_kswapd(&'static self) -> Result<(), Missing> {
        // First: none of the others is unwatched.
        let watchdog = WATCHDOG_THREAD
            .spawn(c"uzswap-watchdog", Descriptors::Shared, watch)
            .map_err(|e| Missing::new(Part::Thread, e))?;
        CORES.note_unbound(watchdog);
        for (thread, worker) in KCOMPRESSD_THREADS.iter().zip(&self.kcompressd.workers) {
            // One fewer is slower, nothing else.
            let _ = thread.spawn(c"uzswap-kcompressd", Descriptors::Shared, move || {
                kcompressd::run(self, worker)
            });
        }
        let mut watch = Watch::default();
        VIGIL.begin(
            |run| self.mm.machine().wake_run(run),
            move || watch.look(&self.fds().proc),
        );
        servers::start_helpers(self);
        // Last: it looks for the program's memory, and must find all of ours known as such.
        KSWAPD_THREAD
            .spawn(c"uzswap-kswapd", Descriptors::Shared, move || kswapd::run(self))
            .map_err(|e| Missing::new(Part::Thread, e))?;
        Ok(())
    }
}
