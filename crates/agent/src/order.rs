//! The program's turn to change mappings.
//!
//! # Order of events
//! The kernel changes the mapping first and queues the event after it has let go of its own lock.
//! So two threads' events may be read in the wrong order: one unmaps X and is preempted, another's
//! mremap lands on X and is reported first; dropping X then drops what was just moved there.
//! Changes that raise events are therefore made one at a time ([`InOrder`]): such a call returns
//! when its event was read. For programs that make these calls without libc the engine puts events
//! in order (`mm/flight/departing.rs`), as far as that can be known.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use lock_api::RawMutex;
use uzswap_sys::futex::RawLock;
use uzswap_sys::thread;

use crate::memcg::deferral;
use crate::pager;

/// Held over a system call that raises events, and over a fork. Reset in forked children.
static ORDER: RawLock = RawLock::INIT;
/// Thread that holds [`ORDER`]: a handler of a signal that the call itself raised (SIGSYS) must not
/// wait for itself.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Looks at [`ORDER`] without and with sleeping between them before giving up, after ten seconds.
const SPINS: u32 = 2_000;
const PAUSES: u32 = 200_000;
const PAUSE_NS: u64 = 50_000;
/// Looks between two at whether the owner lives: a system call filter may end it in the middle of
/// the call.
const LOOKS_AT_OWNER: u32 = 1_000;

/// This thread's turn to change mappings.
///
/// A handler of the program never runs in it: one that left by siglongjmp would keep the turn for
/// ever, as would a thread that is cancelled asynchronously. So signals are blocked from before the
/// turn until after it; those that come are handled then.
pub(crate) struct InOrder {
    has_turn: bool,
    mask: Option<u64>,
}

impl InOrder {
    /// Wait for our turn if there is a pager. In a vfork child there is none: its parent's must not
    /// wait for it.
    pub(crate) fn begin() -> Self {
        if pager::active().is_none() {
            return Self {
                has_turn: false,
                mask: None,
            };
        }
        let mask = thread::block_asynchronous_signals();
        Self {
            has_turn: take_turn(),
            mask,
        }
    }

    /// Perhaps `[start, end)` was mapped in the middle of a mapping that is registered. The kernel
    /// joins the two only if it is registered as well before it is touched, and the program's next
    /// mremap takes one mapping: so have kswapd do it now.
    pub(crate) fn join(&self, start: usize, end: usize) {
        // While nothing is registered there is nothing to join. No scan registers any: it needs our
        // turn.
        if let Some(pager) = pager::active().filter(|_| self.has_turn && !deferral::is_deferred()) {
            pager.request_join(start, end);
        }
    }

    /// kswapd's turn, if it can be had at once: whoever forks waits for kswapd while it has the
    /// turn.
    pub(crate) fn attempt() -> Option<Self> {
        for _ in 0..SPINS {
            if ORDER.try_lock() {
                OWNER.store(thread::tid(), Ordering::Relaxed);
                return Some(Self {
                    has_turn: true,
                    mask: None,
                });
            }
            core::hint::spin_loop();
        }
        None
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        // Not if a handler forked in the middle of the call: in the child the turn was ended
        // already.
        if self.has_turn && OWNER.load(Ordering::Relaxed) == thread::tid() {
            end_turn();
        }
        if let Some(mask) = self.mask {
            thread::restore_signals(mask);
        }
    }
}

fn take_turn() -> bool {
    let me = thread::tid();
    for i in 0..SPINS + PAUSES {
        if ORDER.try_lock() {
            OWNER.store(me, Ordering::Relaxed);
            return true;
        }
        let owner = OWNER.load(Ordering::Relaxed);
        if owner == me {
            return false;
        }
        if is_orphaned(owner, i) && inherit_turn(owner, me) {
            return true;
        }
        if i < SPINS {
            core::hint::spin_loop()
        } else {
            pager::pause(PAUSE_NS)
        }
    }
    false
}

/// Whether the turn is that of a thread that does not exist any more.
fn is_orphaned(owner: i32, looks: u32) -> bool {
    owner != 0 && looks > SPINS && looks.is_multiple_of(LOOKS_AT_OWNER) && !thread::is_alive(thread::pid(), owner)
}

fn inherit_turn(owner: i32, me: i32) -> bool {
    OWNER
        .compare_exchange(owner, me, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

fn end_turn() {
    OWNER.store(0, Ordering::Relaxed);
    // SAFETY: only called by the thread that `take_turn` gave the lock to.
    unsafe { ORDER.unlock() };
}

/// A fork is a change as well: whatever was changed before it has had its event read, so the
/// child's copy of memory and the words that describe it are of one moment.
static FORK_HAS_TURN: AtomicBool = AtomicBool::new(false);

/// How often a fork waits as long as others do: a change between its copies is worse than a wait.
const FORK_WAITS: u32 = 6;

/// Before a fork, in the forking thread.
pub(crate) fn begin_fork() {
    // Not from a handler that a call of this very thread raised.
    let waits = || OWNER.load(Ordering::Relaxed) != thread::tid();
    let has_turn = take_turn() || (1..FORK_WAITS).any(|_| waits() && take_turn());
    FORK_HAS_TURN.store(has_turn, Ordering::Relaxed);
}

/// After a fork, in the parent.
pub(crate) fn end_fork() {
    if FORK_HAS_TURN.swap(false, Ordering::Relaxed) {
        end_turn();
    }
}

/// In a forked child: whose turn it was does not exist here, or was the fork's.
pub(crate) fn reset_in_child() {
    FORK_HAS_TURN.store(false, Ordering::Relaxed);
    if ORDER.is_locked() {
        end_turn();
    }
}
