//! mlockall: the program's memory is locked, and ours is not. Of that most is reserved alone, and
//! the kernel would fill it: 16 GiB for the heap, and the staging range, waiting for pages that
//! nobody gives.

use uzswap_sys::maps::Maps;
use uzswap_sys::mlock::{lock, lock_all as call, most_locked};
use uzswap_sys::{Errno, mapping};

use super::closed;
use crate::guard;
use crate::pager::early;

const MCL_CURRENT: usize = 1;
const MCL_FUTURE: usize = 2;
const MCL_ONFAULT: usize = 4;

/// The call, with these flags. In a thread of the program.
///
/// # Errors
/// What the kernel answers, as if nothing of ours was there.
pub(crate) fn lock_all(flags: usize) -> Result<(), Errno> {
    let _stack = guard::hold_stack();
    let most = most_locked();
    if flags & MCL_FUTURE != 0 && most.is_some() && !guard::exec::is_filtered() {
        // What a pager maps as it starts counts against RLIMIT_MEMLOCK afterwards.
        early::activate(|missing| missing);
    }
    // Without filling anything at first.
    match (call(flags | MCL_ONFAULT), most) {
        (Ok(()), _) => mapping::own::unlock(),
        // The kernel has counted what we have reserved.
        (Err(Errno::NOMEM), Some(most)) if flags & MCL_CURRENT != 0 && mapped()? <= most => {
            if flags & MCL_FUTURE != 0 {
                call(flags & !MCL_CURRENT)?;
            }
            lock_each(flags)?;
            closed::note_all_locked();
            return Ok(());
        }
        (result, _) => return result,
    }
    if flags & MCL_ONFAULT == 0 {
        if flags & MCL_CURRENT != 0 {
            lock_each(flags)?;
        }
        if flags & MCL_FUTURE != 0 {
            call(MCL_FUTURE)?;
        }
    }
    closed::note_all_locked();
    Ok(())
}

/// Bytes that are mapped and not ours.
fn mapped() -> Result<u64, Errno> {
    let mut bytes = 0;
    for_each(|start, end| bytes += (end - start) as u64)?;
    Ok(bytes)
}

/// As mlockall does, which passes over what cannot be locked or filled.
fn lock_each(flags: usize) -> Result<(), Errno> {
    for_each(|start, end| {
        let _ = lock(start, end, flags & MCL_ONFAULT != 0);
    })
}

/// Each mapping that is not ours. ENOMEM, as mlockall answers: they cannot be read.
fn for_each(mut then: impl FnMut(usize, usize)) -> Result<(), Errno> {
    let maps = Maps::of_program().map_err(|_| Errno::NOMEM)?;
    let mut at = 0;
    while let Some(vma) = maps.at_or_after(at).map_err(|_| Errno::NOMEM)? {
        at = vma.end;
        if !mapping::own::overlaps(vma.start, vma.end) {
            then(vma.start, vma.end);
        }
    }
    Ok(())
}
