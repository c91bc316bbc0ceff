//! Calls that make a thread or a process: fork, clone, clone3. In threads of the program.
//!
//! A child goes on here, with a pager of its own, before one instruction of libc runs. That of a
//! vfork has the memory of its parent, which waits, and no pager.

use core::sync::atomic::Ordering;

use uzswap_guard::reach::{Extent, Memory};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::closed;
use uzswap_sys::guard::{Call, Verdict, Vfork};
use uzswap_sys::maps::Maps;
use uzswap_sys::own_stack::Own;
use uzswap_sys::thread::{self, page_align};

use super::altstack::leave_to_kernel;
use super::bring::{self, Reached};
use super::{ADDRESSES, is_alone, ranges, refuse, release, signals, word_at};
use crate::fault::inline;
use crate::guest::stacks;
use crate::{fork, pager};

const SYS_CLONE: usize = 56;
const SYS_FORK: usize = 57;
const SYS_CLONE3: usize = 435;
pub(super) const CALLS: [usize; 3] = [SYS_CLONE, SYS_FORK, SYS_CLONE3];
const SYS_SET_TID_ADDRESS: usize = 218;
const SYS_SET_ROBUST_LIST: usize = 273;
const SYS_RSEQ: usize = 334;
pub(super) const SYS_VFORK: usize = 58;
/// Calls that are seen where no libc is known: those that tell the kernel of words of a thread, and
/// one whose child comes back to its parent's stack.
pub(super) const ALONE: [usize; 4] = [SYS_SET_TID_ADDRESS, SYS_SET_ROBUST_LIST, SYS_RSEQ, SYS_VFORK];

pub(crate) const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_VFORK: usize = 0x4000;
pub(crate) const CLONE_THREAD: usize = 0x10000;
const CLONE_CLEAR_SIGHAND: usize = 1 << 32;
/// What a new thread uses of a stack before it makes its first call, at most. Bytes.
const FIRST_FRAMES: usize = 64 << 10;
/// What glibc keeps of a thread (`struct pthread`) is shorter. Bytes.
const LIBCS: usize = 4096;

/// Why one that cannot be seen to may not be made: in its child all that is out would be zeros.
/// `first`: its first argument.
pub(super) fn refuses_unseen(number: usize, first: usize) -> Option<Errno> {
    match number {
        SYS_FORK => Some(Errno::AGAIN),
        SYS_CLONE if first & CLONE_VM == 0 => Some(Errno::AGAIN),
        // libc makes a clone of it then.
        SYS_CLONE3 => Some(Errno::NOSYS),
        _ => None,
    }
}

/// Before one.
pub(super) fn before(call: &mut Call) -> Verdict {
    match call.number {
        SYS_CLONE => before_clone(call),
        SYS_CLONE3 => before_clone3(call),
        SYS_VFORK => before_fork(call, CLONE_VM | CLONE_VFORK),
        _ => before_fork(call, 0),
    }
}

/// A thread has been made, or has begun; or a process with our memory.
pub(super) fn born(call: &mut Call) -> Verdict {
    let (token, is_child) = (call.token, call.result == 0);
    // A child of vfork has its parent's stack for handlers, as that waits.
    let own = Own::current_of_kernel();
    if is_child {
        own.or_else(Own::take_on_at_first).into_iter().for_each(Own::dispatch);
    }
    if !is_child && token & IS_VFORK != 0 {
        own.into_iter().for_each(Own::take_besides_back);
        // The child has left this stack as we do now, perhaps.
        let is_used = Own::is_used((&raw const *call).addr());
        is_used.into_iter().for_each(|used| used.store(1, Ordering::Relaxed));
    }
    if !is_child && token & IS_BELOW != 0 {
        Vfork::end();
    }
    signals::unblock((token & !(IS_VFORK | IS_BELOW)) as u64);
    Verdict::Done
}

/// The bits of SIGKILL and SIGSTOP, which are in no mask: the parent waits; the child is on its
/// stack.
const IS_VFORK: usize = 1 << 8;
const IS_BELOW: usize = 1 << 18;

/// How a thread that is made, or a process with our memory, comes by here before its first
/// instruction, where nothing else tells of it: one of libc's makes a call that is known.
fn greeting(call: &mut Call, flags: usize) -> Verdict {
    if !is_alone() || inline::is_filtered() || flags & (CLONE_THREAD | CLONE_VFORK) == 0 {
        return Verdict::Leave;
    }
    let (start, top) = stack_of(call);
    let mask = signals::block_others() as usize;
    let token = match flags & CLONE_VFORK {
        0 => mask,
        _ => {
            let here = (&raw const *call).addr();
            Own::current_of_kernel()
                .into_iter()
                .for_each(|own| own.lend_besides(here));
            mask | IS_VFORK
        }
    };
    let verdict = match top {
        0 if flags & CLONE_VFORK != 0 => greet_below(call, token | IS_BELOW),
        top if top.saturating_sub(start) >= PAGE_SIZE => greet_on(call, top, token),
        _ => Verdict::Leave,
    };
    if verdict == Verdict::Leave {
        signals::unblock(mask as u64);
    }
    verdict
}

/// On a stack of its own.
fn greet_on(call: &mut Call, top: usize, token: usize) -> Verdict {
    call.token = token;
    let can_be = (2 * FIRST_FRAMES..ADDRESSES).contains(&top);
    match can_be && call.leave_for_both(top, |at, word| bring::write(at, &word)) {
        true => Verdict::Bear,
        false => Verdict::Leave,
    }
}

/// On this one, while its parent waits.
fn greet_below(call: &mut Call, token: usize) -> Verdict {
    let stack = Own::current_of_kernel().and_then(Own::take_beside);
    let Some(stack) = stack else { return Verdict::Leave };
    // A child that makes one would wait for its parent.
    let waits = if pager::is_vfork_child() { 1 } else { VFORK_WAITS };
    for _ in 0..waits {
        if Vfork::begin(call, token, stack) {
            return Verdict::Vfork;
        }
        pager::pause(VFORK_WAIT_NS);
    }
    Own::is_used(stack - 1)
        .into_iter()
        .for_each(|used| used.store(0, Ordering::Relaxed));
    Verdict::Leave
}

/// How long one waits until another has become a program.
const VFORK_WAITS: u32 = 10_000;
const VFORK_WAIT_NS: u64 = 100_000;

/// After one that was made here: in the parent, and in the child.
pub(super) fn after(call: &mut Call) {
    let stack = core::mem::take(&mut call.token);
    if call.number == SYS_CLONE {
        call.args[1] = stack;
    }
    match call.result {
        0 => {
            fork::child_of(call.spare[0] == 0);
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

/// What clone3 reads.
fn arguments(call: &Call) -> Extent {
    Extent {
        start: call.args[0],
        len: call.args[1].clamp(WORD, PAGE_SIZE),
        is_written: false,
    }
}

const WORD: usize = size_of::<u64>();

fn before_clone3(call: &mut Call) -> Verdict {
    const STACK: usize = 40;
    let Extent { start: at, len, .. } = arguments(call);
    // The last word brings what is on another page.
    let last = at.saturating_add(len - WORD);
    let (Some(flags), Some(_)) = (word_at(at), word_at(last)) else {
        // Nowhere: the kernel says so.
        return Verdict::Leave;
    };
    let has_stack = flags & CLONE_VM == 0 && word_at(call.args[0] + STACK) != Some(0);
    // Without our handlers the child ends at its first fault.
    let clears = flags & CLONE_CLEAR_SIGHAND != 0 && inline::is_on();
    if has_stack || clears {
        // libc makes a clone of it then.
        return refuse(call, Errno::NOSYS);
    }
    before_fork(call, flags)
}

/// The stack that a call gives: where it begins and ends, as far as that is told.
fn stack_of(call: &Call) -> (usize, usize) {
    const STACK: [usize; 2] = [40, 48];
    match call.number {
        SYS_CLONE3 => {
            let [start, len] = STACK.map(|at| word_at(call.args[0] + at).unwrap_or(0));
            (start, start.saturating_add(len).min(ADDRESSES))
        }
        SYS_CLONE => (call.args[1].saturating_sub(FIRST_FRAMES), call.args[1].min(ADDRESSES)),
        _ => (0, 0),
    }
}

/// Where the kernel writes by itself to the first thread's memory, and cannot wait for a page, is
/// never managed from now on: its number at its end, its robust list, what rseq(2) is told. libc's
/// are known by the list. What rseq(2) is told may be in any thread.
pub(super) fn leave_words(call: &Call) {
    let len = match call.number {
        SYS_SET_TID_ADDRESS => size_of::<i32>(),
        SYS_SET_ROBUST_LIST => 3 * size_of::<usize>(),
        SYS_RSEQ => call.args[1].min(PAGE_SIZE),
        _ => return,
    };
    let start = call.args[0];
    if !(1..ADDRESSES).contains(&start) {
        return;
    }
    let (start, end) = (start & !(PAGE_SIZE - 1), page_align(start + len));
    let is_first = is_alone() && thread::tid() == thread::pid();
    // A thread of libc's has its words on its stack, which is known.
    if is_first || call.number == SYS_RSEQ && !stacks::covers(start, end) {
        leave_to_kernel(start, end);
    }
}

/// A thread begins on a stack of the program's. The kernel writes to what libc keeps at its end:
/// when the thread ends, and each time that it comes to a core (rseq). And before it has a stack of
/// ours, whatever is out of that could not be brought.
fn before_thread(call: &Call) {
    let (start, end) = stack_of(call);
    let (mut start, end) = (start & !(PAGE_SIZE - 1), page_align(end));
    if start >= end || end >= ADDRESSES {
        return;
    }
    if call.number == SYS_CLONE3 && !stacks::covers(start, end) {
        // One that the program has made of other memory: it may be registered later.
        return leave_to_kernel(start, end_of_libcs(call, end));
    }
    if !inline::is_on() || ranges::next(start, end).is_none() {
        return;
    }
    if call.number == SYS_CLONE {
        // How deep it is nobody says: what lies beneath its mapping is another's.
        let top = end - PAGE_SIZE;
        let is_closed = closed::is_on() && closed::holds_any(top, end);
        let vma = Maps::of_program().and_then(|maps| maps.at_or_after(top)).ok().flatten();
        start = match is_closed {
            // In parts, which are mappings for the kernel.
            true => closed::beginning(start, end),
            false => vma.map_or(start, |vma| start.max(vma.start.min(top))),
        };
    }
    if ranges::next(start, end).is_some() {
        leave_to_kernel(start, end);
    }
}

/// Where what glibc keeps of a thread ends, which it has above the stack, in the same memory.
fn end_of_libcs(call: &Call, end: usize) -> usize {
    const TLS: usize = 56;
    let thread = word_at(call.args[0] + TLS).unwrap_or(0);
    let is_above = (end - PAGE_SIZE..end + FIRST_FRAMES).contains(&thread);
    if is_above {
        page_align(thread + LIBCS).min(ADDRESSES)
    } else {
        end
    }
}

/// A call that makes a process or a thread.
fn before_fork(call: &mut Call, flags: usize) -> Verdict {
    if flags & CLONE_VM != 0 {
        bring_numbers(call, flags);
        before_thread(call);
        if inline::is_on() && flags & (CLONE_THREAD | CLONE_VFORK) == 0 {
            // One that may outlive us, or be killed by itself inside.
            inline::only_ask();
        }
        // On another stack, perhaps, or on this one beneath us.
        return greeting(call, flags);
    }
    if flags & CLONE_FILES != 0 && inline::is_on() {
        // Its pager would take the place of its parent's descriptors.
        return refuse(call, Errno::INVAL);
    }
    if pager::is_of_another_process() {
        // A child that has its parent's memory: what is out would be zeros in a child of its own.
        return refuse(call, Errno::AGAIN);
    }
    if !fork::prepare_in_order(true) {
        return refuse(call, Errno::AGAIN);
    }
    if pager::is_of_another_process() {
        // Its pager has begun meanwhile.
        return refuse(call, Errno::AGAIN);
    }
    // Nothing leaves any more. The kernel writes to the child's before that can register it: what
    // is not there would be zeros but for the number.
    bring_numbers(call, flags);
    call.spare[0] = usize::from(pager::is_vfork_child());
    fork::begin();
    Verdict::Make
}

/// Bring where the kernel writes the new thread's number, in the parent and in the child: it does
/// not say so when it cannot. And once more what it reads, which may have left since.
fn bring_numbers(call: &Call, flags: usize) {
    /// CLONE_PARENT_SETTID, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID, CLONE_PIDFD.
    const WRITES: usize = 0x10_0000 | 0x100_0000 | 0x20_0000 | 0x1000;
    /// Of clone3's arguments.
    const NUMBERS: [usize; 3] = [8, 16, 24];
    let mut reached = Reached::new(0, (&raw const *call).addr(), false);
    if call.number == SYS_CLONE3 {
        reached.reach(arguments(call));
    }
    if flags & WRITES == 0 {
        return release(reached.token());
    }
    let places = match call.number {
        SYS_CLONE3 => NUMBERS.map(|at| word_at(call.args[0] + at).unwrap_or(0)),
        _ => [call.args[2], call.args[3], 0],
    };
    for start in places.into_iter().filter(|start| (1..ADDRESSES).contains(start)) {
        reached.reach(Extent {
            start,
            len: size_of::<i32>(),
            is_written: true,
        });
    }
    release(reached.token());
}
