//! Which core the thread that faulted ran on.
//!
//! The kernel does not say with a fault. It matters, since a thread is woken cheaply on the core
//! that it left (7 us from fault to running on the virtual cores that this was measured on) and
//! dearly from another (33 us). Of two cores one is the fault thread's and the other the vigil's,
//! so whose place the program took is told by who was out of it:
//!
//! ```text
//! vigil was displaced since the fault before   the program ran there: the vigil wakes it
//! fault thread was displaced just before       the program ran here: the fault thread does
//! ```
//! The first is asked while kswapd, which displaces as well, was not on the vigil's core when it
//! isolated last, else the second. Where several threads fault neither tells; the vigil wakes all
//! of them then, which brings them to its core, where there is room. All that takes the vigil long
//! counts as being displaced: arriving, and waking a thread on another core; and kswapd, which puts
//! frames back now and then, uses a guess up. A wrong one costs the difference, nothing else.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use uzswap_sys::affinity::current_core;

/// Longer than this between two looks of the vigil: somebody else had the core. Nanoseconds.
const AWAY_NS: u64 = 1_000;
/// Faults one by one after which they are taken for those of one thread.
const CROWD_ROUNDS: u32 = 32;

/// This process's.
pub(crate) static CORES: Cores = Cores::new();

/// Where the pager's threads are, as each said last. All of it is hints, hence Relaxed.
pub(crate) struct Cores {
    fault_thread: AtomicUsize,
    vigil: AtomicUsize,
    kswapd: AtomicUsize,
    /// Somebody had the fault thread's core just before the latest fault.
    was_lent: AtomicBool,
    /// How often somebody had the vigil's core, and how often of these were used for a guess.
    displaced: AtomicU64,
    used: AtomicU64,
    /// Not 0 if two faults have waited at a time lately.
    crowd: AtomicU32,
    /// Servers that reclaim themselves.
    reclaiming: AtomicU32,
    /// One more than the core where the fault thread is with the program; 0: none.
    followed: AtomicUsize,
    /// A thread that takes no place of its own.
    unbound: AtomicI32,
}

impl Cores {
    const fn new() -> Self {
        Self {
            fault_thread: AtomicUsize::new(0),
            vigil: AtomicUsize::new(0),
            kswapd: AtomicUsize::new(0),
            was_lent: AtomicBool::new(false),
            displaced: AtomicU64::new(0),
            used: AtomicU64::new(0),
            crowd: AtomicU32::new(0),
            reclaiming: AtomicU32::new(0),
            followed: AtomicUsize::new(0),
            unbound: AtomicI32::new(0),
        }
    }

    /// The fault thread, which calls this, has a fault to serve; whether somebody else had its core
    /// just before.
    pub(crate) fn note_fault(&self, was_lent: bool) {
        self.fault_thread.store(current_core(), Ordering::Relaxed);
        self.was_lent.store(was_lent, Ordering::Relaxed);
    }

    /// So many faults wait at a time.
    pub(crate) fn note_waiting(&self, faults: usize) {
        match self.crowd.load(Ordering::Relaxed) {
            _ if faults > 1 => self.crowd.store(CROWD_ROUNDS, Ordering::Relaxed),
            0 => {}
            rounds => self.crowd.store(rounds - 1, Ordering::Relaxed),
        }
    }

    /// Whether several threads fault.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowd.load(Ordering::Relaxed) > 0
    }

    /// The vigil looks again, so long after its last look. Nanoseconds.
    pub(crate) fn note_vigil(&self, since_ns: u64) {
        self.vigil.store(current_core(), Ordering::Relaxed);
        if since_ns > AWAY_NS {
            self.displaced.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// kswapd, or who else moves pages out, calls this.
    pub(crate) fn note_kswapd(&self) {
        self.kswapd.store(current_core(), Ordering::Relaxed);
    }

    /// Do `reclaim`, by a thread that serves faults.
    pub(crate) fn in_direct_reclaim<T>(&self, reclaim: impl FnOnce() -> T) -> T {
        self.reclaiming.fetch_add(1, Ordering::Relaxed);
        let result = reclaim();
        self.reclaiming.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Whether the fault thread may be waiting for the core that the calling thread has: not while
    /// it reclaims itself, nor for a server that does.
    pub(crate) fn is_in_the_way(&self) -> bool {
        self.reclaiming.load(Ordering::Relaxed) == 0 && self.fault_thread() == current_core()
    }

    /// In a forked child: nobody reclaims, and no thread is followed.
    pub(crate) fn reset(&self) {
        self.reclaiming.store(0, Ordering::Relaxed);
        self.note_followed(None);
    }

    /// Where the program runs and the fault thread waits, if that follows it.
    pub(crate) fn followed(&self) -> Option<usize> {
        self.followed.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn note_followed(&self, core: Option<usize>) {
        self.followed.store(core.map_or(0, |core| core + 1), Ordering::Relaxed);
    }

    /// Whose affinity is what is set for all from outside.
    pub(crate) fn unbound(&self) -> i32 {
        self.unbound.load(Ordering::Relaxed)
    }

    pub(crate) fn note_unbound(&self, tid: i32) {
        self.unbound.store(tid, Ordering::Relaxed);
    }

    pub(crate) fn fault_thread(&self) -> usize {
        self.fault_thread.load(Ordering::Relaxed)
    }

    pub(crate) fn vigil(&self) -> usize {
        self.vigil.load(Ordering::Relaxed)
    }

    /// Whether the program ran on the vigil's core until it faulted, as far as can be told. To be
    /// asked once for each fault.
    pub(crate) fn is_program_on_vigils(&self) -> bool {
        let displaced = self.displaced.load(Ordering::Relaxed);
        let was_displaced = self.used.swap(displaced, Ordering::Relaxed) != displaced;
        if self.is_crowded() {
            return true;
        }
        match self.kswapd.load(Ordering::Relaxed) == self.vigil() {
            true => !self.was_lent.load(Ordering::Relaxed),
            false => was_displaced,
        }
    }
}
