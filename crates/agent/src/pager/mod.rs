//! The state of the agent in one process: idle at first, then active as a rule.
//!
//! ```text
//! IDLE --activate--> STARTING --fault thread is ready--> ACTIVE
//!                            \--something is missing---> FAILED   (the process ends, or runs on:
//!                                                                  `unmanaged` says which)
//! ACTIVE --fork, in the child--> STARTING --child has its own pager--> ACTIVE
//!                                         \--it cannot have one------> FAILED   (the parent mapped
//!                                                                               all that was out)
//! IDLE --fork--> HELD --fork is over, in both--> IDLE
//! ACTIVE --a call wants one thread: all is mapped, the pager's threads end--> IDLE   (`retire`)
//! ACTIVE --a filter would end the pager: the same--> FAILED;   IDLE --such a filter--> FAILED
//! ```

pub(crate) mod blocking;
pub(crate) mod early;
pub(crate) mod hold;
pub(crate) mod mailbox;
pub(crate) mod missing;
pub(crate) mod record;
pub(crate) mod retire;
pub(crate) mod threads;
pub(crate) mod tickets;
pub(crate) mod words;

use alloc::ffi::CString;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use lock_api::Mutex;
use uzswap_ctl::{Field, Group, Limit, Notice, PROCESSES, Tunable};
use uzswap_mm::page::PageRange;
use uzswap_mm::{Mm, Worker};
use uzswap_sys::cell::Leaked;
use uzswap_sys::futex::{self, RawLock};
use uzswap_sys::lent;
use uzswap_sys::shield;
use uzswap_sys::thread::{self};
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, children};

use self::mailbox::{HAS_LET_GO, KEEPS, LETS_GO, Post, mail, reply};
use self::missing::{Missing, Part};
use self::record::Recorder;
pub(crate) use self::words::{say, say_last};
use crate::codec::codecs::Codecs;
use crate::codec::kcompressd::{self, Kcompressd};
use crate::config::{config, swap_pages};
use crate::cpu::vigil::VIGIL;
use crate::fault::give_up::Back;
use crate::fault::inline;
use crate::fault::servers::{self, HELPERS, Seats};
use crate::fork::Fork;
use crate::guard::{exec, signals};
use crate::guest::{order, unmanaged, vma};
use crate::kswapd::reclaim::Reclaim;
use crate::machine::arena::PoolArena;
use crate::machine::{AgentMachine, CREW, Fds, remote, swap_file};
use crate::memcg::{self, Memcg, deferral};

const IDLE: u32 = 0;
const STARTING: u32 = 1;
const ACTIVE: u32 = 2;
const FAILED: u32 = 3;

/// Who waits for another thread here looks again after so long. Nanoseconds.
const WAIT_NS: u64 = 10_000_000;
/// How often a thread waits so for its join to begin.
const JOIN_WAITS: u32 = 10;

static STATE: AtomicU32 = AtomicU32::new(IDLE);
/// The process that STATE is about. A vfork child runs in its parent's memory under another process
/// id: it must neither start threads nor wait for them.
static PID: AtomicI32 = AtomicI32::new(0);
static PAGER: Leaked<Pager> = Leaked::new();
static IDLE_GROUP: Leaked<(Group, &'static CStr)> = Leaked::new();

/// An active agent.
pub(crate) struct Pager {
    pub(crate) mm: Mm<RawLock, AgentMachine>,
    pub(crate) memcg: Memcg,
    pub(crate) post: Post,
    pub(crate) seats: Seats,
    pub(crate) reclaim: Reclaim,
    pub(crate) kcompressd: Kcompressd,
    pub(crate) codecs: Codecs,
    pub(crate) fork: Fork,
}

/// The program, or who forked it, has changed what it holds since its pager started.
static HAS_NEW_IDENTITY: AtomicBool = AtomicBool::new(false);

/// Note that the program, or who forked it, has changed what it holds.
pub(crate) fn note_identity() {
    HAS_NEW_IDENTITY.store(true, Ordering::Relaxed);
}

/// Whether either has changed what it holds since the pager started.
pub(crate) fn has_new_identity() -> bool {
    HAS_NEW_IDENTITY.load(Ordering::Relaxed)
}

/// The group, once the constructor has joined it.
pub(crate) fn group() -> Option<Group> {
    IDLE_GROUP.get().map(|(group, _)| *group)
}

/// The path of its file.
pub(crate) fn group_path() -> Option<&'static CStr> {
    IDLE_GROUP.get().map(|(_, path)| *path)
}

/// The constructor ran: the process belongs to a group, but has no pager yet.
pub(crate) fn start_idle(group: Group, path: &CStr) {
    PID.store(thread::pid(), Ordering::Relaxed);
    // Copied: programs that set their title write over the environment.
    IDLE_GROUP.set((group, alloc::boxed::Box::leak(CString::from(path).into_boxed_c_str())));
}

/// The pager of this process, if it is active.
pub(crate) fn active() -> Option<&'static Pager> {
    let is_active = STATE.load(Ordering::Acquire) == ACTIVE && PID.load(Ordering::Relaxed) == thread::pid();
    PAGER.get().filter(|_| is_active)
}

/// Start the pager. Called in the program's thread, which waits until it stands; other threads go
/// on meanwhile.
pub(crate) fn activate() {
    let result = early::take_failure().map_or_else(start_if_idle, Err);
    if let Err(missing) = result {
        unmanaged::lacks_pager(group_path(), missing);
    }
}

fn start_if_idle() -> Result<(), Missing> {
    if IDLE_GROUP.get().is_none() || PID.load(Ordering::Relaxed) != thread::pid() {
        return Ok(());
    }
    if STATE.load(Ordering::Acquire) != IDLE {
        return Ok(());
    }
    // A handler that forks would wait for its own thread.
    let mask = signals::block_sent();
    let result = match STATE.compare_exchange(IDLE, STARTING, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => lent::to_open(exec::is_filtered(), open_and_start),
        Err(_) => Ok(()),
    };
    signals::unblock(mask);
    result
}

/// After a pager has retired: begin another, as [`activate`] does. The call that it retired for is
/// made, so where none can begin the process goes on without.
fn begin_anew() {
    let mask = signals::block_sent();
    STATE.store(STARTING, Ordering::Release);
    let result = lent::to_open(exec::is_filtered(), open_and_start);
    signals::unblock(mask);
    if let Err(missing) = result {
        unmanaged::lacks_another_pager(missing);
    }
}

fn open_and_start() -> Result<(), Missing> {
    if let Err(missing) = inline::open() {
        settle(FAILED);
        return Err(missing);
    }
    threads::start(start_fresh)
}

fn settle(state: u32) {
    STATE.store(state, Ordering::Release);
    futex::wake_all(&STATE, false);
}

/// In any forked child: the process id is new. An idle agent stays idle, an active one is not until
/// it was restarted.
pub(crate) fn note_child() {
    PID.store(thread::pid(), Ordering::Relaxed);
}

/// The process gets no pager, or has none any more: nobody is here to be waited for.
pub(crate) fn lose() {
    STATE.store(FAILED, Ordering::Release);
}

/// Whether the process has no pager, and gets none.
pub(crate) fn is_lost() -> bool {
    STATE.load(Ordering::Acquire) == FAILED
}

/// Whether there was a pager, which has brought all back and is not needed any more.
pub(crate) fn has_retired() -> bool {
    is_lost() && PAGER.get().is_some_and(Pager::has_let_go)
}

/// Whether this process runs in the memory of the one that has the pager: a vfork child, say.
pub(crate) fn is_of_another_process() -> bool {
    inherited().is_some() && PID.load(Ordering::Relaxed) != thread::pid()
}

/// Whether this process is another than the one that began here, and has its memory.
pub(crate) fn is_vfork_child() -> bool {
    let pid = PID.load(Ordering::Relaxed);
    pid != 0 && pid != thread::pid()
}

/// Whether this process is such a one, and that which began here is gone.
pub(crate) fn is_orphan() -> bool {
    is_vfork_child() && !thread::has_process(PID.load(Ordering::Relaxed))
}

/// The pager, active or not yet: for the child of a fork. None where nothing is out: it did not
/// start, or was lost.
pub(crate) fn inherited() -> Option<&'static Pager> {
    PAGER.get().filter(|_| STATE.load(Ordering::Acquire) != FAILED)
}

/// The pager has retired: the process has none again, as at first. In its only thread.
pub(crate) fn forget() {
    PAGER.clear();
    settle(IDLE);
}

fn start_fresh() -> Result<&'static Pager, Missing> {
    let (group, path) = IDLE_GROUP
        .get()
        .copied()
        .ok_or(Missing::named("the group", Errno::INVAL))?;
    let mut fds = Fds::open(path, group.is_on(Tunable::Copies))?;
    fds.have_kept(path);
    let slot = take_slot(&fds, group)?;
    fds.swap = swap_file::of_group(group, path, swap_pages(group), None);
    fds.recorder = Recorder::of_environment();
    let config = config(group, fds.swap.as_ref().map(|swap| &swap.file));
    let pool = (group.get(Limit::MemoryMax) as usize).saturating_mul(8).min(1 << 38);
    let machine = AgentMachine::new(fds, config.staging_slots, pool, group)
        .map_err(|e| Missing::named("the staging range", e))?;
    let arena = PoolArena::reserve(pool).map_err(|e| Missing::named("the pool's range", e))?;
    machine.look_for_devices(group, slot);
    let worker = || Mutex::new(Worker::for_reclaim(&config, &machine));
    let (seats, reclaim) = (Seats::new(Worker::new(&config, &machine)), Reclaim::new(worker()));
    let threads = (group.get(Tunable::Kcompressd) as usize).min(kcompressd::THREADS_MAX);
    let kcompressd = Kcompressd::new((0..threads).map(|_| worker()).collect());
    let pager = PAGER.set(Pager {
        mm: Mm::new(machine, arena, config, group.vmstat()),
        memcg: Memcg::new(group, slot, path),
        post: Post::default(),
        seats,
        reclaim,
        kcompressd,
        codecs: Codecs::new(config.pool.compressor.algorithm),
        fork: Fork::default(),
    });
    remote::provide(pager);
    // The program faults next.
    servers::provide(pager);
    pager.start_kswapd()?;
    Ok(pager)
}

/// Lease a process slot of the group: if there is any, one that nobody is charged in, as what a
/// dead process was charged may have heirs.
pub(crate) fn take_slot(fds: &Fds, group: Group) -> Result<usize, Missing> {
    let slot = (0..PROCESSES)
        .find(|slot| !memcg::is_charged(group, *slot) && fds.leases.try_take(*slot))
        .or_else(|| (0..PROCESSES).find(|slot| fds.leases.try_take(*slot)))
        .ok_or(Missing::new(Part::ProcessSlot, Errno::NOSPC))?;
    if memcg::is_charged(group, slot) {
        // Whoever shared memory with its last owner has that alone now.
        group.add(Notice::Unshared, 1);
    }
    group.take_slot(slot, thread::pid());
    group.set_field(slot, Field::Start, fds.proc.start());
    group.set_field(slot, Field::CameBy, now_ns());
    group.set_field(slot, Field::Family, now_ns());
    Ok(slot)
}

impl Pager {
    /// The program's last thread has ended by the exit system call, which ends no other. So do the
    /// pager's threads, each by itself: before Linux 5.17 the status is that of the first thread if
    /// they do.
    pub(crate) fn end(&self, status: i32) {
        thread::end_all(status);
        self.ring();
    }

    /// Have all the pager's threads look what is asked of them: [`thread::is_over`].
    pub(crate) fn ring(&self) {
        self.knock();
        self.fds().wake.set();
    }

    /// As [`ring`](Self::ring), of all but the fault thread. In any thread.
    fn knock(&self) {
        thread::ring();
        self.kcompressd.mail.post(kcompressd::WORK);
        CREW.dismiss();
        HELPERS.dismiss();
        VIGIL.dismiss();
    }

    /// The descriptors.
    #[track_caller]
    pub(crate) fn fds(&self) -> &'static Fds {
        self.mm.machine().fds()
    }

    /// In a forked child: the threads of the pager do not exist here. Called by
    /// [`crate::statics`].
    pub(crate) fn reset_in_child(&self) {
        self.reclaim.reset_in_child();
        self.reclaim.unsharing.end();
        self.seats.reset();
        for worker in [&self.reclaim.worker].into_iter().chain(&self.kcompressd.workers) {
            // SAFETY: locked by a thread that does not exist here. What it was doing with its
            // worker it will never finish; whoever takes it next starts over.
            unsafe { worker.force_unlock() };
        }
        self.post.mail.reset();
        self.kcompressd.mail.reset();
        self.post.replies.reset();
        self.post.scans.reset();
        self.post.requests.reset();
        self.post.letting_go.store(KEEPS, Ordering::SeqCst);
        self.post.releasing.store(0, Ordering::SeqCst);
    }

    /// This process is about to end, so the vigil is recalled. If others go on with its memory, all
    /// of it is mapped before that; what is recorded of it is written. In a thread of the program.
    pub(crate) fn leave(&self) {
        VIGIL.recall();
        if children::has_children() {
            self.ask(mail::LEAVE);
        } else if self.fds().recorder.is_some() {
            self.ask(mail::RECORD);
        }
    }

    /// Have kswapd do something for the program's thread that calls this, and wait until it is
    /// done. Not for a fork to be over which may be this thread's own.
    pub(crate) fn ask(&self, what: u32) {
        // In this order: kswapd takes the bits after it has read the tickets.
        self.post.mail.post(what);
        let ticket = self.post.requests.ask();
        // Or this one would be answered only after kswapd's next round, which may wait for us.
        let called = if order::is_mine() { mail::CALLED } else { 0 };
        self.post.mail.post(mail::TICKET | called);
        let mut patience = 100;
        self.post.requests.wait(ticket, || {
            patience -= u32::from(self.reclaim.is_freezing());
            // One that has ended has done it, and may not have seen who waits.
            patience > 0 && !thread::are_over()
        });
    }

    /// Whether all is back, for who goes on with it, and nobody serves its faults.
    pub(crate) fn has_let_go(&self) -> bool {
        self.post.letting_go.load(Ordering::SeqCst) == HAS_LET_GO
    }

    /// Whether nothing may leave any more, whatever the limit.
    pub(crate) fn is_letting_go(&self) -> bool {
        self.post.letting_go.load(Ordering::SeqCst) != KEEPS
    }

    /// Whether all is to be brought back and is not yet.
    pub(crate) fn is_bringing_back(&self) -> bool {
        self.post.letting_go.load(Ordering::SeqCst) == LETS_GO || self.post.releasing.load(Ordering::SeqCst) != 0
    }

    /// Have the fault thread bring all back if another process has our memory, and wait until it
    /// has. Called by kswapd, so nothing leaves meanwhile.
    pub(crate) fn let_go_if_shared(&self) {
        // Whatever stops threads has done so. It would be taken for one that goes on with the
        // memory.
        shield::lower();
        if !self.is_letting_go() && self.fds().proc.shares_memory() {
            self.let_all_go(false);
        }
    }

    /// Have the fault thread bring all back, and wait until it has. `retires`: nothing of it is
    /// needed any more. Called by kswapd. False: some of that is lost, and all stays under our
    /// care: nobody else would know of it.
    fn let_all_go(&self, retires: bool) -> bool {
        self.post.retires.store(retires, Ordering::SeqCst);
        self.post.letting_go.store(LETS_GO, Ordering::SeqCst);
        self.fds().wake.set();
        while self.post.letting_go.load(Ordering::SeqCst) == LETS_GO {
            futex::wait(&self.post.letting_go, LETS_GO, Some(WAIT_NS), false);
        }
        let has_let_go = self.has_let_go();
        match has_let_go {
            true => self.fds().let_go(),
            // All but what is lost was given up.
            false => deferral::look_again(),
        }
        has_let_go
    }

    /// The fault thread's part: `bring_back` all, if it is asked for; is nothing of it needed any
    /// more? It is tried again where that says that it could not.
    pub(crate) fn let_go(&self, bring_back: impl FnOnce(bool) -> Back) {
        let retires = self.post.retires.load(Ordering::SeqCst);
        if self.post.letting_go.load(Ordering::SeqCst) != LETS_GO {
            return;
        }
        let state = match bring_back(retires) {
            Back::NotYet => return,
            Back::Is => HAS_LET_GO,
            Back::Lost => KEEPS,
        };
        self.post.letting_go.store(state, Ordering::SeqCst);
        futex::wake_all(&self.post.letting_go, false);
    }

    /// Have `[start, end)` mapped as it would be without us, and left alone, before the program has
    /// a userfaultfd of its own for it. In the program's thread, whose turn it is to change
    /// mappings.
    pub(crate) fn request_release(&self, start: usize, end: usize) {
        self.post.joining[0].store(start, Ordering::Relaxed);
        self.post.joining[1].store(end, Ordering::Relaxed);
        // Release and acquire: `post` and `take`.
        self.ask(mail::RELEASE);
    }

    /// kswapd's part of it: nothing leaves meanwhile.
    pub(crate) fn release(&self) {
        self.post.releasing.store(1, Ordering::SeqCst);
        self.fds().wake.set();
        while self.post.releasing.load(Ordering::SeqCst) != 0 {
            futex::wait(&self.post.releasing, 1, Some(WAIT_NS), false);
        }
    }

    /// The fault thread's part: give up what `give_up` is called with, if that is asked for. It is
    /// tried again where that says that it could not.
    pub(crate) fn give_up_released(&self, give_up: impl FnOnce(PageRange) -> bool) {
        if self.post.releasing.load(Ordering::SeqCst) == 0 {
            return;
        }
        let [start, end] = [0, 1].map(|i| self.post.joining[i].load(Ordering::Relaxed));
        if give_up(PageRange::of_bytes(start, end)) {
            self.post.releasing.store(0, Ordering::SeqCst);
            futex::wake_all(&self.post.releasing, false);
        }
    }

    /// Have kswapd take `[start, end)` under our care at once if it lies beside what is, and wait
    /// until it did. One that does not come to it within a tenth of a second does not begin any
    /// more: it would find what others have mapped or protected there since. In the program's
    /// thread, whose turn it is to change mappings.
    pub(crate) fn request_join(&self, start: usize, end: usize) {
        self.post.replies.take(reply::JOINED);
        self.post.joining[0].store(start, Ordering::Relaxed);
        self.post.joining[1].store(end, Ordering::Relaxed);
        // Release and acquire: `post` and `wait`.
        self.post.mail.post(mail::JOIN);
        for _ in 0..JOIN_WAITS {
            if self.post.replies.wait(reply::JOINED, Some(WAIT_NS)) != 0 {
                return;
            }
        }
        // What it has begun it ends soon: it needs nothing that this turn keeps from it.
        while self.post.mail.take(mail::JOIN) == 0
            && self.post.replies.wait(reply::JOINED, Some(WAIT_NS)) == 0
            && !thread::are_over()
        {}
    }

    /// kswapd's part of it.
    pub(crate) fn join(&self) {
        let [start, end] = [0, 1].map(|i| self.post.joining[i].load(Ordering::Relaxed));
        for _ in 0..8 {
            if vma::join(self, self.fds(), start, end) {
                break;
            }
            pause(50_000);
        }
        self.post.replies.post(reply::JOINED);
    }
}

/// Sleep for `ns` nanoseconds.
pub(crate) fn pause(ns: u64) {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    futex::wait(&NEVER, 0, Some(ns), false);
}
