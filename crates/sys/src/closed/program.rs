//! What the program does with memory that may be closed.

use rustix::io::{Errno, Result};

use super::{
    ACCESS, CLOSED, Changing, DROPPING, LOCKED, LOST, READ, REGISTERED, access_of, count_borders, forget, open_again,
    protect, replace, runs, states,
};
use crate::PAGE_SIZE;
use crate::procfs::{ProcSelf, Vma};

/// As mprotect, of memory that may be closed: `call` makes it for what is open.
///
/// # Errors
/// What it answers; as for the kernel, what lies before that is changed.
pub fn change_access(
    _: &Changing,
    start: usize,
    end: usize,
    prot: usize,
    mut call: impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let access = prot as u8 & 7;
    // PROT_READ, PROT_WRITE, PROT_EXEC, in that order.
    let access = access * READ;
    runs(start, end, REGISTERED | CLOSED, |from, to, bits| {
        match bits & CLOSED {
            // Whether it is mapped.
            CLOSED => protect(from, to, 0)?,
            _ => call(from, to)?,
        }
        if bits & REGISTERED != 0 {
            states::update(from, to, |state| state & !ACCESS | access);
        }
        Ok(())
    })
}

/// What is under our care of `[start, end)` is about to be dropped: it is closed.
pub fn begin_drop(_: &Changing, start: usize, end: usize) {
    let _ = runs(start, end, REGISTERED | CLOSED, |from, to, bits| {
        if bits == REGISTERED {
            count_borders(from, to);
            states::update(from, to, |state| state | CLOSED | DROPPING);
            if protect(from, to, 0).is_err() {
                // Too many mappings: it stays open, and is nobody's to reclaim.
                let _ = protect(from, to, states::get(from) & ACCESS);
                states::update(from, to, |state| state & !(CLOSED | DROPPING));
            }
        }
        Ok(())
    });
}

/// It was dropped if `is_done`, else it is as it was.
pub fn end_drop(_: &Changing, start: usize, end: usize, is_done: bool) {
    let _ = runs(start, end, DROPPING, |from, to, bits| {
        if bits != 0 {
            states::update(from, to, |state| state & !DROPPING);
            if !is_done {
                open_again(from, to);
            }
        }
        Ok(())
    });
    if is_done {
        states::update(start, end, |state| state & !LOST);
    }
}

/// The program has locked what is mapped in `[start, end)`, or unlocked it.
pub fn note_locked(_: &Changing, start: usize, end: usize, is_locked: bool) {
    states::update(start, end, |state| match state & REGISTERED != 0 && is_locked {
        true => state | LOCKED,
        false => state & !LOCKED,
    });
}

/// Make one mapping of `[start, end)` for the kernel, as it is for the program. What of it is not
/// under our care yet is noted, open. Undone by [`part`].
///
/// # Errors
/// EINVAL: there is something else in it, and nothing was done. ENOMEM: too many mappings.
pub fn join(_: &Changing, proc: &ProcSelf, start: usize, end: usize) -> Result<()> {
    let mut at = start;
    while at < end {
        let vma = proc.vma_at_or_after(at)?.filter(|vma| vma.start <= at);
        let vma = vma.filter(Vma::is_private_anonymous).ok_or(Errno::INVAL)?;
        let to = vma.end.min(end);
        let access = access_of(&vma);
        runs(at, to, REGISTERED, |from, to, bits| {
            if bits == 0 {
                states::update(from, to, |_| REGISTERED | access);
            }
            Ok(())
        })?;
        at = to;
    }
    protect(start, end, 0).inspect_err(|_| part(start, end))
}

/// What is open of `[start, end)` can be accessed again.
pub fn part(start: usize, end: usize) {
    let parted = runs(start, end, REGISTERED | CLOSED | ACCESS, |from, to, bits| {
        match bits & (REGISTERED | CLOSED) {
            REGISTERED => protect(from, to, bits & ACCESS),
            _ => Ok(()),
        }
    });
    if let Err(errno) = parted {
        panic!("memory that was closed cannot be opened: {errno}");
    }
}

/// What was joined at `from` lies at `to` now, and has `new` bytes instead of `old`. Where it
/// `stays` mapped at `from` as well, nothing is there any more.
pub fn moved(_: &Changing, from: usize, old: usize, to: usize, new: usize, stays: bool) {
    let grown = states::get(from + old - PAGE_SIZE) & !(LOST | DROPPING) | REGISTERED | CLOSED;
    if to != from {
        // Apart, as the kernel wants it.
        replace(to, to + new, || {
            let _ = runs(from, from + old.min(new), u8::MAX, |start, end, state| {
                states::update(to + (start - from), to + (end - from), |_| state);
                Ok(())
            });
        });
        replace(from, from + old, || {
            states::update(from, from + old, |state| match stays {
                true => state & !(LOST | DROPPING) | CLOSED,
                false => 0,
            });
        });
    } else if new < old {
        forget(to + new, to + old);
    }
    if new > old {
        replace(to + old, to + new, || states::update(to + old, to + new, |_| grown));
    }
    part(to, to + new);
}
