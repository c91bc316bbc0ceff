//! Calls about the program's own memory that are made otherwise than it makes them.

use uzswap_sys::guard::Call;
use uzswap_sys::mlock::{SYS_MLOCK, SYS_MLOCK2};
use uzswap_sys::{Errno, closed, thread};

use super::{ADDRESSES, exec, is_on, pieces};
use crate::guest::mmap::{self, SYS_PROCESS_MADVISE};
use crate::guest::order::InOrder;

/// mlock(2) and mlock2(2).
pub(super) const LOCKS: [usize; 2] = [SYS_MLOCK, SYS_MLOCK2];
const MLOCK_ONFAULT: usize = 1;

/// MADV_POPULATE_READ, MADV_POPULATE_WRITE.
const POPULATING: [usize; 2] = [22, 23];

/// Make a madvise that populates memory. `None`: this one does not.
pub(crate) fn populate(start: usize, len: usize, advice: usize) -> Option<Result<(), Errno>> {
    (is_on() && POPULATING.contains(&advice)).then(|| pieces::populate(start, len, advice))
}

/// MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, MADV_COLLAPSE: what a process may advise another.
const FOR_OTHERS: [usize; 4] = [3, 20, 21, 25];

/// Before memory is locked, which brings all of it: whether the kernel would, as it looks at
/// RLIMIT_MEMLOCK and at what is mapped first. `Some`: what the call answers. What is locked only
/// as it comes is not brought.
pub(super) fn before_lock(call: &Call) -> Option<Result<usize, Errno>> {
    let [start, len, flags, ..] = call.args;
    let is_on_fault = call.number == SYS_MLOCK2 && flags == MLOCK_ONFAULT;
    let is_known = is_on_fault || call.number == SYS_MLOCK || flags == 0;
    // A filter may let the one call pass and not the other.
    if !is_known || exec::is_filtered() {
        return None;
    }
    let _turn = InOrder::begin();
    // SAFETY: a part of what the program's own call does, which changes no contents.
    match unsafe { thread::syscall_of_program(SYS_MLOCK2, [start, len, MLOCK_ONFAULT, 0, 0, 0]) } {
        Err(Errno::NOSYS) => None,
        // What is closed is made ready for that as well.
        Ok(_) if !is_on_fault || closed::is_on() => None,
        result => Some(result),
    }
}

/// process_madvise(2). What only a process itself may be advised is madvise(2), which is more than
/// that call here.
pub(super) fn process_madvise(args: [usize; 6]) -> Result<usize, Errno> {
    let [process, list, count, advice, flags, _] = args;
    if FOR_OTHERS.contains(&advice) {
        // Of its own memory, perhaps.
        let _turn = InOrder::begin();
        // SAFETY: exactly the call that the program makes.
        return unsafe { super::make(SYS_PROCESS_MADVISE, args) };
    }
    // Of nothing: whether it is its own process, and may be advised so.
    // SAFETY: it advises nothing.
    unsafe { thread::syscall_of_program(SYS_PROCESS_MADVISE, [process, list, 0, advice, flags, 0]) }?;
    if count > pieces::VECTORS_MAX {
        return Err(Errno::INVAL);
    }
    let mut total = 0_usize;
    for n in 0..count {
        // The kernel reads all of the list first.
        let (start, len) = pieces::vector(list, n).ok_or(Errno::FAULT)?;
        if len > isize::MAX as usize {
            return Err(Errno::INVAL);
        }
        if start.checked_add(len).is_none_or(|end| end > ADDRESSES) {
            return Err(Errno::FAULT);
        }
        total = total.saturating_add(len);
    }
    if total == 0 {
        return Ok(0);
    }
    let mut advised = 0;
    for n in 0..count {
        let (start, len) = pieces::vector(list, n).ok_or(Errno::FAULT)?;
        let len = len.min(pieces::MAX_RW_COUNT - advised);
        match mmap::madvise(start, len, advice as i32) {
            Ok(_) => advised += len,
            Err(errno) if advised == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(advised)
}
