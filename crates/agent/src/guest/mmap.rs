//! What is done around a system call that changes mappings: the same call, plus what the pager
//! needs. They come from the replaced wrappers ([`crate::guest::hook`]) and, where calls are
//! guarded, from all code of the program ([`crate::guard`]).

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::thread::{page_align, syscall};
use uzswap_sys::{Errno, vdso};

use super::order::InOrder;
use super::stacks::{StackChange, Undisturbed};
use super::{closed, mapped, small, vma};
use crate::memcg::deferral;
use crate::{guard, pager};

pub(crate) const SYS_MMAP: usize = 9;
pub(crate) const SYS_MUNMAP: usize = 11;
pub(crate) const SYS_MREMAP: usize = 25;
pub(crate) const SYS_MADVISE: usize = 28;
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
pub(crate) const MREMAP_MAYMOVE: c_int = 1;
pub(crate) const MREMAP_FIXED: c_int = 2;
pub(crate) const MREMAP_DONTUNMAP: c_int = 4;

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
    let is_populated = flags & MAP_POPULATE != 0 && is_ours(len, prot, flags);
    if is_populated {
        args[3] &= !(MAP_POPULATE as usize);
    }
    if flags & MAP_FIXED != 0 {
        vdso::note_unmapped(addr, len);
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
    let call = || unsafe { syscall(SYS_MMAP, args) };
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

/// munmap(2).
pub(crate) fn munmap(start: usize, len: usize) -> Result<usize, Errno> {
    let _turn = InOrder::begin();
    let change = StackChange::begin();
    vdso::note_unmapped(start, len);
    let unmapped = change.lift(start, len);
    // SAFETY: exactly the call that the program makes.
    let call = || unsafe { syscall(SYS_MUNMAP, [start, len, 0, 0, 0, 0]) };
    let result = closed::unmap(start, start.saturating_add(page_align(len)), call);
    match result {
        Ok(_) if len < vma::MIN_BYTES => small::note_unmapped(page_align(len)),
        Ok(_) => {}
        Err(_) => change.restore(&unmapped),
    }
    result
}

/// The address that is moved from by an mremap which leaves its mapping behind; 0: none is under
/// way.
static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// Until the call is over.
struct Kept(bool);

impl Drop for Kept {
    fn drop(&mut self) {
        if self.0 {
            KEEPING.store(0, Ordering::SeqCst);
        }
    }
}

/// Whether what is moved from `addr` at this moment leaves its mapping behind.
pub(crate) fn is_keeping(addr: usize) -> bool {
    addr != 0 && KEEPING.load(Ordering::SeqCst) == addr
}

/// Pieces of one mapping at most that are moved one by one.
const PIECES: usize = 64;
/// How often what is one mapping and then several is looked at again.
const LOOKS: usize = 8;

/// Whether `[start, end)` is several mappings for the kernel, if that can be told.
fn is_several(start: usize, end: usize) -> bool {
    let vma = ProcSelf::open()
        .ok()
        .and_then(|proc| proc.vma_at_or_after(start).ok().flatten());
    vma.is_some_and(|vma| vma.start <= start && vma.end < end)
}

/// Where each of the mappings ends that a range is for the kernel. They touch, and may be used in
/// the same way: one mapping for the program. The kernel does not join what was registered, or
/// copied by a fork, at another time.
struct Pieces {
    ends: [usize; PIECES],
    count: usize,
}

impl Pieces {
    /// Those of the `len` bytes from `start`, as they are now.
    ///
    /// # Errors
    /// EFAULT: it is one mapping, or not one for the program, or cannot be told (no /proc, no
    /// descriptor left).
    fn of(start: usize, len: usize) -> Result<Self, Errno> {
        let end = start.checked_add(len).ok_or(Errno::FAULT)?;
        let proc = ProcSelf::open().map_err(|_| Errno::FAULT)?;
        let (mut ends, mut count, mut at) = ([0; PIECES], 0, start);
        let mut first = None;
        while at < end {
            let vma = proc
                .vma_at_or_after(at)
                .ok()
                .flatten()
                .filter(|vma| vma.start <= at)
                .ok_or(Errno::FAULT)?;
            let is_alike = vma.is_private_anonymous() && first.get_or_insert(vma).is_used_as(&vma);
            if !is_alike || count == PIECES {
                return Err(Errno::FAULT);
            }
            at = vma.end.min(end);
            ends[count] = at;
            count += 1;
        }
        if count < 2 {
            return Err(Errno::FAULT);
        }
        Ok(Self { ends, count })
    }

    fn ends(&self) -> &[usize] {
        &self.ends[..self.count]
    }
}

/// Make what is several mappings for the kernel, and one for the program, longer where it is.
///
/// # Errors
/// As [`Pieces::of`]; what mremap answers. Nothing was done then.
fn grow_pieces(addr: usize, old_len: usize, new_len: usize) -> Result<usize, Errno> {
    let (old_len, new_len) = (page_align(old_len), page_align(new_len));
    let pieces = Pieces::of(addr, old_len)?;
    let before = pieces.ends()[pieces.count - 2] - addr;
    mremap(addr + before, old_len - before, new_len - before, 0, 0).map(|_| addr)
}

/// Move what is several mappings for the kernel, and one for the program.
///
/// # Errors
/// As [`Pieces::of`], and nothing was done. What mmap and mremap answer; all is where it was then.
fn move_pieces(addr: usize, old_len: usize, new_len: usize, to: Option<usize>, keeps: bool) -> Result<usize, Errno> {
    let (old_len, new_len) = (page_align(old_len), page_align(new_len));
    // One turn for all: a fork's child finds none or all of it moved.
    let _turn = InOrder::begin();
    let pieces = Pieces::of(addr, old_len.min(new_len))?;
    let ends = pieces.ends();
    // Before anything goes.
    let to = match to {
        Some(to) => to,
        None => reserve(new_len)?,
    };
    if new_len < old_len {
        munmap(addr + new_len, old_len - new_len)?;
    }
    let fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
    for (n, end) in ends.iter().enumerate() {
        let start = if n == 0 { addr } else { ends[n - 1] };
        let place = to + (start - addr);
        let grown = if n + 1 == ends.len() {
            to + new_len - place
        } else {
            end - start
        };
        let flags = if keeps { fixed | MREMAP_DONTUNMAP } else { fixed };
        if let Err(errno) = mremap(start, end - start, grown, flags, place) {
            for (back, end) in ends[..n].iter().enumerate() {
                let start = if back == 0 { addr } else { ends[back - 1] };
                let _ = mremap(to + (start - addr), end - start, end - start, fixed, start);
            }
            return Err(errno);
        }
    }
    Ok(to)
}

/// Address space that nothing else is put into.
pub(crate) fn reserve(len: usize) -> Result<usize, Errno> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a fresh mapping, at an address of the kernel's choice.
    unsafe { syscall(SYS_MMAP, [0, len, 0, flags as usize, usize::MAX, 0]) }
}

/// mremap(2). `new_addr` is whatever the register held if none was passed.
pub(crate) fn mremap(
    addr: usize,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new_addr: usize,
) -> Result<usize, Errno> {
    vdso::note_unmapped(addr, old_len);
    if flags & MREMAP_FIXED != 0 {
        vdso::note_unmapped(new_addr, new_len);
    }
    // Before Linux 6.15 the event of a move that shrinks says the length from before, so the tail
    // goes first, as in the kernel. Only if nothing else is wrong with the call.
    let is_aligned = (addr | new_addr | old_len | new_len).is_multiple_of(PAGE_SIZE);
    let is_apart = (addr).abs_diff(new_addr) >= old_len;
    let shrinks = flags == MREMAP_MAYMOVE | MREMAP_FIXED && 0 < new_len && new_len < old_len && is_aligned && is_apart;
    if shrinks && pager::active().is_some() {
        // No fork comes in between.
        let _turn = InOrder::begin();
        munmap(addr + new_len, old_len - new_len)?;
        return mremap(addr, new_len, new_len, flags, new_addr);
    }
    let args = [addr, old_len, new_len, flags as usize, new_addr, 0];
    let keeps = flags & MREMAP_DONTUNMAP != 0;
    let is_fixed = flags & MREMAP_FIXED != 0;
    // `None`: it would be refused, half-way perhaps.
    let call = |is_one: bool| {
        let _turn = InOrder::begin();
        // No scan registers a part of it before the call: that needs a turn as well.
        if is_one && is_several(addr, addr + old_len.min(new_len)) {
            return None;
        }
        let stacks = StackChange::begin();
        let moving = stacks.lift(addr, old_len);
        let covered = is_fixed.then(|| stacks.lift(new_addr, new_len));
        // The event is read before the call returns.
        KEEPING.store(if keeps { addr } else { 0 }, Ordering::SeqCst);
        let _done = Kept(keeps);
        // SAFETY: exactly the call that the program makes. `new_addr` is whatever the register held
        // if it passed none; the kernel looks at it only with MREMAP_FIXED or MREMAP_DONTUNMAP,
        // which take it.
        let make = || unsafe { syscall(SYS_MREMAP, args) };
        let result = closed::remap(args, make).unwrap_or_else(make);
        if let Ok(start) = result {
            // Whatever was recorded of a place where nothing was.
            stacks.remove(start, new_len);
            stacks.put(&moving, start, page_align(new_len));
        } else if let Some(covered) = &covered {
            stacks.restore(covered);
        }
        if keeps || result.is_err() {
            stacks.restore(&moving);
        }
        Some(result)
    };
    let move_whole = || call(false).unwrap_or(Err(Errno::FAULT));
    if let (true, Some(pager)) = (is_fixed && deferral::has_unseen(), pager::active()) {
        // What is two mappings only because a part is not registered yet would be refused, perhaps
        // after the target was unmapped.
        pager.request_scan();
    }
    // From Linux 6.17 on the kernel moves the first of several before it refuses the next.
    let is_far = addr.abs_diff(new_addr) >= old_len.max(new_len);
    let is_move = match keeps {
        true => flags == MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP && old_len == new_len,
        false => flags == MREMAP_MAYMOVE | MREMAP_FIXED,
    };
    let may_be_several =
        is_move && !uzswap_sys::closed::is_on() && is_aligned && is_far && new_len > 0 && pager::active().is_some();
    let mut moved = None;
    for _ in 0..if may_be_several { LOOKS } else { 0 } {
        moved = match move_pieces(addr, old_len, new_len, Some(new_addr), keeps) {
            Err(Errno::FAULT) => call(true),
            moved => return moved,
        };
        if moved.is_some() {
            break;
        }
    }
    let mut result = moved.unwrap_or_else(move_whole);
    if let (Err(Errno::FAULT), false, Some(pager)) = (result, is_fixed, pager::active()) {
        // The same; but nothing was unmapped, so it may be tried again.
        mapped::miss();
        pager.request_scan();
        result = move_whole();
    }
    // What the kernel keeps apart all the same, as it was touched meanwhile.
    if result == Err(Errno::FAULT) && pager::active().is_some() {
        let grows = flags & !MREMAP_MAYMOVE == 0 && new_len > old_len;
        if grows {
            result = grow_pieces(addr, old_len, new_len);
        }
        let goes_anywhere = flags == MREMAP_MAYMOVE || keeps && !is_fixed && old_len == new_len;
        if result.is_err() && goes_anywhere {
            result = move_pieces(addr, old_len, new_len, None, keeps);
        }
    }
    let start = result?;
    guard::note_grown(start, start + page_align(new_len));
    if new_len > old_len {
        deferral::note_growth(start + old_len, new_len - old_len, true);
    }
    Ok(start)
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
    let advise = |advice: c_int| unsafe { syscall(SYS_MADVISE, [addr, len, advice as usize, 0, 0, 0]) };
    let result = advise(advice);
    // Also where a part was not mapped: it was done to the others.
    let is_done = matches!(result, Ok(_) | Err(Errno::NOMEM));
    if matches!(advice, MADV_FREE | MADV_GUARD_INSTALL) && is_done && pager::active().is_some() {
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
