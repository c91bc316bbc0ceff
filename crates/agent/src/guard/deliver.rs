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
use uzswap_sys::signal::{SET, SIGSEGV, SS_DISABLE, SignalInfo, Stack, bit};

use super::signals::{IS_BLOCKED, KEPT, PENDING, mask_of_call, note, noted, ours, raise_pending};
use crate::fault::inline;
use crate::guest::vma;
use crate::pager;

/// A signal that the program handles. The thread is on a stack of ours, if it has one, with all
/// blocked but ours.
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
    let may_ask = !inline::is_filtered();
    if !context.has_room(action, stack.as_ref(), may_ask) {
        return without_room(signal, context);
    }
    let deferred = if action.flags & SA_NODEFER == 0 { bit(signal) } else { 0 };
    let within = within_call(signal, context);
    let mask = (within.unwrap_or(context.mask()) | action.mask | deferred) & !ours();
    let blocks = (action.mask | deferred) & ours();
    let before = context
        .own()
        .and_then(|own| block_for_handler(own, action, within, blocks));
    context.deliver(signal, action, stack.as_ref(), mask, before);
}

/// As the kernel, raise SIGSEGV, whose handler may have a stack with room.
fn without_room(signal: i32, context: &mut Context) {
    let is_open = context.mask() & bit(SIGSEGV) == 0 && !is_blocked(SIGSEGV, context);
    match signal != SIGSEGV && is_open && noted(SIGSEGV).handler > IGNORE {
        true => {
            // It comes when this handler has returned.
            let _ = signal::set_mask(SET, u64::MAX);
            signal::force(SIGSEGV);
        }
        false => end_by(SIGSEGV, context),
    }
}

/// Whether the program thinks that one of ours is blocked. Nobody keeps that behind a filter of
/// system calls.
fn is_blocked(signal: i32, context: &Context) -> bool {
    let is_set = |own: &Own| own.blocked.load(Ordering::Relaxed) & bit(signal) != 0;
    !inline::is_filtered() && context.own().is_some_and(is_set)
}

/// What was blocked as the signal came, if that was by the mask of a call. The frame says what the
/// handler returns to, which such a call replaces for its time.
fn within_call(signal: i32, context: &Context) -> Option<u64> {
    let within = context.interrupts().and_then(mask_of_call)?;
    // Where it is blocked within the call alone, it has come since.
    (context.mask() & bit(signal) != 0 || within & bit(signal) == 0).then_some(within)
}

/// The program thinks that of ours `blocks` are blocked while its handler runs, and what was
/// before, or is `within` a call. Whoever causes one of these then ends. Returns what it thought
/// was blocked before. `None`: nobody would see the handler return, whose frame the kernel reads.
fn block_for_handler(own: &Own, action: &Action, within: Option<u64>, blocks: u64) -> Option<u64> {
    // On another stack the handler is called by ours, and returns to it.
    let is_seen = own.is_dispatched.load(Ordering::Relaxed) && action.flags & SA_RESTORER != 0 && is_on_own_stack();
    if !is_seen || inline::is_filtered() || pager::is_vfork_child() {
        return None;
    }
    let before = own.blocked.load(Ordering::Relaxed);
    note_blocked(own, within.map_or(before, |within| within & ours()) | blocks);
    Some(before)
}

fn note_blocked(own: &Own, blocked: u64) {
    own.blocked.store(blocked, Ordering::Relaxed);
    if blocked != 0 {
        IS_BLOCKED.store(true, Ordering::Relaxed);
    }
}

/// The program's handler returns, by a call that was stopped.
pub(super) fn leave_handler(context: &mut Context) {
    let blocked = context.leave(ours(), !inline::is_filtered());
    context.own().into_iter().for_each(|own| note_blocked(own, blocked));
    if PENDING.load(Ordering::Relaxed) != 0 && !inline::is_filtered() {
        raise_pending();
    }
}

/// The process ends by a signal, when the handler returns.
fn end_by(signal: i32, context: &mut Context) {
    context.open(signal);
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
    let is_blocked = is_of_us && (context.mask() | ours()) & KEPT == KEPT || is_blocked(signal, context);
    match action.handler {
        _ if is_blocked && is_sent => drop(PENDING.fetch_or(bit(signal), Ordering::Relaxed)),
        IGNORE if is_sent => {}
        handler if handler <= IGNORE || is_blocked => end_by(signal, context),
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
            if !inline::is_filtered() {
                signal::open_to_bring();
            }
            deliver(signal, &action, context);
        }
    }
}
