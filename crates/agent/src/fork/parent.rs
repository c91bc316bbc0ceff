//! The parent's side of a fork, in its three threads: the one that forks, kswapd and the fault
//! thread.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use lock_api::RawMutex;
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Change, Worker};
use uzswap_sys::Errno;
use uzswap_sys::children;
use uzswap_sys::closed;
use uzswap_sys::khugepaged;
use uzswap_sys::lent;
use uzswap_sys::procfs::for_each_wiped_on_fork;
use uzswap_sys::thread;
use uzswap_sys::uffd::{Uffd, wait_readable};

use super::fill;
use super::handover::{CHANGES_MAX, DESCRIBED, READY, RELEASED, RELEASED_UNMANAGED, UNMANAGED};
use super::populate::populate;
use super::served::{Heard, Served};
use crate::guard;
use crate::guest::{mmap, order, vma};
use crate::machine::{AgentMachine, Fds};
use crate::memcg::deferral;
use crate::pager::mailbox::{mail, reply};
use crate::pager::{self, Pager, hold, pause};

/// How often, and how long each time, a fork waits for late events.
const EXPECTING_MAX: u32 = 400;
const EXPECTING_NS: u64 = 50_000;

/// Before a fork, in the forking thread, after the program's own handlers and libc's locks.
pub(crate) extern "C" fn prepare() {
    // Where events tell of a fork, one that is made out of turn is told of too.
    let _ = prepare_in_order(false);
}

/// As [`prepare`]. `must_have_turn`: false, and nothing is prepared, if others change mappings and
/// do not end. Nothing is prepared either where there is no pager, or none any more when it is this
/// thread's turn.
pub(crate) fn prepare_in_order(must_have_turn: bool) -> bool {
    let mask = guard::signals::block_sent();
    let is_held = hold::hold_start(mask);
    let Some(pager) = pager::active() else {
        if !is_held {
            guard::signals::unblock(mask);
        }
        return true;
    };
    guard::signals::block_others();
    let handover = &pager.fork.handover;
    if deferral::has_unseen() {
        // What is two mappings only because it is half registered would stay two in the child for
        // ever.
        pager.request_scan();
    }
    handover.lock.lock();
    handover.mask.store(mask, Ordering::Relaxed);
    let is_in_turn = order::begin_fork();
    let has_retired = pager::has_retired();
    if has_retired || !is_in_turn && must_have_turn {
        order::end_fork();
        // SAFETY: locked above.
        unsafe { handover.lock.unlock() };
        guard::signals::unblock(mask);
        return has_retired;
    }
    guard::signals::let_through(mask);
    handover.parent_returned.store(false, Ordering::SeqCst);
    handover.parent.store(thread::pid(), Ordering::SeqCst);
    handover.returned.store(0, Ordering::SeqCst);
    pager.post.replies.take(reply::FROZEN | reply::FORKED);
    pager.post.mail.post(mail::FREEZE);
    while pager.post.replies.wait(reply::FROZEN, None) == 0 {}
    // The child opens our swap files by our /proc. A filter may forbid even to ask.
    let hands_down = hands_own_down(pager) || !pager.mm.machine().opened().inherited.is_empty();
    let is_shown = hands_down && !guard::exec::is_filtered() && lent::show();
    handover.is_shown.store(is_shown, Ordering::Relaxed);
    if guard::is_on() && !guard::exec::is_filtered() {
        // Without events what is missing in the child is nobody's until it has registered that.
        khugepaged::pause();
    }
    handover.is_prepared.store(true, Ordering::SeqCst);
    true
}

/// Call `f` while no other thread forks or changes mappings: they wait. `None`: others have done so
/// for as long as a fork waits for them.
pub(crate) fn while_none_forks<R>(pager: &Pager, f: impl FnOnce() -> R) -> Option<R> {
    let handover = &pager.fork.handover;
    handover.lock.lock();
    let result = order::begin_fork().then(f);
    order::end_fork();
    // SAFETY: locked above.
    unsafe { handover.lock.unlock() };
    result
}

/// Whether a child gets our own swap file, while the engine is frozen: only if a word names it. Or
/// every generation of a family would hand down one more.
fn hands_own_down(pager: &Pager) -> bool {
    pager.mm.gauges().swapped > 0
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
    if let Some(mask) = hold::release_start() {
        deferral::activate_if_big();
        guard::signals::unblock(mask);
        return;
    }
    let Some(pager) = pager::active() else { return };
    let handover = &pager.fork.handover;
    if !handover.is_prepared.swap(false, Ordering::SeqCst) {
        return;
    }
    khugepaged::resume();
    closed::end_fork();
    handover.returned.store(returned, Ordering::SeqCst);
    handover.parent_returned.store(true, Ordering::SeqCst);
    while pager.post.replies.wait(reply::FORKED, None) == 0 {}
    order::end_fork();
    handover.hide_again();
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

/// The fault thread's part.
pub(crate) struct ForkServer {
    /// Those that were forked since the engine was frozen, and before the fork returned: the child
    /// that was prepared for, and by raw system calls others. Who is who no event says.
    served: Vec<Served>,
    /// How many came.
    came: u32,
    /// Room for what one of them tells.
    spare: Heard,
    /// Without fork events: the child is there, and this happened to its mappings before. Its
    /// memory is not registered. It touches none of it until it has registered that itself, as its
    /// only thread is in the guard.
    alone: Option<Vec<Change>>,
    is_new: bool,
    /// Leases are told apart by the byte they lock; never used twice.
    lease: u64,
}

/// Room for so many children of a fork's time. Nothing is allocated then, as the heap may be copied
/// next.
const SERVED: usize = 16;

impl ForkServer {
    pub(crate) fn new() -> Self {
        Self {
            served: Vec::with_capacity(SERVED),
            came: 0,
            spare: Heard::with_room(),
            alone: None,
            is_new: false,
            lease: 0,
        }
    }

    /// Wait for anything to do. False: timed out or interrupted.
    pub(crate) fn wait(&self, fds: &Fds, timeout_ns: Option<u64>) -> bool {
        use uzswap_sys::AsFd;
        match (fds.managed.waits_on(), self.served.last()) {
            // It waits a short while only: the others are looked at soon.
            (Some(managed), Some(child)) => wait_readable(&[managed, fds.wake.as_fd(), child.uffd.as_fd()], timeout_ns),
            (Some(managed), None) => wait_readable(&[managed, fds.wake.as_fd()], timeout_ns),
            (None, _) => wait_readable(&[fds.wake.as_fd()], timeout_ns),
        }
    }

    /// A child's userfaultfd arrived. `since`: what happened from the freeze to the fork.
    pub(crate) fn begin(&mut self, pager: &Pager, uffd: Uffd, since: &[Change]) {
        self.is_new |= pager.fork.handover.is_fresh();
        self.came += 1;
        let mut heard = core::mem::take(&mut self.spare);
        heard.changes.extend_from_slice(since);
        self.served.push(Served {
            uffd,
            is_filled: false,
            heard,
        });
    }

    /// Who has forked by a raw system call knows nothing of us, and needs all that is out before
    /// its userfaultfd is closed. Any of several may be such a child; who is born of one is.
    /// `has_none`: the child that was prepared for is not among them.
    fn fill(&mut self, pager: &Pager, worker: &mut Worker<AgentMachine>, has_none: bool) {
        let mut populate = |uffd: &Uffd, since: &[Change]| {
            pager
                .mm
                .with_changes(|changes| populate(pager, changes, worker, uffd, since))
        };
        let is_sure = self.served.len() == 1 && !has_none;
        for child in &mut self.served {
            for (uffd, since) in child.heard.born.drain(..) {
                drop(populate(&uffd, &since));
            }
            if !is_sure && !child.is_filled {
                child.is_filled = true;
                let told = populate(&child.uffd, &child.heard.changes);
                child.heard.told.extend(told);
            }
        }
    }

    /// The child is there, and there are no fork events.
    fn begin_alone(&mut self, pager: &Pager) {
        let mut since = pager.mm.with_changes(|changes| changes.logged());
        add_wiped(&mut since);
        self.alone = Some(since);
        self.describe(pager);
    }

    /// Whether a child is being served.
    pub(crate) fn has_child(&self) -> bool {
        self.alone.is_some() || !self.served.is_empty()
    }

    /// Whether the child has not been told yet what it needs to know.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Tell the child what it needs to know to have a pager.
    pub(crate) fn describe(&mut self, pager: &Pager) {
        self.is_new = false;
        self.lease += 1;
        let (handover, fds) = (&pager.fork.handover, pager.fds());
        let own = fds.swap.as_ref().filter(|_| hands_own_down(pager));
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
        if self.alone.is_none() && has_arrived {
            self.begin_alone(pager);
        }
        // Before all that is done for a child that is READY.
        let state = pager.fork.handover.state();
        let has_none = parent_returned && self.has_none(pager);
        // Not before the heap has been copied: this allocates.
        if parent_returned || pager.fork.handover.has_arrived() {
            self.fill(pager, worker, has_none);
        }
        self.served.iter_mut().for_each(|child| child.serve(pager, worker));
        let answer = match state {
            READY => RELEASED,
            UNMANAGED if self.see_to_unmanaged(pager, worker) => RELEASED_UNMANAGED,
            _ if self.is_over(pager, parent_returned, has_none) => {
                self.alone = None;
                return self.finish(pager, false);
            }
            _ => return,
        };
        if answer == RELEASED {
            self.release(pager, worker);
        }
        if let Some(child) = self.served.drain(..).next() {
            self.spare = child.heard.cleared();
        }
        self.alone = None;
        pager.fork.handover.set_state(answer);
        pager.mm.stat().add(Item::Forks, 1);
        self.finish(pager, true);
    }

    /// The child is READY: it gets its userfaultfd, and is told what happened to its mappings.
    fn release(&mut self, pager: &Pager, worker: &mut Worker<AgentMachine>) {
        self.forget_gone(pager);
        let handover = &pager.fork.handover;
        match (&self.alone, &*self.served) {
            (Some(changes), _) => handover.push_changes(changes),
            (None, [child]) if child.heard.changes.len() <= CHANGES_MAX => {
                handover.push_changes(&child.heard.changes);
                // Whoever waits for what was not to be had yet asks the child.
                child
                    .heard
                    .inbox
                    .iter()
                    .for_each(|addr| child.uffd.wake(*addr, PAGE_SIZE));
                // Where nothing arrives, it is closed, and the child registers its memory anew.
                let _ = handover.hand_over(&child.uffd);
            }
            (None, several) => {
                if let [child] = several {
                    drop(
                        pager.mm.with_changes(|changes| {
                            populate(pager, changes, worker, &child.uffd, &child.heard.changes)
                        }),
                    );
                }
                // Whoever it is, it has all.
                let managed = pager.mm.managed();
                if let (Some(first), Some(last)) = (managed.first(), managed.last()) {
                    handover.push_changes(&[Change::Remove(PageRange {
                        start: first.start,
                        end: last.end,
                    })]);
                }
            }
        }
    }

    /// The child cannot have a pager: it gets all that is out. False: it is gone.
    fn see_to_unmanaged(&self, pager: &Pager, worker: &mut Worker<AgentMachine>) -> bool {
        pager.mm.with_changes(|changes| {
            for child in self.served.iter().filter(|child| !child.is_filled) {
                drop(populate(pager, changes, worker, &child.uffd, &child.heard.changes));
            }
            self.alone
                .as_ref()
                .is_none_or(|since| fill::send(pager, changes, worker, since, || has_ended(pager)))
        })
    }

    /// Whether none of those that are served is the child of the fork that has returned: it failed,
    /// or its child has ended, which is looked at only where several came.
    fn has_none(&self, pager: &Pager) -> bool {
        let has_failed = pager.fork.handover.returned.load(Ordering::SeqCst) < 0;
        !self.served.is_empty() && (has_failed || self.came > 1 && has_ended(pager))
    }

    /// Whether there is no child, or none any more. The event of a fork that has returned was read
    /// before. So one of those that are served is its child, or was; `has_none`: none is. Without
    /// events the child may still come.
    fn is_over(&mut self, pager: &Pager, parent_returned: bool, has_none: bool) -> bool {
        if self.alone.is_some() {
            return has_ended(pager);
        }
        if parent_returned {
            self.forget_gone(pager);
        }
        // Each has all, but for who was born of one since: who is born from now on has a copy of
        // all. To close it wakes whoever waits.
        if has_none
            && self
                .served
                .iter()
                .all(|child| child.is_filled && child.heard.born.is_empty())
        {
            self.served.clear();
        }
        self.served.is_empty() && parent_returned && (!guard::is_on() || has_ended(pager))
    }

    /// A fill answers ESRCH when there is no address space any more, and ENOENT before.
    fn forget_gone(&mut self, pager: &Pager) {
        let nowhere = pager.mm.machine().nowhere();
        self.served
            .retain(|child| child.uffd.copy(nowhere, &[0; PAGE_SIZE], false).stop != Some(Errno::SRCH));
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
        if core::mem::take(&mut self.came) > 0 && !has_child {
            self.spare = Heard::with_room();
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

/// Whether there is no child, or it has ended, as far as is known.
fn has_ended(pager: &Pager) -> bool {
    match pager.fork.handover.returned.load(Ordering::SeqCst) {
        0 => false,
        child if child < 0 => true,
        // Which may end the process.
        child if guard::exec::is_filtered() => children::has_ended_by_stat(child),
        child => children::has_ended(child),
    }
}
