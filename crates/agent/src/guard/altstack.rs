//! The alternate stack that a thread of the program thinks it has: the kernel has ours.

use uzswap_guard::table::BY_NUMBER;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::guard::{Call, Verdict};
use uzswap_sys::own_stack::Own;
use uzswap_sys::signal::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, STACK_MIN, Stack};

use uzswap_sys::thread::page_align;

use super::bring::{read, write};
use super::{ADDRESSES, done, ranges, refuse, see_to, word_at};
use crate::fault::inline;
use crate::guest::order::InOrder;
use crate::guest::stacks::StackChange;
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

/// sigaltstack(2): the kernel writes frames of signals there, and cannot wait for a page. So it is
/// never managed from now on.
pub(super) fn before(call: &mut Call) -> Verdict {
    const FLAGS: usize = 8;
    const SIZE: usize = 16;
    let at = call.args[0];
    let is_none = || word_at(at.wrapping_add(FLAGS)).is_none_or(|flags| flags as i32 & SS_DISABLE != 0);
    if let (true, Some(start), Some(len)) = (at != 0, word_at(at), word_at(at.wrapping_add(SIZE)))
        && !is_none()
        && len > 0
        && start < start.saturating_add(len)
        && start.saturating_add(len) < ADDRESSES
    {
        leave_to_kernel(start & !(PAGE_SIZE - 1), page_align(start + len));
    }
    if let Some(row) = BY_NUMBER[call.number] {
        call.token = see_to(row, &call.args, 0, false).0;
    }
    Verdict::Make
}

/// Have a stack never managed from now on: the kernel writes there.
pub(super) fn leave_to_kernel(start: usize, end: usize) {
    let _turn = InOrder::begin();
    StackChange::begin().add(start, end);
    if let Some(pager) = pager::active().filter(|_| ranges::next(start, end).is_some()) {
        pager.request_release(start, end);
    }
}
