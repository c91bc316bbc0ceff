//! The program's memory where no userfaultfd can be had: a page that is out is *closed*, which
//! means that nobody may access it (PROT_NONE). Whoever touches it gets SIGSEGV.
//!
//! What the kernel does for a userfaultfd is done here:
//!
//! | a userfaultfd | here |
//! |---|---|
//! | registered memory | a byte for each page: is it closed, and what may the program do there |
//! | UFFDIO_COPY | a write to /proc/self/mem, then mprotect: nobody sees half a page |
//! | UFFDIO_MOVE, out | mprotect, a copy, MADV_DONTNEED |
//! | EAGAIN while mappings change | [`Changing`] against [`Filling`] |
//! | an event | [`Posted`], by the thread that changes mappings |
//!
//! # Invariants
//! 1. A page that the kernel lets nobody access, and the program would, is `CLOSED`: the bit is
//!    set before mprotect takes access away, and cleared after it gave access back. So who gets a
//!    signal at a page that is not closed may look again.
//! 2. A closed page has no frame, but while a [`Filling`] is at it.
//! 3. Only who fills or changes mappings alters bytes, never both at a time. To register is a
//!    change.

mod alone;
mod events;
mod exclusion;
mod memory;
mod program;
mod register;
mod states;

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{Errno, Result};
use rustix::mm::{self, Advice, MprotectFlags};

use crate::PAGE_SIZE;
use crate::populate::{Populate, populate};
use crate::proc_mem::ProcMem;
use crate::uffd::Filled;

pub use alone::{fill_alone, forget_alone, is_mapped, lose_alone, open_alone};
pub use events::{Posted, post_remap, post_remove, post_unmap};
pub(crate) use events::{has_events, read_events};
pub use exclusion::{Changing, Filling, begin_fork, end_fork, is_changing};
use memory::write;
pub use memory::{faults, note_faults};
pub use program::{begin_drop, change_access, end_drop, join, moved, note_locked, part};
use register::access_of;
pub use register::{register, unregister};

/// The page is under our care, or may come there.
const REGISTERED: u8 = 1;
/// Nobody may access it.
const CLOSED: u8 = 2;
/// What the program may do there once it is open.
const READ: u8 = 4;
const WRITE: u8 = 8;
const EXEC: u8 = 16;
const ACCESS: u8 = READ | WRITE | EXEC;
/// Closed by a drop that is under way.
const DROPPING: u8 = 32;
/// Its contents are lost.
const LOST: u8 = 64;
/// The program has it locked: it stays.
const LOCKED: u8 = 128;

/// What was touched is opened with its surroundings, where it is found in memory that is new to us:
/// a process may have some 65,000 mappings.
const UNIT: usize = 64 << 10;

/// Borders between what is closed and what is not, each of which is one between mappings. Roughly:
/// neighbours may change at the same time.
static BORDERS: AtomicIsize = AtomicIsize::new(0);

/// So many borders from where a fault opens so many pages, log2: a page each costs least memory, as
/// long as there are few.
const FEWER: [(isize, u32); 2] = [(32_000, 6), (12_000, 4)];

/// log2 of the pages that a fault opens at least.
pub fn unit_order() -> u32 {
    let borders = BORDERS.load(Ordering::Relaxed);
    let order = FEWER.into_iter().find(|(from, _)| borders >= *from);
    order.map_or(0, |(_, order)| order)
}

/// `[start, end)`, which is alike, is about to be closed or opened.
fn count_borders(start: usize, end: usize) {
    let is_closed = |addr: usize| states::get(addr) & CLOSED != 0;
    let changes = is_closed(start);
    let border = |addr: usize| if is_closed(addr) == changes { 1 } else { -1 };
    BORDERS.fetch_add(border(start.wrapping_sub(PAGE_SIZE)) + border(end), Ordering::Relaxed);
}

/// Borders in and around `[start, end)`.
fn borders_of(start: usize, end: usize) -> isize {
    let mut found = -1;
    let _ = runs(start.saturating_sub(PAGE_SIZE), end + PAGE_SIZE, CLOSED, |_, _, _| {
        found += 1;
        Ok(())
    });
    found
}

/// The states of `[start, end)` change as a whole.
fn replace(start: usize, end: usize, change: impl FnOnce()) {
    let before = borders_of(start, end);
    change();
    BORDERS.fetch_add(borders_of(start, end) - before, Ordering::Relaxed);
}

static IS_ON: AtomicBool = AtomicBool::new(false);

/// This process has no userfaultfd: its memory is managed this way. In the constructor.
pub fn turn_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Whether it is.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Have a state for each page, if there is none yet. In a thread of the pager.
///
/// # Errors
/// ENOMEM: the address space (RLIMIT_AS) does not hold them.
pub fn begin() -> Result<()> {
    states::begin()
}

/// Whether the system lets this process write to what it has closed, which
/// `proc_mem.force_override` may forbid, and populate memory (Linux 5.14).
///
/// # Errors
/// What the system answers.
pub fn probe() -> Result<()> {
    let memory = ProcMem::open_to_write()?.into_fd();
    let mapping = crate::mapping::Mapping::reserve(PAGE_SIZE)?;
    // SAFETY: a mapping of our own that nobody reads or writes but by the file.
    unsafe { mm::mprotect(mapping.addr() as *mut c_void, PAGE_SIZE, MprotectFlags::empty())? };
    write(memory.as_fd(), mapping.addr(), &[1])?;
    // SAFETY: as above.
    unsafe { mm::mprotect(mapping.addr() as *mut c_void, PAGE_SIZE, MprotectFlags::READ)? };
    match populate(mapping.addr(), PAGE_SIZE, false) {
        Populate::There => Ok(()),
        Populate::Faults | Populate::Refused(_) => Err(Errno::NOSYS),
    }
}

/// Call `f` with each run of pages that are alike in the bits of `mask`, up to the first error.
fn runs(start: usize, end: usize, mask: u8, mut f: impl FnMut(usize, usize, u8) -> Result<()>) -> Result<()> {
    let mut at = start;
    while at < end {
        let (limit, bits) = states::run(at, end, mask);
        f(at, limit, bits)?;
        at = limit;
    }
    Ok(())
}

/// Have the kernel allow what `bits` say.
fn protect(start: usize, end: usize, bits: u8) -> Result<()> {
    let flags = [
        (READ, MprotectFlags::READ),
        (WRITE, MprotectFlags::WRITE),
        (EXEC, MprotectFlags::EXEC),
    ];
    let allowed = flags.into_iter().filter(|(bit, _)| bits & bit != 0);
    let flags = allowed.fold(MprotectFlags::empty(), |all, (_, flag)| all | flag);
    // SAFETY: memory of the program, which nobody borrows. It changes no contents, and takes away
    // access only where a handler gives it back.
    unsafe { mm::mprotect(start as *mut c_void, end - start, flags) }
}

fn drop_frames(start: usize, end: usize) -> Result<()> {
    // SAFETY: closed pages of the program: nobody reads them before they are filled anew.
    unsafe { mm::madvise(start as *mut c_void, end - start, Advice::LinuxDontNeed) }
}

/// The kernel has refused to make another mapping.
static WERE_TOO_MANY: AtomicBool = AtomicBool::new(false);

/// Whether it has, since this was asked last: what is closed then makes fewer of them.
pub fn were_too_many() -> bool {
    WERE_TOO_MANY.load(Ordering::Relaxed) && WERE_TOO_MANY.swap(false, Ordering::Relaxed)
}

/// Let the program have the pages of `[start, end)` that are closed. Returns how far that came:
/// what is behind it is closed still.
fn open(start: usize, end: usize) -> (usize, Result<()>) {
    let mut opened = start;
    let result = runs(start, end, CLOSED | ACCESS, |from, to, bits| {
        if bits & CLOSED == 0 {
            opened = to;
            return Ok(());
        }
        if open_run(from, to, bits).is_ok() {
            opened = to;
            return Ok(());
        }
        // The kernel went mapping by mapping, and has opened those before the one that it could not
        // split: what it has opened the program reads and writes by now.
        (from..to).step_by(PAGE_SIZE).try_for_each(|page| {
            open_run(page, page + PAGE_SIZE, bits)?;
            opened = page + PAGE_SIZE;
            Ok(())
        })
    });
    (
        opened,
        result.inspect_err(|_| WERE_TOO_MANY.store(true, Ordering::Relaxed)),
    )
}

fn open_run(from: usize, to: usize, bits: u8) -> Result<()> {
    protect(from, to, bits & ACCESS)?;
    count_borders(from, to);
    states::update(from, to, |state| state & !CLOSED);
    Ok(())
}

/// `[start, end)` is no longer mapped, or is something else.
pub fn forget(start: usize, end: usize) {
    replace(start, end, || states::update(start, end, |_| 0));
}

/// Whether anything of `[start, end)` is under our care.
pub fn holds_any(start: usize, end: usize) -> bool {
    let (limit, bits) = states::run(start, end, REGISTERED);
    bits != 0 || limit < end
}

/// Where what is under our care begins that goes on up to `end`: at `start`, or above it.
pub fn beginning(start: usize, end: usize) -> usize {
    let is_ours = |at: &usize| states::get(*at) & REGISTERED != 0;
    let pages = (start..end).step_by(PAGE_SIZE).rev();
    pages.take_while(is_ours).last().unwrap_or(end)
}

/// Call `f` with each run of pages of `[start, end)` that are under our care and open.
pub fn for_each_open(start: usize, end: usize, mut f: impl FnMut(usize, usize)) {
    let _ = runs(start, end, REGISTERED | CLOSED, |from, to, bits| {
        if bits == REGISTERED {
            f(from, to);
        }
        Ok(())
    });
}

/// How many bytes from `addr` on, `len` at most, have just these bits of `mask`.
fn leading(addr: usize, len: usize, mask: u8, bits: u8) -> usize {
    let pages = (addr..addr + len).step_by(PAGE_SIZE);
    pages.take_while(|at| states::get(*at) & mask == bits).count() * PAGE_SIZE
}

fn stopped(bytes: usize, len: usize, stop: Errno) -> Filled {
    // As the kernel: why there were not more shows when the rest is tried.
    let stop = (bytes < len).then_some(stop).filter(|_| bytes == 0);
    Filled { bytes, stop }
}

/// As UFFDIO_COPY: EEXIST a page is open; ENOENT not under our care; EAGAIN a change is under way;
/// ENOMEM too many mappings.
pub(crate) fn copy(memory: BorrowedFd<'_>, addr: usize, bytes: &[u8]) -> Filled {
    let filling = match Filling::begin() {
        Ok(filling) => filling,
        Err(errno) => return stopped(0, bytes.len(), errno),
    };
    let mask = REGISTERED | CLOSED | LOST;
    let closed = leading(addr, bytes.len(), mask, REGISTERED | CLOSED);
    let beyond = match states::get(addr + closed) & REGISTERED {
        0 => Errno::NOENT,
        _ => Errno::EXIST,
    };
    let contents = &bytes[..closed];
    let is_zero = contents.iter().all(|byte| *byte == 0);
    if !is_zero && let Err(errno) = write(memory, addr, contents) {
        // Nothing is there that anybody sees.
        let _ = drop_frames(addr, addr + closed);
        return stopped(0, bytes.len(), errno);
    }
    let (opened, result) = open(addr, addr + closed);
    if let Err(errno) = result {
        let _ = drop_frames(opened, addr + closed);
        return stopped(opened - addr, bytes.len(), errno);
    }
    drop(filling);
    stopped(closed, bytes.len(), beyond)
}

/// Close the pages from `addr` on that are open, `len` bytes at most. Returns how many bytes they
/// are: up to the first that is not there, or has to stay.
///
/// # Errors
/// ENOENT: the first page is not open, or not ours; EBUSY: it has to stay; ENOMEM: too many
/// mappings.
pub fn close(_: &Filling, addr: usize, len: usize) -> Result<usize> {
    let open = leading(addr, len, REGISTERED | CLOSED | LOST | LOCKED, REGISTERED);
    if open == 0 {
        return Err(match states::get(addr) & LOCKED {
            0 => Errno::NOENT,
            _ => Errno::BUSY,
        });
    }
    count_borders(addr, addr + open);
    states::update(addr, addr + open, |state| state | CLOSED);
    protect(addr, addr + open, 0).inspect_err(|_| {
        // A part may be closed: the kernel goes mapping by mapping.
        open_again(addr, addr + open);
    })?;
    Ok(open)
}

/// Undo a close. Where mappings are too many for the moment it is tried until they are not: another
/// thread has taken the room that the close had made.
fn open_again(start: usize, end: usize) {
    until_there_is_room(|| open(start, end).1);
}

fn until_there_is_room(open: impl Fn() -> Result<()>) {
    loop {
        match open() {
            Ok(()) => return,
            Err(Errno::NOMEM) => rustix::thread::sched_yield(),
            Err(errno) => panic!("memory that was closed cannot be opened: {errno}"),
        }
    }
}

/// Closed pages of which copies were made have no frames any more.
///
/// # Errors
/// What madvise answers. All of them are open again then, with `contents`.
pub fn drop_closed(memory: BorrowedFd<'_>, _: &Filling, addr: usize, contents: &[u8]) -> Result<()> {
    let end = addr + contents.len();
    drop_frames(addr, end).inspect_err(|_| {
        if let Err(errno) = write(memory, addr, contents) {
            panic!("memory that was closed cannot be written: {errno}");
        }
        open_again(addr, end);
    })
}

/// Closed pages whose frames are there are open again.
pub fn give_back(_: &Filling, addr: usize, len: usize) {
    open_again(addr, addr + len);
}

/// The contents of the page at `addr` are lost.
///
/// # Errors
/// As for [`copy`].
pub(crate) fn lose(addr: usize) -> Result<()> {
    let _filling = Filling::begin()?;
    match states::get(addr) & (REGISTERED | CLOSED) {
        0 => Err(Errno::NOENT),
        REGISTERED => Err(Errno::EXIST),
        _ => {
            states::update(addr, addr + PAGE_SIZE, |state| state | LOST);
            Ok(())
        }
    }
}

/// What a thread has met that got SIGSEGV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Nothing of ours, or what the program may not do there.
    Other,
    /// A page that is out.
    Closed,
    /// One that is back by now.
    Open,
    /// One whose contents are lost.
    Lost,
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Execute,
}

/// Of an access to `addr`.
pub fn touched(addr: usize, access: Access) -> Touched {
    let state = states::get(addr);
    let wanted = match access {
        // As the processor: what may be written to, or executed, can be read.
        Access::Read => ACCESS,
        Access::Write => WRITE,
        Access::Execute => EXEC,
    };
    match state {
        _ if state & REGISTERED == 0 || state & wanted == 0 => Touched::Other,
        _ if state & LOST != 0 => Touched::Lost,
        _ if state & CLOSED != 0 => Touched::Closed,
        _ => Touched::Open,
    }
}

/// Whether an access to any page of `[addr, addr + len)` would meet one that is out.
pub fn meets_closed(addr: usize, len: usize, access: Access) -> bool {
    let mut pages = (addr & !(PAGE_SIZE - 1)..addr + len).step_by(PAGE_SIZE);
    is_on() && pages.any(|at| touched(at, access) == Touched::Closed)
}

/// In a forked child: what other threads of the parent were at is over.
pub fn reset_in_child() {
    exclusion::reset_in_child();
    events::reset_in_child();
}

#[cfg(all(test, not(miri)))]
mod test;
