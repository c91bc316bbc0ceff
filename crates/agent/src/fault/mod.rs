//! The fault thread: reads the managed userfaultfd, applies events, gives pages back.
//!
//! The kernel may hand out a fault before the event that changes what the fault means, so each
//! round reads everything there is, applies the events, and only then serves the faults. A fault
//! that the kernel refuses to fill because yet another event waits (EAGAIN) stays in the inbox for
//! the next round. What another process asks for (`wanted`) waits among the faults.

pub(crate) mod give_up;
pub(crate) mod inline;
mod late;
mod requests;
pub(crate) mod servers;
pub(crate) mod waits;
mod wanted;

use alloc::vec::Vec;

use uzswap_ctl::Tunable;
use uzswap_mm::machine::Mapper;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::swap_table::entry::Slot;
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Change, Fault, Worker};
use uzswap_sys::uffd::{BATCH, Event, Uffd};
use uzswap_sys::{Errno, closed, lent, thread, time};

use self::give_up::{bring_back, give_up};
use self::requests::Ticket;
use self::servers::{INBOX, Servers};
use self::waits::Waits;
use self::wanted::Wanting;
use crate::cpu::cores::CORES;
use crate::cpu::io_poll::IO_POLL;
use crate::cpu::spin::Spin;
use crate::fork::{self, ForkServer};
use crate::guard;
use crate::guest::vma;
use crate::kswapd::reclaim::Stall;
use crate::machine::AgentMachine;
use crate::pager::mailbox::mail;
use crate::pager::record::Touch;
use crate::pager::words::Line;
use crate::pager::{self, Pager};

/// Pages that direct reclaim takes in one round.
const DIRECT_BATCH: u32 = 32;
/// How long a write to a shared page waits for room at most. Nanoseconds. What is copied then
/// exceeds the limit by 40 KiB a second at most.
const COPY_WAITS_NS: u64 = 100_000_000;
const RETRY_NS: u64 = 50_000;
/// Without work for so long the fault thread has its buffers' memory return to the system.
const REST_NS: u64 = 50_000_000;
/// While a fork is under way there is more than one thing to watch.
const FORK_POLL_NS: u64 = 100_000;

/// A thread waits.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// For this page.
    pub(crate) addr: usize,
    /// The page is there, and the thread waits to write to it.
    pub(crate) is_protected: bool,
    /// It wants to write to it.
    pub(crate) is_write: bool,
    /// It has asked for that, as the kernel does not.
    pub(crate) ticket: Option<Ticket>,
}

/// The fault thread.
pub(crate) struct FaultThread {
    pager: &'static Pager,
    servers: Servers,
    forks: ForkServer,
    spin: Spin,
    waits: Waits,
    wanting: Wanting,
}

impl FaultThread {
    pub(crate) fn new(pager: &'static Pager) -> Self {
        // Nobody waits for it as a rule.
        let may_spin = pager.memcg.group().is_on(Tunable::Spin) && !inline::serves();
        IO_POLL.begin(may_spin);
        Self {
            pager,
            servers: Servers::new(pager).expect("its seat is made with the pager"),
            forks: ForkServer::new(),
            spin: Spin::new(may_spin),
            waits: Waits::default(),
            wanting: Wanting::default(),
        }
    }

    /// Serve this process's faults until the program is over.
    pub(crate) fn run(mut self) {
        while !thread::is_over() {
            self.round();
        }
    }

    fn round(&mut self) {
        let pager = self.pager;
        if self.servers.is_idle() {
            pager.memcg.lack(0);
        }
        let is_forking = pager.reclaim.is_freezing();
        self.wait(is_forking);
        if is_forking {
            // Set once, after is_freezing: a wake-up that came during the wait is cleared in the
            // next round.
            pager.fds().wake.clear();
        }
        pager.prepare_codecs(self.servers.workers());
        // Read before the events are: a fork that has returned has had its event read.
        let parent_returned = pager.fork.handover.parent_returned();
        // As well: what is read after the child is there is not younger than the fork, whose turn
        // it is.
        let has_arrived = is_forking && guard::is_on() && pager.fork.handover.has_arrived();
        self.read(is_forking);
        self.serve();
        let is_letting_go = is_forking || pager.is_bringing_back();
        let _closed = is_letting_go.then(inline::close);
        if is_letting_go {
            self.let_go();
        }
        if is_forking {
            self.forks.step(pager, self.servers.own(), parent_returned, has_arrived);
        }
        if !self.forks.has_child() {
            pager.fds().renew_spare();
        }
    }

    /// Wait until there is something to do, but not for long while faults wait or a fork is under
    /// way.
    fn wait(&mut self, is_forking: bool) {
        let Self {
            pager,
            servers,
            forks,
            spin,
            wanting,
            ..
        } = self;
        let fds = pager.fds();
        // Posted since the event was cleared that woke us.
        let is_told = fds.managed.waits_on().is_none() && fds.managed.has_events();
        let is_quiet = servers.is_idle() && !is_told && !wanting.is_busy();
        let timeout = match (is_quiet, is_forking || pager.is_bringing_back()) {
            (false, _) => Some(RETRY_NS),
            (true, true) => Some(FORK_POLL_NS),
            (true, false) => None,
        };
        match timeout {
            Some(_) => {
                pager.mm.machine().settle_errand();
                forks.wait(fds, timeout);
            }
            None => spin.wait(
                |timeout| match timeout {
                    // What comes ends either wait at once.
                    None => servers.wait_or_rest(|| forks.wait(fds, Some(REST_NS))) || forks.wait(fds, None),
                    Some(_) => forks.wait(fds, timeout),
                },
                || pager.mm.machine().settle_errand(),
                &fds.proc,
            ),
        }
    }

    /// Read events and faults, what threads that serve their own faults ask for, and what another
    /// process does.
    fn read(&mut self, is_forking: bool) {
        let (pager, fds) = (self.pager, self.pager.fds());
        // While there is none, whoever serves a fault goes on.
        if !inline::serves() || fds.managed.has_events() {
            let _closed = inline::close();
            let (worker, inbox) = self.servers.reading();
            let spin = &mut self.spin;
            read_events(pager, worker, inbox, &mut self.forks, |thread| {
                spin.follower.note_fault(thread);
            });
        }
        if self.servers.is_idle() && !is_forking {
            // Woken for a codec, perhaps, or too late for one. Cleared before the next look at what
            // is wanted, never after.
            fds.wake.clear();
        }
        if inline::is_on() {
            // Before the look at what was asked for, never after.
            fds.wake.clear();
            requests::take_requests(pager, |waiting| self.servers.reading().1.push(waiting));
        }
        self.wanting.take(pager, self.servers.reading().1);
    }

    /// Serve what waits, as far as can be now.
    fn serve(&mut self) {
        let pager = self.pager;
        self.waits.begin(self.servers.waiting());
        self.servers.serve(pager);
        self.wanting.answer(pager, self.servers.reading().1);
        if self.servers.is_idle() {
            self.waits.end(pager);
        }
    }

    /// Bring back what the pager lets go of, and give up what it releases. Nobody is inside.
    fn let_go(&mut self) {
        let Self {
            pager, servers, forks, ..
        } = self;
        pager.let_go(|retires| {
            let (worker, inbox) = servers.reading();
            read_events(pager, worker, inbox, forks, |_| {});
            bring_back(pager, worker, retires)
        });
        pager.give_up_released(|range| {
            let (worker, inbox) = servers.reading();
            read_events(pager, worker, inbox, forks, |_| {});
            give_up(pager, worker, range)
        });
    }
}

/// Read and apply all there is, under one hold of the engine's lock.
fn read_events(
    pager: &Pager,
    worker: &mut Worker<AgentMachine>,
    inbox: &mut Vec<Waiting>,
    forks: &mut ForkServer,
    mut note_fault: impl FnMut(i32),
) {
    let fds = pager.fds();
    let mut has_filled = false;
    pager.mm.with_changes(|changes| {
        // A fork that has returned has had its event read: who comes now is not its child. While
        // the engine is frozen nothing is left of the fork before.
        let has_returned = pager.fork.handover.parent_returned();
        vma::settle_in(pager, changes);
        while changes.has_room() && inbox.len() + BATCH < INBOX && !has_filled {
            let mut read = |event: Event| match event {
                Event::Fault {
                    addr,
                    is_protected,
                    is_write,
                    thread,
                } => {
                    note_fault(thread);
                    if !is_protected {
                        pager.memcg.note_fault();
                    }
                    let addr = addr & !(PAGE_SIZE - 1);
                    inbox.push(Waiting {
                        addr,
                        is_protected,
                        is_write,
                        ticket: None,
                    });
                }
                Event::Fork(child) => {
                    // Now: the next message may be a change that is not the child's.
                    let mut since = changes.logged();
                    fork::add_wiped(&mut since);
                    if changes.is_frozen() && !has_returned {
                        forks.begin(pager, child, &since);
                    } else {
                        // It takes long: the lock, and who waits for a page, come first then.
                        has_filled = true;
                        drop(fork::populate(pager, changes, worker, &child, &since));
                    }
                }
                // Pages that kswapd has copies of.
                Event::Remove { start, end } if pager.mm.machine().copy_out.is_own(start, end) => {}
                Event::Remap { to, len, .. } => {
                    guard::note_registering(to, to + len);
                    change(&event).into_iter().for_each(|change| changes.apply(change));
                }
                event => change(&event).into_iter().for_each(|change| changes.apply(change)),
            };
            match fds.managed.read_events(&mut read) {
                Ok(true) => {}
                Ok(false) => return,
                // For a forked child's; the event stays until it can be had.
                Err(Errno::MFILE | Errno::NFILE) if fds.give_spare() => {}
                // The program allows itself none.
                Err(Errno::MFILE) if lent::with_most_descriptors(|| fds.managed.read_events(&mut read)).is_ok() => {}
                Err(errno) => panic!("reading the userfaultfd: {errno}"),
            }
        }
    });
    if forks.is_new() {
        forks.describe(pager);
    }
}

/// The change that an event stands for.
pub(crate) fn change(event: &Event) -> Option<Change> {
    match *event {
        Event::Remove { start, end } => Some(Change::Remove(PageRange::of_bytes(start, end))),
        Event::Unmap { start, end } => Some(Change::Unmap(PageRange::of_bytes(start, end))),
        Event::Remap { from, to, len } => Some(Change::Remap {
            from: PageRange::of_bytes(from, from + len),
            to: Vpn::of_addr(to),
        }),
        Event::Fault { .. } | Event::Fork(_) => None,
    }
}

/// Serve one fault. False: not now.
pub(crate) fn serve(pager: &Pager, worker: &mut Worker<AgentMachine>, waiting: Waiting, stall: &mut Stall) -> bool {
    let Some(ticket) = waiting.ticket else {
        return serve_page(pager, worker, waiting, stall);
    };
    let was_lost = pager.mm.lookup(Vpn::of_addr(waiting.addr)) == Slot::Bad;
    let is_served = serve_page(pager, worker, waiting, stall);
    match is_served {
        // It was poisoned, and its reader got the signal for that: a kernel without
        // CONFIG_MEMORY_FAILURE raises the same one as for a page that is missing.
        true if was_lost => ticket.is_the_programs(),
        true => ticket.done(),
        false => {}
    }
    is_served
}

fn serve_page(pager: &Pager, worker: &mut Worker<AgentMachine>, waiting: Waiting, stall: &mut Stall) -> bool {
    let Waiting {
        addr,
        is_protected,
        is_write,
        ..
    } = waiting;
    if is_protected && !pager.mm.machine().copies() {
        return serve_write(pager, worker, addr);
    }
    if pager.mm.machine().is_staging(addr) {
        panic!("an empty staging slot was read at {addr:#x}");
    }
    if !make_room(pager, worker, addr, stall) {
        return false;
    }
    let (page, recorder) = (Vpn::of_addr(addr), &pager.fds().recorder);
    let touch = recorder
        .as_ref()
        .and_then(|recorder| recorder.touch(pager, worker.server(), page, is_write));
    match pager.mm.fault(worker, page) {
        Fault::Served => {
            touch.into_iter().for_each(Touch::note);
            if pager.memcg.headroom(pager) == 0 {
                pager.post.mail.post(mail::RECLAIM);
            }
            true
        }
        Fault::Retry => {
            if closed::were_too_many() {
                // Whatever the limit says: what leaves joins mappings.
                pager.shrink_directly(worker, DIRECT_BATCH);
            }
            false
        }
        Fault::Lost => poison(pager, &pager.fds().managed, addr),
    }
}

/// Serve a write to a page that is there and protected. False: not now.
fn serve_write(pager: &Pager, worker: &mut Worker<AgentMachine>, addr: usize) -> bool {
    let memcg = &pager.memcg;
    let (is_gated, is_copied) = (memcg.is_gated(), memcg.shares() && !pager.fds().proc.is_alone(addr));
    if is_gated && is_copied && !make_room_for_copy(pager, worker, addr) {
        return false;
    }
    let (page, recorder) = (Vpn::of_addr(addr), &pager.fds().recorder);
    let touch = recorder
        .as_ref()
        .and_then(|recorder| recorder.write(pager, worker.server(), page));
    if pager.mm.write_fault(page, is_gated) != Fault::Served {
        return false;
    }
    touch.into_iter().for_each(Touch::note);
    match is_copied {
        true if is_gated => memcg.note_copied(),
        true => {}
        // Nor does the kernel count it, where it answers with a signal.
        false if inline::serves() => {}
        // Or what the kernel counts would be taken for a copy.
        false => memcg.note_fault(),
    }
    if is_gated && is_copied && memcg.headroom(pager) == 0 {
        pager.post.mail.post(mail::RECLAIM);
    }
    true
}

/// As [`make_room`], for the copy that a write to a shared page makes. What is shared frees nothing
/// until all relatives have given it up, so such a write may wait for long. It does not wait for
/// ever, and nobody is killed for it: one page each [`COPY_WAITS_NS`] is copied all the same.
fn make_room_for_copy(pager: &Pager, worker: &mut Worker<AgentMachine>, addr: usize) -> bool {
    let room = pager.room();
    if must_be_served(pager, addr) || pager.memcg.excess(pager, room) == 0 {
        return true;
    }
    pager.mm.stat().add(Item::AllocStall, 1);
    pager.post.mail.post(mail::RECLAIM);
    let scan = CORES.in_direct_reclaim(|| pager.shrink_directly(worker, DIRECT_BATCH));
    if pager.memcg.excess(pager, room) == 0 {
        return true;
    }
    if scan.reclaimed == 0 {
        pager.memcg.lack(room);
    }
    pager.memcg.has_waited_to_copy(COPY_WAITS_NS)
}

/// The contents of a page are lost: its reader gets SIGBUS, and the launcher one line. False: not
/// now.
pub(crate) fn poison(pager: &Pager, uffd: &Uffd, addr: usize) -> bool {
    if pager.mm.machine().copies() {
        // A kernel that may be too old to poison a page.
        pager::say_last(format_args!(
            "uzswap: process {} is stopped: its page at {addr:#x} is lost, its stored copy is damaged or cannot be read\n",
            thread::pid()
        ));
        thread::kill_self();
    }
    // Said and counted first: its reader may be dead of it before we are back. No heap: this may
    // happen while the engine is frozen.
    let line = Line::of(format_args!(
        "uzswap: process {}: the page at {addr:#x} is lost, its stored copy is damaged or cannot be read; whoever reads it \
         gets SIGBUS\n",
        thread::pid()
    ));
    pager.memcg.group().set_last_words(line.as_str());
    pager.mm.stat().add(Item::Poisoned, 1);
    let Err(errno) = uffd.poison(addr) else { return true };
    pager.mm.stat().sub(Item::Poisoned, 1);
    if errno != Errno::AGAIN {
        // Unmapped or filled since: the thread looks again.
        uffd.wake(addr, PAGE_SIZE);
    }
    errno != Errno::AGAIN
}

/// Whether a fault waits for no room: a fork waits for it, or the end of the pager, or kswapd,
/// which frees memory.
fn must_be_served(pager: &Pager, addr: usize) -> bool {
    pager.reclaim.is_freezing() || pager.is_letting_go() || pager.reclaim.unsharing.holds(addr)
}

/// Whether the page at `addr` can be mapped without making room for it.
pub(crate) fn has_room(pager: &Pager, addr: usize) -> bool {
    must_be_served(pager, addr) || pager.memcg.excess(pager, pager.room_beside_others()) == 0
}

/// Direct reclaim: before the page at `addr` is mapped there must be room
/// ([`Pager::room_beside_others`]). False: not now, read events and try again.
fn make_room(pager: &Pager, worker: &mut Worker<AgentMachine>, addr: usize, stall: &mut Stall) -> bool {
    if must_be_served(pager, addr) {
        return true;
    }
    let (room, beside_others) = (pager.room(), pager.room_beside_others());
    if pager.memcg.excess(pager, beside_others) == 0 {
        stall.note_room();
        return true;
    }
    pager.mm.stat().add(Item::AllocStall, 1);
    pager.memcg.note_stall(pager, time::now_ns());
    pager.post.mail.post(mail::RECLAIM);
    while pager.memcg.excess(pager, beside_others) > 0 {
        pager.mm.machine().settle_errand();
        let scan = CORES.in_direct_reclaim(|| pager.shrink_directly(worker, DIRECT_BATCH));
        if stall.is_over(pager) && !pager.mm.machine().copy_out.is_kept_out() {
            // Nobody is killed for what others wait for, and they have had their time.
            if pager.memcg.excess(pager, room) == 0 {
                return true;
            }
            if !pager.memcg.needs_all(pager, room) {
                pager.memcg.run_out(pager);
            }
        }
        if scan.reclaimed > 0 {
            continue;
        }
        pager.memcg.lack(room);
        return pager.mm.machine().copy_out.is_kept_out();
    }
    stall.note_room();
    true
}
