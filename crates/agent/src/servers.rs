//! The threads that serve faults.
//!
//! One of them, the fault thread, reads the userfaultfd and applies changes. Where several threads of the program fault, it deals what one
//! read brought among itself and its helpers, and reads on when all of it was served: no change is applied while a fault is
//! being served, which is what [`Mm::fault`](uzswap_mm::Mm::fault) asks for. A program whose faults come one by one has no helpers: kswapd makes
//! them, and their working memory, once there were two faults at a time.
//!
//! ```text
//! fault thread   read_events -> deal -> serve its own, and what no helper has taken -> all served -> read_events
//! helper         (looks for work for HELPER_SPIN_NS, then sleeps) -> serve -> ...
//! ```

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{MappedMutexGuard, Mutex, MutexGuard};
use uzswap_ctl::Key;
use uzswap_mm::vmstat::Item;
use uzswap_mm::{SERVERS_MAX, Worker};
use uzswap_sys::crew::Crew;
use uzswap_sys::futex::RawLock;
use uzswap_sys::thread;

use crate::fault::{self, INBOX, Stall};
use crate::machine::AgentMachine;
use crate::pager::{FAULT_NICE, Pager};

/// A fault is served in a few microseconds, waking a thread takes longer.
const HELPER_SPIN_NS: u64 = 50_000;

static HELPERS: Crew = Crew::for_short_jobs(c"uzswap-fault", HELPER_SPIN_NS, || {
    thread::go_before_others(FAULT_NICE);
});

/// The working memory of each server, the fault thread's first.
pub(crate) struct Helping {
    /// Two faults came at a time.
    is_wanted: AtomicBool,
    workers: [Mutex<RawLock, Option<Worker<AgentMachine>>>; SERVERS_MAX],
}

impl Helping {
    /// With the fault thread's, and no helpers.
    pub(crate) fn new(own: Worker<AgentMachine>) -> Self {
        let workers = [const { Mutex::new(None) }; SERVERS_MAX];
        *workers[0].lock() = Some(own);
        Self {
            is_wanted: AtomicBool::new(false),
            workers,
        }
    }

    /// In a forked child: there are no helpers, and nobody holds a worker.
    pub(crate) fn reset(&self) {
        HELPERS.reset();
        self.is_wanted.store(false, Ordering::Relaxed);
        for worker in self.workers.iter().filter(|worker| worker.is_locked()) {
            // SAFETY: locked by the parent's fault thread, which does not exist here. What was being done with it was done without
            // changing the frozen engine and will never be finished; whoever takes it next starts over.
            unsafe { worker.force_unlock() };
        }
    }
}

/// Make helpers, if they are wanted. Called by kswapd, which looks for the program's memory: what appears here meanwhile is not taken for it.
pub(crate) fn provide(pager: &Pager) {
    let helping = &pager.helping;
    if !helping.is_wanted.load(Ordering::Relaxed) || HELPERS.helpers() > 0 {
        return;
    }
    let threads = (pager.memcg.group().get(Key::FaultThreads) as usize).clamp(1, SERVERS_MAX);
    for (number, worker) in helping.workers.iter().enumerate().take(threads).skip(1) {
        // A forked child inherits them.
        worker
            .lock()
            .get_or_insert_with(|| Worker::for_server(pager.mm.config(), pager.mm.machine(), number));
    }
    HELPERS.grow(threads - 1);
}

/// The fault thread and its helpers.
pub(crate) struct Servers(Vec<Server>);

/// One thread's part in a round, which the fault thread does if no helper is there in time.
struct Server {
    number: usize,
    worker: MappedMutexGuard<'static, RawLock, Worker<AgentMachine>>,
    stall: Stall,
    faults: Vec<usize>,
    fault_thread: i32,
}

impl Server {
    fn new(pager: &'static Pager, number: usize) -> Option<Self> {
        let worker = MutexGuard::try_map(pager.helping.workers[number].lock(), Option::as_mut).ok()?;
        Some(Self {
            number,
            worker,
            stall: Stall::default(),
            // Now: nothing is allocated while faults are served.
            faults: Vec::with_capacity(INBOX),
            fault_thread: thread::tid(),
        })
    }

    /// Serve what was dealt; what has to wait stays.
    fn work(&mut self, pager: &Pager) {
        let Self {
            worker, stall, faults, ..
        } = self;
        let dealt = faults.len();
        faults.retain(|addr| !fault::serve(pager, worker, *addr, stall));
        if self.number > 0 && thread::tid() != self.fault_thread {
            let served = dealt - self.faults.len();
            pager.mm.stat().add(Item::PgFaultHelped, served as u64);
        }
    }
}

impl Servers {
    /// Called by the fault thread.
    pub(crate) fn new(pager: &'static Pager) -> Self {
        let mut servers = Vec::with_capacity(SERVERS_MAX);
        servers.extend(Server::new(pager, 0));
        Self(servers)
    }

    /// The fault thread's own worker.
    pub(crate) fn own(&mut self) -> &mut Worker<AgentMachine> {
        &mut self.0[0].worker
    }

    pub(crate) fn workers(&mut self) -> impl Iterator<Item = &mut Worker<AgentMachine>> {
        self.0.iter_mut().map(|server| &mut *server.worker)
    }

    /// Serve the faults of `inbox`; those that have to wait are left in it.
    pub(crate) fn serve(&mut self, pager: &'static Pager, inbox: &mut Vec<usize>) {
        if inbox.len() > 1 {
            self.take_on(pager);
        }
        let sharing = self.0.len().min(inbox.len());
        for (addr, n) in inbox.drain(..).zip((0..sharing).cycle()) {
            self.0[n].faults.push(addr);
        }
        HELPERS.spread(&mut self.0[..sharing], |server| server.work(pager));
        for server in &mut self.0[..sharing] {
            inbox.append(&mut server.faults);
        }
    }

    /// Ask for helpers; take on those that there are since.
    fn take_on(&mut self, pager: &'static Pager) {
        pager.helping.is_wanted.store(true, Ordering::Relaxed);
        while self.0.len() <= HELPERS.helpers() {
            let number = self.0.len();
            // As a piece of reclaim, which a freeze waits for: this allocates.
            let server = pager.unless_freezing(|_| {
                let mut server = Server::new(pager, number)?;
                pager.prepare_known_codecs(&mut server.worker);
                Some(server)
            });
            let Some(server) = server.flatten() else { return };
            self.0.push(server);
        }
    }
}
