//! Which core the thread that faulted ran on.
//!
//! The kernel does not say with a fault. It matters, since a thread is woken cheaply on the core that it left (7 us from fault to running on
//! the virtual cores that this was measured on) and dearly from another (33 us). Of two cores one is the fault thread's and the other
//! the vigil's, so whose place the program took is told by who was out of it:
//!
//! ```text
//! vigil was displaced since the fault before      the program ran there: the vigil wakes it
//! fault thread was displaced just before          the program ran here: the fault thread wakes it itself
//! ```
//! The first tells where kswapd keeps to the fault thread's core, the second where it is on the vigil's. Where several threads
//! fault neither does; the vigil wakes all of them then, which brings them to its core, where there is room. A wrong guess costs the difference, nothing else.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

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
    /// How often somebody had the vigil's core, and up to which time this was used for a guess.
    displaced: AtomicU64,
    used: AtomicU64,
    /// Not 0 if two faults have waited at a time lately.
    crowd: AtomicU32,
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
        }
    }

    /// The fault thread, which calls this, has a fault to serve; whether somebody else had its core just before.
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

    /// The vigil looks again, so long after its last look. Nanoseconds.
    pub(crate) fn note_vigil(&self, since_ns: u64) {
        self.vigil.store(current_core(), Ordering::Relaxed);
        if since_ns > AWAY_NS {
            self.displaced.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// kswapd, or who else isolates pages, calls this.
    pub(crate) fn note_kswapd(&self) {
        self.kswapd.store(current_core(), Ordering::Relaxed);
    }

    pub(crate) fn fault_thread(&self) -> usize {
        self.fault_thread.load(Ordering::Relaxed)
    }

    pub(crate) fn vigil(&self) -> usize {
        self.vigil.load(Ordering::Relaxed)
    }

    /// Whether the program ran on the vigil's core until it faulted, as far as can be told. To be asked once for each fault.
    pub(crate) fn is_program_on_vigils(&self) -> bool {
        let displaced = self.displaced.load(Ordering::Relaxed);
        let was_displaced = self.used.swap(displaced, Ordering::Relaxed) != displaced;
        if self.crowd.load(Ordering::Relaxed) > 0 {
            return true;
        }
        match self.kswapd.load(Ordering::Relaxed) == self.vigil() {
            true => !self.was_lent.load(Ordering::Relaxed),
            false => was_displaced,
        }
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn who_was_displaced_tells_where_the_program_ran() {
        let cores = Cores::new();
        cores.kswapd.store(1, Ordering::Relaxed);
        assert!(!cores.is_program_on_vigils());
        cores.note_vigil(AWAY_NS + 1);
        cores.kswapd.store(cores.vigil() + 1, Ordering::Relaxed);
        assert!(cores.is_program_on_vigils());
        assert!(!cores.is_program_on_vigils(), "used already");
        cores.note_vigil(AWAY_NS);
        assert!(!cores.is_program_on_vigils());
    }

    #[test]
    fn on_kswapds_core_the_vigil_is_displaced_by_it() {
        let cores = Cores::new();
        cores.note_vigil(AWAY_NS + 1);
        cores.kswapd.store(cores.vigil(), Ordering::Relaxed);
        cores.note_fault(true);
        assert!(!cores.is_program_on_vigils());
        cores.note_fault(false);
        assert!(cores.is_program_on_vigils());
    }

    #[test]
    fn of_several_threads_none_is_told_apart() {
        let cores = Cores::new();
        cores.kswapd.store(usize::MAX, Ordering::Relaxed);
        cores.note_waiting(2);
        for _ in 0..CROWD_ROUNDS {
            assert!(cores.is_program_on_vigils());
            cores.note_waiting(1);
        }
        assert!(!cores.is_program_on_vigils());
    }
}
