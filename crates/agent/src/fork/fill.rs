//! A child that cannot have a pager, where nobody serves its faults: its parent tells it what it
//! lacks, a batch of pages at a time, and the child writes that to its memory. Then it runs on
//! unmanaged.
//!
//! ```text
//! child's only thread                parent's fault thread
//! UNMANAGED  --------------------->  reads what is out
//! writes it   <----- SENT -------    a batch
//!             ------ TAKEN ------->  the next
//!             <- RELEASED_UNMANAGED  that was all
//! ```
//! Nobody touches the child's memory before: its only thread is in here. What was mapped in the
//! parent between the freeze and the fork is there in the child, and newer than what is sent. So
//! the child registers what it is sent with a userfaultfd of its own, which fills no page that is
//! there; where memory is closed, the states say which pages are.

use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_mm::{Change, Changes, Worker, destination};
use uzswap_sys::Errno;
use uzswap_sys::closed;
use uzswap_sys::futex::RawLock;
use uzswap_sys::uffd::Uffd;

use super::handover::{BATCH, Handover, ORPHAN};
use crate::guard;
use crate::guest::vma;
use crate::machine::{AgentMachine, opening};
use crate::pager::missing::Missing;
use crate::pager::{Pager, pause};

/// How often each looks whether the other has come on.
const LOOK_NS: u64 = 20_000;

/// The parent's part: tell the child of every page that is out. `since`: what happened to its
/// mappings since its copy of the words was made. False: `is_gone` says that there is no child.
pub(super) fn send(
    pager: &Pager,
    changes: &mut Changes<'_, RawLock, AgentMachine>,
    worker: &mut Worker<AgentMachine>,
    since: &[Change],
    is_gone: impl Fn() -> bool,
) -> bool {
    let handover = &pager.fork.handover;
    let mut pages = 0;
    let goes_on = changes.for_each_absent(worker, |page, contents| {
        let Some(now) = destination(page, since) else {
            return true;
        };
        handover.write_page(pages, now, contents);
        pages += 1;
        pages < BATCH || send_batch(handover, core::mem::take(&mut pages), &is_gone)
    });
    goes_on && (pages == 0 || send_batch(handover, pages, &is_gone))
}

/// Wait until the child has taken a batch.
fn send_batch(handover: &Handover, pages: usize, is_gone: &impl Fn() -> bool) -> bool {
    let batch = handover.send_batch(pages);
    while handover.taken() < batch {
        if is_gone() {
            return false;
        }
        pause(LOOK_NS);
    }
    true
}

/// How the child's memory is written.
enum Memory {
    /// What is missing there is filled, nothing else.
    Registered(Uffd),
    /// All of it is open by now.
    Closed,
}

impl Memory {
    fn open(pager: &Pager) -> Result<Self, Missing> {
        if closed::is_on() {
            closed::open_alone().map_err(|e| Missing::named("access to its memory", e))?;
            return Ok(Self::Closed);
        }
        let uffd = opening::open_inline().map_err(|e| Missing::named("a userfaultfd", e))?;
        for range in pager.mm.managed() {
            // Whole mappings, where it can be: each page alone would be a mapping meanwhile.
            let _ = uffd.register_missing(range.start.addr(), range.end.addr() - range.start.addr());
        }
        Ok(Self::Registered(uffd))
    }

    /// Fill a page, if it was out, and the child has it.
    fn fill(&self, page: Vpn, contents: &[u8; PAGE_SIZE]) -> Result<(), Errno> {
        let addr = page.addr();
        match self {
            _ if !is_inherited(addr) => Ok(()),
            Self::Closed => closed::fill_alone(addr, contents),
            Self::Registered(uffd) => when_registered(uffd, addr, || match uffd.copy(addr, contents, false).stop {
                None | Some(Errno::EXIST) => Ok(()),
                Some(errno) => Err(errno),
            }),
        }
    }

    /// Its contents are lost: who touches the page gets a signal.
    fn lose(&self, page: Vpn) -> Result<(), Errno> {
        let addr = page.addr();
        match self {
            _ if !is_inherited(addr) => Ok(()),
            Self::Closed => closed::lose_alone(addr),
            Self::Registered(uffd) => when_registered(uffd, addr, || match uffd.poison(addr) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(errno),
            }),
        }
    }
}

/// Whether the child has a page of its parent's: not what that keeps for itself (MADV_DONTFORK),
/// where something of ours may lie by now.
fn is_inherited(addr: usize) -> bool {
    !vma::is_of_ours(addr, addr + PAGE_SIZE) && closed::is_mapped(addr)
}

/// Do something to a page that has to be registered. It may have moved since its words were
/// written.
fn when_registered(uffd: &Uffd, addr: usize, act: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    act().or_else(|_| {
        uffd.register_missing(addr, PAGE_SIZE)?;
        act()
    })
}

/// The child's part, in its only thread: take what is sent until that was all.
///
/// # Errors
/// What was missing. The child has holes then, which nobody serves.
pub(super) fn take(pager: &Pager) -> Result<(), Missing> {
    let handover = &pager.fork.handover;
    let memory = Memory::open(pager)?;
    let mut contents = [0; PAGE_SIZE];
    for batch in 1.. {
        match handover.wait_for_batch(pager, batch) {
            None => return Err(ORPHAN),
            Some(0) => break,
            Some(pages) => {
                for n in 0..pages {
                    let filled = match handover.read_page(n, &mut contents) {
                        (page, true) => memory.fill(page, &contents),
                        (page, false) => memory.lose(page),
                    };
                    filled.map_err(|e| Missing::named("its memory", e))?;
                }
            }
        }
        handover.take_batch(batch);
    }
    closed::forget_alone();
    guard::forget_registered();
    Ok(())
}
