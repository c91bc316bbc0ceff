//! A forked child whose memory nobody will manage: all of it is opened, and filled by its only
//! thread. It may lack /proc, so it writes where its pager would have the kernel write.

use core::ffi::c_void;

use rustix::io::{Errno, Result};
use rustix::mm::{MsyncFlags, msync};

use super::{ACCESS, CLOSED, LOST, READ, WRITE, protect, runs, states};
use crate::PAGE_SIZE;

/// All addresses that a program has.
const ALL: usize = 1 << 47;

/// Have the kernel allow what the program may do with what is closed. The states still say which
/// pages those were, for [`fill_alone`]. What is lost stays closed: who touches it gets a signal.
///
/// # Errors
/// What mprotect answers.
pub fn open_alone() -> Result<()> {
    runs(0, ALL, CLOSED | LOST | ACCESS, |from, to, bits| {
        match bits & (CLOSED | LOST) {
            CLOSED => allow(from, to, bits & ACCESS),
            _ => Ok(()),
        }
    })
}

/// As `protect`, of what a child may not have inherited (MADV_DONTFORK).
fn allow(from: usize, to: usize, access: u8) -> Result<()> {
    if protect(from, to, access).is_ok() {
        return Ok(());
    }
    let mut pages = (from..to).step_by(PAGE_SIZE).filter(|page| is_mapped(*page));
    pages.try_for_each(|page| protect(page, page + PAGE_SIZE, access))
}

/// Whether anything is mapped at the page at `addr`.
pub fn is_mapped(addr: usize) -> bool {
    // SAFETY: it writes nothing back of what is no file, and starts nothing of what is one.
    let answer = unsafe { msync(addr as *mut c_void, PAGE_SIZE, MsyncFlags::ASYNC) };
    answer != Err(Errno::NOMEM)
}

/// Write the page at `addr`, if it was closed, and the child has it.
///
/// # Errors
/// What mprotect answers.
pub fn fill_alone(addr: usize, page: &[u8; PAGE_SIZE]) -> Result<()> {
    let state = states::get(addr);
    if state & (CLOSED | LOST) != CLOSED || !is_mapped(addr) {
        return Ok(());
    }
    let (end, is_writable) = (addr + PAGE_SIZE, state & WRITE != 0);
    if !is_writable {
        protect(addr, end, READ | WRITE)?;
    }
    // SAFETY: mapped, and writable now. This process has no other thread, and what the program
    // borrows there it has not seen: the page was closed.
    unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), addr as *mut u8, PAGE_SIZE) };
    match is_writable {
        true => Ok(()),
        false => protect(addr, end, state & ACCESS),
    }
}

/// The contents of the page at `addr` are lost, if it was closed: it stays so.
///
/// # Errors
/// What mprotect answers.
pub fn lose_alone(addr: usize) -> Result<()> {
    match states::get(addr) & CLOSED {
        0 => Ok(()),
        _ => protect(addr, addr + PAGE_SIZE, 0),
    }
}

/// Nothing is under our care any more.
pub fn forget_alone() {
    states::update(0, ALL, |_| 0);
}
