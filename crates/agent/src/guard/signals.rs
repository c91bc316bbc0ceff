//! Signals as the program has them, where SIGBUS is ours ([`crate::fault::inline`]), or SIGSEGV
//! ([`crate::guest::closed`]), and SIGSYS ([`dispatch`](super::dispatch)).
//!
//! These two are never blocked for the kernel, whatever the program blocks, and their handlers run
//! on stacks of ours, which are the threads' alternate stacks for the kernel. What the program
//! asked for is kept here, is what it is told, and holds where one turns out to be its own.
//!
//! | call | what is done |
//! |---|---|
//! | rt_sigaction | noted; for all other signals the kernel calls [`relay`] |
//! | rt_sigprocmask | without them, which is noted for the thread |
//! | sigsuspend, ppoll, pselect6, epoll_pwait | without them in the mask |
//! | sigaltstack | noted for the thread |
//! | execve | they are blocked for the kernel if they are for the program |
//! | seccomp, prctl | a filter: threads only ask the fault thread from now on |
//! | close, dup2, close_range | pass over what is [`lent`] |
//!
//! One that another process sends is not seen by sigpending and sigwait.
//!
//! A vfork child has its parent's memory and actions of its own. Of what is kept here for its
//! parent it changes only which of these two are blocked: the program that it runs begins with
//! that.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lock_api::RawMutex;
use uzswap_sys::futex::RawLock;
use uzswap_sys::gateways::SET_SYSCALL_USER_DISPATCH;
use uzswap_sys::guard::{Call, Verdict};
use uzswap_sys::own_stack::Own;
use uzswap_sys::signal::{self, Action, BLOCK, DEFAULT, IGNORE, SA_KNOWN, SA_RESETHAND, SA_RESTORER, SET};
use uzswap_sys::signal::{SIGBUS, SIGNALS, SIGSEGV, SIGSYS, UNBLOCK, bit};
use uzswap_sys::{Errno, closed, lent, thread};

use super::altstack::change_stack;
use super::bring::{read, write};
use super::deliver::relay;
use super::filter::{self, SYS_SECCOMP};
use super::{SYS_SIGALTSTACK, dispatch, done, refuse, word_at};
use crate::fault::inline;
use crate::guest::order::InOrder;
use crate::pager;

const SYS_CLOSE: usize = 3;
const SYS_RT_SIGACTION: usize = 13;
const SYS_RT_SIGPROCMASK: usize = 14;
const SYS_DUP2: usize = 33;
const SYS_EXECVE: usize = 59;
const SYS_EXIT: usize = 60;
const SYS_RT_SIGSUSPEND: usize = 130;
const SYS_PRCTL: usize = 157;
const SYS_PSELECT6: usize = 270;
const SYS_PPOLL: usize = 271;
const SYS_SET_ROBUST_LIST: usize = 273;
const SYS_EPOLL_PWAIT: usize = 281;
const SYS_DUP3: usize = 292;
const SYS_EXECVEAT: usize = 322;
const SYS_CLOSE_RANGE: usize = 436;
const SYS_EPOLL_PWAIT2: usize = 441;

/// Calls that are seen for signals, or for the descriptors that are lent.
pub(super) const CALLS: [usize; 18] = [
    SYS_CLOSE,
    SYS_RT_SIGACTION,
    SYS_RT_SIGPROCMASK,
    SYS_DUP2,
    SYS_EXECVE,
    SYS_EXIT,
    SYS_RT_SIGSUSPEND,
    SYS_SIGALTSTACK,
    SYS_PRCTL,
    SYS_PSELECT6,
    SYS_PPOLL,
    SYS_SET_ROBUST_LIST,
    SYS_EPOLL_PWAIT,
    SYS_DUP3,
    SYS_SECCOMP,
    SYS_EXECVEAT,
    SYS_CLOSE_RANGE,
    SYS_EPOLL_PWAIT2,
];

/// Signals that are never blocked for the kernel.
pub(super) fn ours() -> u64 {
    let closes = if closed::is_on() { bit(SIGSEGV) } else { 0 };
    bit(SIGBUS) | bit(SIGSYS) | closes
}

fn is_ours(signal: i32) -> bool {
    bit(signal) & ours() != 0
}

/// Blocked while a fault is served: all but that by which a call of the vDSO's is seen to, which
/// takes no lock.
const WHILE_SERVING: u64 = !bit(SIGSYS);

/// Signals that the kernel keeps in a mask: not SIGKILL, nor SIGSTOP.
pub(super) const KEPT: u64 = !(bit(9) | bit(19));

/// What the program has set: the words of an [`Action`].
static ACTIONS: [[AtomicUsize; 4]; SIGNALS] = [const { [const { AtomicUsize::new(0) }; 4] }; SIGNALS];
/// Held while they change, with all signals blocked.
static LOCK: RawLock = RawLock::INIT;
/// Some thread has had one of ours blocked; those that came while it had.
pub(super) static IS_BLOCKED: AtomicBool = AtomicBool::new(false);
pub(super) static PENDING: AtomicU64 = AtomicU64::new(0);

pub(super) fn noted(signal: i32) -> Action {
    let [handler, flags, restorer, mask] = &ACTIONS[signal as usize];
    Action {
        handler: handler.load(Ordering::Acquire),
        flags: flags.load(Ordering::Relaxed),
        restorer: restorer.load(Ordering::Relaxed),
        mask: mask.load(Ordering::Relaxed) as u64,
    }
}

pub(super) fn note(signal: i32, action: &Action) {
    let [handler, flags, restorer, mask] = &ACTIONS[signal as usize];
    flags.store(action.flags & SA_KNOWN, Ordering::Relaxed);
    restorer.store(action.restorer, Ordering::Relaxed);
    mask.store((action.mask & KEPT) as usize, Ordering::Relaxed);
    // What is relayed from now on finds the others.
    handler.store(action.handler, Ordering::Release);
}

/// SIGBUS and SIGSYS come to us. In the constructor.
pub(crate) fn begin() -> Result<(), Errno> {
    note(SIGBUS, &signal::handle(SIGBUS, inline::on_bus_error, WHILE_SERVING, 0)?);
    if closed::is_on() {
        let on_access_error = crate::guest::closed::on_access_error;
        note(SIGSEGV, &signal::handle(SIGSEGV, on_access_error, WHILE_SERVING, 0)?);
    }
    note(SIGSYS, &signal::handle(SIGSYS, dispatch::on_system_call, u64::MAX, 0)?);
    for signal in (1..SIGNALS as i32).filter(|signal| !is_ours(*signal)) {
        // What other libraries have set by now.
        // SAFETY: nothing is set.
        let action = unsafe { signal::action(signal, None) };
        if let Some(action) = action.ok().filter(|action| action.handler > IGNORE) {
            let _ = change(signal, Some(&action));
        }
    }
    let blocked = signal::set_mask(UNBLOCK, ours()).unwrap_or(0) & ours();
    if blocked != 0
        && let Some(own) = Own::take_on()
    {
        own.blocked.store(blocked, Ordering::Relaxed);
        IS_BLOCKED.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Block all signals but those that faults and calls raise. Returns the mask for [`unblock`].
pub(crate) fn block_others() -> u64 {
    match inline::is_on() {
        true => signal::set_mask(SET, !ours()).unwrap_or(0),
        false => thread::block_signals(),
    }
}

/// Block all signals that somebody sends: what an instruction raises, or a filter of system calls,
/// ends the process where it is blocked. Returns the mask for [`unblock`].
pub(crate) fn block_sent() -> u64 {
    /// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
    const RAISED: [i32; 6] = [4, 5, SIGBUS, 8, SIGSEGV, SIGSYS];
    let raised = RAISED.into_iter().map(bit).fold(0, |mask, bit| mask | bit);
    signal::set_mask(BLOCK, !raised).unwrap_or(0)
}

/// What the kernel drops at once where there is no handler for it, unless the thread that it is
/// sent to blocks it: SIGCHLD, SIGCONT, SIGURG, SIGWINCH.
const DROPPED: [i32; 4] = [17, 18, 23, 28];

/// Let those through that nobody handles, and that are not in `mask`, as the program has blocked
/// them. Where they wait, the kernel ends a call of another thread for them that it does not make
/// again (epoll_wait, EINTR). In a thread that forks, whose turn it is to change mappings: no
/// handler is set for them meanwhile.
pub(crate) fn let_through(mask: u64) {
    if inline::is_on() {
        let dropped = DROPPED.into_iter().filter(|signal| noted(*signal).handler <= IGNORE);
        let _ = signal::set_mask(UNBLOCK, dropped.map(bit).fold(0, |all, bit| all | bit) & !mask);
    }
}

/// Undo that.
pub(crate) fn unblock(mask: u64) {
    thread::restore_signals(mask);
    if PENDING.load(Ordering::Relaxed) != 0 && inline::is_on() {
        raise_pending();
    }
}

/// What came while it was blocked comes now, unless it still is.
pub(super) fn raise_pending() {
    let blocked = match IS_BLOCKED.load(Ordering::Relaxed) {
        true => Own::current().map_or(0, |own| own.blocked.load(Ordering::Relaxed)),
        false => 0,
    };
    for signal in [SIGBUS, SIGSYS, SIGSEGV]
        .into_iter()
        .filter(|signal| blocked & bit(*signal) == 0)
    {
        if PENDING.fetch_and(!bit(signal), Ordering::Relaxed) & bit(signal) != 0 {
            signal::raise(signal);
        }
    }
}

/// In a forked child.
pub(super) fn reset_in_child() {
    if LOCK.is_locked() {
        // SAFETY: a thread of the parent's held it, which does not exist here: this one does not
        // fork in between.
        unsafe { LOCK.unlock() };
    }
    PENDING.store(0, Ordering::Relaxed);
}

/// Before a call. `None`: it is as any other.
pub(super) fn before(call: &mut Call) -> Option<Verdict> {
    let [first, second, third, ..] = call.args;
    match call.number {
        SYS_CLOSE if lent::is_lent(first) => Some(refuse(call, Errno::BADF)),
        SYS_DUP2 | SYS_DUP3 if lent::is_lent(second) || lent::is_lent(first) => Some(refuse(call, Errno::BADF)),
        SYS_CLOSE_RANGE => Some(done(call, lent::close_range(first, second, third))),
        SYS_RT_SIGACTION => change_action(call),
        SYS_RT_SIGPROCMASK => {
            before_mask(call);
            None
        }
        SYS_SIGALTSTACK => change_stack(call),
        SYS_RT_SIGSUSPEND | SYS_PPOLL | SYS_PSELECT6 | SYS_EPOLL_PWAIT | SYS_EPOLL_PWAIT2 => {
            strip(call);
            None
        }
        SYS_EXECVE | SYS_EXECVEAT => {
            block(BLOCK);
            None
        }
        SYS_EXIT if !inline::is_filtered() => {
            Own::current().into_iter().for_each(Own::leave);
            None
        }
        SYS_SET_ROBUST_LIST => {
            // A thread begins, and may go on in memory that is managed.
            if !inline::is_filtered() {
                let _ = Own::current_of_kernel().or_else(Own::take_on_at_first);
            }
            None
        }
        SYS_SECCOMP => filter::before(call).err().map(|errno| refuse(call, errno)),
        // As if the kernel did not know of it: it is ours.
        SYS_PRCTL if first == SET_SYSCALL_USER_DISPATCH => Some(refuse(call, Errno::INVAL)),
        SYS_PRCTL => filter::before(call).err().map(|errno| refuse(call, errno)),
        _ => None,
    }
}

/// After one that was made. `is_done`: and is not made again.
pub(super) fn after(call: &mut Call, is_done: bool) {
    match call.number {
        SYS_EXECVE | SYS_EXECVEAT => block(if is_done { UNBLOCK } else { BLOCK }),
        SYS_RT_SIGPROCMASK => after_mask(call, is_done),
        _ => {}
    }
    if let Some(arg) = mask_argument(call.number).filter(|_| is_done && call.spare[3] != 0) {
        call.args[arg] = call.spare[3];
    }
}

/// Block for the kernel what is blocked for the program, or no longer.
fn block(how: usize) {
    if IS_BLOCKED.load(Ordering::Relaxed)
        && !inline::is_filtered()
        && let Some(own) = Own::current()
    {
        let _ = signal::set_mask(how, own.blocked.load(Ordering::Relaxed));
    }
}

fn mask_argument(number: usize) -> Option<usize> {
    match number {
        SYS_RT_SIGSUSPEND => Some(0),
        SYS_RT_SIGPROCMASK => Some(1),
        SYS_PPOLL => Some(3),
        SYS_EPOLL_PWAIT | SYS_EPOLL_PWAIT2 => Some(4),
        SYS_PSELECT6 => Some(5),
        _ => None,
    }
}

/// What is blocked while a call waits, if it says so: as the program does, ours included.
pub(super) fn mask_of_call(call: &Call) -> Option<u64> {
    let arg = call.args[mask_argument(call.number)?];
    let at = if call.spare[3] == 0 { arg } else { call.spare[3] };
    let place = match call.number {
        SYS_PSELECT6 if at != 0 => word_at(at)?,
        _ => at,
    };
    let place = Some(place).filter(|place| *place != 0)?;
    word_at(place).map(|mask| mask as u64)
}

/// Have the kernel read the mask without what is ours. The call has the program's again afterwards.
fn strip(call: &mut Call) {
    let Some(arg) = mask_argument(call.number) else { return };
    let at = call.args[arg];
    let is_pair = call.number == SYS_PSELECT6;
    let place = match is_pair {
        true if at != 0 => word_at(at),
        _ => Some(at),
    };
    let Some(mask) = place.filter(|place| *place != 0).and_then(word_at) else {
        return;
    };
    if mask as u64 & ours() == 0 {
        return;
    }
    call.spare[0] = (mask as u64 & !ours()) as usize;
    call.spare[3] = at;
    let stripped = (&raw const call.spare[0]).addr();
    call.args[arg] = match (is_pair, word_at(at.wrapping_add(8))) {
        (true, Some(len)) => {
            (call.spare[1], call.spare[2]) = (stripped, len);
            (&raw const call.spare[1]).addr()
        }
        _ => stripped,
    };
}

/// rt_sigprocmask: strip it, and note what is blocked then and was before.
fn before_mask(call: &mut Call) {
    let [how, set, ..] = call.args;
    let mask = if set == 0 { None } else { word_at(set) };
    let wanted = mask.map_or(0, |mask| mask as u64 & ours());
    if wanted == 0 && !IS_BLOCKED.load(Ordering::Relaxed) {
        return;
    }
    strip(call);
    if inline::is_filtered() {
        // The filter may forbid what it takes to know more.
        return;
    }
    let takes = || {
        if wanted != 0 && how != UNBLOCK {
            Own::take_on()
        } else {
            None
        }
    };
    let Some(own) = Own::current().or_else(takes) else {
        return;
    };
    IS_BLOCKED.store(true, Ordering::Relaxed);
    let old = own.blocked.load(Ordering::Relaxed);
    let new = match how {
        _ if mask.is_none() => old,
        BLOCK => old | wanted,
        UNBLOCK => old & !wanted,
        _ => wanted,
    };
    // What waits is handled before the call returns, with what is open by then.
    own.blocked.store(old & new, Ordering::Relaxed);
    // 0 says that nothing is noted.
    (call.spare[1], call.spare[2]) = (new as usize + 1, old as usize);
}

fn after_mask(call: &mut Call, is_done: bool) {
    let (new, old) = (call.spare[1] as u64, call.spare[2] as u64);
    let (Some(new), Some(own)) = (new.checked_sub(1), Own::current()) else {
        return;
    };
    if !is_done || call.result != 0 {
        return own.blocked.store(old, Ordering::Relaxed);
    }
    own.blocked.store(new, Ordering::Relaxed);
    let told = call.args[2];
    if old != 0
        && told != 0
        && let Some(mask) = word_at(told)
    {
        write(told, &(mask as u64 | old));
    }
    if new != old && PENDING.load(Ordering::Relaxed) & !new != 0 {
        raise_pending();
    }
}

fn change_action(call: &mut Call) -> Option<Verdict> {
    let [signal, new, old, size, ..] = call.args;
    if !(1..SIGNALS).contains(&signal) || size != size_of::<u64>() {
        // The kernel says what is wrong.
        return None;
    }
    let action = match new {
        0 => None,
        at => match read::<Action>(at) {
            Some(action) => Some(action),
            None => return Some(refuse(call, Errno::FAULT)),
        },
    };
    let is_handled = action.is_some_and(|action| action.handler > IGNORE);
    let _turn = (is_handled && DROPPED.contains(&(signal as i32))).then(InOrder::begin);
    let mask = block_others();
    LOCK.lock();
    let before = change(signal as i32, action.as_ref());
    // SAFETY: locked here.
    unsafe { LOCK.unlock() };
    unblock(mask);
    let told = before.and_then(|before| match old == 0 || write(old, &before) {
        true => Ok(0),
        false => Err(Errno::FAULT),
    });
    Some(done(call, told))
}

/// What the program had, changed to `new` if there is one.
fn change(signal: i32, new: Option<&Action>) -> Result<Action, Errno> {
    let kept = noted(signal);
    let is_of_parent = pager::is_vfork_child();
    if is_ours(signal) {
        new.filter(|_| !is_of_parent)
            .into_iter()
            .for_each(|new| note(signal, new));
        return Ok(kept);
    }
    // The kernel would call it on a stack of ours, or could not wait for the page of its frame.
    let is_relayed = new.is_some_and(|new| new.handler > IGNORE && !is_of_parent);
    let is_noted = new.filter(|_| !is_of_parent);
    // Before the kernel has it if the next signal is to find it here, else after: one that comes
    // in between is handled as before.
    is_noted
        .filter(|_| is_relayed)
        .into_iter()
        .for_each(|new| note(signal, new));
    let before = match new.filter(|_| is_relayed) {
        // With all others blocked: what is suspended on our stack would be written over.
        Some(new) => signal::handle(signal, relay, !ours(), new.flags),
        None => {
            let returns = |new: &Action| match new.flags & SA_RESTORER {
                0 => new.restorer,
                _ => signal::restorer(),
            };
            let stripped = new.map(|new| Action {
                mask: new.mask & !ours(),
                restorer: returns(new),
                ..*new
            });
            // SAFETY: as the program asked.
            unsafe { signal::action(signal, stripped.as_ref()) }
        }
    };
    match (before, is_noted) {
        (Err(_), Some(_)) if is_relayed => note(signal, &kept),
        (Ok(_), Some(new)) if !is_relayed => note(signal, new),
        _ => {}
    }
    let relays = relay as *const () as usize;
    before.map(|before| match before.handler {
        handler if handler == relays => kept,
        // It has come once.
        DEFAULT if kept.flags & SA_RESETHAND != 0 => Action {
            handler: DEFAULT,
            ..kept
        },
        _ => Action {
            mask: before.mask | kept.mask & ours(),
            restorer: kept.restorer,
            ..before
        },
    })
}
