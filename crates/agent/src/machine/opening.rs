//! How the userfaultfd for the program's memory is opened, by how faults are served.
//!
//! | where | for whose faults | what they do |
//! |---|---|---|
//! | calls are guarded | the program's | raise SIGBUS, or wait for the fault thread |
//! | and the kernel [waits as well](blocking) | everybody's | wait for the fault thread |
//! | calls are not guarded | everybody's | the same; forks are told of |

use uzswap_sys::file::WakeEvent;
use uzswap_sys::proc_mem::ProcMem;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::uffd::{self, Uffd};
use uzswap_sys::{Errno, closed, lent};

use super::isolation::Isolation;
use crate::guard;
use crate::pager::blocking;
use crate::pager::missing::Missing;

/// A userfaultfd for the program's memory, and what goes with it.
pub(crate) struct Opened {
    pub(crate) managed: Uffd,
    pub(crate) wake: WakeEvent,
    pub(crate) proc: ProcSelf,
    pub(crate) isolation: Isolation,
}

/// A userfaultfd for the program's memory, with these features as well.
fn open_moving(open: impl Fn(u64) -> Result<Uffd, Errno>, more: u64) -> Result<Uffd, Errno> {
    let moves = uffd::FEATURE_MOVE | uffd::FEATURE_POISON | uffd::FEATURE_EVENTS_MM | more;
    match open(moves | uffd::FEATURE_WP) {
        // Not on every processor.
        Err(Errno::INVAL) => open(moves),
        opened => opened,
    }
}

/// One that any user may have.
fn open_for_user(more: u64) -> Result<Uffd, Errno> {
    open_moving(Uffd::open_for_user, more)
}

/// One whose faults are served by the threads that raise them.
///
/// # Errors
/// As [`Uffd::open_for_user`].
pub(crate) fn open_inline() -> Result<Uffd, Errno> {
    if closed::is_on() {
        return Uffd::open_closing();
    }
    open_for_user(uffd::FEATURE_SIGBUS)
}

/// One of which the program's threads have a copy.
///
/// # Errors
/// As [`open_inline`] and [`open_blocking`].
pub(crate) fn open_lent() -> Result<Uffd, Errno> {
    match blocking::is_on() {
        true => open_blocking(),
        false => open_inline(),
    }
}

/// One for whose faults the kernel waits as well. Forks are seen to by the guard.
///
/// # Errors
/// As [`Uffd::open`].
pub(crate) fn open_blocking() -> Result<Uffd, Errno> {
    open_moving(Uffd::open, uffd::FEATURE_THREAD_ID)
}

/// As [`open`], for any user: calls are guarded.
fn open_guarded() -> Result<Opened, Missing> {
    let (managed, wake, proc) = match lent::borrow() {
        Some(lent) => (Ok(lent.managed), Ok(lent.wake), ProcSelf::open_with(lent.pagemap)),
        // Only with faults in the threads that raise them is memory closed.
        None => (
            match blocking::is_on() {
                true => open_blocking(),
                false => open_for_user(uffd::FEATURE_THREAD_ID),
            },
            WakeEvent::new(),
            ProcSelf::open(),
        ),
    };
    Ok(Opened {
        managed: managed.map_err(|e| Missing::named("userfaultfd with move", e))?,
        wake: wake.map_err(|e| Missing::named("eventfd", e))?,
        proc: proc.map_err(|e| Missing::named("/proc/self", e))?,
        isolation: match closed::is_on() {
            true => {
                closed::begin().map_err(|e| Missing::named("address space for what each page is", e))?;
                Isolation::Close(ProcMem::open().map_err(|e| Missing::named("/proc/self/mem", e))?)
            }
            false => Isolation::Move(
                Uffd::open_for_user(uffd::FEATURE_MOVE).map_err(|e| Missing::named("userfaultfd", e))?,
                ProcMem::open().ok(),
            ),
        },
    })
}

/// Open what isolation needs: `copies`: without whatever came after Linux 5.7.
///
/// # Errors
/// The step that failed and what the system answered.
pub(crate) fn open(copies: bool) -> Result<Opened, Missing> {
    if guard::is_on() {
        return open_guarded();
    }
    let forks = uffd::FEATURE_EVENT_FORK | uffd::FEATURE_THREAD_ID;
    let events = forks | uffd::FEATURE_EVENTS_MM;
    let moves = match copies {
        true => Err(Errno::INVAL),
        false => open_moving(Uffd::open, forks),
    };
    match moves {
        Ok(managed) => Ok(Opened {
            managed,
            wake: WakeEvent::new().map_err(|e| Missing::named("eventfd", e))?,
            proc: ProcSelf::open().map_err(|e| Missing::named("/proc/self", e))?,
            isolation: Isolation::Move(
                Uffd::open(uffd::FEATURE_MOVE).map_err(|e| Missing::named("userfaultfd", e))?,
                ProcMem::open().ok(),
            ),
        }),
        Err(Errno::INVAL) => {
            let managed =
                Uffd::open(uffd::FEATURE_WP | events).map_err(|e| Missing::named("userfaultfd with fork events", e))?;
            managed.begin_protecting();
            Ok(Opened {
                managed,
                wake: WakeEvent::new().map_err(|e| Missing::named("eventfd", e))?,
                proc: ProcSelf::open_without_queries().map_err(|e| Missing::named("/proc/self", e))?,
                isolation: Isolation::Copy(ProcMem::open().map_err(|e| Missing::named("/proc/self/mem", e))?),
            })
        }
        Err(errno) => Err(Missing::named("userfaultfd with move and fork events", errno)),
    }
}
