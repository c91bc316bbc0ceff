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
//! What is out has to fit the limit. Where it does not, the call is refused, as it is where the
//! kernel may not wait. No thread forks or changes mappings meanwhile. It stays so, in forked
//! children as well, until another program is executed.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_ctl::Tunable;
use uzswap_sys::uffd::Uffd;
use uzswap_sys::{Errno, closed, futex, lent};

use super::hold::{self, HELD};
use super::mailbox::{CANNOT, KEEPS, NO_TURN, NOTHING, SHARES_MEMORY, mail};
use super::retire::{SHARED_NS, SHARED_TRIES};
use super::{Pager, STARTING, STATE, WAIT_NS, pause};
use crate::fault::inline;
use crate::guard::{exec, signals};
use crate::guest::{mapped, unmanaged};
use crate::machine::opening;
use crate::{fork, pager};

/// The kernel waits for pages: all userfaultfds that are opened from now on say so.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// That it may not was said.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// How often it is looked whether all has room, [`SHARED_NS`] apart.
const FITS_TRIES: u32 = 20;

/// Whether the kernel waits for pages, where calls are guarded.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::SeqCst)
}

/// A call is about to be made after which the kernel reaches memory when nobody knows. In the
/// thread of the program that makes it. False: it has to be refused. One line says so where that
/// could be helped.
pub(crate) fn begin() -> bool {
    if is_on() {
        return true;
    }
    let may = pager::group().is_some_and(|group| group.is_on(Tunable::MayBlock));
    // A vfork child has another process's pager. And what a pager cannot open it cannot do without.
    let opens = || lent::to_open(exec::is_filtered(), || opening::open_blocking().is_ok());
    if !may || closed::is_on() || pager::is_vfork_child() || !opens() {
        return false;
    }
    let mask = signals::block_others();
    let result = have_wait();
    signals::unblock(mask);
    if let Err(lacks) = result
        && !IS_SAID.swap(true, Ordering::Relaxed)
    {
        unmanaged::may_not_block(lacks);
    }
    result.is_ok()
}

/// # Errors
/// What it lacks, as in [`Post`](super::mailbox::Post): nothing has changed.
fn have_wait() -> Result<(), u64> {
    // First: a pager that begins from now on has the kernel wait from the start.
    IS_ON.store(true, Ordering::SeqCst);
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
    if result.is_err() {
        IS_ON.store(false, Ordering::SeqCst);
    }
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

impl Pager {
    /// kswapd's part.
    pub(crate) fn block(&self) {
        let lacks = match self.lacks_for_all() {
            NOTHING => opening::open_blocking()
                .and_then(|blocking| self.replace(&blocking))
                .map_or(CANNOT, |()| NOTHING),
            lacks => lacks,
        };
        self.post.lacks.store(lacks, Ordering::Release);
    }

    /// Have `blocking` take the place of the userfaultfd that there is.
    fn replace(&self, blocking: &Uffd) -> Result<(), Errno> {
        self.let_all_go(true);
        let fds = self.fds();
        self.mm.machine().replace_managed(blocking)?;
        fds.have_kept(self.memcg.path());
        // All of it is to be registered again.
        mapped::miss();
        self.post.letting_go.store(KEEPS, Ordering::SeqCst);
        // The fault thread may wait at the one that was.
        fds.wake.set();
        Ok(())
    }
}
