//! What the program does with memory that may be closed.

use rustix::io::{Errno, Result};

use super::{
    ACCESS, CLOSED, Changing, DROPPING, LOCKED, LOST, READ, REGISTERED, access_of, count_borders, forget, open_again,
    protect, replace, runs, states, until_there_is_room,
};
use crate::PAGE_SIZE;
use crate::maps::{Maps, Vma};

/// As mprotect, of memory that may be closed: `call` makes it, for what is closed without any
/// access.
///
/// # Errors
/// What it answers; as for the kernel, what lies before that is changed.
pub fn change_access(
    _: &Changing,
    start: usize,
    end: usize,
    prot: usize,
    mut call: impl FnMut(usize, usize, usize) -> Result<()>,
) -> Result<()> {
    let access = prot as u8 & 7;
    // PROT_READ, PROT_WRITE, PROT_EXEC, in that order.
    let access = access * READ;
    runs(start, end, REGISTERED | CLOSED, |from, to, bits| {
        // Whether it is mapped, and what else is wrong.
        call(from, to, if bits & CLOSED != 0 { 0 } else { prot })?;
        if bits & REGISTERED != 0 {
            states::update(from, to, |state| state & !ACCESS | access);
        }
        Ok(())
    })
}

/// What is under our care of `[start, end)` is about to be dropped: it is closed.
pub fn begin_drop(_: &Changing, start: usize, end: usize) {
    let _ = runs(start, end, REGISTERED | CLOSED | ACCESS, |from, to, bits| {
        if bits & (REGISTERED | CLOSED) == REGISTERED {
            count_borders(from, to);
            states::update(from, to, |state| state | CLOSED | DROPPING);
            if protect(from, to, 0).is_err() {
                // Too many mappings: it stays open, and is nobody's to reclaim.
                states::update(from, to, |state| state & !DROPPING);
                open_again(from, to);
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
pub fn join(_: &Changing, maps: &Maps, start: usize, end: usize) -> Result<()> {
    let mut at = start;
    while at < end {
        let vma = maps.at_or_after(at)?.filter(|vma| vma.start <= at);
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
    until_there_is_room(|| {
        runs(start, end, REGISTERED | CLOSED | ACCESS, |from, to, bits| {
            match bits & (REGISTERED | CLOSED) {
                REGISTERED => protect(from, to, bits & ACCESS),
                _ => Ok(()),
            }
        })
    });
}

/// What was at `from`, joined or not, lies at `to` now, and has `new` bytes instead of `old`. Where
/// it `stays` mapped at `from` as well, for which it has to be joined, nothing is there any more.
/// What has grown is as its end was.
pub fn moved(_: &Changing, (from, old): (usize, usize), (to, new): (usize, usize), stays: bool, is_joined: bool) {
    let last = states::get(from + old - PAGE_SIZE) & !(LOST | DROPPING);
    let grown = match is_joined || last & CLOSED != 0 {
        true => last | REGISTERED | CLOSED,
        // It can be accessed, and is looked at as what is new.
        false => 0,
    };
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
