//! Calls that make a thread or a process: fork, clone, clone3. In threads of the program.
//!
//! A child goes on here, with a pager of its own, before one instruction of libc runs. vfork is left
//! alone: such a child has the memory of its parent, which waits.

use uzswap_guard::reach::{Extent, Memory};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::guard::{Call, Verdict};

use super::bring::Reached;
use super::{ADDRESSES, leave_to_kernel, ranges, refuse, release, word_at};
use crate::{fork, inline, pager};

const SYS_CLONE: usize = 56;
const SYS_FORK: usize = 57;
const SYS_CLONE3: usize = 435;
pub(super) const CALLS: [usize; 3] = [SYS_CLONE, SYS_FORK, SYS_CLONE3];

const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_VFORK: usize = 0x4000;
const CLONE_THREAD: usize = 0x10000;
/// What a new thread uses of a stack before it makes its first call, at most. Bytes.
const FIRST_FRAMES: usize = 64 << 10;

/// Before one.
pub(super) fn before(call: &mut Call) -> Verdict {
    match call.number {
        SYS_CLONE => before_clone(call),
        SYS_CLONE3 => before_clone3(call),
        _ => before_fork(call, 0),
    }
}

/// After one that was made here: in the parent, and in the child.
pub(super) fn after(call: &mut Call) {
    let stack = core::mem::take(&mut call.token);
    if call.number == SYS_CLONE {
        call.args[1] = stack;
    }
    match call.result {
        0 => {
            fork::child();
            if stack != 0 {
                call.stack = stack;
            }
        }
        made => fork::parent_of(made as i32),
    }
}

/// A child that is to have another stack begins on a copy of this one, with its pager, and changes
/// over when it leaves us.
fn before_clone(call: &mut Call) -> Verdict {
    let [flags, stack, ..] = call.args;
    let verdict = before_fork(call, flags);
    if verdict == Verdict::Make {
        (call.args[1], call.token) = (0, stack);
    }
    verdict
}

fn before_clone3(call: &mut Call) -> Verdict {
    const STACK: usize = 40;
    let Some(flags) = word_at(call.args[0]) else {
        // Nowhere: the kernel says so.
        return Verdict::Leave;
    };
    if flags & CLONE_VM == 0 && word_at(call.args[0] + STACK) != Some(0) {
        // libc makes a clone of it then.
        return refuse(call, Errno::NOSYS);
    }
    before_fork(call, flags)
}

/// A thread begins on a stack of the program's. Before it has a stack of ours, whatever is out of
/// that could not be brought.
fn before_thread(call: &Call) {
    const STACK: [usize; 2] = [40, 48];
    let (start, end) = match call.number {
        SYS_CLONE3 => {
            let [start, len] = STACK.map(|at| word_at(call.args[0] + at).unwrap_or(0));
            (start, start.saturating_add(len))
        }
        _ => (call.args[1].saturating_sub(FIRST_FRAMES), call.args[1]),
    };
    let (start, end) = (start & !(PAGE_SIZE - 1), end & !(PAGE_SIZE - 1));
    if start < end && end < ADDRESSES && ranges::next(start, end).is_some() {
        leave_to_kernel(start, end);
    }
}

/// A call that makes a process or a thread.
fn before_fork(call: &mut Call, flags: usize) -> Verdict {
    if flags & CLONE_VM != 0 {
        bring_numbers(call, flags);
        if inline::is_on() {
            before_thread(call);
            if flags & (CLONE_THREAD | CLONE_VFORK) == 0 {
                // One that may outlive us, or be killed by itself inside.
                inline::only_ask();
            }
        }
        // On another stack, perhaps, or on this one beneath us.
        return Verdict::Leave;
    }
    if flags & CLONE_FILES != 0 && inline::is_on() {
        // Its pager would take the place of its parent's descriptors.
        return refuse(call, Errno::INVAL);
    }
    if pager::is_of_another_process() {
        // A child that has its parent's memory: what is out would be zeros in a child of its own.
        return refuse(call, Errno::AGAIN);
    }
    fork::prepare();
    // Nothing leaves any more. The kernel writes to the child's before that can register it: what
    // is not there would be zeros but for the number.
    bring_numbers(call, flags);
    Verdict::Make
}

/// Bring where the kernel writes the new thread's number, in the parent and in the child: it does
/// not say so when it cannot.
fn bring_numbers(call: &Call, flags: usize) {
    /// CLONE_PARENT_SETTID, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID.
    const WRITES: usize = 0x10_0000 | 0x100_0000 | 0x20_0000;
    /// Of clone3's arguments.
    const NUMBERS: [usize; 2] = [16, 24];
    if flags & WRITES == 0 {
        return;
    }
    let places = match call.number {
        SYS_CLONE3 => NUMBERS.map(|at| word_at(call.args[0] + at).unwrap_or(0)),
        _ => [call.args[2], call.args[3]],
    };
    let mut reached = Reached::new(0, (&raw const *call).addr(), false);
    for start in places.into_iter().filter(|start| (1..ADDRESSES).contains(start)) {
        reached.reach(Extent {
            start,
            len: size_of::<i32>(),
            is_written: true,
        });
    }
    release(reached.token());
}
