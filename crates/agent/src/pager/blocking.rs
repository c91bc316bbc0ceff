//! A process that has the kernel reach its memory when nobody knows: by io_uring, by AIO, for a
//! virtual machine. The guard brings what a call reaches, and cannot know of that. So from then on
//! the kernel itself waits for pages, where the system lets it: the faults of all threads block,
//! and the fault thread serves them.
//!
//! ```text
//! program's thread              kswapd                        fault thread
//! nobody serves his own
//! BLOCK, waits -------------->  nothing leaves any more -->   all that is out is mapped,
//!                               <-------------------------    nothing is registered
//!                               the other userfaultfd takes
//!                               the place of the first
//!        <- answered ---------  registers memory anew
//! the call
//! ```
//! Nothing leaves from before the first is unregistered until memory is registered with the other:
//! a page that is missing in between was never touched, and is zeros. No thread forks or changes
//! mappings meanwhile, by the fork's lock and the turn.
//!
//! What is out has to fit the limit. Where it does not, the call is refused, as it is where the
//! kernel may not wait, or a page is lost. It stays so until another program is executed, in forked
//! children that may open such a userfaultfd as well.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use uzswap_ctl::Tunable;
use uzswap_sys::time::now_ns;
use uzswap_sys::turn::Turn;
use uzswap_sys::uffd::Uffd;
use uzswap_sys::{closed, futex, lent};

use super::hold::{self, HELD};
use super::mailbox::{CANNOT, KEEPS, NO_TURN, NOTHING, SHARES_MEMORY, mail};
use super::missing::Missing;
use super::retire::{SHARED_NS, SHARED_TRIES};
use super::{Pager, STARTING, STATE, WAIT_NS, pause};
use crate::fault::inline;
use crate::guard::{exec, signals};
use crate::guest::unmanaged;
use crate::machine::opening;
use crate::memcg::deferral;
use crate::{fork, pager};

/// The program's threads serve their own faults, and the kernel gets EFAULT.
const NO: u32 = 0;
/// The kernel is to wait: all userfaultfds that are opened from now on say so, and nobody serves
/// his own faults.
const BEGINS: u32 = 1;
/// It waits.
const IS_ON: u32 = 2;
static STEP: AtomicU32 = AtomicU32::new(NO);

/// Of threads that would have it wait: one at a time. With signals blocked.
static TURN: Turn = Turn::new();

/// When it was tried last, if it was. Nanoseconds.
static TRIED: AtomicU64 = AtomicU64::new(0);
/// So long it is not tried again: a program may ask often.
const AGAIN_NS: u64 = 1_000_000_000;
/// So long a thread may be late that met what was missing before. Nanoseconds.
const LATE_NS: u64 = 10_000_000_000;
/// How often it is looked whether all has room, [`SHARED_NS`] apart.
const FITS_TRIES: u32 = 20;

/// Whether the kernel waits for pages, where calls are guarded, or is about to.
pub(crate) fn is_on() -> bool {
    STEP.load(Ordering::SeqCst) != NO
}

/// Whether it does since a while ago only.
pub(crate) fn is_recent() -> bool {
    is_on() && TRIED.load(Ordering::Relaxed).saturating_add(LATE_NS) > now_ns()
}

/// A call is about to be made after which the kernel reaches memory when nobody knows. In the
/// thread of the program that makes it. False: it has to be refused. One line says so where that
/// could be helped.
pub(crate) fn begin() -> bool {
    if STEP.load(Ordering::SeqCst) == IS_ON {
        return true;
    }
    let may = pager::group().is_some_and(|group| group.is_on(Tunable::MayBlock));
    // A vfork child has another process's pager. A filter of the program's may end it for a look.
    let cannot = !may || closed::is_on() || pager::is_vfork_child() || exec::is_filtered();
    if cannot || TRIED.load(Ordering::Relaxed).saturating_add(AGAIN_NS) > now_ns() && !is_on() {
        return false;
    }
    let mask = signals::block_others();
    let mut has_turn = TURN.take();
    while !has_turn && STEP.load(Ordering::SeqCst) == BEGINS && !TURN.is_mine() {
        has_turn = TURN.take();
    }
    let result = match STEP.load(Ordering::SeqCst) {
        IS_ON => Ok(()),
        // What a pager cannot open it cannot do without.
        _ if has_turn && can_open() => {
            let result = have_wait();
            let was_tried = TRIED.swap(now_ns(), Ordering::Relaxed) != 0;
            if let Err(lacks) = result
                && !was_tried
            {
                unmanaged::may_not_block(lacks);
            }
            result
        }
        _ => Err(CANNOT),
    };
    if has_turn {
        TURN.end();
    }
    signals::unblock(mask);
    result.is_ok()
}

/// Whether a thread of the program can open what has the kernel wait. Not behind a filter of its.
fn can_open() -> bool {
    lent::to_open(false, || opening::open_blocking().is_ok())
}

/// # Errors
/// What it lacks, as in [`Post`](super::mailbox::Post): nothing has changed.
fn have_wait() -> Result<(), u64> {
    // First: a pager that begins from now on has the kernel wait from the start.
    STEP.store(BEGINS, Ordering::SeqCst);
    inline::wait_until_out();
    let (mut tries, mut fits) = (1..SHARED_TRIES, 1..FITS_TRIES);
    let result = loop {
        let Some(pager) = settled() else { break Ok(()) };
        let ask = || {
            pager.ask(mail::BLOCK);
            pager.post.lacks.load(Ordering::Acquire)
        };
        match fork::while_none_forks(pager, ask).unwrap_or(NO_TURN) {
            NOTHING => {
                // In the program's table it is the first still.
                lent::give_managed_up();
                break Ok(());
            }
            SHARES_MEMORY if tries.next().is_some() => pause(SHARED_NS),
            // A forked child may have its share of what is shared for a moment.
            lacks if lacks < NO_TURN && fits.next().is_some() => pause(SHARED_NS),
            lacks => break Err(lacks),
        }
    };
    let step = if result.is_ok() { IS_ON } else { NO };
    STEP.store(step, Ordering::SeqCst);
    result
}

/// The pager, when none is about to begin.
fn settled() -> Option<&'static Pager> {
    loop {
        match STATE.load(Ordering::SeqCst) {
            HELD if hold::is_holder() => return None,
            state @ (STARTING | HELD) => futex::wait(&STATE, state, Some(WAIT_NS), false),
            _ => return pager::active(),
        }
    }
}

/// In a forked child, in its only thread.
pub(crate) fn reset_in_child() {
    TURN.reset_in_child();
    if is_on() {
        STEP.store(IS_ON, Ordering::SeqCst);
    }
}

/// In a forked child that is about to have a pager of its own. One that may not open what that
/// takes goes on as if its parent had never asked.
pub(crate) fn look_in_child() {
    if is_on() && !exec::is_filtered() && !can_open() {
        STEP.store(NO, Ordering::SeqCst);
    }
}

impl Pager {
    /// kswapd's part.
    pub(crate) fn block(&self) {
        let lacks = match self.lacks_for_all() {
            NOTHING => opening::open_blocking()
                .map_err(|_| CANNOT)
                .and_then(|blocking| self.replace(&blocking))
                .err()
                .unwrap_or(NOTHING),
            lacks => lacks,
        };
        self.post.lacks.store(lacks, Ordering::Release);
    }

    /// Have `blocking` take the place of the userfaultfd that there is.
    fn replace(&self, blocking: &Uffd) -> Result<(), u64> {
        if !self.let_all_go(true) {
            return Err(CANNOT);
        }
        if let Err(errno) = self.mm.machine().replace_managed(blocking) {
            // Nothing is out, and nothing leaves any more: the kernel finds all of it.
            unmanaged::lacks_another_pager(Missing::named("a userfaultfd for which the kernel waits", errno));
            return Ok(());
        }
        let fds = self.fds();
        fds.have_kept(self.memcg.path());
        // All of it is to be registered again.
        deferral::look_again();
        self.post.letting_go.store(KEEPS, Ordering::SeqCst);
        // The fault thread may wait at the one that was.
        fds.wake.set();
        Ok(())
    }
}
