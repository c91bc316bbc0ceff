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

use uzswap_sys::turn::Turn;
use uzswap_sys::{closed, thread};

use crate::memcg::deferral;
use crate::pager;

/// Held over a system call that raises events, and over a fork. Reset in forked children.
static ORDER: Turn = Turn::new();

/// The process that is not the pager's and has waited for the turn in vain.
static IN_VAIN: AtomicI32 = AtomicI32::new(0);

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
    /// Wait for our turn if there is a pager. A process that has our memory waits too: a fork's
    /// child has nothing to do with what that changes after the fork.
    ///
    /// Without a userfaultfd also while there is none: what a call changes that is under way when
    /// the pager begins would be under its care already, and the kernel tells nobody.
    ///
    /// That is not told from a child of a fork that nobody saw, which has a copy of the lock, taken
    /// perhaps: so it waits shortly, and in vain once.
    pub(crate) fn begin() -> Self {
        const NONE: InOrder = InOrder {
            has_turn: false,
            mask: None,
        };
        let has_none = pager::inherited().is_none();
        let is_ours = pager::active().is_some() || has_none && closed::is_on();
        if !is_ours && (has_none || IN_VAIN.load(Ordering::Relaxed) == thread::pid()) {
            return NONE;
        }
        let mask = thread::block_asynchronous_signals();
        let has_turn = match is_ours {
            true => ORDER.take(),
            false => ORDER.take_soon(),
        };
        if !is_ours && !has_turn && !ORDER.is_mine() {
            IN_VAIN.store(thread::pid(), Ordering::Relaxed);
        }
        Self { has_turn, mask }
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
        Self::attempt_unless(|| false)
    }

    /// The same, as long as nobody who has the turn waits for kswapd.
    fn attempt_unless(is_called: impl Fn() -> bool) -> Option<Self> {
        ORDER.attempt(is_called).then_some(Self {
            has_turn: true,
            mask: None,
        })
    }
}

/// Whether this thread has the turn.
pub(crate) fn is_mine() -> bool {
    ORDER.is_mine()
}

/// Turns of kswapd's, one for each mapping that a scan registers.
///
/// Once one cannot be had the scan gets no more: whoever has the turn may be a fork that waits for
/// kswapd, and there may be mappings by the ten thousand.
#[derive(Default)]
pub(crate) struct Turns {
    are_over: bool,
}

impl Turns {
    pub(crate) fn next(&mut self) -> Option<InOrder> {
        let pager = pager::active();
        let is_called = || pager.is_some_and(|pager| pager.post.is_called());
        let turn = (!self.are_over).then(|| InOrder::attempt_unless(is_called)).flatten();
        self.are_over = turn.is_none();
        turn
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        if self.has_turn {
            // Not ours any more if a handler forked in the middle of the call: in the child the
            // turn was ended already.
            ORDER.end();
        }
        if let Some(mask) = self.mask {
            thread::restore_signals(mask);
        }
    }
}

/// A fork is a change as well: whatever was changed before it has had its event read, so the
/// child's copy of memory and the words that describe it are of one moment.
static FORK_HAS_TURN: AtomicBool = AtomicBool::new(false);

/// How often a fork waits as long as others do: a change between its copies is worse than a wait.
const FORK_WAITS: u32 = 6;

/// Before a fork, in the forking thread. False: others have had it for all that time.
pub(crate) fn begin_fork() -> bool {
    // Not from a handler that a call of this very thread raised.
    let waits = || !ORDER.is_mine();
    let has_turn = ORDER.take() || (1..FORK_WAITS).any(|_| waits() && ORDER.take());
    FORK_HAS_TURN.store(has_turn, Ordering::Relaxed);
    has_turn || ORDER.is_mine()
}

/// After a fork, in the parent.
pub(crate) fn end_fork() {
    if FORK_HAS_TURN.swap(false, Ordering::Relaxed) {
        ORDER.end();
    }
}

/// In a forked child: whose turn it was does not exist here, or was the fork's.
pub(crate) fn reset_in_child() {
    FORK_HAS_TURN.store(false, Ordering::Relaxed);
    ORDER.reset_in_child();
}
