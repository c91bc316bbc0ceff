//! Forking: the child gets its own pager before it runs, and until then the parent's serves it.
//!
//! ```text
//! forking thread             kswapd                      fault thread                   child's only thread
//! prepare: FREEZE  ------->  no reclaim, engine frozen
//!          <------- FROZEN   waits
//! fork(2)                                                serves faults, changes nothing
//!   the kernel copies memory                             FORK event: the child's uffd
//!                                                        serves both                    child: starts a fault thread,
//!                                                                                         which opens its own uffds
//!                                                        closes the child's uffd  <---- READY
//!                                                        RELEASED  ------------------>  registers every range anew,
//! parent: waits      <---- THAWED ----- FORKED --------  thaws                            adopts what is mapped, goes on
//! ```
//! While the parent's fault thread holds the child's userfaultfd, a missing page of the child waits for it. Between
//! RELEASED and the child's own registration a missing page would read as zeros, but nobody is there to
//! touch one: the child's only thread of the program waits in [`child`], on a stack whose pages are mapped.
//!
//! The parent does not return from `fork` before that, so a parent that exits at once (a daemon) leaves a child that
//! stands on its own. If the parent is killed before RELEASED, the child may have met missing pages that nobody served:
//! it is stopped.
//!
//! A child that cannot have a pager says UNMANAGED instead of READY; the parent then maps all that is swapped out into it
//! ([`populate`]), and it runs on unmanaged. The same goes for a fork that did not come through libc, which has no
//! `prepare`.
//!
//! `prepare` also takes the program's turn to change mappings (`hook::InOrder`): every change made before the fork has had
//! its event read, so the words that the child inherits are those of the memory that it inherits. Only raw system calls
//! of other threads can still fall in between.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use lock_api::RawMutex;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Change, Changes, Worker};
use uzswap_sys::Errno;
use uzswap_sys::file::File;
use uzswap_sys::futex::RawLock;
use uzswap_sys::shared::{FamilyWords, SharedWords};
use uzswap_sys::thread;
use uzswap_sys::uffd::{Event, Uffd, wait_readable};

use crate::machine::{AgentMachine, Fds, PoolArena, SwapFile};
use crate::pager::{self, Pager, mail, pause, reply};
use crate::{fault, hook, memcg, vma};

/// How a fork is going, and what the child needs to know.
pub(crate) struct Handover {
    /// Shared by parent and child. Each fork has words of its own: a child still reads its changes when the parent forks
    /// again, and forks itself meanwhile.
    words: FamilyWords,
    /// `prepare` ran and neither `parent` nor `child` yet. Copied by the fork, like all that is not in `words`.
    is_prepared: AtomicBool,
    parent_returned: AtomicBool,
    /// The process that prepares the fork: the child's parent, for the child to see whether it lives.
    parent: AtomicI32,
    /// Held from `prepare` to `parent`: one fork at a time.
    lock: RawLock,
    /// Signal mask to restore after the fork: a handler that ran between could fork itself.
    mask: AtomicU64,
}

const STATE: usize = 0;
const CHANGES: usize = 1;
const PARENT_TID: usize = 3;
const FILES: usize = 4;
/// Pairs: number of a descriptor of the parent's fault thread, byte that a lease on it locks.
const FIRST_FILE: usize = 8;
const FILES_MAX: usize = 254;
/// Four words each: kind, start, end, target.
const FIRST_CHANGE: usize = FIRST_FILE + 2 * FILES_MAX;
const CHANGES_MAX: usize = 64 * 1024;

/// Values of [`STATE`], in order; fresh words say 0. READY is answered by RELEASED, UNMANAGED by RELEASED_UNMANAGED. The parent describes the fork when it has read the event, and the
/// child runs from that moment on, so it waits for the description.
const DESCRIBED: u64 = 1;
const READY: u64 = 2;
const UNMANAGED: u64 = 3;
const RELEASED: u64 = 4;
const RELEASED_UNMANAGED: u64 = 5;

impl Handover {
    pub(crate) fn new() -> Self {
        Self {
            words: FamilyWords::new(FIRST_CHANGE + 4 * CHANGES_MAX),
            is_prepared: AtomicBool::new(false),
            parent_returned: AtomicBool::new(false),
            parent: AtomicI32::new(0),
            lock: RawLock::INIT,
            mask: AtomicU64::new(0),
        }
    }

    /// Fresh words for the next fork.
    fn renew(&self) {
        // SAFETY: called by kswapd between two forks: the fault thread and the forking threads use the words only
        // from FREEZE to FORKED, and forks are serialised by `lock`.
        if let Err(errno) = unsafe { self.words.renew() } {
            panic!("no memory to prepare a fork: {errno}");
        }
    }

    fn get(&self, word: usize) -> u64 {
        self.words.words()[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.words.words()[word].store(value, Ordering::Release);
    }

    /// Whether `fork` has returned in the parent, so that its event, if there was one, has been read.
    pub(crate) fn parent_returned(&self) -> bool {
        self.parent_returned.load(Ordering::SeqCst)
    }

    /// In the child: wait until the parent has come so far. False: it died before; its descriptors were closed by then.
    fn wait_for_parent(&self, pager: &Pager, state: u64) -> bool {
        while self.get(STATE) < state {
            let parent_lives = match thread::parent_pid() {
                // In another PID namespace. The slot is still the parent's, and so is the lease on it.
                0 => SharedWords::is_leased_in(pager.group_path, pager.memcg.slot()),
                pid => pid == self.parent.load(Ordering::SeqCst),
            };
            if !parent_lives {
                return self.get(STATE) >= state;
            }
            pause(20_000);
        }
        true
    }

    fn push_change(&self, change: Change) {
        let n = self.get(CHANGES) as usize;
        assert!(n < CHANGES_MAX, "more changes than a fork's log holds");
        let (kind, range, to) = match change {
            Change::Remove(range) => (0, range, Vpn::new(0)),
            Change::Unmap(range) => (1, range, Vpn::new(0)),
            Change::Remap { from, to } => (2, from, to),
        };
        for (i, word) in [kind, range.start.number(), range.end.number(), to.number()]
            .into_iter()
            .enumerate()
        {
            self.set(FIRST_CHANGE + 4 * n + i, word);
        }
        self.set(CHANGES, n as u64 + 1);
    }

    fn changes(&self) -> impl Iterator<Item = Change> {
        (0..(self.get(CHANGES) as usize).min(CHANGES_MAX)).map(|n| {
            let word = |i| self.get(FIRST_CHANGE + 4 * n + i);
            let range = PageRange {
                start: Vpn::new(word(1)),
                end: Vpn::new(word(2)),
            };
            match word(0) {
                0 => Change::Remove(range),
                1 => Change::Unmap(range),
                _ => Change::Remap {
                    from: range,
                    to: Vpn::new(word(3)),
                },
            }
        })
    }
}

/// Before a fork, in the forking thread, after the program's own handlers.
pub(crate) extern "C" fn prepare() {
    pager::hold_start();
    let Some(pager) = pager::active() else { return };
    let handover = &pager.handover;
    if memcg::has_unseen() {
        // What is two mappings only because it is half registered would stay two in the child for ever.
        pager.request_scan();
    }
    let mask = thread::block_signals();
    handover.lock.lock();
    handover.mask.store(mask, Ordering::Relaxed);
    hook::begin_fork();
    handover.parent_returned.store(false, Ordering::SeqCst);
    handover.parent.store(thread::pid(), Ordering::SeqCst);
    pager.replies.take(reply::FROZEN | reply::FORKED);
    pager.mail.post(mail::FREEZE);
    while pager.replies.wait(reply::FROZEN, None) == 0 {}
    handover.is_prepared.store(true, Ordering::SeqCst);
}

/// After a fork, in the parent.
pub(crate) extern "C" fn parent() {
    if pager::release_start() {
        memcg::activate_if_big();
        return;
    }
    let Some(pager) = pager::active() else { return };
    let handover = &pager.handover;
    if !handover.is_prepared.swap(false, Ordering::SeqCst) {
        return;
    }
    handover.parent_returned.store(true, Ordering::SeqCst);
    while pager.replies.wait(reply::FORKED, None) == 0 {}
    hook::end_fork();
    let mask = handover.mask.load(Ordering::Relaxed);
    // SAFETY: locked in `prepare` by this very thread.
    unsafe { handover.lock.unlock() };
    thread::restore_signals(mask);
}

/// After a fork, in the child: get a pager of our own before anything else runs.
pub(crate) extern "C" fn child() {
    pager::note_child();
    pager::release_start();
    vma::reset_in_child();
    hook::reset_in_child();
    memcg::reset_in_child();
    let Some(pager) = pager::inherited() else { return };
    if !pager.handover.is_prepared.swap(false, Ordering::SeqCst) {
        return;
    }
    // Signals are blocked since `prepare`: no handler of the program may touch memory before its pager stands.
    let mask = pager.handover.mask.load(Ordering::Relaxed);
    attach(pager);
    thread::restore_signals(mask);
}

/// The child's part.
fn attach(pager: &Pager) {
    // SAFETY: locked in `prepare` by the thread that this one is the copy of.
    unsafe { pager.handover.lock.unlock() };
    if pager.mm.mutex().is_locked() {
        // SAFETY: the thread that held it (the parent's fault thread, which was serving a fault without changing
        // the frozen engine) does not exist in this process.
        unsafe { pager.mm.mutex().force_unlock() };
    }
    pager.reset_in_child();
    let is_managed = pager::start_in_child(take_over);
    // The parent has seen to the memory of a child that asked to be left unmanaged; any other failure is fatal.
    if !is_managed && pager.handover.get(STATE) != RELEASED_UNMANAGED {
        pager::say("uzswap: a forked child lost its pager before it had its own and is stopped\n");
        thread::kill_self();
    }
}

/// The child's new fault thread: everything up to serving.
fn take_over() -> Result<&'static Pager, (&'static str, Errno)> {
    const ORPHAN: (&str, Errno) = ("a parent that lived until the fork was complete", Errno::SRCH);
    let pager = pager::inherited().ok_or(("the parent's pager", Errno::INVAL))?;
    let handover = &pager.handover;
    if !handover.wait_for_parent(pager, DESCRIBED) {
        return Err(ORPHAN);
    }
    let (fds, slot) = match equip(pager) {
        Ok(equipped) => equipped,
        Err(missing) => {
            handover.set(STATE, UNMANAGED);
            handover.wait_for_parent(pager, RELEASED);
            return Err(missing);
        }
    };
    let device = fds.inherited.len() as u8;
    handover.set(STATE, READY);
    if !handover.wait_for_parent(pager, RELEASED) {
        return Err(ORPHAN);
    }
    pager.memcg.assume_shared(pager);
    pager.memcg.set_slot(slot);
    pager.pins.lock().clear();
    pager.mm.machine().start(fds).map_err(|e| ("the staging range", e))?;
    pager.mm.start_child(device);
    for change in handover.changes() {
        pager.mm.change(change);
    }
    if !vma::register_inherited(pager, pager.fds()) {
        return Err(("registering inherited memory", Errno::INVAL));
    }
    pager.is_freezing.store(false, Ordering::SeqCst);
    pager.start_kswapd()?;
    Ok(pager)
}

/// All that the child's pager needs and may fail to get.
fn equip(pager: &Pager) -> Result<(Fds, usize), (&'static str, Errno)> {
    let group = pager.memcg.group();
    let mut fds = Fds::open(pager.group_path)?;
    fds.inherited = inherit_files(pager)?;
    // As many as the parent's: the engine goes on with what it was made for.
    fds.swap = pager::open_swap(group, pager.mm.config().swap_pages);
    let slot = pager::take_slot(&fds, group)?;
    Ok((fds, slot))
}

/// Open the swap files that our copy of the swap table points to, and hold a lease on each. The ciphers are those of our copy of
/// the parent's memory: all the files that it inherited, then its own.
fn inherit_files(pager: &Pager) -> Result<Vec<(SwapFile, u64)>, (&'static str, Errno)> {
    let (handover, parent) = (&pager.handover, pager.fds());
    let inherited = parent.inherited.iter().map(|(swap, _)| swap);
    let ciphers: Vec<_> = inherited.chain(&parent.swap).map(|swap| swap.cipher).collect();
    let (pid, tid) = (handover.parent.load(Ordering::SeqCst), handover.get(PARENT_TID) as i32);
    (0..handover.get(FILES) as usize)
        .map(|i| {
            let (fd, byte) = (
                handover.get(FIRST_FILE + 2 * i) as i32,
                handover.get(FIRST_FILE + 2 * i + 1),
            );
            let file = File::open_of_thread(pid, tid, fd).map_err(|e| ("the parent's swap file", e))?;
            if !file.lock_shared(byte) {
                return Err(("a lease on the parent's swap file", Errno::AGAIN));
            }
            let cipher = ciphers.get(i).copied().flatten();
            Ok((SwapFile { file, cipher }, byte))
        })
        .collect()
}

/// kswapd's part: come to rest and stay there until the fork is over.
pub(crate) fn freeze_until_forked(pager: &Pager) {
    pager.handover.renew();
    pager.is_freezing.store(true, Ordering::SeqCst);
    pager.wait_for_reclaimers();
    let pin = pager.mm.freeze();
    pager.pins.lock().push((pin, 0));
    // The fault thread may be waiting without a timeout: have it look at `is_freezing`.
    pager.fds().wake.set();
    pager.replies.post(reply::FROZEN);
    while pager.mail.wait(mail::THAWED, None) == 0 {}
}

/// Swap slots that no relative reads any more may be written again.
pub(crate) fn release_pins(pager: &Pager) {
    let swap = &pager.fds().swap;
    let mut pins = pager.pins.lock();
    pins.retain(|(pin, byte)| {
        let is_held = *byte == 0 || swap.as_ref().is_some_and(|swap| swap.file.is_locked(*byte));
        if !is_held {
            pager.mm.unpin(*pin);
        }
        is_held
    });
}

/// The fault thread's part.
#[derive(Default)]
pub(crate) struct ForkServer {
    child: Option<Uffd>,
    is_new: bool,
    /// Leases are told apart by the byte they lock; never used twice.
    lease: u64,
    inbox: Vec<usize>,
    /// What happened to the child's mappings since the freeze, before the fork and after.
    changes: Vec<Change>,
}

impl ForkServer {
    /// Wait for anything to do.
    pub(crate) fn wait(&self, fds: &Fds, timeout_ns: Option<u64>) {
        use uzswap_sys::AsFd;
        match &self.child {
            Some(child) => wait_readable(&[fds.managed.as_fd(), fds.wake.as_fd(), child.as_fd()], timeout_ns),
            None => wait_readable(&[fds.managed.as_fd(), fds.wake.as_fd()], timeout_ns),
        };
    }

    /// Whether a FORK event now is the one that was prepared for.
    pub(crate) fn accepts(&self, pager: &Pager) -> bool {
        pager.is_freezing.load(Ordering::SeqCst) && self.child.is_none()
    }

    /// The child's userfaultfd arrived.
    pub(crate) fn begin(&mut self, child: Uffd) {
        self.child = Some(child);
        self.is_new = true;
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
        let (handover, fds) = (&pager.handover, pager.fds());
        self.changes.clear();
        pager.mm.changes_before_fork(|change| self.changes.push(change));
        self.changes.iter().for_each(|change| handover.push_change(*change));
        handover.set(PARENT_TID, thread::tid() as u64);
        // Our own file only if a word names it: or every generation of a family would hand down one more.
        let is_used = pager.mm.gauges().swapped > 0;
        let own = fds.swap.as_ref().filter(|_| is_used);
        let files = fds
            .inherited
            .iter()
            .map(|(swap, byte)| (swap.file.number(), *byte))
            .chain(own.map(|swap| (swap.file.number(), self.lease)));
        let mut n = 0;
        for (number, byte) in files {
            assert!(
                n < FILES_MAX,
                "forked {FILES_MAX} generations deep, each with pages on the swap device"
            );
            handover.set(FIRST_FILE + 2 * n, number as u64);
            handover.set(FIRST_FILE + 2 * n + 1, byte);
            n += 1;
        }
        handover.set(FILES, n as u64);
        handover.set(STATE, DESCRIBED);
    }

    /// Serve the child's faults and see whether the fork is over.
    pub(crate) fn step(&mut self, pager: &Pager, worker: &mut Worker<AgentMachine>, parent_returned: bool) {
        let Some(child) = &self.child else {
            if parent_returned {
                // No event and yet returned: the fork failed.
                self.finish(pager, false);
            }
            return;
        };
        serve_child(pager, worker, child, &mut self.inbox, &mut self.changes);
        let state = pager.handover.get(STATE);
        if state == UNMANAGED {
            pager
                .mm
                .with_changes(|changes| populate(pager, changes, worker, child, &self.changes));
        }
        let answer = match state {
            READY => RELEASED,
            UNMANAGED => RELEASED_UNMANAGED,
            _ if is_gone(pager, child) => {
                self.child = None;
                return self.finish(pager, false);
            }
            _ => return,
        };
        // Closed, so that the child may register its memory anew.
        self.child = None;
        pager.handover.set(STATE, answer);
        pager.mm.stat().add(Item::Forks, 1);
        self.finish(pager, true);
    }

    /// The fork is over. A child that holds no lease on our swap file keeps no slots: the next look at the pins shows.
    fn finish(&mut self, pager: &Pager, has_child: bool) {
        if let Some((pin, byte)) = pager.pins.lock().last_mut() {
            *byte = self.lease;
            if !has_child {
                pager.mm.unpin(*pin);
            }
        }
        if !has_child {
            pager.pins.lock().pop();
        }
        pager.memcg.set_shares(pager.memcg.shares() || has_child);
        pager.mm.thaw();
        pager.is_freezing.store(false, Ordering::SeqCst);
        pager.handover.parent_returned.store(false, Ordering::SeqCst);
        pager.mail.post(mail::THAWED);
        pager.replies.post(reply::FORKED);
    }
}

/// Serve what the child asks for, until it asks for nothing.
fn serve_child(
    pager: &Pager,
    worker: &mut Worker<AgentMachine>,
    child: &Uffd,
    inbox: &mut Vec<usize>,
    changes: &mut Vec<Change>,
) {
    let read = |event: Event| match &event {
        Event::Fault { addr, .. } => inbox.push(*addr & !(PAGE_SIZE - 1)),
        // A fork by a child that has not finished forking: its descriptor closes, its memory was copied whole.
        Event::Fork(_) => {}
        other => {
            if let Some(change) = fault::change(other) {
                changes.push(change);
                pager.handover.push_change(change);
            }
        }
    };
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
                        child.wake(*addr, PAGE_SIZE);
                    }
                }
                None => retry = !fault::poison(pager, child, *addr),
            });
        retry
    });
}

/// Whether the child has died: a fill answers ESRCH when there is no address space any more, and ENOENT before.
fn is_gone(pager: &Pager, child: &Uffd) -> bool {
    child.copy(pager.mm.machine().nowhere(), &[0; PAGE_SIZE], false).stop == Some(Errno::SRCH)
}

/// A child that cannot have a pager: map all that is swapped out. `since`: what happened to its mappings since its
/// copy of the words was made.
pub(crate) fn populate(
    pager: &Pager,
    changes: &mut Changes<'_, PoolArena>,
    worker: &mut Worker<AgentMachine>,
    child: &Uffd,
    since: &[Change],
) {
    changes.for_each_absent(&pager.mm, worker, since, |vpn, page| {
        // Refusals mean that the page is there or its mapping is gone; EAGAIN that the child changes its mappings.
        for _ in 0..1000 {
            let is_done = match page {
                Some(page) => child.copy(vpn.addr(), page, true).stop != Some(Errno::AGAIN),
                None => fault::poison(pager, child, vpn.addr()),
            };
            if is_done {
                break;
            }
            let _ = child.read_events(drop);
            pause(20_000);
        }
    });
}
