//! Background compression threads: they store what waits for it while kswapd chooses what comes
//! next.
//!
//! kswapd posts [`WORK`] when more frames are staged than have to wait for their second chance;
//! each thread then stores the oldest run, as kswapd itself does, until no more are left than that.
//! They take no part while a fork is under way.

use alloc::vec::Vec;

use lock_api::Mutex;
use uzswap_ctl::defaults::KCOMPRESSD_MAX;
use uzswap_mm::Worker;
use uzswap_sys::futex::{Mailbox, RawLock};
use uzswap_sys::{sched, thread};

use crate::kswapd;
use crate::machine::AgentMachine;
use crate::pager::Pager;

/// Most of them in one process.
pub(crate) const THREADS_MAX: usize = KCOMPRESSD_MAX as usize;
/// Bit of [`Kcompressd::mail`].
pub(crate) const WORK: u32 = 1;

/// What they have.
pub(crate) struct Kcompressd {
    /// Working memory, one for each.
    pub(crate) workers: Vec<Mutex<RawLock, Worker<AgentMachine>>>,
    pub(crate) mail: Mailbox,
}

impl Kcompressd {
    pub(crate) fn new(workers: Vec<Mutex<RawLock, Worker<AgentMachine>>>) -> Self {
        Self {
            workers,
            mail: Mailbox::new(),
        }
    }
}

/// Compress until the program is over.
pub(crate) fn run(pager: &Pager, worker: &Mutex<RawLock, Worker<AgentMachine>>) {
    sched::take_short_turns(kswapd::SLICE_NS);
    let mut worker = worker.lock();
    while !thread::is_over() {
        pager.kcompressd.mail.wait(WORK, None);
        while pager.store_staged(&mut worker) > 0 {}
    }
}
