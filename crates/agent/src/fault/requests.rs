//! What threads of the program ask the fault thread for, where they serve their own faults: a place
//! for each, in which it answers.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use uzswap_mm::page::{PageRange, Vpn};
use uzswap_mm::swap_table::entry::Slot;
use uzswap_sys::{Errno, futex};

use super::inline::{CLOSED_NS, GATE_NS, is_filtered, pause, stop_if_alone};
use super::{Waiting, late};
use crate::pager::mailbox::mail;
use crate::pager::{Pager, blocking};

/// Requests at a time; more threads wait for a place.
const REQUESTS: usize = 64;
/// How long a thread sleeps that waits for the fault thread before it has kswapd wake that.
const SLICE_NS: u64 = 10_000_000;
/// Looks before that.
const SPINS: u32 = 200;

/// What a thread waits for.
struct Request {
    /// [`WAITS`] until it is served, or found to be none of ours.
    state: AtomicU32,
    addr: AtomicUsize,
    /// As in [`Waiting`]: is it a write, is the page there. And is it in doubt whose it is.
    access: AtomicU32,
}

const SERVED: u32 = 0;
const WAITS: u32 = 1;
const NOT_OURS: u32 = 2;
/// The bit of a request that is in doubt.
const DOUBTFUL: u32 = 4;

static ASKED: [Request; REQUESTS] = [const {
    Request {
        state: AtomicU32::new(0),
        addr: AtomicUsize::new(0),
        access: AtomicU32::new(0),
    }
}; REQUESTS];
/// Requests that somebody has, a bit each; and those that the fault thread has not taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static POSTED: AtomicU64 = AtomicU64::new(0);

/// A request that the fault thread has taken.
#[derive(Clone, Copy)]
pub(crate) struct Ticket(u8);

impl Ticket {
    /// It is served: the thread goes on.
    pub(crate) fn done(self) {
        self.answer(SERVED);
    }

    /// The signal is the program's, which gets it.
    pub(crate) fn is_the_programs(self) {
        self.answer(NOT_OURS);
    }

    fn answer(self, answer: u32) {
        let state = &ASKED[usize::from(self.0)].state;
        state.store(answer, Ordering::Release);
        futex::wake(state, 1, false);
    }
}

/// In the fault thread, after its event was cleared: what was asked for since.
pub(crate) fn take_requests(pager: &Pager, mut take: impl FnMut(Waiting)) {
    let mut posted = POSTED.swap(0, Ordering::Acquire);
    while posted != 0 {
        let n = posted.trailing_zeros();
        posted &= posted - 1;
        let request = &ASKED[n as usize];
        let access = request.access.load(Ordering::Relaxed);
        let addr = request.addr.load(Ordering::Relaxed);
        if access & DOUBTFUL != 0 && !is_ours(pager, addr) {
            Ticket(n as u8).is_the_programs();
            continue;
        }
        take(Waiting {
            addr,
            is_write: access & 1 != 0,
            is_protected: access & 2 != 0,
            ticket: Some(Ticket(n as u8)),
        });
    }
}

/// Whether the page is the program's memory as we serve it: a file may have been mapped where some
/// was, and end before, or the program has a userfaultfd of its own. In the fault thread.
fn is_ours(pager: &Pager, addr: usize) -> bool {
    let vma = pager.fds().proc.vma_at_or_after(addr).ok().flatten();
    let Some(vma) = vma.filter(|vma| vma.start <= addr) else {
        // Nothing is there any more: it looks again.
        return true;
    };
    if !vma.is_private_anonymous() {
        return false;
    }
    if pager.reclaim.is_freezing() {
        return true;
    }
    // What has grown is registered before it is under our care, and has zeros. Elsewhere our
    // userfaultfd has no such range. A page without a word has no contents anywhere: this thread
    // alone reads events, and has applied all that it read; while one waits the kernel maps
    // nothing.
    let page = Vpn::of_addr(addr);
    pager.mm.with_changes(|changes| {
        // Whatever its word says, it is served by that. Under the lock: nobody takes it under our
        // care, or has it leave, before there are zeros.
        let is_managed = changes.gaps(PageRange::new(page, 1)).is_empty();
        is_managed || pager.mm.lookup(page) != Slot::None || pager.mm.machine().map_zeros(addr) != Some(Errno::NOENT)
    })
}

/// Have the fault thread serve it, and wait until it has. `is_doubtful`: it is to look whether the
/// page is ours. False: it is not.
pub(super) fn ask(pager: &Pager, waiting: Waiting, is_doubtful: bool) -> bool {
    let mut sleep_ns = GATE_NS;
    let n = loop {
        let taken = TAKEN.load(Ordering::Relaxed);
        let free = taken.trailing_ones();
        if free as usize == REQUESTS {
            pause(sleep_ns);
            sleep_ns = CLOSED_NS.min(2 * sleep_ns);
            continue;
        }
        let next = taken | 1 << free;
        if TAKEN
            .compare_exchange_weak(taken, next, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            break free as usize;
        }
    };
    let request = &ASKED[n];
    request.addr.store(waiting.addr, Ordering::Relaxed);
    let access = [waiting.is_write, waiting.is_protected, is_doubtful];
    let access = (0..).zip(access).map(|(n, is_set)| u32::from(is_set) << n).sum();
    request.access.store(access, Ordering::Relaxed);
    request.state.store(WAITS, Ordering::Relaxed);
    POSTED.fetch_or(1 << n, Ordering::Release);
    pager.mm.machine().ring();
    let mut looks = 0;
    while request.state.load(Ordering::Acquire) == WAITS {
        if pager.has_let_go() {
            // The process whose memory this one has ends, and has answered nobody since: what it
            // wants is back.
            break;
        }
        looks += 1;
        if looks < SPINS || is_filtered() {
            // Perhaps it may not even sleep.
            core::hint::spin_loop();
        } else {
            futex::wait(&request.state, WAITS, Some(SLICE_NS), false);
            // Should the program have closed the event.
            if request.state.load(Ordering::Acquire) == WAITS {
                pager.post.mail.post(mail::RING);
                stop_if_alone();
            }
        }
    }
    // A pager that has ended answers by what it manages no longer: the page is there.
    // So may what was asked as another userfaultfd took the place of the one that raised it.
    let may_be_late = || pager.has_let_go() || blocking::is_recent();
    let is_ours = request.state.load(Ordering::Relaxed) != NOT_OURS || may_be_late() && late::tries_again(waiting.addr);
    TAKEN.fetch_and(!(1 << n), Ordering::Release);
    is_ours
}

/// In a forked child: nobody waits.
pub(super) fn reset_in_child() {
    POSTED.store(0, Ordering::Relaxed);
    TAKEN.store(0, Ordering::Relaxed);
}
