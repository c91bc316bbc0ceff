//! The parent's side of a fork, in its three threads: the one that forks, kswapd and the fault
//! thread.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use lock_api::RawMutex;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Change, Changes, Worker};
use uzswap_sys::Errno;
use uzswap_sys::children;
use uzswap_sys::closed;
use uzswap_sys::futex::RawLock;
use uzswap_sys::procfs::for_each_wiped_on_fork;
use uzswap_sys::thread;
use uzswap_sys::uffd::{Event, Uffd, wait_readable};

use super::fill;
use super::handover::{DESCRIBED, READY, RELEASED, RELEASED_UNMANAGED, UNMANAGED};
use super::populate::populate;
use crate::guest::{mmap, order, vma};
use crate::machine::{AgentMachine, Fds};
use crate::memcg::deferral;
use crate::pager::mailbox::{mail, reply};
use crate::pager::{self, Pager, pause};
use crate::{fault, guard};

/// How often, and how long each time, a fork waits for late events.
const EXPECTING_MAX: u32 = 400;
const EXPECTING_NS: u64 = 50_000;

/// Before a fork, in the forking thread, after the program's own handlers.
pub(crate) extern "C" fn prepare() {
    // Where events tell of a fork, one that is made out of turn is told of too.
    let _ = prepare_in_order(false);
}

/// The same; `must_have_turn`: false, and nothing is prepared, if others change mappings and do not
/// end.
pub(crate) fn prepare_in_order(must_have_turn: bool) -> bool {
    pager::hold_start();
    let Some(pager) = pager::active() else { return true };
    let handover = &pager.fork.handover;
    if deferral::has_unseen() {
        // What is two mappings only because it is half registered would stay two in the child for
        // ever.
        pager.request_scan();
    }
    let mask = guard::signals::block_others();
    handover.lock.lock();
    handover.mask.store(mask, Ordering::Relaxed);
    if !order::begin_fork() && must_have_turn {
        // SAFETY: locked above.
        unsafe { handover.lock.unlock() };
        guard::signals::unblock(mask);
        return false;
    }
    handover.parent_returned.store(false, Ordering::SeqCst);
    handover.parent.store(thread::pid(), Ordering::SeqCst);
    handover.returned.store(0, Ordering::SeqCst);
    pager.post.replies.take(reply::FROZEN | reply::FORKED);
    pager.post.mail.post(mail::FREEZE);
    while pager.post.replies.wait(reply::FROZEN, None) == 0 {}
    handover.is_prepared.store(true, Ordering::SeqCst);
    true
}

/// All that the fork reaches is there: it is made next.
pub(crate) fn begin() {
    if pager::active().is_some_and(|pager| pager.fork.handover.is_prepared.load(Ordering::SeqCst)) {
        closed::begin_fork();
    }
}

/// After a fork, in the parent.
pub(crate) extern "C" fn parent() {
    parent_of(0);
}

/// After a fork that has `returned` this, in the parent; 0: not known.
pub(crate) fn parent_of(returned: i32) {
    if pager::release_start() {
        deferral::activate_if_big();
        return;
    }
    let Some(pager) = pager::active() else { return };
    let handover = &pager.fork.handover;
    if !handover.is_prepared.swap(false, Ordering::SeqCst) {
        return;
    }
    closed::end_fork();
    handover.returned.store(returned, Ordering::SeqCst);
    handover.parent_returned.store(true, Ordering::SeqCst);
    while pager.post.replies.wait(reply::FORKED, None) == 0 {}
    order::end_fork();
    let mask = handover.mask.load(Ordering::Relaxed);
    // SAFETY: locked in `prepare` by this very thread.
    unsafe { handover.lock.unlock() };
    guard::signals::unblock(mask);
}

/// kswapd's part: come to rest and stay there until the fork is over.
pub(crate) fn freeze_until_forked(pager: &Pager) {
    pager.fork.handover.renew();
    pager.reclaim.freeze();
    // While the engine is frozen it cannot tell what is late. It is the turn of the thread that
    // forks: only raw system calls of other threads can keep something expected.
    for _ in 0..EXPECTING_MAX {
        if vma::settle(pager) {
            break;
        }
        pause(EXPECTING_NS);
    }
    let pin = pager.mm.freeze();
    pager.fork.pins.lock().push((pin, 0));
    // The fault thread may be waiting without a timeout: have it see that a fork is under way.
    pager.fds().wake.set();
    pager.post.replies.post(reply::FROZEN);
    while pager.post.mail.wait(mail::THAWED, None) == 0 {}
}

/// Swap slots that no relative reads any more may be written again.
pub(crate) fn release_pins(pager: &Pager) {
    let swap = &pager.fds().swap;
    let mut pins = pager.fork.pins.lock();
    pins.retain(|(pin, byte)| {
        let is_held = *byte == 0 || swap.as_ref().is_some_and(|swap| swap.file.file.is_locked(*byte));
        if !is_held {
            pager.mm.unpin(*pin);
        }
        is_held
    });
}

/// Who serves the faults of a child that has no pager yet.
enum Child {
    /// Its parent, with the child's userfaultfd.
    Served(Uffd),
    /// Nobody: without fork events its memory is not registered. It touches none of it until it has
    /// registered that itself, as its only thread is in the guard.
    Alone,
}

/// The fault thread's part.
#[derive(Default)]
pub(crate) struct ForkServer {
    child: Option<Child>,
    is_new: bool,
    /// Another thread has forked, too: the child may be that one's.
    is_unsure: bool,
    /// Leases are told apart by the byte they lock; never used twice.
    lease: u64,
    inbox: Vec<usize>,
    /// What the child has told already.
    told: Vec<Event>,
    /// What happened to the child's mappings since the freeze, before the fork and after.
    changes: Vec<Change>,
    /// So many of them were before.
    described: usize,
    /// What had happened when its event was read.
    since: Vec<Change>,
}

impl ForkServer {
    /// Wait for anything to do. False: timed out or interrupted.
    pub(crate) fn wait(&self, fds: &Fds, timeout_ns: Option<u64>) -> bool {
        use uzswap_sys::AsFd;
        match (fds.managed.waits_on(), &self.child) {
            (Some(managed), Some(Child::Served(child))) => {
                wait_readable(&[managed, fds.wake.as_fd(), child.as_fd()], timeout_ns)
            }
            (Some(managed), _) => wait_readable(&[managed, fds.wake.as_fd()], timeout_ns),
            (None, _) => wait_readable(&[fds.wake.as_fd()], timeout_ns),
        }
    }

    /// Whether a FORK event now is the one that was prepared for.
    pub(crate) fn accepts(&self, pager: &Pager) -> bool {
        pager.reclaim.is_freezing() && self.child.is_none()
    }

    /// The child's userfaultfd arrived. `since`: what happened from the freeze to the fork.
    pub(crate) fn begin(&mut self, child: Uffd, since: Vec<Change>) {
        self.child = Some(Child::Served(child));
        self.is_new = true;
        self.is_unsure = false;
        self.inbox.clear();
        self.since = since;
        self.told.clear();
        self.changes.clear();
        self.described = 0;
    }

    /// Another thread has forked, too, without us. The child that came first may be that one's, who
    /// knows nothing of us: it gets all it may miss. If not, it finds there what it expects.
    pub(crate) fn fill_first(
        &mut self,
        pager: &Pager,
        changes: &mut Changes<'_, RawLock, AgentMachine>,
        worker: &mut Worker<AgentMachine>,
    ) {
        self.is_unsure = true;
        if let Some(Child::Served(child)) = &self.child {
            let mut since = self.since.clone();
            since.extend_from_slice(self.changes.get(self.described..).unwrap_or_default());
            let told = populate(pager, changes, worker, child, &since);
            self.told.extend(told);
        }
    }

    /// The child is there, and there are no fork events.
    fn begin_alone(&mut self, pager: &Pager) {
        pager.mm.with_changes(|changes| changes.mark_fork());
        self.child = Some(Child::Alone);
        self.describe(pager);
    }

    /// Whether a child is being served.
    pub(crate) fn has_child(&self) -> bool {
        self.child.is_some()
    }

    /// Whether the child has not been told yet what it needs to know.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Tell the child what it needs to know.
    pub(crate) fn describe(&mut self, pager: &Pager) {
        self.is_new = false;
        self.lease += 1;
        let (handover, fds) = (&pager.fork.handover, pager.fds());
        self.changes.clear();
        pager.mm.changes_before_fork(|change| self.changes.push(change));
        add_wiped(&mut self.changes);
        self.changes.iter().for_each(|change| handover.push_change(*change));
        self.described = self.changes.len();
        // Our own file only if a word names it: or every generation of a family would hand down one
        // more.
        let is_used = pager.mm.gauges().swapped > 0;
        let own = fds.swap.as_ref().filter(|_| is_used);
        let files = fds
            .inherited
            .iter()
            .map(|(swap, byte)| (swap.file.file.number(), *byte))
            .chain(own.map(|swap| (swap.file.file.number(), self.lease)));
        handover.describe_files(files);
        handover.set_state(DESCRIBED);
    }

    /// Serve the child's faults and see whether the fork is over. `has_arrived`: a child is there
    /// that no event tells of, and was before events were read.
    pub(crate) fn step(
        &mut self,
        pager: &Pager,
        worker: &mut Worker<AgentMachine>,
        parent_returned: bool,
        has_arrived: bool,
    ) {
        if self.child.is_none() && has_arrived {
            self.begin_alone(pager);
        }
        let Some(child) = &self.child else {
            // No event and yet returned: the fork failed. Without events the child may still come.
            if parent_returned && (!guard::is_on() || has_ended(pager)) {
                self.finish(pager, false);
            }
            return;
        };
        if let Child::Served(child) = child {
            let told = core::mem::take(&mut self.told);
            serve_child(pager, worker, child, told, &mut self.inbox, &mut self.changes);
        }
        let answer = match pager.fork.handover.state() {
            READY => RELEASED,
            UNMANAGED if self.see_to_unmanaged(pager, worker, child) => RELEASED_UNMANAGED,
            _ if is_gone(pager, child) => {
                self.child = None;
                return self.finish(pager, false);
            }
            _ => return,
        };
        if let (RELEASED, Some(Child::Served(child))) = (answer, self.child.take()) {
            // Whoever waits for what was not to be had yet asks the child.
            self.inbox.drain(..).for_each(|addr| child.wake(addr, PAGE_SIZE));
            // The event of the child that is READY was read before it ran: whose this is is known.
            let _ = !self.is_unsure && pager.fork.handover.hand_over(&child);
            // Closed: where nothing arrives, the child registers its memory anew.
        }
        pager.fork.handover.set_state(answer);
        pager.mm.stat().add(Item::Forks, 1);
        self.finish(pager, true);
    }

    /// The child cannot have a pager: it gets all that is out. False: it is gone.
    fn see_to_unmanaged(&self, pager: &Pager, worker: &mut Worker<AgentMachine>, child: &Child) -> bool {
        pager.mm.with_changes(|changes| match child {
            Child::Served(child) => {
                drop(populate(pager, changes, worker, child, &self.changes));
                true
            }
            Child::Alone => fill::send(pager, changes, worker, &self.changes, || has_ended(pager)),
        })
    }

    /// The fork is over. A child that holds no lease on our swap file keeps no slots: the next look
    /// at the pins shows.
    fn finish(&mut self, pager: &Pager, has_child: bool) {
        if let Some((pin, byte)) = pager.fork.pins.lock().last_mut() {
            *byte = self.lease;
            if !has_child {
                pager.mm.unpin(*pin);
            }
        }
        if !has_child {
            pager.fork.pins.lock().pop();
            pager.memcg.has_no_child();
        }
        if has_child {
            // Before the log is applied, which frees blocks.
            pager.memcg.begin_sharing();
            pager.mm.forked();
        }
        pager.memcg.end_fork();
        pager.mm.thaw();
        pager.reclaim.thaw();
        pager.fork.handover.parent_returned.store(false, Ordering::SeqCst);
        pager.post.mail.post(mail::THAWED);
        pager.post.replies.post(reply::FORKED);
    }
}

/// What the child got empty (MADV_WIPEONFORK) is as if dropped.
pub(crate) fn add_wiped(changes: &mut Vec<Change>) {
    if mmap::wipes_on_fork() {
        // Without /proc it cannot be told: the child then finds what its parent has.
        let _ = for_each_wiped_on_fork(|start, end| changes.push(Change::Remove(PageRange::of_bytes(start, end))));
    }
}

/// Serve what the child asks for, until it asks for nothing. `told`: what was read of it before.
fn serve_child(
    pager: &Pager,
    worker: &mut Worker<AgentMachine>,
    child: &Uffd,
    told: Vec<Event>,
    inbox: &mut Vec<usize>,
    changes: &mut Vec<Change>,
) {
    let mut read = |event: Event| match &event {
        Event::Fault {
            addr,
            is_protected: true,
            ..
        } => child.unprotect_and_wake(*addr & !(PAGE_SIZE - 1), PAGE_SIZE),
        Event::Fault { addr, .. } => inbox.push(*addr & !(PAGE_SIZE - 1)),
        // A fork by a child that has not finished forking: its descriptor closes, its memory was
        // copied whole.
        Event::Fork(_) => {}
        other => {
            if let Some(change) = fault::change(other) {
                changes.push(change);
                pager.fork.handover.push_change(change);
            }
        }
    };
    told.into_iter().for_each(&mut read);
    // An error means that the child is gone, which `is_gone` finds out.
    let _ = child.read_events(read);
    inbox.retain(|addr| {
        let mut retry = false;
        pager
            .mm
            .fault_of_child(worker, Vpn::of_addr(*addr), changes, |page| match page {
                Some(page) => {
                    let filled = child.copy(*addr, page, true);
                    retry = filled.stop == Some(Errno::AGAIN);
                    if filled.stop.is_some() && !retry {
                        child.unprotect_and_wake(*addr, PAGE_SIZE);
                    }
                }
                None => retry = !fault::poison(pager, child, *addr),
            });
        retry
    });
}

/// Whether there is no child, or it has ended, as far as is known.
fn has_ended(pager: &Pager) -> bool {
    match pager.fork.handover.returned.load(Ordering::SeqCst) {
        0 => false,
        child => child < 0 || children::has_ended(child),
    }
}

/// Whether the child has died: where its parent serves it, a fill answers ESRCH when there is no
/// address space any more, and ENOENT before.
fn is_gone(pager: &Pager, child: &Child) -> bool {
    let Child::Served(child) = child else {
        return has_ended(pager);
    };
    child.copy(pager.mm.machine().nowhere(), &[0; PAGE_SIZE], false).stop == Some(Errno::SRCH)
}
