//! Memory that is not ours any more: all of it comes back.

use uzswap_mm::Worker;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_sys::Errno;
use uzswap_sys::procfs::Vma;

use super::{inline, poison};
use crate::machine::AgentMachine;
use crate::pager::Pager;

/// Map all that is stored, whatever the limit. False: not all of it yet, as an event came between
/// or memory is short. `retires`: nobody serves its faults from then on, and nothing that is stored
/// is needed any more.
///
/// While an event waits to be read nothing can be mapped, and whoever changes mappings waits for
/// that. So if all went in, all of it is where its words say, and what changes from now on changes
/// what is mapped.
pub(super) fn bring_back(pager: &Pager, worker: &mut Worker<AgentMachine>, retires: bool) -> bool {
    pager.mm.with_changes(|changes| {
        let is_back = changes.for_each_absent(worker, |vpn, page| map_back(pager, vpn, page));
        if is_back && (inline::is_on() || retires) {
            // Whoever goes on with the memory has a copy of the descriptor: it would wait for ever
            // for its events to be read. The launcher has one, too, for a moment yet.
            let fds = pager.fds();
            let anonymous = |vma: &Vma| vma.is_private_anonymous();
            let _ = fds.proc.for_each_vma(|vma| {
                let _ = anonymous(&vma).then(|| fds.managed.unregister(vma.start, vma.end - vma.start));
            });
        }
        if is_back && retires {
            changes.give_up(PageRange::USER);
        }
        is_back
    })
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
