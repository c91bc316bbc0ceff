//! A call that the kernel makes for a process of one thread alone: to enter a namespace of users,
//! or of mounts. The pager ends before it, and another begins after it.
//!
//! ```text
//! program's only thread           kswapd                        fault thread
//! RETIRE, waits --------------->  nothing leaves any more -->   all that is out is mapped,
//!                                 <-------------------------    nothing is registered
//!        <- answered -----------  tells all to end
//! waits until it is alone:        they end
//! IDLE
//! the call
//! IDLE -> STARTING -> ACTIVE
//! ```
//! No handler of the program runs meanwhile. What is out has to fit the limit: where it does not,
//! or the pager cannot end, the call is made as it is, and the kernel refuses it. Where no other
//! can begin after it, the process goes on unmanaged, with a line.
//!
//! Or a call would end the pager's threads: it filters the calls of all ([`for_good`]). No other
//! pager begins after that, and the program's other threads go on meanwhile. None of them forks or
//! changes mappings until there is no pager, and what they meet as it ends they try again.

use core::sync::atomic::Ordering;

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::mapping::own;
use uzswap_sys::procfs;
use uzswap_sys::{Errno, closed, creds, thread};

use super::mailbox::{CANNOT, NO_TURN, NOTHING, SHARES_MEMORY, mail};
use super::{Pager, early, pause, threads};
use crate::fault::inline;
use crate::guard::clone::{CLONE_THREAD, CLONE_VM};
use crate::guest::unmanaged;
use crate::{fork, guard, pager, statics};

pub(crate) const SYS_UNSHARE: usize = 272;
pub(crate) const SYS_SETNS: usize = 308;
/// Calls that want one thread, with some flags.
pub(crate) const CALLS: [usize; 2] = [SYS_UNSHARE, SYS_SETNS];

const CLONE_SIGHAND: usize = 0x800;
const CLONE_NEWTIME: usize = 0x80;
const CLONE_NEWNS: usize = 0x2_0000;
const CLONE_NEWUSER: usize = 0x1000_0000;

/// How long the only thread sleeps until it looks again whether it is.
const ALONE_NS: u64 = 50_000;
/// How often it is looked whether it is, and how often the call is made: a thread that begins is
/// counted a moment later than it is told of, and one that has ended longer.
const TRIES: u32 = 20;
/// How long it is waited for another process that has the memory, and how often.
pub(super) const SHARED_NS: u64 = 5_000_000;
pub(super) const SHARED_TRIES: u32 = 200;
/// Ranges of addresses that a pager has at most, and leaves when it ends: another needs as many of
/// those that are noted ([`own`]).
const RANGES: usize = 96;

/// Whether a call wants one thread, or nobody else with its root directory.
fn wants_one_thread(number: usize, args: &[usize; 6]) -> bool {
    match number {
        SYS_UNSHARE => args[0] & (CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUSER) != 0,
        _ => {
            let kinds = match args[1] {
                0 => creds::kind_of_namespace(args[0]).unwrap_or(0),
                kinds => kinds,
            };
            kinds & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME) != 0
        }
    }
}

/// Make a call, which is one of [`CALLS`], as if there were no pager. In a thread of the program.
pub(crate) fn make(number: usize, args: &[usize; 6], call: impl Fn() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let Some(pager) = pager::active().filter(|_| wants_one_thread(number, args)) else {
        return call();
    };
    let mask = guard::signals::block_others();
    let has_retired = retire(pager);
    let mut result = call();
    if has_retired {
        for _ in 1..TRIES {
            if result != Err(Errno::INVAL) {
                break;
            }
            pause(ALONE_NS);
            result = call();
        }
        // Before the program can lose what that takes.
        pager::begin_anew();
    }
    guard::signals::unblock(mask);
    result
}

/// End the pager. False: it goes on.
fn retire(pager: &'static Pager) -> bool {
    // Threads that begin under a filter of the program's may not be able to.
    let is_filtered = if inline::is_on() {
        inline::is_filtered()
    } else {
        thread::is_filtered()
    };
    let cannot = closed::is_on() || is_filtered || threads::is_stopped_by_program();
    if cannot || own::room() < RANGES || !is_only_thread() {
        return false;
    }
    pager.ask(mail::RETIRE);
    if !thread::are_over() {
        let lacks = pager.post.lacks.load(Ordering::Acquire);
        if lacks < NO_TURN {
            unmanaged::may_not_be_alone(lacks);
        }
        return false;
    }
    while procfs::threads() != Some(1) {
        // One of several may have taken what was meant for another.
        pager.knock();
        pause(ALONE_NS);
    }
    statics::reset_alone();
    true
}

/// The program is about to filter the calls of all threads, which those of a pager would not
/// outlive: the process has none from now on. In the thread that sets the filter.
///
/// # Errors
/// ENOMEM: what is out does not fit the limit, or the pager cannot end. It goes on, and one line
/// says so.
pub(crate) fn for_good() -> Result<(), Errno> {
    early::forgo();
    if closed::is_on() {
        // Its pager makes other calls.
        return Ok(());
    }
    let mask = guard::signals::block_others();
    inline::begin_retiring();
    let mut tries = 1..SHARED_TRIES;
    let result = loop {
        let Some(pager) = pager::active() else { break Ok(()) };
        match end_for_good(pager) {
            Err(SHARES_MEMORY) if tries.next().is_some() => pause(SHARED_NS),
            result => break result,
        }
    };
    if result.is_err() {
        inline::end_retiring();
    }
    guard::signals::unblock(mask);
    result.map_err(|lacks| {
        match lacks {
            SHARES_MEMORY => unmanaged::may_not_filter(format_args!("it shares its memory with another process")),
            NO_TURN => unmanaged::may_not_filter(format_args!("other threads change mappings without end")),
            CANNOT => unmanaged::may_not_filter(format_args!(
                "it is recorded, swaps to a remote store, has LeakSanitizer, or has lost a page; leave that out, or the filter"
            )),
            excess => unmanaged::may_not_filter(format_args!(
                "for that its memory is brought back, which exceeds the limit by {}K; raise --memory-max",
                excess.div_ceil(1024)
            )),
        }
        Errno::NOMEM
    })
}

/// Have the pager end, and other threads find none. One line says so.
///
/// # Errors
/// What it lacks, as in [`Post`](super::mailbox::Post): it goes on.
fn end_for_good(pager: &'static Pager) -> Result<(), u64> {
    if threads::is_stopped_by_program() {
        return Err(CANNOT);
    }
    let end = || {
        if pager::has_retired() {
            // For another thread's filter, which was waited for.
            return Ok(());
        }
        pager.post.is_for_good.store(true, Ordering::SeqCst);
        pager.ask(mail::RETIRE);
        if !thread::are_over() {
            pager.post.is_for_good.store(false, Ordering::SeqCst);
            return Err(pager.post.lacks.load(Ordering::Acquire));
        }
        while !thread::all_end() {
            // One of several may have taken what was meant for another.
            pager.knock();
            pause(ALONE_NS);
        }
        statics::reset_for_good();
        unmanaged::filters_pager();
        Ok(())
    };
    fork::while_none_forks(pager, end).unwrap_or(Err(NO_TURN))
}

/// Whether the program has one thread, which is this.
fn is_only_thread() -> bool {
    let looks_so = |_| {
        let is_only = procfs::threads() == Some(1 + thread::count());
        if !is_only {
            pause(ALONE_NS);
        }
        is_only
    };
    thread::tid() == thread::pid() && (0..TRIES).any(looks_so)
}

impl Pager {
    /// What is lacking for all to be mapped at once, as in [`Post`](super::mailbox::Post). In
    /// kswapd.
    pub(super) fn lacks_for_all(&self) -> u64 {
        let fds = self.fds();
        let mut swaps = fds.inherited.iter().map(|(swap, _)| swap).chain(&fds.swap);
        let is_remote = swaps.any(|swap| swap.remote.is_some());
        if self.is_letting_go() || is_remote || fds.recorder.is_some() {
            return CANNOT;
        }
        if fds.proc.shares_memory() {
            return SHARES_MEMORY;
        }
        let (out, has_lost) = self
            .mm
            .with_changes(|changes| (changes.absent_pages(), changes.has_lost()));
        if has_lost {
            return CANNOT;
        }
        // What it is stored in is free when all of it is back.
        let gauges = self.mm.gauges();
        let more = out.saturating_sub(gauges.pool + gauges.staged);
        match self.memcg.excess(self, more * PAGE_SIZE as u64) {
            0 => NOTHING,
            excess => excess,
        }
    }

    /// kswapd's part: have all mapped, and all threads end, if that can be.
    pub(crate) fn retire(&self) {
        let lacks = match self.lacks_for_all() {
            NOTHING if !self.let_all_go(true) => CANNOT,
            lacks => lacks,
        };
        self.post.lacks.store(lacks, Ordering::Release);
        if lacks != NOTHING {
            return;
        }
        // The next pager's slot is charged for all of it, or the launcher's census counts it.
        self.memcg.group().clear_slot(self.memcg.slot());
        if self.post.is_for_good.load(Ordering::SeqCst) {
            // While the slot is ours.
            self.memcg.leave();
        }
        self.end(0);
    }
}
