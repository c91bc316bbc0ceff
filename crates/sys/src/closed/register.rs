//! Memory comes under our care: what nobody has touched of it is closed.

use rustix::fd::BorrowedFd;
use rustix::io::{Errno, Result};

use super::memory::write;
use super::{
    CLOSED, Changing, EXEC, LOST, READ, REGISTERED, UNIT, WRITE, count_borders, drop_frames, forget, open, open_again,
    protect, runs, states,
};
use crate::procfs::{ProcSelf, Vma};

/// Take what lies in `[start, end)` under our care: each mapping as it is, its pages that have no
/// frame closed. What is under our care already stays as it is. It is the calling thread's turn to
/// change mappings.
///
/// # Errors
/// EINVAL: not (only) private anonymous memory; ENOMEM: too many mappings.
pub fn register(memory: BorrowedFd<'_>, proc: &ProcSelf, start: usize, end: usize) -> Result<()> {
    // Neighbours that are being filled lie in the same mapping.
    let _changing = Changing::begin();
    let mut at = start;
    while at < end
        && let Some(vma) = proc.vma_at_or_after(at)?.filter(|vma| vma.start < end)
    {
        let (from, to) = (vma.start.max(at), vma.end.min(end));
        if !vma.is_private_anonymous() {
            return Err(Errno::INVAL);
        }
        if vma.access() != [false; 3] {
            // What may be accessed is not closed: it was unmapped without our knowing, and this is
            // something else.
            states::update(from, to, |state| if state & CLOSED == 0 { state } else { 0 });
        }
        runs(from, to, REGISTERED, |from, to, bits| match bits {
            // Or what is found open would be taken for touched.
            0 => close_new(memory, proc, &vma, from, to).inspect_err(|_| unregister(from, to)),
            _ => Ok(()),
        })?;
        at = to;
    }
    Ok(())
}

pub(super) fn access_of(vma: &Vma) -> u8 {
    let bits = vma.access().into_iter().zip([READ, WRITE, EXEC]);
    bits.map(|(is_set, bit)| u8::from(is_set) * bit).sum()
}

/// Close what nobody has touched of a part of a mapping, by the unit.
///
/// What is there stays as it is: a call under way may use it. Who touches what is closed meanwhile
/// waits for the engine's lock, as for any page. What was touched until then is found, and opened.
fn close_new(memory: BorrowedFd<'_>, proc: &ProcSelf, vma: &Vma, start: usize, end: usize) -> Result<()> {
    let access = access_of(vma);
    states::update(start, end, |_| REGISTERED | access);
    let close_run = |from: usize, to: usize| {
        if from >= to {
            return Ok(());
        }
        count_borders(from, to);
        states::update(from, to, |state| state | CLOSED);
        protect(from, to, 0).inspect_err(|_| open_again(from, to))?;
        let mut opened = Ok(());
        for_each_unit(proc, from, to, |from, to| {
            opened = opened.and_then(|()| open(from, to).1)
        })?;
        opened
    };
    let (mut at, mut closed) = (start, Ok(()));
    for_each_unit(proc, start, end, |from, to| {
        closed = closed.and_then(|()| close_run(at, from));
        at = to;
    })?;
    closed?;
    let is_touched = at > start;
    close_run(at, end)?;
    if !is_touched && states::get(start) & CLOSED != 0 {
        // The kernel joins parts of a mapping again only if they have one list of frames
        // (`anon_vma`), which it makes at the first frame: so now, while it is one. Without it a
        // program's mremap would find several mappings.
        write(memory, start, &[0])?;
        drop_around(start, vma);
    }
    Ok(())
}

/// A closed page of `vma` that nobody has filled got a frame: perhaps a huge one.
fn drop_around(addr: usize, vma: &Vma) {
    const HUGE: usize = 2 << 20;
    let (start, end) = (addr & !(HUGE - 1), (addr & !(HUGE - 1)) + HUGE);
    let _ = runs(start.max(vma.start), end.min(vma.end), CLOSED, |from, to, bits| {
        if bits & CLOSED != 0 {
            // It has zeros, so nothing is lost where it is refused.
            let _ = drop_frames(from, to);
        }
        Ok(())
    });
}

/// Call `f` with the units of `[start, end)` that have frames, by the run.
fn for_each_unit(proc: &ProcSelf, start: usize, end: usize, mut f: impl FnMut(usize, usize)) -> Result<()> {
    let mut done = start;
    // What the kernel has swapped out is as good as there: nobody fills it.
    proc.for_each_populated(start, end, |from, to| {
        let (from, to) = ((from & !(UNIT - 1)).max(done), to.next_multiple_of(UNIT).min(end));
        if from < to {
            f(from, to);
            done = to;
        }
    })
}

/// Nothing of `[start, end)` is under our care any more: what is closed has zeros. But what is lost
/// stays closed, and known as that: it is not to be read as zeros.
pub fn unregister(start: usize, end: usize) {
    let _ = runs(start, end, LOST, |from, to, bits| {
        if bits == 0 {
            open_again(from, to);
            forget(from, to);
        }
        Ok(())
    });
}
