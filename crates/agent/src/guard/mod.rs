//! The guard: the program's system calls come by here before the kernel sees them, where the kernel
//! cannot wait for a page.
//!
//! The userfaultfd of an ordinary user serves faults of the program alone (UFFD_USER_MODE_ONLY).
//! The kernel, which meets a page that is not there or is protected, answers EFAULT. So what a call
//! reaches is brought first, by touching it as the program would, and held until the call is over.
//!
//! | file | what |
//! |---|---|
//! | `ranges` | where anything may be registered |
//! | `bring` | the memory of one call |
//! | `holds` | what must stay, and what is on the move |
//! | `later` | calls that reach memory by what nobody sees |
//! | `memory` | calls about the program's own memory |
//! | `pieces` | calls that move more than may be held |
//! | `others` | calls that reach another process's memory |
//! | `notes` | where calls are, if somebody looked before |
//! | `clone` | calls that make threads and processes |
//! | `exec` | calls that make another program of a process |
//! | `environment` | whether the environment of such a call names us |
//! | `dispatch` | calls that no jump leads here from |
//! | `signals`, `altstack` | the program's signals, where faults raise one |
//! | `deliver` | how its handlers are called, and return |
//! | `tasks` | what it sees of its own threads |
//!
//! The program's threads are here on their own stacks and hold no lock: a handler of a signal may
//! interrupt them anywhere and make calls of its own.

mod altstack;
mod bring;
pub(crate) mod clone;
pub(crate) mod deliver;
mod dispatch;
mod environment;
pub(crate) mod exec;
mod filter;
pub(crate) mod holds;
mod later;
mod memory;
mod notes;
mod others;
mod pieces;
mod ranges;
pub(crate) mod signals;
mod tasks;

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_guard::frames::Frames;
use uzswap_guard::reach::reach;
use uzswap_guard::row::{Care, Row};
use uzswap_guard::site::{self, SYSCALL};
use uzswap_guard::stub::Stubs;
use uzswap_guard::table::{BY_NUMBER, ROWS};
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_sys::Errno;
use uzswap_sys::gateways::Gateway;
use uzswap_sys::guard::{self, BORN, Call, Guard, Verdict};
use uzswap_sys::libc::{Headers, Image};
use uzswap_sys::mlock::SYS_MLOCKALL;
use uzswap_sys::near::{Near, write_jumps};
use uzswap_sys::own_stack::Own;
use uzswap_sys::populate::{self, Populate};
use uzswap_sys::request::Request;
use uzswap_sys::text;
use uzswap_sys::thread;

use crate::fault::inline;
use crate::guest::hook::{self, SYS_IOCTL};
use crate::guest::mmap::{
    self, SYS_MADVISE, SYS_MMAP, SYS_MPROTECT, SYS_MUNMAP, SYS_PKEY_MPROTECT, SYS_PROCESS_MADVISE,
};
use crate::guest::mremap::{self, SYS_MREMAP};
use crate::guest::{self, closed, mlock};
use crate::pager::{self, blocking, retire};

pub(crate) use bring::{hold_stack, words_at};
pub(crate) use memory::populate;

use bring::{Reached, word_at};

const SYS_SIGALTSTACK: usize = 131;
/// The lower half of the address space.
pub(crate) const ADDRESSES: usize = 1 << 47;

/// How often a call is made again that has met what was not there.
const AGAIN_MAX: usize = 16;
/// Bits of a call's token below how often it was made again.
const TOKEN_BITS: u32 = 32;

/// Calls come by here.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The program has no libc that is known, so calls are all that is seen of it.
static IS_ALONE: AtomicBool = AtomicBool::new(false);

fn is_alone() -> bool {
    IS_ALONE.load(Ordering::Relaxed)
}

/// The program is of Go, whose code makes calls on stacks that have no room for us.
static IS_OF_GO: AtomicBool = AtomicBool::new(false);

fn is_of_go() -> bool {
    IS_OF_GO.load(Ordering::Relaxed)
}

/// Whether the program's calls come by here.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Whether no call passes unseen, by code that is loaded later or made at run time.
pub(crate) fn sees_all() -> bool {
    is_on() && dispatch::sees_all() && !inline::is_filtered()
}

/// Put jumps to the guard in the place of all system calls that the loaded images make. In the
/// constructor.
///
/// # Errors
/// EACCES, EPERM: the system forbids changing program text. ENOMEM: no room beside it. EOPNOTSUPP:
/// the program has no libc that is known, and its calls cannot be dispatched.
pub(crate) fn install(group: &[u8], program: Headers, is_alone: bool) -> Result<(), Errno> {
    let is_of_go = program.is_of_go();
    IS_OF_GO.store(is_of_go, Ordering::Relaxed);
    if is_of_go && !inline::is_on() {
        // It makes calls of its own beside libc's, on stacks that no jump to us has room on.
        return Err(Errno::OPNOTSUPP);
    }
    let is_alone = is_alone || is_of_go;
    IS_ALONE.store(is_alone, Ordering::Relaxed);
    let rows = ROWS.iter().map(|row| row.number);
    let for_signals = signals::CALLS.into_iter().filter(|_| inline::is_on());
    let for_access = closed::CALLS.into_iter().filter(|_| uzswap_sys::closed::is_on());
    let for_words = clone::ALONE.into_iter().filter(|_| is_alone);
    guard::begin(
        Guard { before, after },
        rows.chain(guest::CHANGES)
            .chain(clone::CALLS)
            .chain(for_access)
            .chain(for_words)
            .chain(later::CALLS)
            .chain(retire::CALLS)
            .chain(for_signals),
    );
    let libraries = Image::all(program).filter(|image| !image.is_named(c"linux-vdso.so.1"));
    let libraries = libraries.filter_map(|image| image.headers(program));
    // One that loads none is not in that list.
    let mut images: Vec<_> = libraries.collect();
    if images.is_empty() {
        images.push(program);
    }
    // Go's code makes its calls on stacks that no jump to us has room on: all are dispatched. Its
    // table, if a linker of C made it, has one entry for all of that.
    for image in images.into_iter().filter(|image| !image.is_of_go()) {
        let Some(table) = image.unwind_table() else {
            continue;
        };
        let Some(frames) = Frames::new(table, table.as_ptr() as usize) else {
            continue;
        };
        for code in image.code() {
            let is_own = code
                .as_ptr_range()
                .contains(&core::ptr::with_exposed_provenance(guard::entry_address()));
            if !is_own {
                guard_code(code, &frames, (group, image))?;
            }
        }
    }
    IS_ON.store(true, Ordering::Relaxed);
    let is_begun = inline::is_on() && dispatch::begin().is_ok();
    // libc's calls come by here without that.
    match is_alone && !is_begun {
        true => Err(Errno::OPNOTSUPP),
        false => Ok(()),
    }
}

/// What is in code already leads nowhere: no call is seen.
pub(crate) fn uninstall() {
    IS_ON.store(false, Ordering::Relaxed);
    guard::end();
}

/// What was found there before is noted beside the file of `group`.
fn guard_code(code: &'static [u8], frames: &Frames<'_>, (group, image): (&[u8], Headers)) -> Result<(), Errno> {
    let at = code.as_ptr() as usize;
    let function_of = |offset: usize| -> Option<Range<usize>> {
        let found = frames.function(at + offset)?;
        let start = found.start.checked_sub(at)?;
        // What is left of one that was replaced makes calls that reach no memory, if it is run.
        (!text::is_replaced(code.get(start..)?)).then_some(start..found.end - at)
    };
    let sites = notes::sites(group, image, code).unwrap_or_else(|| {
        let sites = site::find(code, function_of);
        notes::keep(group, image, code, &sites, function_of);
        sites
    });
    if sites.found.is_empty() {
        return Ok(());
    }
    let near = Near::reserve(at, at + code.len(), Stubs::bytes_for(&sites.found))?;
    let mut stubs = Stubs::new(guard::entry_address());
    let jumps: Vec<_> = sites
        .found
        .iter()
        .filter_map(|site| {
            let gateway = Gateway::next()?;
            let jump = stubs.add(site, code, at, near.addr(), gateway.addr())?;
            gateway.lead(jump.goes_on, at + site.call + SYSCALL.len());
            Some((at + site.window.start, jump.bytes))
        })
        .collect();
    near.seal(stubs.bytes())?;
    // SAFETY: 1. text of an image that the program begins with; 2. no other thread runs yet, and
    // this one is in our own; 3. the stub does what is written over, and the call comes by here.
    unsafe { write_jumps(code, &jumps) }
}

/// Nothing is registered any more. In the only thread of a forked child that has no pager.
pub(crate) fn forget_registered() {
    ranges::forget();
}

/// Memory is about to be registered. In a thread of the pager.
///
/// Who makes a call from now on finds that, and brings what it reaches. What calls under way hold
/// is mapped here: the kernel may be about to meet what was never touched.
pub(crate) fn note_registering(start: usize, end: usize) {
    if is_on() {
        ranges::note(start, end);
        holds::for_each_held(start, end, |start, end| {
            for is_written in [true, false] {
                if populate::populate(start, end - start, is_written) == Populate::There {
                    break;
                }
            }
        });
    }
}

/// What may be registered has grown. In a thread of the program: without a pager nothing is.
pub(crate) fn note_grown(start: usize, end: usize) {
    if is_on() && pager::inherited().is_some() {
        ranges::note(start, end);
    }
}

/// Whether the page at `addr` may be registered.
pub(crate) fn may_be_registered(addr: usize) -> bool {
    may_be_registered_in(addr, addr + PAGE_SIZE)
}

/// Whether anything of `[start, end)` may be.
pub(crate) fn may_be_registered_in(start: usize, end: usize) -> bool {
    ranges::next(start, end).is_some()
}

/// Pages of `run` are about to be moved out or protected, under the engine's lock. Returns how many
/// may be, from the first on: up to the first that a call holds.
pub(crate) fn begin_moves(run: PageRange) -> u64 {
    if !is_on() {
        return run.pages();
    }
    holds::begin(&holds::IS_MOVING);
    holds::first_held(run).unwrap_or(run.pages())
}

/// The words of those that moved say so. Under the engine's lock.
pub(crate) fn end_moves() {
    if is_on() {
        holds::end(&holds::IS_MOVING);
    }
}

/// Pages that were copied are about to be dropped, without the engine's lock; their words say
/// already that they are out. False: not now, a call holds some of them.
pub(crate) fn begin_drop(run: PageRange) -> bool {
    if !is_on() {
        return true;
    }
    holds::begin(&holds::IS_DROPPING);
    holds::first_held(run).is_none()
}

/// They are gone, or stay.
pub(crate) fn end_drop() {
    if is_on() {
        holds::end(&holds::IS_DROPPING);
    }
}

/// In a forked child.
pub(crate) fn reset_in_child() {
    guard::Vfork::end();
    holds::reset_in_child();
    signals::reset_in_child();
    uzswap_sys::closed::reset_in_child();
}

/// A call of the program's that is made here, in its thread: not by its own code, which comes by
/// anyway.
///
/// # Safety
/// Exactly the call that the program makes.
pub(crate) unsafe fn make(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let row = BY_NUMBER.get(number).copied().flatten().filter(|_| is_on());
    let (mut token, mut again) = (0, 0);
    if row.is_some() {
        later::before(number, &args);
    }
    if let Some(row) = row.filter(|row| row.care == Care::Hold) {
        token = see_to(row, &args, 0, false).0;
    }
    loop {
        // SAFETY: the caller's promise.
        let result = unsafe { thread::syscall_of_program(number, args) };
        again += 1;
        if let Some(row) = row.filter(|_| result == Err(Errno::FAULT) && again < AGAIN_MAX) {
            let brought;
            (token, brought) = see_to(row, &args, token, true);
            if brought > 0 || again == 1 && later::waits_after(number, &args) {
                continue;
            }
        }
        release(token);
        return result;
    }
}

/// Bring and hold what a call reaches. Returns what is held, and how many pages were not there.
fn see_to(row: &Row, args: &[usize; 6], token: usize, is_thorough: bool) -> (usize, u32) {
    let mut reached = Reached::of_call(token, bring::frame_of(args), is_thorough);
    reach(row, args, &mut reached);
    (reached.token(), reached.brought)
}

fn release(token: usize) {
    holds::Hold::of(token).into_iter().for_each(holds::Hold::release);
}

extern "C" fn before(call: &mut Call) -> Verdict {
    let verdict = begin(call);
    if verdict != Verdict::Make {
        call.leaves(Own::is_used((&raw const *call).addr()));
    }
    verdict
}

extern "C" fn after(call: &mut Call) -> Verdict {
    let verdict = finish(call);
    if verdict != Verdict::Make {
        call.leaves(Own::is_used((&raw const *call).addr()));
    }
    verdict
}

fn begin(call: &mut Call) -> Verdict {
    if memory::LOCKS.contains(&call.number)
        && let Some(result) = memory::before_lock(call)
    {
        return done(call, result);
    }
    match call.number {
        number if later::CALLS.contains(&number) && !blocking::begin() => refuse(call, Errno::NOSYS),
        number if retire::CALLS.contains(&number) => {
            let args = call.args;
            // SAFETY: exactly the call that the program makes.
            let result = retire::make(number, &args, || unsafe { thread::syscall_of_program(number, args) });
            done(call, result)
        }
        number if clone::CALLS.contains(&number) => clone::before(call),
        clone::SYS_VFORK => clone::before(call),
        BORN => clone::born(call),
        SYS_SIGALTSTACK => {
            let verdict = altstack::before(call);
            let changed = inline::is_on().then(|| signals::before(call)).flatten();
            if changed.is_some() {
                release(core::mem::take(&mut call.token));
            }
            changed.unwrap_or(verdict)
        }
        SYS_MMAP => done(call, mmap::mmap(call.args)),
        SYS_MUNMAP => done(call, mmap::munmap(call.args[0], call.args[1])),
        SYS_MREMAP => {
            let [addr, old_len, new_len, flags, new_addr, _] = call.args;
            done(call, mremap::mremap(addr, old_len, new_len, flags as i32, new_addr))
        }
        SYS_MLOCKALL => done(call, mlock::lock_all(call.args[0]).map(|()| 0)),
        hook::SYS_BRK => done(call, Ok(hook::change_break(call.args[0]))),
        number if uzswap_sys::closed::is_on() && closed::CALLS.contains(&number) => {
            done(call, closed::make(number, call.args))
        }
        SYS_MPROTECT | SYS_PKEY_MPROTECT => done(call, mmap::protect(call.number, call.args)),
        SYS_PROCESS_MADVISE if uzswap_sys::closed::is_on() && mmap::drops(call.args[3]) => {
            // As before Linux 6.13.
            refuse(call, Errno::INVAL)
        }
        SYS_PROCESS_MADVISE => done(call, memory::process_madvise(call.args)),
        SYS_IOCTL if Request::words(call.args[1] as u32) > 0 => done(call, hook::make_request(call.args)),
        SYS_MADVISE => done(call, mmap::madvise(call.args[0], call.args[1], call.args[2] as i32)),
        number => {
            clone::leave_words(call);
            later::before(number, &call.args);
            if exec::CALLS.contains(&number) {
                exec::before(call);
            }
            if inline::is_on()
                && let Some(verdict) = signals::before(call)
            {
                return verdict;
            }
            if let Some(result) = pieces::make(call).or_else(|| others::make(call)) {
                call.result = result;
                return Verdict::Done;
            }
            if let Some(row) = BY_NUMBER[number].filter(|row| row.care == Care::Hold) {
                call.token = see_to(row, &call.args, 0, false).0;
            }
            Verdict::Make
        }
    }
}

fn refuse(call: &mut Call, errno: Errno) -> Verdict {
    done(call, Err(errno))
}

fn done(call: &mut Call, result: Result<usize, Errno>) -> Verdict {
    call.result = match result {
        Ok(value) => value as isize,
        Err(errno) => -(errno.raw_os_error() as isize),
    };
    Verdict::Done
}

/// A call was made.
fn finish(call: &mut Call) -> Verdict {
    if clone::CALLS.contains(&call.number) {
        clone::after(call);
        return Verdict::Done;
    }
    let (token, again) = (call.token & ((1 << TOKEN_BITS) - 1), call.token >> TOKEN_BITS);
    let is_fault = call.result == -(Errno::FAULT.raw_os_error() as isize);
    if let Some(row) = BY_NUMBER[call.number].filter(|_| is_fault && again < AGAIN_MAX) {
        if exec::CALLS.contains(&call.number) && inline::is_on() {
            // What is brought is brought by it.
            signals::after(call, true);
        }
        let (mut token, brought) = see_to(row, &call.args, token, true);
        if exec::CALLS.contains(&call.number) {
            // Nobody is back from it to let go: in the memory of a parent that waits (vfork) it
            // would be held for ever.
            release(core::mem::take(&mut token));
        }
        if brought > 0 || again == 0 && later::waits_after(call.number, &call.args) {
            call.token = token | (again + 1) << TOKEN_BITS;
            return end(call, Verdict::Make);
        }
        release(token);
        return end(call, Verdict::Done);
    }
    release(token);
    if call.result == 0 {
        tasks::hide_threads(call);
    }
    end(call, Verdict::Done)
}

fn end(call: &mut Call, verdict: Verdict) -> Verdict {
    if verdict == Verdict::Done && exec::CALLS.contains(&call.number) {
        exec::after(call);
    }
    if inline::is_on() {
        signals::after(call, verdict == Verdict::Done);
    }
    verdict
}
