//! The fault thread: reads faults, makes room, gives pages back.

use std::time::Duration;

use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Effort, Fault, Worker};
use uzswap_sys::file::write_stderr;
use uzswap_sys::uffd::{BATCH, Event, wait_readable};
use uzswap_sys::{AsFd, Errno, sched, time};

use crate::charge::Charge;
use crate::kswapd::mail;
use crate::machine::RegionMachine;
use crate::pager::Pager;

/// Faults that are read before they are served; more wait in the kernel.
const INBOX: usize = 1024;
/// When a fault that could not be served is tried again.
const RETRY_NS: u64 = 50_000;
/// Pages that direct reclaim takes in one round.
const DIRECT_BATCH: u32 = 32;
/// The limit gives way once reclaim was fruitless for so long, and where it has given way already;
/// in so many rounds, as many of kswapd among them: it may lack a core, or wait for the disk.
const HOPELESS_NS: u64 = 100_000_000;
const HOPELESS_AGAIN_NS: u64 = 5_000_000;
const HOPELESS_ROUNDS: u64 = 8;
/// Between two rounds that came to nothing.
const PAUSE: Duration = Duration::from_micros(50);
/// How much less nice it is than others, if it may be: who it works for waits.
const NICE: i32 = 10;

pub(crate) struct FaultThread {
    pager: &'static Pager,
    worker: Worker<RegionMachine>,
    /// Pages that somebody waits for.
    inbox: Vec<usize>,
}

impl FaultThread {
    pub(crate) fn new(pager: &'static Pager, worker: Worker<RegionMachine>) -> Self {
        Self {
            pager,
            worker,
            inbox: Vec::with_capacity(INBOX),
        }
    }

    pub(crate) fn run(mut self) -> ! {
        sched::go_before_others(NICE);
        loop {
            self.round();
        }
    }

    fn round(&mut self) {
        let managed = &self.pager.mm.machine().fds.managed;
        let timeout = (!self.inbox.is_empty()).then_some(RETRY_NS);
        wait_readable(&[managed.as_fd()], timeout);
        self.read();
        self.pager.give_way();
        let pager = self.pager;
        let _serving = pager.serving.lock();
        let mut waiting = core::mem::take(&mut self.inbox);
        waiting.retain(|addr| !self.serve(*addr));
        self.inbox = waiting;
    }

    fn read(&mut self) {
        let managed = &self.pager.mm.machine().fds.managed;
        while self.inbox.len() + BATCH < INBOX {
            let more = managed.read_events(|event| {
                if let Event::Fault { addr, .. } = event {
                    self.inbox.push(addr & !(PAGE_SIZE - 1));
                }
            });
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(errno) => panic!("reading the userfaultfd: {errno}"),
            }
        }
    }

    /// False: not now.
    fn serve(&mut self, addr: usize) -> bool {
        let pager = self.pager;
        if pager.mm.machine().is_staging(addr) {
            return pager.mm.machine().refuse(addr);
        }
        if !self.make_room() {
            return false;
        }
        match pager.mm.fault(&mut self.worker, Vpn::of_addr(addr)) {
            Fault::Served => {
                if pager.charge.current(&pager.mm) > pager.charge.high(&pager.mm) {
                    pager.mail.post(mail::RECLAIM);
                }
                true
            }
            Fault::Retry => false,
            Fault::Lost => self.poison(addr),
        }
    }

    /// Reclaim until there is room for a fault. Where nothing can be reclaimed the limit gives way:
    /// the alternative would be to end the process. False: not now, as somebody waits to make a
    /// change of regions, which may be what makes room.
    fn make_room(&mut self) -> bool {
        let (mm, charge) = (&self.pager.mm, &self.pager.charge);
        if charge.has_room(mm) {
            return true;
        }
        mm.stat().add(Item::AllocStall, 1);
        let (mut since, mut before, mut rounds) = (time::now_ns(), self.pager.progress(), 0);
        while !charge.has_room(mm) {
            if self.pager.is_to_change() {
                return false;
            }
            self.pager.mail.post(mail::RECLAIM);
            mm.shrink(&mut self.worker, DIRECT_BATCH, Effort::Urgent);
            let (now, progress) = (time::now_ns(), self.pager.progress());
            if progress.reclaimed > before.reclaimed {
                (since, before, rounds) = (now, progress, 0);
                continue;
            }
            rounds += 1;
            let least = rounds.min(progress.rounds - before.rounds);
            match now - since > patience(charge) && least >= HOPELESS_ROUNDS {
                true => {
                    charge.give_way();
                    (since, before, rounds) = (now, progress, 0);
                }
                false => std::thread::sleep(PAUSE),
            }
        }
        true
    }

    /// The contents of a page are lost: whoever reads it gets SIGBUS. False: not now.
    fn poison(&self, addr: usize) -> bool {
        let pager = self.pager;
        match pager.mm.machine().fds.managed.poison(addr) {
            Err(Errno::AGAIN | Errno::NOMEM) => false,
            Ok(()) => {
                pager.mm.stat().add(Item::Poisoned, 1);
                // Not through std: whoever waits for the page may have its lock.
                write_stderr(&format!(
                    "uzswap: the page at {addr:#x} is lost: its stored copy is damaged or cannot be read\n"
                ));
                true
            }
            Err(_) => {
                pager.mm.machine().fds.managed.wake(addr, PAGE_SIZE);
                true
            }
        }
    }
}

/// How long reclaim is to be fruitless before the limit gives way.
fn patience(charge: &Charge) -> u64 {
    if charge.has_given_way() {
        HOPELESS_AGAIN_NS
    } else {
        HOPELESS_NS
    }
}
