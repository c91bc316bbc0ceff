//! Every global of the agent and of the crates in it, and what becomes of it in a forked child.
//!
//! A child has a copy of all of them and none of the threads that wrote to them, but for the one
//! that forked. A new one gets a row here: `cli/tests/tidy` compares the table with the source.
//! - *reset*: [`reset_in_child`] says that nobody is at it, or that the child starts over.
//! - *replaced*: it holds the parent's until a thread of the child writes what is the child's.
//! - *kept*: the copy is as true of the child as it was of the parent.
//!
//! | static | in a child | why |
//! |---|---|---|
//! | `HEAP` | kept | nobody allocates while an engine is frozen, and no pager starts meanwhile |
//! | `machine::arena::RELEASED` | kept | a count that begins anywhere |
//! | `guest::closed::LOCKS_ALL` | reset | no lock is inherited |
//! | `guest::closed::HAS_LOCKED` | reset | when its pager stands, which finds the locks noted |
//! | `cpu::cores::CORES` | reset | nobody reclaims, no thread is followed; the rest are hints |
//! | `machine::fault_attr::FAULT_ATTR` | kept | the group is the same, and fails steps as before |
//! | `cpu::follow::THREAD` | replaced | the fault thread says who it is before it waits |
//! | `cpu::follow::SLEEPS` | kept | the vigil looks only whether it changes |
//! | `cpu::follow::FREED` | replaced | cleared as the fault thread begins |
//! | `guard::IS_ON` | kept | the code is inherited, with the jumps in it |
//! | `guard::IS_ALONE` | kept | the program is the same |
//! | `guard::IS_OF_GO` | kept | the same |
//! | `guard::exec::HAS_LAUNCHERS_FILTERS` | kept | filters are inherited |
//! | `guard::filter::FORBIDS` | kept | filters are inherited |
//! | `guard::holds::USED` | kept | how many places there are to look at |
//! | `guard::holds::IS_TAKEN` | reset | the calls of other threads are not here |
//! | `guard::holds::HELD` | reset | the same |
//! | `guard::holds::EXTENTS_HELD` | kept | places count them |
//! | `guard::holds::GENERATION` | reset | counted on: the parent's calls hold nothing here |
//! | `guard::holds::WITHOUT` | reset | the same |
//! | `guard::holds::IS_DROPPING` | reset | whoever dropped pages is not here |
//! | `guard::holds::IS_MOVING` | reset | whoever moved pages is not here |
//! | `guard::others::IS_SAID` | kept | the line says of which processes |
//! | `guard::signals::ACTIONS` | kept | what the program has set is inherited |
//! | `guard::signals::LOCK` | reset | whoever held it is not here |
//! | `guard::signals::IS_BLOCKED` | kept | what the thread that forked has blocked is inherited |
//! | `guard::signals::PENDING` | reset | what waits for the parent does not for a child |
//! | `guard::ranges::ANY` | kept | what is registered the child registers anew |
//! | `guard::ranges::WHOLE` | kept | the same |
//! | `guard::ranges::CHUNKS` | kept | the same |
//! | `guard::ranges::TAKEN` | kept | the same |
//! | `guard::ranges::INDEX` | kept | the same |
//! | `guest::hook::IS_GIVEN` | kept | what it is about stays as it is in a child |
//! | `guest::hook::ERRNO_LOCATION` | kept | libc is where it was |
//! | `guest::hook::FORK` | kept | the same |
//! | `guest::order::ORDER` | reset | whose turn it was is not here, or was the fork's |
//! | `guest::order::IN_VAIN` | kept | says of which process |
//! | `guest::order::FORK_HAS_TURN` | reset | only the parent ends the fork's turn |
//! | `guest::mremap::KEEPING` | kept | 0: a move has the turn, which the fork took |
//! | `guest::hook::BREAK` | kept | the program break is inherited |
//! | `guest::mmap::WIPES_ON_FORK` | kept | the advice is inherited |
//! | `guest::mmap::MERGES` | kept | the same |
//! | `guest::mmap::INSTALLS_GUARDS` | kept | the guards are inherited |
//! | `guest::identity::$original` | kept | libc is where it was; one a function |
//! | `fault::inline::IS_ON` | kept | the handler is inherited |
//! | `fault::inline::ONLY_ASK` | kept | filters of system calls are inherited |
//! | `fault::inline::IS_RETIRING` | reset | whoever set it is not here, or the pager is not |
//! | `fault::inline::IS_FILTERED` | kept | the same |
//! | `fault::inline::GATE` | reset | nobody is inside |
//! | `fault::requests::ASKED` | reset | nobody waits |
//! | `fault::requests::TAKEN` | reset | the same |
//! | `fault::requests::POSTED` | reset | the same |
//! | `fault::late::LATE` | kept | a hint, for addresses that are inherited |
//! | `init::MAIN_STACK` | kept | the mapping is inherited |
//! | `init::MAIN_WORDS` | kept | the same |
//! | `guest::mutexes::IS_ANY` | kept | the mutexes are inherited |
//! | `guest::mutexes::NOTES` | kept | the same |
//! | `guest::mutexes::IS_FULL` | kept | with the notes |
//! | `guest::mutexes::TAKING` | kept | where it leads to, the kernel has cleared |
//! | `init::CONSTRUCTOR` | kept | read by the loader alone |
//! | `cpu::io_poll::IO_POLL` | reset | the context was the parent's, and nobody reads with it |
//! | `machine::CREW` | reset | its helpers, and who they worked for, are not here |
//! | `guest::mapped::RECORDS` | reset | whoever was writing one is not here |
//! | `guest::mapped::NEXT` | kept | where to look first, which may be anywhere |
//! | `guest::mapped::IS_MISSED` | reset | set: all mappings are gone through |
//! | `guest::identity::MAY_BE_FILTERED` | kept | a filter is inherited |
//! | `guest::small::BYTES` | kept | the mappings are inherited |
//! | `guest::small::ARE_OURS` | kept | the same |
//! | `memcg::deferral::MAPPED` | kept | the mappings are inherited |
//! | `memcg::deferral::IS_DEFERRED` | kept | what the parent managed the child manages |
//! | `memcg::deferral::IS_BLIND` | kept | the image is inherited |
//! | `memcg::deferral::HAS_SEEN_ALL` | kept | the mappings are inherited |
//! | `guard::dispatch::SEES_ALL` | kept | the guard is inherited |
//! | `memcg::deferral::NEXT_COUNT` | kept | a time, in a clock that both have |
//! | `memcg::deferral::OPENED` | kept | less than is worth a claim |
//! | `memcg::deferral::UNSEEN` | reset | a child is charged for what it has |
//! | `pager::STATE` | reset | idle again, or no pager; else the child's starts and says so |
//! | `pager::blocking::STEP` | reset | it goes on so, where it may open what that takes |
//! | `pager::blocking::TURN` | reset | whose turn it was is not here |
//! | `pager::blocking::TRIED` | kept | a time, in a clock that both have |
//! | `pager::hold::HOLDERS_MASK` | kept | of the thread that forked, which is here |
//! | `pager::hold::HOLDER` | reset | nobody holds, or the child's thread |
//! | `pager::hold::NESTED` | kept | the child goes on in the same handlers |
//! | `pager::early::HAS_FAILED` | kept | the child is as far |
//! | `pager::early::FAILURE` | kept | what was missing is missing in the child |
//! | `pager::PID` | reset | the process is another |
//! | `pager::PAGER` | kept | the child goes on with its copy of the engine |
//! | `pager::IDLE_GROUP` | kept | a child is of its parent's group |
//! | `pager::HAS_NEW_IDENTITY` | kept | the child has the identity of the thread that forked |
//! | `pager::threads::FAULT_THREAD` | kept | a stack knows whose thread runs on it |
//! | `pager::threads::KSWAPD_THREAD` | kept | the same |
//! | `pager::threads::WATCHDOG_THREAD` | kept | the same |
//! | `pager::threads::KCOMPRESSD_THREADS` | kept | the same |
//! | `pager::threads::IS_STOPPED_BY_PROGRAM` | kept | the program's image is inherited |
//! | `pager::threads::FAILURE` | replaced | written before anybody may read it |
//! | `pager::NEVER` | kept | always 0 |
//! | `pager::record::PATH` | kept | the environment is inherited |
//! | `cpu::resched::NOT_BEFORE` | kept | a hint, in a time that both have |
//! | `fault::servers::HELPERS` | reset | they are not here |
//! | `guest::stacks::RANGES` | kept | the stacks are inherited; each step leaves them usable |
//! | `guest::stacks::USED` | kept | the same |
//! | `guest::stacks::LAST` | kept | they are looked at again |
//! | `guest::stacks::LOCK` | reset | whoever held it is not here |
//! | `guest::stacks::CHANGES_IN_FLIGHT` | reset | whoever was between two steps is not here |
//! | `guest::stacks::IS_REGISTERING` | reset | kswapd is not here, and rests before a fork |
//! | `guest::unmanaged::IS_GIVEN` | kept | the program is the same |
//! | `guest::unmanaged::IS_ALLOWED` | kept | the launcher said it to all |
//! | `cpu::vigil::THREAD` | kept | as the stacks in `pager` |
//! | `cpu::vigil::VIGIL` | reset | nobody is there, and its errands were the parent's |
//! | `guest::vma::COUNT` | kept | the mappings are inherited, and counted at the next walk |
//! | `mm::swapin::bring::ZEROS` | kept | always 0 |
//! | `acomp::dictionary::TAKEN` | kept | with the dictionaries |
//! | `acomp::dictionary::CONTENTS` | kept | blocks that are inherited were stored with them |
//! | `sys::closed::IS_ON` | kept | the group is the same |
//! | `sys::closed::memory::FAULTS` | kept | a count that begins anywhere |
//! | `sys::closed::WERE_TOO_MANY` | kept | a hint |
//! | `sys::closed::BORDERS` | kept | the mappings are inherited |
//! | `sys::closed::states::STATES` | kept | the memory is inherited as it is, closed or not |
//! | `sys::closed::exclusion::FILLS` | reset | who filled is not here |
//! | `sys::closed::exclusion::CHANGES` | reset | who changed mappings is not here |
//! | `sys::closed::events::EVENTS` | reset | the same |
//! | `sys::creds::SEATED` | kept | each says of which process; those of another count for nothing |
//! | `sys::creds::TAKEN` | kept | a seat goes with a stack, which the child's thread gets |
//! | `sys::creds::ASKED` | kept | the child's threads are made by one that has taken all on |
//! | `sys::creds::WANTED` | reset | whoever held its lock is not here |
//! | `sys::file::STDERR` | kept | stderr is inherited |
//! | `sys::holes::CHUNKS` | kept | of the library's regions, of which the agent has none |
//! | `sys::holes::IS_REGISTERED` | kept | the same |
//! | `sys::x86_64::guard::IS_ON` | kept | the code is inherited |
//! | `sys::x86_64::guard::IS_SEEN` | kept | the same |
//! | `sys::x86_64::guard::HAS_YMM` | kept | the processor is the same |
//! | `sys::x86_64::guard::BEFORE` | kept | the agent is where it was |
//! | `sys::x86_64::guard::AFTER` | kept | the same |
//! | `sys::x86_64::gateways::BACKS` | kept | the code is inherited |
//! | `sys::x86_64::gateways::ROOMS` | kept | the same |
//! | `sys::x86_64::gateways::USED` | kept | the same |
//! | `sys::x86_64::gateways::PASSING` | kept | the agent is where it was |
//! | `sys::x86_64::guard::IS_USED` | kept | nobody reads it |
//! | `sys::x86_64::guard::VFORK` | kept | read by the thread that wrote it, and its child |
//! | `sys::x86_64::guard::VFORKS` | reset | who had it is not here |
//! | `sys::lent::NUMBERS` | replaced | closed and opened anew before the child's pager starts |
//! | `sys::lent::CAN_PROTECT` | replaced | with them |
//! | `sys::khugepaged::PAUSED` | kept | the child ends that when its pager stands |
//! | `sys::lent::SHOWN` | reset | and the child hides itself, if its parent was showing itself |
//! | `sys::mapping::MAKING` | reset | whoever held it is not here |
//! | `sys::mapping::RANGES` | kept | the agent's own mappings are inherited |
//! | `sys::robust::LIST` | replaced | by the child's thread that confesses its end |
//! | `sys::shield::MEMORY` | kept | as the stacks in `pager` |
//! | `sys::shield::TRACER` | kept | says of which process: the child has none |
//! | `sys::shield::STEP` | replaced | written before a tracer is made |
//! | `sys::own_stack::REGION` | kept | the stacks are inherited |
//! | `sys::own_stack::THREADS` | reset | only the thread that forked is here |
//! | `sys::spans::MADE` | kept | the ranges are inherited, and no number is used twice |
//! | `sys::x86_64::text::OPEN` | kept | nothing is, once the program runs |
//! | `sys::x86_64::text::IS_FIXED` | kept | the system is the same |
//! | `sys::x86_64::string::HAS_AVX2` | kept | the processor is the same |
//! | `sys::thread::LIFE` | kept | all threads of the pager live, or none has been made |
//! | `sys::thread::GENERATION` | kept | counts for the process that an owner names as well |
//! | `sys::thread::THREADS` | kept | says of which process; another's count for nothing |
//! | `sys::thread::IS_OVER` | kept | false, or the child gets no pager either |
//! | `sys::thread::ENDED` | kept | compared with how many there are, and a child has none |
//! | `sys::thread::STATUS` | kept | read when that is true |
//! | `sys::vdso::START` | kept | the kernel maps it where it was |
//! | `sys::vdso::IS_LEFT_OUT` | kept | neither the clock nor what is unmapped differs |

use uzswap_sys::mapping::own;
use uzswap_sys::{creds, lent, thread};

use crate::cpu::cores::CORES;
use crate::cpu::io_poll::IO_POLL;
use crate::cpu::vigil::VIGIL;
use crate::fault::inline;
use crate::fault::servers::HELPERS;
use crate::guest::{mapped, order, stacks};
use crate::machine::CREW;
use crate::memcg::deferral;
use crate::pager::{self, Pager, blocking};
use crate::{fork, guard};

/// In a forked child, first of all, in its only thread: before its pager starts. Returns the
/// parent's pager, reset, if the child is to have one.
///
/// Resets have three moments, of which the first two are here:
/// 1. In any child, whether its parent had a pager or not.
/// 2. In one of a fork that `prepare` made way for. Its engine is frozen: whatever a thread of the
///    parent was doing when the fork cut it off changed nothing of it.
/// 3. In the child's new fault thread, when the parent has let go of the child (`take_over`). What
///    depends on the child's own descriptors and slot are fields of the pager, no globals.
pub(crate) fn reset_in_child(is_own: bool) -> Option<&'static Pager> {
    reset_in_any_child();
    let pager = pager::inherited()?;
    // Before anything of the pager's is locked or read.
    if !is_own || !fork::unlock_inherited(pager) {
        // Forked by a vfork child, in which the pager was not active either. The parent's has
        // mapped all that was out.
        pager::lose();
        return None;
    }
    reset_pager_in_child(pager);
    Some(pager)
}

/// The first moment. The process id comes first: whatever asks for a pager compares it.
fn reset_in_any_child() {
    pager::note_child();
    own::reset_in_child();
    stacks::reset_in_child();
    mapped::reset_in_child();
    order::reset_in_child();
    guard::reset_in_child();
    inline::reset_in_child();
    blocking::reset_in_child();
    deferral::reset_in_child();
    lent::hide_in_child();
    if pager::has_retired() {
        lent::close();
    }
}

/// The second moment. No order matters among these, as the child has one thread, which is here.
/// None of them reads what another one writes. None waits, posts mail, allocates, or touches the
/// program's memory.
fn reset_pager_in_child(pager: &Pager) {
    pager.reset_in_child();
    reset_threads();
}

/// In a process whose pager has retired, in its only thread: it is as before it had one.
pub(crate) fn reset_alone() {
    thread::begin_anew();
    lent::close();
    guard::forget_registered();
    stacks::reset_in_child();
    mapped::reset_in_child();
    inline::reset_in_child();
    deferral::begin_anew();
    reset_threads();
    pager::forget();
}

/// In a process whose pager has retired for good, whose other threads go on: they find none. What
/// one of them has begun it ends with what is left of it, so that stays.
pub(crate) fn reset_for_good() {
    pager::lose();
    thread::forget_all();
    guard::forget_registered();
    lent::give_managed_up();
}

/// The threads of the pager, and what they left, are not here.
fn reset_threads() {
    creds::reset_in_child();
    CREW.reset();
    HELPERS.reset();
    VIGIL.reset();
    CORES.reset();
    IO_POLL.reset();
}
