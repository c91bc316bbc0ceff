//! A signal of the program's reaches its handler, or ends it, where ours was called first.
//!
//! ```text
//! kernel   our handler, on our stack -> a frame on the program's, as the kernel would make it
//! program  its handler runs; what is ours counts as blocked if it says so
//!          returns: rt_sigreturn, which is stopped -> counts no more -> our frame is made of its
//! ```
//! The call is the program's own: what unwinds a stack knows a handler by its bytes.

use core::sync::atomic::Ordering;

use uzswap_sys::own_stack::{Own, is_on_own_stack};
use uzswap_sys::signal::{self, Action, Context, DEFAULT, IGNORE, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTORER};
use uzswap_sys::signal::{SIGSEGV, SS_DISABLE, SignalInfo, Stack, bit};

use super::signals::{IS_BLOCKED, KEPT, PENDING, mask_of_call, note, noted, ours, raise_pending, relays_all};
use crate::fault::inline;
use crate::guest::vma;
use crate::pager;

/// A signal whose handler is to run on the program's alternate stack: the kernel has ours.
pub(super) extern "C" fn relay(signal: i32, _: &SignalInfo, context: &mut Context) {
    let action = noted(signal);
    if action.handler > IGNORE {
        deliver(signal, &action, context);
    }
}

/// The program's handler is called, as the kernel would, when ours returns.
fn deliver(signal: i32, action: &Action, context: &mut Context) {
    let stack = context.own().map(Own::program_stack);
    let is_wanted = |stack: &Stack| stack.flags & SS_DISABLE == 0 && !stack.is_on(context.program_sp());
    let stack = stack.filter(|stack| action.flags & SA_ONSTACK != 0 && is_wanted(stack));
    let deferred = if action.flags & SA_NODEFER == 0 { bit(signal) } else { 0 };
    let mask = (blocked_at(signal, context) | action.mask | deferred) & !ours();
    let (top, bottom) = match stack {
        Some(stack) => (Some(stack.start + stack.len), stack.start),
        None => (None, 0),
    };
    let blocks = (action.mask | deferred) & ours();
    let before = context.own().and_then(|own| block_for_handler(own, action, blocks));
    if !context.deliver(signal, action, top, bottom, mask, before) {
        end_by(SIGSEGV);
    }
}

/// What was blocked as the signal came. The frame says what the handler returns to, which a call
/// may have replaced meanwhile; or it had, and a handler that the kernel called has run since.
fn blocked_at(signal: i32, context: &Context) -> u64 {
    let after = context.mask();
    match context.interrupts().and_then(mask_of_call) {
        // Else it would not have come.
        Some(within) if after & bit(signal) != 0 => within,
        Some(within) if within & bit(signal) == 0 && relays_all() => within,
        _ => after,
    }
}

/// The program thinks that these of ours are blocked while its handler runs: who causes one then
/// ends. Returns what it thought was blocked before. `None`: nobody would see the handler return,
/// whose frame the kernel reads then.
fn block_for_handler(own: &Own, action: &Action, blocks: u64) -> Option<u64> {
    // On another stack the handler is called by ours, and returns to it.
    let is_seen = own.is_dispatched.load(Ordering::Relaxed) && action.flags & SA_RESTORER != 0 && is_on_own_stack();
    if !is_seen || pager::is_vfork_child() {
        return None;
    }
    if blocks != 0 {
        IS_BLOCKED.store(true, Ordering::Relaxed);
    }
    Some(own.blocked.fetch_or(blocks, Ordering::Relaxed))
}

/// The program's handler returns, by a call that was stopped.
pub(super) fn leave_handler(context: &mut Context) {
    let blocked = context.leave(ours());
    context
        .own()
        .into_iter()
        .for_each(|own| own.blocked.store(blocked, Ordering::Relaxed));
    if PENDING.load(Ordering::Relaxed) != 0 {
        raise_pending();
    }
}

/// The process ends by a signal, when the handler returns.
fn end_by(signal: i32) {
    let none = Action {
        handler: DEFAULT,
        ..Action::default()
    };
    // SAFETY: no handler.
    let _ = unsafe { signal::action(signal, Some(&none)) };
    signal::raise(signal);
}

/// One of ours that is the program's after all.
pub(crate) fn hand_on(signal: i32, info: &SignalInfo, context: &mut Context) {
    if context.own().is_none() && !inline::only_asks() {
        Own::take().into_iter().for_each(|own| context.give(own));
    }
    let (action, is_sent) = (noted(signal), info.code() <= 0);
    // Where all others are blocked it is we who did that, or the program, whose code goes on.
    let (start, end) = vma::agent_image();
    let is_of_us = is_sent || (start..end).contains(&context.ip());
    let is_blocked = is_of_us && (context.mask() | ours()) & KEPT == KEPT
        || context
            .own()
            .is_some_and(|own| own.blocked.load(Ordering::Relaxed) & bit(signal) != 0);
    match action.handler {
        _ if is_blocked && is_sent => drop(PENDING.fetch_or(bit(signal), Ordering::Relaxed)),
        IGNORE if is_sent => {}
        handler if handler <= IGNORE || is_blocked => end_by(signal),
        _ => {
            if action.flags & SA_RESETHAND != 0 {
                note(
                    signal,
                    &Action {
                        handler: DEFAULT,
                        ..action
                    },
                );
            }
            deliver(signal, &action, context)
        }
    }
}
