//! What is done around a system call that changes mappings: the same call, plus what the pager
//! needs. They come from the replaced wrappers ([`crate::guest::hook`]) and, where calls are
//! guarded, from all code of the program ([`crate::guard`]).

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::thread::{page_align, syscall_of_program};
use uzswap_sys::{Errno, vdso};

use super::order::InOrder;
use super::stacks::{StackChange, Undisturbed};
use super::{closed, small, vma};
use crate::memcg::deferral;
use crate::{guard, pager};

pub(crate) const SYS_MMAP: usize = 9;
pub(crate) const SYS_MUNMAP: usize = 11;
pub(crate) const SYS_MADVISE: usize = 28;
pub(crate) const SYS_MPROTECT: usize = 10;
pub(crate) const SYS_PKEY_MPROTECT: usize = 329;
pub(crate) const SYS_PROCESS_MADVISE: usize = 440;

/// MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTNEED_LOCKED: advice that raises events.
/// MADV_GUARD_INSTALL should. What a child gets (MADV_WIPEONFORK, MADV_KEEPONFORK) is read after a
/// fork.
const ORDERED_ADVICE: [c_int; 7] = [
    MADV_DONTNEED,
    MADV_FREE,
    9,
    MADV_DONTNEED_LOCKED,
    MADV_GUARD_INSTALL,
    MADV_WIPEONFORK,
    19,
];
const MADV_DONTNEED: c_int = 4;
const MADV_FREE: c_int = 8;
const MADV_MERGEABLE: c_int = 12;
const MADV_DONTNEED_LOCKED: c_int = 24;
const MADV_WIPEONFORK: c_int = 18;
const MADV_POPULATE_READ: c_int = 22;
const MADV_POPULATE_WRITE: c_int = 23;
const MADV_GUARD_INSTALL: c_int = 102;
const MAP_FIXED: c_int = 0x10;

/// Bits that say who shares it; what the kernel may drop is private (Linux 6.11).
const MAP_TYPE: c_int = 15;
const MAP_DROPPABLE: c_int = 8;
const MAP_PRIVATE: c_int = 0x02;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_NORESERVE: c_int = 0x4000;
const MAP_GROWSDOWN: c_int = 0x100;
const MAP_POPULATE: c_int = 0x8000;
const MAP_STACK: c_int = 0x20000;
const MAP_HUGETLB: c_int = 0x40000;
const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;

fn is_stack(flags: c_int) -> bool {
    flags & (MAP_STACK | MAP_GROWSDOWN) != 0
}

/// Whether a new mapping is memory of the kind that comes under our care.
fn is_data(prot: c_int, flags: c_int) -> bool {
    let kind = flags & (MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
    let is_executable = prot & PROT_EXEC != 0;
    kind == MAP_PRIVATE | MAP_ANONYMOUS && (!is_executable || vma::manages_executable_data() && prot & PROT_WRITE != 0)
}

/// Whether it may come under our care; a small one only as a part of another, if there are few.
fn is_ours(len: usize, prot: c_int, flags: c_int) -> bool {
    let is_big_enough = len >= vma::least_bytes() || flags & MAP_FIXED != 0;
    is_big_enough && is_data(prot, flags)
}

/// mmap(2).
pub(crate) fn mmap(mut args: [usize; 6]) -> Result<usize, Errno> {
    let [addr, len, prot, flags, ..] = args;
    let (prot, flags) = (prot as c_int, flags as c_int);
    // The kernel would fill it before anybody could register it, whatever the limit.
    let is_populated = flags & MAP_POPULATE != 0 && is_ours(len, prot, flags) && !pager::is_lost();
    if is_populated {
        args[3] &= !(MAP_POPULATE as usize);
    }
    if flags & MAP_FIXED != 0 {
        vdso::note_unmapped(addr, len);
    }
    if flags & MAP_TYPE == MAP_DROPPABLE && uzswap_sys::closed::is_on() {
        // As by that advice. A userfaultfd refuses such memory.
        WIPES_ON_FORK.store(true, Ordering::SeqCst);
    }
    let _undisturbed = is_stack(flags).then(Undisturbed::begin);
    let turn = (flags & MAP_FIXED != 0).then(InOrder::begin);
    // After the turn began: while it is waited for, somebody else's join must be able to look at
    // the mappings.
    let stack = is_stack(flags).then(StackChange::begin);
    // Nothing else takes it under our care before the call: that needs a turn as well.
    let covered = (turn.is_some() && stack.is_none()).then(|| StackChange::begin().lift(addr, len));
    // SAFETY: exactly the call that the program makes; libc's wrapper adds nothing (the kernel
    // checks the offset).
    let call = || unsafe { syscall_of_program(SYS_MMAP, args) };
    let result = match flags & MAP_FIXED {
        0 => call(),
        _ => closed::unmap(addr, addr.saturating_add(page_align(len)), call),
    };
    if let (Err(_), Some(covered)) = (result, &covered) {
        StackChange::begin().restore(covered);
    }
    if let (Ok(start), Some(turn)) = (result, &turn)
        && stack.is_none()
        && is_ours(len, prot, flags)
    {
        turn.join(start, start + page_align(len));
    }
    // Ended before kswapd is waited for, which needs a turn of its own to look at mappings.
    drop(turn);
    let start = result?;
    if let Some(change) = &stack {
        change.add(start, start + page_align(len));
    } else if is_ours(len, prot, flags) {
        deferral::note_growth(start, len, prot & PROT_WRITE != 0);
    } else if is_data(prot, flags) {
        small::note_mapped(page_align(len));
    }
    if is_populated {
        populate(start, page_align(len), prot & PROT_WRITE != 0);
    }
    Ok(start)
}

/// MAP_POPULATE of memory that may come under our care, as far as there is room: what lies beyond
/// would have to leave for it. It is no error that a part is not populated.
fn populate(start: usize, len: usize, is_written: bool) {
    let room = pager::active().map_or(len as u64, |pager| pager.memcg.headroom(pager));
    let len = len.min(room as usize) & !(PAGE_SIZE - 1);
    if len > 0 {
        let advice = if is_written {
            MADV_POPULATE_WRITE
        } else {
            MADV_POPULATE_READ
        };
        let _ = madvise(start, len, advice);
    }
}

/// mprotect(2), pkey_mprotect(2), where the kernel tells of faults: what may be accessed is the
/// program's affair.
pub(crate) fn protect(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall_of_program(number, args) };
    note_protected(args, &result);
    result
}

/// After either: what may be written to from now on. One that fails may have changed a part.
pub(super) fn note_protected([start, len, prot, ..]: [usize; 6], result: &Result<usize, Errno>) {
    let may_have = matches!(result, Ok(_) | Err(Errno::NOMEM | Errno::ACCESS));
    let is_range = start.checked_add(len).is_some_and(|end| end < guard::ADDRESSES);
    if prot as c_int & PROT_WRITE != 0 && may_have && is_range {
        deferral::note_opened(start, page_align(len));
    }
}

/// munmap(2).
pub(crate) fn munmap(start: usize, len: usize) -> Result<usize, Errno> {
    let _turn = InOrder::begin();
    let change = StackChange::begin();
    vdso::note_unmapped(start, len);
    let unmapped = change.lift(start, len);
    // SAFETY: exactly the call that the program makes.
    let call = || unsafe { syscall_of_program(SYS_MUNMAP, [start, len, 0, 0, 0, 0]) };
    let result = closed::unmap(start, start.saturating_add(page_align(len)), call);
    match result {
        Ok(_) if len < vma::MIN_BYTES => small::note_unmapped(page_align(len)),
        Ok(_) => {}
        Err(_) => change.restore(&unmapped),
    }
    result
}

/// Address space that nothing else is put into.
pub(crate) fn reserve(len: usize) -> Result<usize, Errno> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a fresh mapping, at an address of the kernel's choice.
    unsafe { syscall_of_program(SYS_MMAP, [0, len, 0, flags as usize, usize::MAX, 0]) }
}

/// Some memory is not for children, or was once.
static WIPES_ON_FORK: AtomicBool = AtomicBool::new(false);

/// Whether the program ever asked for memory that its children get empty.
pub(crate) fn wipes_on_fork() -> bool {
    WIPES_ON_FORK.load(Ordering::SeqCst)
}

/// Some memory may be merged with other memory.
static MERGES: AtomicBool = AtomicBool::new(false);

/// Some memory may be guards.
static INSTALLS_GUARDS: AtomicBool = AtomicBool::new(false);

/// Whether the program ever had pages merged with others of the same contents (MADV_MERGEABLE).
pub(crate) fn merges() -> bool {
    MERGES.load(Ordering::SeqCst)
}

/// Whether the program ever asked for guards (MADV_GUARD_INSTALL).
pub(crate) fn installs_guards() -> bool {
    INSTALLS_GUARDS.load(Ordering::SeqCst)
}

/// madvise(2).
pub(crate) fn madvise(addr: usize, len: usize, advice: c_int) -> Result<usize, Errno> {
    let _turn = ORDERED_ADVICE.contains(&advice).then(InOrder::begin);
    if advice == MADV_WIPEONFORK {
        WIPES_ON_FORK.store(true, Ordering::SeqCst);
    }
    if advice == MADV_MERGEABLE {
        MERGES.store(true, Ordering::SeqCst);
    }
    if advice == MADV_GUARD_INSTALL {
        // Before they are there: UFFDIO_COPY puts a page in the place of a guard.
        INSTALLS_GUARDS.store(true, Ordering::SeqCst);
    }
    if let Some(populated) = guard::populate(addr, len, advice as usize) {
        return populated.map(|()| 0);
    }
    match drops(advice as usize) {
        true => closed::drop(addr, len, || advise(addr, len, advice)),
        false => advise(addr, len, advice),
    }
}

/// Whether pages are gone after that advice.
pub(crate) fn drops(advice: usize) -> bool {
    [MADV_DONTNEED, MADV_FREE, MADV_DONTNEED_LOCKED, MADV_GUARD_INSTALL].contains(&(advice as c_int))
}

/// Make that call, and what has to follow it.
fn advise(addr: usize, len: usize, advice: c_int) -> Result<usize, Errno> {
    // SAFETY: exactly the call that the program makes.
    let advise = |advice: c_int| unsafe { syscall_of_program(SYS_MADVISE, [addr, len, advice as usize, 0, 0, 0]) };
    let result = advise(advice);
    // Also where a part was not mapped: it was done to the others.
    let is_done = matches!(result, Ok(_) | Err(Errno::NOMEM));
    let is_seen_to = match advice {
        // It may be taken for memory like any other once there is a pager.
        MADV_FREE => pager::group().is_some() && !pager::is_lost(),
        advice => advice == MADV_GUARD_INSTALL && pager::active().is_some(),
    };
    if is_seen_to && is_done {
        // MADV_FREE: the kernel may drop the pages at any time, and the program has to expect that
        // it does so now. Pages that stayed would be charged, and be nobody's to reclaim: their
        // words are gone. MADV_GUARD_INSTALL has dropped them without an event, so what was stored
        // of them would come back when the guards go.
        let _ = advise(MADV_DONTNEED);
        if advice == MADV_GUARD_INSTALL {
            // What another thread's fault had brought along until that event was read may have
            // taken guards away. Nothing is brought any more but the very page that faults.
            let _ = advise(MADV_GUARD_INSTALL);
        }
    }
    result
}
