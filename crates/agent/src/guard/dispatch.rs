//! Calls that no jump leads to the guard from: of code that was loaded later or made at run time,
//! or that no jump could be put into. The kernel raises SIGSYS for them (Syscall User Dispatch).
//!
//! The handler has the thread go on at the guard's entry, as if there had been a jump, with the
//! program's signals as they were. Where no libc is known, the call is seen to on a stack of ours:
//! a goroutine's has room for little more than the call.
//!
//! Threads have this from when they have a stack for handlers ([`Own`]). A vfork child has not.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_sys::Errno;
use uzswap_sys::gateways::{self, Gateway, Room};
use uzswap_sys::guard;
use uzswap_sys::libc::is_code_of_go;
use uzswap_sys::own_stack::Own;
use uzswap_sys::signal::{Context, SYS_SECCOMP, SYS_USER_DISPATCH, SignalInfo};
use uzswap_sys::time;

use super::{clone, deliver, is_alone, is_of_go};
use crate::fault::inline;
use crate::guest::vma;
use crate::memcg::deferral;
use crate::pager;

const SYS_RT_SIGRETURN: usize = 15;

/// Every call of the program comes by here: none was let pass since the first.
static SEES_ALL: AtomicBool = AtomicBool::new(false);

/// Whether no call of the program passes unseen.
pub(super) fn sees_all() -> bool {
    SEES_ALL.load(Ordering::Relaxed)
}

/// In the constructor, when jumps are where they can be.
///
/// # Errors
/// The kernel cannot.
pub(super) fn begin() -> Result<(), Errno> {
    let (start, end) = vma::agent_image();
    gateways::begin_dispatch(start, end)?;
    SEES_ALL.store(true, Ordering::Relaxed);
    // This thread has had its stack from before.
    let own = Own::current_of_kernel();
    own.into_iter()
        .for_each(|own| own.is_dispatched.store(true, Ordering::Relaxed));
    // Where the clock cannot be read without a call (hpet, acpi_pm), the vDSO's first is met now.
    let _ = time::now_ns();
    Ok(())
}

/// SIGSYS. In a thread of the program, all signals blocked.
///
/// The clock may become one that takes a call at any time: TSC found unstable, a machine that moves
/// to another. Whoever meets that first may be a handler of ours that serves a fault, so those have
/// SIGSYS open. This one reads no clock.
pub(super) extern "C" fn on_system_call(signal: i32, info: &SignalInfo, context: &mut Context) {
    let is_sent = info.code() <= 0;
    if is_sent && context.defer(signal, info) {
        return;
    }
    if info.code() == SYS_SECCOMP && pager::inherited().is_none() && is_ours(context.ip()) {
        // A filter of the program's, whose handler does not expect it. Nothing is out, so it is as
        // if there were no such call.
        return context.answer(Errno::NOSYS);
    }
    if info.code() != SYS_USER_DISPATCH {
        return deliver::hand_on(signal, info, context);
    }
    if !info.is_of_x86_64() {
        // Other numbers, and other arguments. Such code is made by nobody but for old programs.
        end(context);
        return context.make_call_again();
    }
    if context.number() == SYS_RT_SIGRETURN {
        return deliver::leave_handler(context);
    }
    if context.make_clock_call() {
        return;
    }
    let Some(gateway) = Gateway::of(context.ip()) else {
        if let Some(errno) = clone::refuses_unseen(context.number(), context.argument()) {
            return context.answer(errno);
        }
        pager::say(format_args!(
            "uzswap: too much code makes system calls of its own: some fail where memory is out\n"
        ));
        end(context);
        return context.make_call_again();
    };
    let room = match (is_of_go(), is_alone()) {
        (true, _) => Room::Little,
        (false, true) => Room::Enough,
        // A library of Go's, perhaps. A filter may forbid to find out.
        (false, false) => gateway.room(|| match inline::is_filtered() || is_code_of_go(context.ip()) {
            true => Room::Little,
            false => Room::Enough,
        }),
    };
    let gateway = gateway.addr();
    if !guard::sees(context.number()) {
        return context.go_on_at(gateway, gateway, None);
    }
    let own = context.own().filter(|_| is_alone() || room == Room::Little);
    match own.and_then(Own::take_beside) {
        stack @ Some(_) => return context.go_on_at(guard::entry_beside_address(), gateway, stack),
        // It would write over what lies below a small stack.
        None if room == Room::Little => {}
        None => return context.go_on_at(guard::entry_address(), gateway, None),
    }
    context.go_on_at(gateway, gateway, None);
}

/// Whether the call in front of `ip` is one of ours.
fn is_ours(ip: usize) -> bool {
    let (start, end) = vma::agent_image();
    (start..end).contains(&ip) && !gateways::is_of_program(ip)
}

/// The calls of this thread pass from now on.
fn end(context: &Context) {
    SEES_ALL.store(false, Ordering::Relaxed);
    deferral::note_passing();
    gateways::end_dispatch();
    context
        .own()
        .into_iter()
        .for_each(|own| own.is_dispatched.store(false, Ordering::Relaxed));
}
