//! Memory without a userfaultfd ([`uzswap_sys::closed`]): how pages leave, the signal that brings
//! them back, and what the program does with its mappings. Those are the same calls, and what the
//! kernel would have told.
//!
//! ```text
//! turn to change mappings -> Changing: nothing is filled -> the call -> bytes of pages
//!                         -> an event, read by the fault thread -> goes on
//! ```
//! That is in the thread of the program that makes the call, which takes no lock of the pager's.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_mm::machine::{Done, Stop};
use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_sys::closed::{self, Access, Changing, Filling, Posted, Touched};
use uzswap_sys::maps::Maps;
use uzswap_sys::mlock::{SYS_MLOCK, SYS_MLOCK2};
use uzswap_sys::populate::{Populate, populate};
use uzswap_sys::proc_mem::ProcMem;
use uzswap_sys::signal::{Context, SEGV_ACCERR, SIGBUS, SignalInfo};
use uzswap_sys::thread::{page_align, syscall_of_program};
use uzswap_sys::{AsFd, Errno};

use super::mmap::{self, SYS_MPROTECT, SYS_PKEY_MPROTECT};
use super::mremap::{MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, SYS_MREMAP};
use super::order::InOrder;
use crate::fault::inline::{self, TRIES};
use crate::guard;
use crate::guard::{ADDRESSES, deliver};
use crate::machine::{AgentMachine, stop};
use crate::pager::mailbox::mail;
use crate::pager::{self, Pager};

const SYS_MUNLOCK: usize = 150;
const SYS_MUNLOCKALL: usize = 152;
const SYS_MSEAL: usize = 462;
/// PROT_READ, PROT_WRITE and PROT_EXEC; PROT_SEM, which says nothing.
const PROT_ALL: usize = 7;
const PROT_SEM: usize = 8;

/// Calls that are seen for this.
pub(crate) const CALLS: [usize; 7] = [
    SYS_MPROTECT,
    SYS_PKEY_MPROTECT,
    SYS_MLOCK,
    SYS_MLOCK2,
    SYS_MUNLOCK,
    SYS_MUNLOCKALL,
    SYS_MSEAL,
];

/// How long a thread sleeps that waits for its event to be read, before it has kswapd wake the
/// fault thread.
const SLICE_NS: u64 = 10_000_000;

/// All memory of the program is locked, or will be: none leaves.
static LOCKS_ALL: AtomicBool = AtomicBool::new(false);
/// The program has locked some of what was under our care.
static HAS_LOCKED: AtomicBool = AtomicBool::new(false);

impl AgentMachine {
    /// `move_out`: pages are copied once nobody can write to them any more.
    pub(crate) fn close_run(&self, memory: &ProcMem, vpn: Vpn, slot: u32, pages: u32) -> Done {
        if LOCKS_ALL.load(Ordering::Relaxed) {
            return Done::none(Stop::Unmovable);
        }
        let (addr, offset) = (vpn.addr(), slot as usize * PAGE_SIZE);
        let take = || {
            let filling = Filling::begin()?;
            let len = closed::close(&filling, addr, pages as usize * PAGE_SIZE)?;
            let copied = self.staging().fill(offset, len, memory, addr) / PAGE_SIZE * PAGE_SIZE;
            closed::give_back(&filling, addr + copied, len - copied);
            closed::note_faults(copied / PAGE_SIZE);
            let staged = self.staging().bytes(offset, copied);
            match closed::drop_closed(self.managed().as_fd(), &filling, addr, staged) {
                Ok(()) => Ok(copied),
                Err(errno) => {
                    self.discard_slots(slot, (copied / PAGE_SIZE) as u32);
                    Err(errno)
                }
            }
        };
        match take() {
            Ok(0) => Done::none(Stop::Missing),
            Ok(bytes) => Done::all((bytes / PAGE_SIZE) as u32),
            Err(errno) => Done::none(stop(errno)),
        }
    }
}

/// SIGSEGV. In a thread of the program, all signals blocked but SIGSYS.
pub(crate) extern "C" fn on_access_error(signal: i32, info: &SignalInfo, context: &mut Context) {
    let addr = info.address() & !(PAGE_SIZE - 1);
    let touched = match info.code() {
        SEGV_ACCERR => closed::touched(addr, context.wanted()),
        _ => Touched::Other,
    };
    let is_ours = match touched {
        Touched::Other => false,
        Touched::Lost => return deliver::hand_on(SIGBUS, info, context),
        Touched::Closed => pager::inherited().is_some_and(|pager| inline::serve(pager, addr, context)),
        Touched::Open => is_back(addr, context),
    };
    if !is_ours {
        deliver::hand_on(signal, info, context);
    }
}

/// A page that is not closed: it was opened since, or moves at this moment with its mapping.
fn is_back(addr: usize, context: &Context) -> bool {
    let again = context.own().map_or(TRIES, |own| inline::count(own, addr));
    if closed::is_changing() {
        core::hint::spin_loop();
        return true;
    }
    // Perhaps it is a guard of the program's.
    let access = context.wanted();
    again < TRIES
        || populate(addr, PAGE_SIZE, access == Access::Write) == Populate::There
        || closed::touched(addr, access) != Touched::Open
}

/// All memory is locked.
pub(crate) fn note_all_locked() {
    LOCKS_ALL.store(true, Ordering::Relaxed);
}

/// In a forked child, whose pager stands if it has one: no lock is inherited.
pub(crate) fn unlock_in_child() {
    LOCKS_ALL.store(false, Ordering::Relaxed);
    if HAS_LOCKED.swap(false, Ordering::Relaxed) {
        unlock_all();
    }
}

/// The pager that has any of `[start, end)` under its care.
fn holder(start: usize, end: usize) -> Option<&'static Pager> {
    let end = end.min(ADDRESSES);
    let may_hold = closed::is_on() && start < end;
    pager::inherited().filter(|_| may_hold && closed::holds_any(start & !(PAGE_SIZE - 1), end))
}

fn wait_until_read(pager: &Pager, posted: &Posted) {
    pager.mm.machine().ring();
    while !posted.is_read_within(SLICE_NS) {
        if pager.has_let_go() {
            return;
        }
        pager.post.mail.post(mail::RING);
        inline::stop_if_alone();
    }
}

/// A call that unmaps `[start, end)`, or puts something else there.
///
/// # Errors
/// What it answers; nothing was unmapped then.
pub(crate) fn unmap(start: usize, end: usize, call: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let Some(pager) = holder(start, end).filter(|_| start.is_multiple_of(PAGE_SIZE)) else {
        return call();
    };
    let _stack = guard::hold_stack();
    let changing = Changing::begin();
    let result = call()?;
    closed::forget(start, end);
    wait_until_read(pager, &closed::post_unmap(&changing, start, end));
    Ok(result)
}

/// A call that drops what is in `[start, start + len)`.
///
/// # Errors
/// What it answers. ENOMEM: what is mapped there was dropped.
pub(crate) fn drop(start: usize, len: usize, call: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let end = start.saturating_add(page_align(len)).min(ADDRESSES);
    let Some(pager) = holder(start, end).filter(|_| start.is_multiple_of(PAGE_SIZE)) else {
        return call();
    };
    let _stack = guard::hold_stack();
    let changing = Changing::begin();
    closed::begin_drop(&changing, start, end);
    let result = call();
    let is_done = matches!(result, Ok(_) | Err(Errno::NOMEM));
    closed::end_drop(&changing, start, end, is_done);
    if is_done {
        wait_until_read(pager, &closed::post_remove(&changing, start, end));
    }
    result
}

/// One of [`CALLS`].
pub(crate) fn make(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let [start, len, ..] = args;
    match number {
        SYS_MPROTECT | SYS_PKEY_MPROTECT => {
            let changed = protect(number, args);
            mmap::note_protected(args, &changed);
            changed
        }
        // As before Linux 6.10: what is closed could never be opened.
        SYS_MSEAL => Err(Errno::NOSYS),
        SYS_MUNLOCKALL => {
            // SAFETY: exactly the call that the program makes.
            let unlocked = unsafe { syscall_of_program(number, args) };
            if unlocked.is_ok() {
                LOCKS_ALL.store(false, Ordering::Relaxed);
                unlock_all();
            }
            unlocked
        }
        _ => {
            // SAFETY: as above; what it reaches is brought, and stays until it is locked.
            let locked = unsafe { guard::make(number, args) };
            let start = start & !(PAGE_SIZE - 1);
            let end = page_align(start.saturating_add(len)).max(start);
            let (_turn, _stack) = (InOrder::begin(), guard::hold_stack());
            if locked.is_ok() && holder(start, end).is_some() {
                HAS_LOCKED.store(true, Ordering::Relaxed);
                closed::note_locked(&Changing::begin(), start, end, number != SYS_MUNLOCK);
            }
            locked
        }
    }
}

fn unlock_all() {
    let (_turn, _stack) = (InOrder::begin(), guard::hold_stack());
    let changing = Changing::begin();
    if let Ok(maps) = Maps::of_program() {
        let _ = maps.for_each(|vma| {
            if holder(vma.start, vma.end).is_some() {
                closed::note_locked(&changing, vma.start, vma.end, false);
            }
        });
    }
}

/// mprotect(2), pkey_mprotect(2).
fn protect(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let [start, len, prot, key, ..] = args;
    // SAFETY: the call that the program makes, or a part of it.
    let call = |start, len, prot| unsafe { syscall_of_program(number, [start, len, prot, key, 0, 0]) };
    let end = start.saturating_add(page_align(len)).min(ADDRESSES);
    let is_plain = prot & !(PROT_ALL | PROT_SEM) == 0 && start.is_multiple_of(PAGE_SIZE);
    if !is_plain {
        return call(start, len, prot);
    }
    // Held over the kernel's call as well where nothing is ours: who takes it under our care has
    // looked what may be accessed there, and would undo this.
    let (_turn, _stack) = (InOrder::begin(), guard::hold_stack());
    if holder(start, end).is_none() {
        return call(start, len, prot);
    }
    let changing = Changing::begin();
    closed::change_access(&changing, start, end, prot, |from, to, prot| {
        call(from, to - from, prot).map(drop_value)
    })?;
    Ok(0)
}

fn drop_value(_: usize) {}

/// mremap(2) of what may be closed in parts: for the kernel it is one mapping while it moves.
/// `None`: nothing of it is ours.
pub(crate) fn remap(args: [usize; 6], call: impl Fn() -> Result<usize, Errno>) -> Option<Result<usize, Errno>> {
    let [from, old, new, flags, new_addr, _] = args;
    let (old, new) = (page_align(old), page_align(new));
    let covered = (flags & MREMAP_FIXED as usize != 0).then_some((new_addr, new_addr.saturating_add(new)));
    let Some(pager) = holder(from, from.saturating_add(old)) else {
        return covered.map(|(start, end)| unmap(start, end, call));
    };
    let is_sound = from.is_multiple_of(PAGE_SIZE) && old > 0 && new > 0;
    let goes = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) as usize != 0;
    if is_sound && !goes && new < old {
        // Nothing moves, and what stays need not be all of it memory.
        return Some(unmap(from.saturating_add(new), from.saturating_add(old), call));
    }
    let Some(maps) = Maps::of_program().ok().filter(|_| is_sound) else {
        // Without /proc, or a descriptor for anybody, it cannot be told what is one mapping.
        return is_sound.then_some(Err(Errno::NOMEM));
    };
    let keeps = flags & MREMAP_DONTUNMAP as usize != 0;
    let _stack = guard::hold_stack();
    let changing = Changing::begin();
    // What is one stays as it is, as calls under way may use it; but not what stays behind, empty:
    // whoever touches that has to be seen.
    let vma = maps.at_or_after(from).ok().flatten();
    let is_joined = keeps || !vma.is_some_and(|vma| vma.start <= from && from + old <= vma.end);
    if is_joined && closed::join(&changing, &maps, from, from + old).is_err() {
        // Some of it is no memory: the kernel says what is wrong. From Linux 6.17 on it would move
        // what is.
        return covered.map(|_| Err(Errno::FAULT));
    }
    // What a fork has copied in parts stays so for the kernel.
    let made = match call() {
        Err(Errno::FAULT) => move_parts(&maps, args, old, new),
        made => made,
    };
    let to = match made {
        Ok(to) => to,
        Err(errno) => {
            if is_joined {
                closed::part(from, from + old);
            }
            return Some(Err(errno));
        }
    };
    if let Some((start, end)) = covered.filter(|(start, end)| holder(*start, *end).is_some()) {
        closed::forget(start, end);
        wait_until_read(pager, &closed::post_unmap(&changing, start, end));
    }
    closed::moved(&changing, (from, old), (to, new), keeps, is_joined);
    if to != from {
        wait_until_read(pager, &closed::post_remap(&changing, from, to, old.min(new)));
        if !keeps {
            wait_until_read(pager, &closed::post_unmap(&changing, from, from + old));
        }
    }
    Some(Ok(to))
}

/// mremap of several mappings that are one for the program, and alike.
///
/// # Errors
/// What it answers; all is where it was then.
fn move_parts(maps: &Maps, args: [usize; 6], old: usize, new: usize) -> Result<usize, Errno> {
    let [from, _, _, flags, new_addr, _] = args;
    let (is_fixed, keeps) = (flags & MREMAP_FIXED as usize != 0, flags & MREMAP_DONTUNMAP as usize);
    // SAFETY: a part of the call that the program makes.
    let mremap = |from, old, new, flags, to| unsafe { syscall_of_program(SYS_MREMAP, [from, old, new, flags, to, 0]) };
    if new > old && !is_fixed && keeps == 0 {
        let last = maps.at_or_after(from + old - PAGE_SIZE).ok().flatten();
        let start = last.map_or(from, |vma| vma.start.max(from));
        let len = from + old - start;
        if mremap(start, len, len + new - old, 0, 0).is_ok() {
            return Ok(from);
        }
    }
    if flags & MREMAP_MAYMOVE as usize == 0 {
        return Err(Errno::NOMEM);
    }
    let to = if is_fixed { new_addr } else { mmap::reserve(new)? };
    let (kept, moves) = (old.min(new), (MREMAP_MAYMOVE | MREMAP_FIXED) as usize);
    let mut moved = 0;
    let result = for_each_part(maps, from, from + kept, |start, len| {
        let offset = start - from;
        let grown = if offset + len == kept { new - offset } else { len };
        mremap(start, len, grown, moves | keeps, to + offset)?;
        moved = offset + len;
        Ok(())
    });
    let Err(errno) = result else { return Ok(to) };
    let undone = for_each_part(maps, to, to + moved, |start, len| {
        mremap(start, len, len, moves, from + (start - to)).map(drop_value)
    });
    match undone {
        Ok(()) => Err(errno),
        Err(errno) => panic!("memory that was moved cannot be moved back: {errno}"),
    }
}

/// Call `f` with the start and the length of each mapping of `[start, end)`, as far as it lies in
/// there.
fn for_each_part(
    maps: &Maps,
    start: usize,
    end: usize,
    mut f: impl FnMut(usize, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut at = start;
    while at < end {
        let vma = maps.at_or_after(at).ok().flatten();
        let vma = vma.filter(|vma| vma.start <= at).ok_or(Errno::FAULT)?;
        let limit = vma.end.min(end);
        f(at, limit - at)?;
        at = limit;
    }
    Ok(())
}
