//! The alternate stack that a thread of the program thinks it has: the kernel has ours.

use uzswap_sys::Errno;
use uzswap_sys::guard::{Call, Verdict};
use uzswap_sys::own_stack::Own;
use uzswap_sys::signal::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, STACK_MIN, Stack};

use super::bring::{read, write};
use super::{done, refuse};
use crate::fault::inline;
use crate::pager;

/// sigaltstack. `None`: there is no stack of ours for this thread, so the kernel has the program's.
pub(super) fn change_stack(call: &mut Call) -> Option<Verdict> {
    let [new, old, ..] = call.args;
    // A filter may forbid what it takes to have one.
    let may_take = new != 0 && !inline::is_filtered();
    let own = Own::current().or_else(|| may_take.then(Own::take_on).flatten());
    let stack = match new {
        0 => None,
        at => match read::<Stack>(at) {
            Some(stack) => Some(stack),
            None => return Some(refuse(call, Errno::FAULT)),
        },
    };
    let Some(own) = own else {
        // The kernel has what the program set, if anything.
        return None;
    };
    let (kept, sp) = (own.program_stack(), call.stack);
    let is_on = kept.flags & SS_DISABLE == 0 && kept.is_on(sp);
    if let Some(stack) = stack {
        let mode = stack.flags & !SS_AUTODISARM;
        let error = match mode {
            _ if is_on => Some(Errno::PERM),
            SS_DISABLE => None,
            0 | SS_ONSTACK if stack.len < STACK_MIN => Some(Errno::NOMEM),
            0 | SS_ONSTACK => None,
            _ => Some(Errno::INVAL),
        };
        if let Some(error) = error {
            return Some(refuse(call, error));
        }
        // What a vfork child sets is its own, and it soon ends or is another program.
        if !pager::is_vfork_child() {
            own.set_program_stack(match mode {
                SS_DISABLE => Stack::new(0, 0, SS_DISABLE),
                _ => Stack::new(stack.start, stack.len, stack.flags & SS_AUTODISARM),
            });
        }
    }
    let told = Stack {
        flags: kept.flags | if is_on { SS_ONSTACK } else { 0 },
        ..kept
    };
    let result = match old == 0 || write(old, &told) {
        true => Ok(0),
        false => Err(Errno::FAULT),
    };
    Some(done(call, result))
}
