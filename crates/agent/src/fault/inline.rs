//! Faults served by the threads that raise them.
//!
//! The userfaultfd gives SIGBUS to who meets a page that is missing or protected. Its handler, on a
//! stack of our own, brings the page as the fault thread would: no thread is woken and none waits.
//!
//! ```text
//! program's thread   SIGBUS -> gate -> a seat -> begin | bring | publish -> goes on
//!                                   \-> else asks the fault thread, and waits
//! fault thread       an event, a request, a fork: closes the gate -> nobody is inside
//!                    -> reads, applies -> opens it
//! ```
//! The fault thread serves what needs descriptors that the program does not have (the device), or
//! may take long: room has to be made, a fork is under way, contents are lost.
//!
//! The gate is why a change of mappings is never applied while a fault is being served
//! ([`Mm::fault`](uzswap_mm::Mm::fault)). Who is inside waits for the engine's locks alone. Only
//! SIGSYS may interrupt it, whose handler takes none there. So it comes out.
//!
//! A thread of the program has none of the pager's descriptors but three
//! ([`lent`](uzswap_sys::lent)): other numbers are files of the program's there.
//! [`AgentMachine::fds`](crate::machine::AgentMachine::fds) panics before one is used.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use uzswap_mm::Fault;
use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_mm::vmstat::Item;
use uzswap_sys::file::WakeEvent;
use uzswap_sys::lent::{self, Lent};
use uzswap_sys::own_stack::{self, Own};
use uzswap_sys::procfs::Pagemap;
use uzswap_sys::signal::{BUS_ADRERR, Context, SignalInfo};
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, closed, futex, thread};

use super::requests::ask;
use super::{Waiting, late, requests, wanted};
use crate::fault;
use crate::guard::{self, deliver, signals};
use crate::machine::opening;
use crate::pager::mailbox::mail;
use crate::pager::missing::Missing;
use crate::pager::{self, Pager, blocking, record};

/// SIGBUS comes here, and threads serve their own faults as long as it is raised for those.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// A filter of system calls may forbid threads what that takes: they only ask the fault thread.
static ONLY_ASK: AtomicBool = AtomicBool::new(false);
/// The pager is about to end, for a filter that would end it.
static IS_RETIRING: AtomicBool = AtomicBool::new(false);
/// There is such a filter: threads that wait make no calls.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// So often a page is tried that another thread brings, before the fault thread is asked for it.
pub(crate) const TRIES: usize = 16;
/// So often in a row a page is asked for before it is looked up whether it is the program's own
/// memory at all.
const SUSPICIOUS: usize = 64;
/// Looks at a page that another thread brings, before it is tried again.
const SPINS: u32 = 200;
/// Looks at who is inside before the fault thread sleeps, and how long.
const GATE_SPINS: u32 = 2_000;
pub(super) const GATE_NS: u64 = 1_000_000;
/// How long a thread sleeps at a closed gate, whose opening wakes it, or for a place, at most.
pub(super) const CLOSED_NS: u64 = 20_000_000;

/// Whether SIGBUS and SIGSYS are ours, and threads have stacks for them.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Whether they are to. Else the fault thread serves those that the kernel tells of.
pub(crate) fn serves() -> bool {
    is_on() && !blocking::is_on()
}

/// In the constructor: have SIGBUS come here, if it is `wanted`. Who stops the other threads, and
/// reads all memory meanwhile, may stop one that is inside: not there.
///
/// # Errors
/// What the system answers.
pub(crate) fn install(wanted: bool) -> Result<(), Errno> {
    if !wanted {
        // A signal is all there is then.
        return match closed::is_on() {
            true => Err(Errno::OPNOTSUPP),
            false => Ok(()),
        };
    }
    lent::widen();
    own_stack::reserve()?;
    let _ = Own::take_on();
    signals::begin()?;
    IS_ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// Before the pager starts, in a thread of the program: open what both need.
///
/// # Errors
/// What was missing.
pub(crate) fn open() -> Result<(), Missing> {
    if !is_on() {
        return Ok(());
    }
    lent::close();
    if record::is_on() {
        // The fault thread notes what it serves.
        note_only_asking();
    }
    let managed = opening::open_lent().map_err(|e| Missing::named("userfaultfd with move", e))?;
    let wake = WakeEvent::new().map_err(|e| Missing::named("eventfd", e))?;
    let pagemap = Pagemap::open().map_err(|e| Missing::named("/proc/self", e))?;
    lent::lend(Lent { managed, wake, pagemap }).map_err(|e| Missing::named("descriptors", e))?;
    // The thread that starts it faults next, perhaps on a stack that is managed.
    let _ = Own::current().or_else(Own::take_on);
    Ok(())
}

/// From now on the fault thread serves all. Nobody else does when this returns. In a thread of the
/// program, outside.
pub(crate) fn only_ask() {
    note_only_asking();
    wait_until_out();
}

/// Nobody is inside any more who came before this.
pub(crate) fn wait_until_out() {
    while GATE.serving.load(Ordering::SeqCst) != 0 {
        pager::pause(GATE_NS / 100);
    }
}

/// As [`only_ask`], in a thread that is about to have its calls filtered.
pub(crate) fn begin_filtering() {
    IS_FILTERED.store(true, Ordering::Relaxed);
    only_ask();
}

/// As [`only_ask`], until [`end_retiring`]: the pager is to end.
pub(crate) fn begin_retiring() {
    IS_RETIRING.store(true, Ordering::SeqCst);
    wait_until_out();
}

/// It goes on.
pub(crate) fn end_retiring() {
    IS_RETIRING.store(false, Ordering::SeqCst);
}

/// From now on the fault thread serves all; threads that are inside may still be at it.
pub(crate) fn note_only_asking() {
    ONLY_ASK.store(true, Ordering::SeqCst);
}

/// Whether the fault thread serves all.
pub(crate) fn only_asks() -> bool {
    ONLY_ASK.load(Ordering::Relaxed) || IS_RETIRING.load(Ordering::Relaxed) || blocking::is_on()
}

/// In a forked child.
pub(crate) fn reset_in_child() {
    if !is_on() {
        return;
    }
    GATE.serving.store(0, Ordering::Relaxed);
    GATE.is_closed.store(0, Ordering::Relaxed);
    requests::reset_in_child();
    end_retiring();
    Own::keep_alone(Own::current());
}

/// Who is serving, and whether anybody may begin.
struct Gate {
    serving: AtomicU32,
    is_closed: AtomicU32,
    /// When the first of those came who are inside. Nanoseconds.
    since: AtomicU64,
}

static GATE: Gate = Gate {
    serving: AtomicU32::new(0),
    is_closed: AtomicU32::new(0),
    since: AtomicU64::new(0),
};

/// A thread of the program is inside, and so waits for a page.
struct Inside<'a>(&'a Pager);

impl Gate {
    /// Go in, when it is open.
    fn enter<'a>(&self, pager: &'a Pager) -> Inside<'a> {
        loop {
            // Hundreds of threads, inside for a moment, would keep the fault thread waiting.
            if self.is_closed.load(Ordering::Relaxed) == 0 {
                // SeqCst, as in `close`: either that sees us, or we see it.
                let before = self.serving.fetch_add(1, Ordering::SeqCst);
                if self.is_closed.load(Ordering::SeqCst) == 0 {
                    if before == 0 {
                        self.since.store(now_ns(), Ordering::Relaxed);
                    }
                    return Inside(pager);
                }
                self.leave();
            }
            futex::wait(&self.is_closed, 1, Some(CLOSED_NS), false);
        }
    }

    /// True: nobody else is inside.
    fn leave(&self) -> bool {
        let before = self.serving.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.is_closed.load(Ordering::SeqCst) != 0 {
            futex::wake(&self.serving, 1, false);
        }
        before == 1
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let since = GATE.since.load(Ordering::Relaxed);
        if GATE.leave() {
            // Roughly: another may have come, and been the first, since.
            let waited = now_ns().saturating_sub(since);
            self.0.memcg.note_waited(waited);
            self.0.mm.stat().add(Item::WaitedNs, waited);
        }
    }
}

/// Nobody is inside.
pub(crate) struct Closed(bool);

/// Have nobody inside until what is returned is dropped. In the fault thread.
pub(crate) fn close() -> Closed {
    if !is_on() {
        return Closed(false);
    }
    GATE.is_closed.store(1, Ordering::SeqCst);
    let mut looks = 0;
    loop {
        let serving = GATE.serving.load(Ordering::SeqCst);
        if serving == 0 {
            return Closed(true);
        }
        looks += 1;
        if looks < GATE_SPINS {
            core::hint::spin_loop();
        } else {
            futex::wait(&GATE.serving, serving, Some(GATE_NS), false);
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if self.0 {
            GATE.is_closed.store(0, Ordering::SeqCst);
            futex::wake_all(&GATE.is_closed, false);
        }
    }
}

/// This process has the memory of another, which has ended with the pager: nobody brings what is
/// out.
pub(crate) fn stop_if_alone() {
    if pager::is_orphan() {
        pager::say_last(format_args!(
            "uzswap: a process is stopped that shares the memory of one that was killed: what was out is lost\n"
        ));
        thread::kill_self();
    }
}

/// kswapd's part of it: wake the fault thread, if its mail says so, or another process asks.
pub(crate) fn pass_on(pager: &Pager, bits: u32) {
    if bits & mail::RING != 0 || wanted::is_asked(pager) {
        pager.fds().wake.set();
    }
}

/// Whether a filter forbids threads what it takes to be told of anything.
pub(crate) fn is_filtered() -> bool {
    IS_FILTERED.load(Ordering::Relaxed)
}

pub(crate) fn pause(ns: u64) {
    match is_filtered() {
        true => core::hint::spin_loop(),
        false => pager::pause(ns),
    }
}

/// SIGBUS. In a thread of the program, all signals blocked but SIGSYS.
pub(crate) extern "C" fn on_bus_error(signal: i32, info: &SignalInfo, context: &mut Context) {
    let addr = info.address() & !(PAGE_SIZE - 1);
    let is_missing = info.code() == BUS_ADRERR;
    let is_served = match pager::inherited() {
        Some(pager) => is_missing && serve(pager, addr, context),
        None => is_missing && pager::has_retired() && late::tries_again(addr),
    };
    if !is_served {
        deliver::hand_on(signal, info, context);
    }
}

/// False: nothing of ours is there.
pub(crate) fn serve(pager: &Pager, addr: usize, context: &mut Context) -> bool {
    let (is_write, is_present) = context.access();
    let waiting = Waiting {
        addr,
        is_write,
        is_protected: is_write && is_present,
        ticket: None,
    };
    let Some(own) = context.own() else {
        // One that others have set and that the thread is on cannot be changed. And a filter may
        // forbid what it takes to have one.
        let may_take = !only_asks() && !context.has_other();
        return match may_take.then(Own::take).flatten() {
            // It comes again, on that.
            Some(own) => {
                context.give(own);
                true
            }
            None => ask(pager, waiting, true),
        };
    };
    let again = count(own, addr) % SUSPICIOUS;
    let is_known = guard::may_be_registered(addr);
    let is_served = is_known && again < TRIES && !only_asks() && serve_here(pager, waiting);
    is_served || ask(pager, waiting, !is_known || again == SUSPICIOUS - 1)
}

/// How often in a row the thread has asked for this page.
pub(crate) fn count(own: &Own, addr: usize) -> usize {
    let [page, count] = &own.asked;
    let again = match page.swap(addr, Ordering::Relaxed) == addr {
        true => count.load(Ordering::Relaxed) + 1,
        false => 0,
    };
    count.store(again, Ordering::Relaxed);
    again
}

/// False: the fault thread is to do it.
fn serve_here(pager: &Pager, waiting: Waiting) -> bool {
    let _inside = GATE.enter(pager);
    if only_asks() {
        return false;
    }
    let Some(mut seat) = pager.seats.try_sit(pager) else {
        return false;
    };
    let page = Vpn::of_addr(waiting.addr);
    if waiting.is_protected {
        return !pager.memcg.shares() && pager.mm.write_fault(page, false) == Fault::Served;
    }
    if !fault::has_room(pager, waiting.addr) {
        return false;
    }
    match pager.mm.fault_without_device(seat.worker(), page) {
        Some(Fault::Served) => {
            pager.mm.stat().add(Item::PgFaultInline, 1);
            if pager.memcg.headroom(pager) == 0 {
                pager.post.mail.post(mail::RECLAIM);
            }
            true
        }
        // Another thread brings it: it comes again.
        Some(Fault::Retry) if !pager.mm.machine().is_changing() => {
            (0..SPINS).for_each(|_| core::hint::spin_loop());
            true
        }
        _ => false,
    }
}
