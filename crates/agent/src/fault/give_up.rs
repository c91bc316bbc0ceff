//! Memory that is not ours any more: all of it comes back.

use uzswap_mm::Worker;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_sys::Errno;

use super::{inline, poison};
use crate::machine::AgentMachine;
use crate::pager::Pager;

/// How far all is that was to come back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// All of it.
    Is,
    /// Not all of it yet, as an event came between or memory is short.
    NotYet,
    /// But for what is lost, whose readers get a signal. That is told by words, which are to stay.
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
        let mut is_lost = false;
        let is_back = changes.for_each_absent(worker, |vpn, page| {
            is_lost |= page.is_none();
            map_back(pager, vpn, page)
        });
        match (is_back, is_lost && retires) {
            (false, _) => return Back::NotYet,
            (true, true) => return Back::Lost,
            (true, false) => {}
        }
        if inline::is_on() || retires {
            // Whoever goes on with the memory has a copy of the descriptor: it would wait for ever
            // for its events to be read. The launcher has one, too, for a moment yet. What the
            // program's own userfaultfd has is not under our care, whole mappings.
            let fds = pager.fds();
            let is_ours = |range: PageRange| changes.gaps(range) != [range];
            let _ = fds.proc.for_each_vma(|vma| {
                let range = PageRange::of_bytes(vma.start, vma.end);
                if vma.is_private_anonymous() && is_ours(range) {
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
