//! Memory that is not ours any more: all of it comes back.

use alloc::vec::Vec;

use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::{Changes, Worker};
use uzswap_sys::Errno;
use uzswap_sys::futex::RawLock;
use uzswap_sys::procfs::Vma;

use super::{inline, poison};
use crate::guard;
use crate::guest::stacks;
use crate::machine::AgentMachine;
use crate::pager::Pager;

/// How far all is that was to come back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// All of it.
    Is,
    /// Not all of it yet, as an event came between or memory is short.
    NotYet,
    /// But for what is lost, whose readers get a signal: its word tells, and stays. All else was
    /// given up, and is to be taken under our care again.
    Lost,
}

/// Map all that is stored, whatever the limit. `retires`: nobody serves its faults from then on,
/// and nothing that is stored is needed any more.
///
/// While an event waits to be read nothing can be mapped, and whoever changes mappings waits for
/// that. So if all went in, all of it is where its words say, and what changes from now on changes
/// what is mapped.
pub(super) fn bring_back(pager: &Pager, worker: &mut Worker<AgentMachine>, retires: bool) -> Back {
    pager.mm.with_changes(|changes| {
        let mut lost = Vec::new();
        let is_back = changes.for_each_absent(worker, |vpn, page| {
            if page.is_none() {
                lost.push(vpn.addr());
            }
            map_back(pager, vpn, page)
        });
        if !is_back {
            return Back::NotYet;
        }
        if retires && !lost.is_empty() {
            give_up_beside(changes, &lost);
            return Back::Lost;
        }
        if inline::is_on() || retires {
            // Whoever goes on with the memory has a copy of the descriptor: it would wait for ever
            // for its events to be read. The launcher has one, too, for a moment yet.
            let fds = pager.fds();
            let _ = fds.proc.for_each_vma(|vma| {
                let range = PageRange::of_bytes(vma.start, vma.end);
                if vma.is_private_anonymous() && (changes.gaps(range) != [range] || may_be_registered(&vma)) {
                    let _ = fds.managed.unregister(vma.start, vma.end - vma.start);
                }
            });
            pager.mm.machine().unregister_own();
        }
        if retires {
            changes.give_up(PageRange::USER);
        }
        Back::Is
    })
}

/// Give up all but the pages at `lost`, from the lowest to the highest.
fn give_up_beside(changes: &mut Changes<'_, RawLock, AgentMachine>, lost: &[usize]) {
    let mut start = PageRange::USER.start.addr();
    for at in lost {
        changes.give_up(PageRange::of_bytes(start, *at));
        start = at + PAGE_SIZE;
    }
    changes.give_up(PageRange::of_bytes(start, PageRange::USER.end.addr()));
}

/// Whether a mapping of which nothing is under our care may be registered all the same, as one that
/// has grown. What the program's own userfaultfd has is noted as left alone; where calls are not
/// guarded nobody knows.
fn may_be_registered(vma: &Vma) -> bool {
    let is_noted = || guard::may_be_registered_in(vma.start, vma.end) && !stacks::covers(vma.start, vma.end);
    !guard::is_on() || is_noted()
}

/// As [`bring_back`], for a range that is not ours from now on.
pub(super) fn give_up(pager: &Pager, worker: &mut Worker<AgentMachine>, range: PageRange) -> bool {
    let managed = &pager.fds().managed;
    pager.mm.with_changes(|changes| {
        let is_back = changes.bring_back_range(worker, range, |vpn, page| map_back(pager, vpn, page));
        if !is_back || managed.is_changing(pager.mm.machine().nowhere()) {
            return false;
        }
        unregister(pager, range.start.addr(), range.end.addr());
        changes.give_up(range);
        true
    })
}

/// What of `[start, end)` may be registered is not any more.
fn unregister(pager: &Pager, start: usize, end: usize) {
    let (managed, proc) = (&pager.fds().managed, &pager.fds().proc);
    if managed.unregister(start, end - start).is_ok() {
        return;
    }
    // Not all of it is private anonymous memory, or some is another userfaultfd's.
    let mut at = start;
    while at < end
        && let Ok(Some(vma)) = proc.vma_at_or_after(at)
        && vma.start < end
    {
        let (first, limit) = (vma.start.max(at), vma.end.min(end));
        if vma.is_private_anonymous() {
            let _ = managed.unregister(first, limit - first);
        }
        at = vma.end;
    }
}

fn map_back(pager: &Pager, vpn: Vpn, page: Option<&[u8]>) -> bool {
    let managed = &pager.fds().managed;
    let Some(page) = page else {
        return poison(pager, managed, vpn.addr());
    };
    match managed.copy(vpn.addr(), page, true).stop {
        None => true,
        Some(Errno::AGAIN | Errno::NOMEM) => false,
        // It is moving: the kernel looks for its mapping first.
        Some(Errno::NOENT) if managed.is_changing(pager.mm.machine().nowhere()) => false,
        // It is there by now, or its mapping is not.
        Some(_) => {
            managed.wake(vpn.addr(), PAGE_SIZE);
            true
        }
    }
}
