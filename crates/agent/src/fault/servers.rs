//! The threads that serve faults.
//!
//! One of them, the fault thread, reads the userfaultfd and applies changes. Where several threads
//! of the program fault, it deals what one read brought among itself and its helpers. It reads on
//! when all of it was served: no change is applied while a fault is being served, which is what
//! [`Mm::fault`](uzswap_mm::Mm::fault) asks for. Where faults come one by one, helpers bring pieces
//! of what a large one brings (`spread_load`). Once there were two faults at a time, kswapd makes
//! the working memory that helpers need for faults of their own.
//!
//! ```text
//! fault thread   read_events -> deal -> serve its own, and what no helper has taken
//!                -> all served -> read_events
//! helper         (looks for work for HELPER_SPIN_NS, then sleeps) -> serve -> ...
//! ```

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lock_api::{MappedMutexGuard, Mutex, MutexGuard};
use uzswap_ctl::{Group, Tunable};
use uzswap_mm::vmstat::Item;
use uzswap_mm::{SERVERS_MAX, Worker};
use uzswap_sys::crew::Crew;
use uzswap_sys::futex::RawLock;
use uzswap_sys::{sched, thread};

use super::{Waiting, inline};
use crate::cpu::cores::CORES;
use crate::fault;
use crate::kswapd::reclaim::Stall;
use crate::machine::AgentMachine;
use crate::pager::Pager;

/// The fault thread works for a thread that waits, in whose place the kernel would do it at once.
/// Without this it waits for a core behind kswapd and whoever else runs, up to a slice of 3 ms for
/// 5 us of work.
pub(crate) const FAULT_NICE: i32 = 10;
/// A fault is served in a few microseconds, waking a thread takes longer.
const HELPER_SPIN_NS: u64 = 50_000;
/// Faults that one round reads at most; more wait in the kernel.
pub(crate) const INBOX: usize = 4096;

pub(crate) static HELPERS: Crew = Crew::new(c"uzswap-server", || sched::go_before_others(FAULT_NICE));

/// What one server works with. All of it is taken when it is made: what is allocated while faults
/// are served is the pool's and the lists'.
pub(crate) struct Seat {
    number: usize,
    worker: Worker<AgentMachine>,
    stall: Stall,
    faults: Vec<Waiting>,
    /// Codecs that the worker can read, a bit each, beside those that it began with.
    prepared: u32,
}

impl Seat {
    pub(crate) fn new(worker: Worker<AgentMachine>, number: usize) -> Self {
        Self {
            number,
            worker,
            stall: Stall::default(),
            faults: Vec::with_capacity(if number > 0 && inline::serves() { 0 } else { INBOX }),
            prepared: 0,
        }
    }

    /// Serve what was dealt; what has to wait stays.
    fn work(&mut self, pager: &Pager, fault_thread: i32) {
        let Self {
            worker, stall, faults, ..
        } = self;
        let dealt = faults.len();
        faults.retain(|waiting| !fault::serve(pager, worker, *waiting, stall));
        if self.number > 0 && thread::tid() != fault_thread {
            let served = dealt - self.faults.len();
            pager.mm.stat().add(Item::PgFaultHelped, served as u64);
        }
    }
}

/// Where the servers sit, the fault thread first. A forked child goes on with what its parent had.
pub(crate) struct Seats {
    /// Two faults came at a time.
    is_wanted: AtomicBool,
    /// Helpers that have one.
    seated: AtomicU32,
    /// Threads of the program that serve their own faults at a time, at most: after the first.
    inline: usize,
    seats: [Mutex<RawLock, Option<Seat>>; SERVERS_MAX],
    inbox: Mutex<RawLock, Vec<Waiting>>,
}

impl Seats {
    /// With the fault thread's.
    pub(crate) fn new(worker: Worker<AgentMachine>) -> Self {
        let seats = [const { Mutex::new(None) }; SERVERS_MAX];
        *seats[0].lock() = Some(Seat::new(worker, 0));
        Self {
            is_wanted: AtomicBool::new(inline::serves()),
            seated: AtomicU32::new(0),
            inline: thread::cores().clamp(1, SERVERS_MAX - 1),
            seats,
            inbox: Mutex::new(Vec::with_capacity(INBOX)),
        }
    }

    /// How many threads may be serving faults at a time.
    pub(crate) fn servers(&self) -> u64 {
        if inline::serves() {
            return 1 + self.inline as u64;
        }
        1 + u64::from(self.seated.load(Ordering::Relaxed))
    }

    /// How many of them make room themselves. A thread of the program has the fault thread do it.
    pub(crate) fn that_make_room(&self) -> u64 {
        match inline::serves() {
            true => 1,
            false => self.servers(),
        }
    }

    /// How many may come to be serving.
    fn servers_most(&self, group: Group) -> usize {
        match inline::serves() {
            true => 1 + self.inline,
            false => threads(group),
        }
    }

    /// Have the thread that calls this serve its own fault. `None`: all seats are taken, or there
    /// are none yet. For as long as what is returned lives.
    pub(crate) fn try_sit(&self, pager: &Pager) -> Option<Sitting<'_>> {
        for seat in &self.seats[1..=self.inline] {
            let Some(seat) = seat.try_lock() else { continue };
            return match MutexGuard::try_map(seat, Option::as_mut) {
                Ok(seat) if seat.prepared == pager.known_codecs() => Some(Sitting(seat)),
                _ => {
                    self.is_wanted.store(true, Ordering::Relaxed);
                    None
                }
            };
        }
        None
    }

    /// The program has been quiet: the memory of buffers where nobody sits returns to the system.
    pub(crate) fn rest(&self) {
        for seat in &self.seats {
            if let Some(Some(seat)) = seat.try_lock().as_deref_mut() {
                seat.worker.rest();
            }
        }
    }

    /// In a forked child, where nobody sits anywhere: have devices of its own.
    pub(crate) fn renew_devices(&self, machine: &AgentMachine) {
        for seat in &self.seats {
            if let Some(seat) = &mut *seat.lock() {
                seat.worker.renew_devices(machine);
            }
        }
    }

    /// In a forked child: there are no helpers, and nobody sits anywhere.
    pub(crate) fn reset(&self) {
        self.is_wanted.store(inline::serves(), Ordering::Relaxed);
        self.seated.store(0, Ordering::Relaxed);
        for seat in self.seats.iter().filter(|seat| seat.is_locked()) {
            // SAFETY: locked by the parent's fault thread, which does not exist here. What it or a
            // helper was doing there was done without changing the frozen engine and will never be
            // finished; whoever sits down next starts over.
            unsafe { seat.force_unlock() };
        }
        if self.inbox.is_locked() {
            // SAFETY: as above.
            unsafe { self.inbox.force_unlock() };
        }
    }
}

/// Threads of each process that serve the faults of others.
pub(crate) fn threads(group: Group) -> usize {
    if inline::serves() {
        return 1;
    }
    (group.get(Tunable::FaultThreads) as usize).clamp(1, SERVERS_MAX)
}

/// Start the helpers, which sleep. Now: the program may forbid new threads later. Called by the
/// fault thread, which lends them its descriptors.
pub(crate) fn start_helpers(pager: &Pager) {
    if pager.memcg.group().is_on(Tunable::Spin) {
        HELPERS.set_spin(HELPER_SPIN_NS);
    }
    HELPERS.grow(threads(pager.memcg.group()) - 1);
}

/// Give the helpers something to work with, if they are wanted. Called by kswapd.
pub(crate) fn provide(pager: &Pager) {
    let seats = &pager.seats;
    if !seats.is_wanted.swap(false, Ordering::Relaxed) {
        return;
    }
    let threads = seats.servers_most(pager.memcg.group());
    for (number, seat) in seats.seats.iter().enumerate().take(threads).skip(1) {
        // Taken already, by who serves faults.
        let Some(mut seat) = seat.try_lock() else { continue };
        if seat.is_none() && !pager.mm.machine().has_room_for_io() {
            return;
        }
        let seat = seat.get_or_insert_with(|| {
            let worker = Worker::for_server(pager.mm.config(), pager.mm.machine(), number);
            Seat::new(worker, number)
        });
        if inline::serves() {
            seat.prepared = pager.prepare_known_codecs(&mut seat.worker);
        }
    }
}

/// A thread of the program serves its own fault.
pub(crate) struct Sitting<'a>(MappedMutexGuard<'a, RawLock, Seat>);

impl Sitting<'_> {
    pub(crate) fn worker(&mut self) -> &mut Worker<AgentMachine> {
        &mut self.0.worker
    }
}

type Seated = MappedMutexGuard<'static, RawLock, Seat>;

/// The fault thread and its helpers.
pub(crate) struct Servers {
    own: Seated,
    helping: [Option<Seated>; SERVERS_MAX - 1],
    inbox: MutexGuard<'static, RawLock, Vec<Waiting>>,
    fault_thread: i32,
}

impl Servers {
    /// Called by the fault thread. `None`: it has no seat.
    pub(crate) fn new(pager: &'static Pager) -> Option<Self> {
        let seats = &pager.seats;
        let mut own = MutexGuard::try_map(seats.seats[0].lock(), Option::as_mut).ok()?;
        let mut inbox = seats.inbox.lock();
        // The parent's.
        own.faults.clear();
        inbox.clear();
        Some(Self {
            own,
            helping: [const { None }; SERVERS_MAX - 1],
            inbox,
            fault_thread: thread::tid(),
        })
    }

    /// The fault thread's own worker, and where what is read goes.
    pub(crate) fn reading(&mut self) -> (&mut Worker<AgentMachine>, &mut Vec<Waiting>) {
        (&mut self.own.worker, &mut self.inbox)
    }

    /// Faults that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Whether none does.
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.is_empty()
    }

    /// The fault thread's own worker.
    pub(crate) fn own(&mut self) -> &mut Worker<AgentMachine> {
        &mut self.own.worker
    }

    /// Wait with `comes` for something to do if the fault thread's own worker has memory to give
    /// back, and have it do so if nothing came. Whether something has come.
    pub(crate) fn wait_or_rest(&mut self, comes: impl FnOnce() -> bool) -> bool {
        let has_come = self.own.worker.may_rest() && comes();
        if !has_come {
            self.own.worker.rest();
        }
        has_come
    }

    pub(crate) fn workers(&mut self) -> impl Iterator<Item = &mut Worker<AgentMachine>> {
        let helping = self.helping.iter_mut().flatten();
        core::iter::once(&mut self.own)
            .chain(helping)
            .map(|seat| &mut seat.worker)
    }

    /// Serve what was read; what has to wait is left.
    pub(crate) fn serve(&mut self, pager: &'static Pager) {
        CORES.note_waiting(self.inbox.len());
        if self.inbox.len() > 1 && HELPERS.helpers() > 0 {
            self.take_on(pager);
            self.share_out(pager);
        }
        // Also what was refused because another server was bringing it.
        let Seat { worker, stall, .. } = &mut *self.own;
        self.inbox
            .retain(|waiting| !fault::serve(pager, worker, *waiting, stall));
    }

    fn share_out(&mut self, pager: &Pager) {
        let mut servers: [Option<&mut Seat>; SERVERS_MAX] = [const { None }; SERVERS_MAX];
        let seated = core::iter::once(&mut self.own).chain(self.helping.iter_mut().flatten());
        let mut count = 0;
        for (place, seat) in servers.iter_mut().zip(seated).take(self.inbox.len()) {
            *place = Some(seat);
            count += 1;
        }
        let servers = &mut servers[..count];
        for (i, waiting) in self.inbox.drain(..).enumerate() {
            if let Some(seat) = &mut servers[i % count] {
                seat.faults.push(waiting);
            }
        }
        let fault_thread = self.fault_thread;
        HELPERS.spread(servers, |seat| {
            if let Some(seat) = seat {
                seat.work(pager, fault_thread);
            }
        });
        for seat in servers.iter_mut().flatten() {
            self.inbox.append(&mut seat.faults);
        }
    }

    /// Ask for seats; take those that there are since.
    fn take_on(&mut self, pager: &'static Pager) {
        for (place, seat) in self.helping.iter_mut().zip(&pager.seats.seats[1..]) {
            if place.is_some() {
                continue;
            }
            let Some(seat) = seat.try_lock() else { return };
            let Ok(mut seat) = MutexGuard::try_map(seat, Option::as_mut) else {
                pager.seats.is_wanted.store(true, Ordering::Relaxed);
                return;
            };
            // As a piece of reclaim, which a freeze waits for: this allocates.
            let prepared = pager.unless_freezing(|_| {
                seat.faults.clear();
                seat.faults.reserve(INBOX);
                pager.prepare_known_codecs(&mut seat.worker)
            });
            if prepared.is_none() {
                return;
            }
            *place = Some(seat);
            pager.seats.seated.fetch_add(1, Ordering::Relaxed);
        }
    }
}
