//! Children that cannot have a pager: all that is swapped out is mapped into them. In the fault
//! thread.
//!
//! One that forked by a system call of its own runs meanwhile. What it has changed since is read
//! from its own userfaultfd, and a child that it has made lacks what it lacked then: that one is
//! filled next.

use alloc::vec::Vec;

use uzswap_mm::page::Vpn;
use uzswap_mm::{Change, Changes, Worker, destination};
use uzswap_sys::Errno;
use uzswap_sys::futex::RawLock;
use uzswap_sys::lent;
use uzswap_sys::time::now_ns;
use uzswap_sys::uffd::{Event, Uffd};

use crate::fault;
use crate::machine::AgentMachine;
use crate::pager::{self, Pager, pause};

/// How long children are filled while they change their mappings, or memory is short, and how far
/// apart a page is tried.
const WITHIN_NS: u64 = 10_000_000_000;
const PAUSE_NS: u64 = 20_000;

/// Map all that is swapped out into a child, and into those that it makes meanwhile. `since`: what
/// happened to its mappings since its copy of the words was made. Returns what was read of it but
/// for forks: whoever closes its userfaultfd next, which wakes all that wait, needs none of that.
pub(crate) fn populate(
    pager: &Pager,
    changes: &mut Changes<'_, RawLock, AgentMachine>,
    worker: &mut Worker<AgentMachine>,
    child: &Uffd,
    since: &[Change],
) -> Vec<Event> {
    let mut filling = Filling {
        pager,
        until: 0,
        read: Vec::new(),
        born: Vec::new(),
        lost: 0,
    };
    filling.fill(changes, worker, child, Vec::from(since));
    let read = core::mem::take(&mut filling.read);
    while let Some((child, since)) = filling.born.pop() {
        filling.fill(changes, worker, &child, since);
    }
    if filling.lost > 0 {
        pager::say_last(format_args!(
            "uzswap: a forked child that is not managed lost pages, as its mappings or its memory stood still: reading them raises SIGBUS\n"
        ));
    }
    read
}

struct Filling<'a> {
    pager: &'a Pager,
    /// How long pages of this child are tried.
    until: u64,
    /// What it has told, but for forks.
    read: Vec<Event>,
    /// Children of those that are filled, each with what happened to its mappings.
    born: Vec<(Uffd, Vec<Change>)>,
    /// Pages that could not be mapped in time.
    lost: u32,
}

impl Filling<'_> {
    fn fill(
        &mut self,
        changes: &mut Changes<'_, RawLock, AgentMachine>,
        worker: &mut Worker<AgentMachine>,
        child: &Uffd,
        mut since: Vec<Change>,
    ) {
        self.until = now_ns() + WITHIN_NS;
        let _ = changes.for_each_absent(worker, |page, contents| self.map(child, &mut since, page, contents));
        // Who is born from now on has a copy of all.
        self.read_events(child, &mut since);
    }

    /// Map one page. `contents`: none if they are lost. False: the child is gone.
    fn map(&mut self, child: &Uffd, since: &mut Vec<Change>, page: Vpn, contents: Option<&[u8]>) -> bool {
        loop {
            // It runs already, and may have moved the page, or dropped it.
            let Some(now) = destination(page, since) else {
                return true;
            };
            let stop = match contents {
                Some(contents) => child.copy(now.addr(), contents, true).stop,
                None if fault::poison(self.pager, child, now.addr()) => return true,
                None => Some(Errno::AGAIN),
            };
            match stop {
                Some(Errno::AGAIN | Errno::NOMEM) => {}
                // It is moving, or its mapping is gone: the kernel looks for that first.
                Some(Errno::NOENT) if child.is_changing(self.pager.mm.machine().nowhere()) => {}
                Some(Errno::SRCH) => return false,
                // It is there.
                _ => return true,
            }
            let late_ns = now_ns().saturating_sub(self.until);
            if late_ns > 0 {
                // Whoever reads it gets SIGBUS, not zeros. Not while events wait to be read.
                let poisoned = child.poison(now.addr());
                if poisoned != Err(Errno::AGAIN) || late_ns > WITHIN_NS {
                    self.lost += u32::from(poisoned.is_ok() || late_ns > WITHIN_NS);
                    return true;
                }
            }
            self.read_events(child, since);
            pause(PAUSE_NS);
        }
    }

    /// Learn what a child has done.
    fn read_events(&mut self, child: &Uffd, since: &mut Vec<Change>) {
        let read = |event: Event| match event {
            Event::Fork(born) => self.born.push((born, since.clone())),
            event => {
                since.extend(fault::change(&event));
                self.read.push(event);
            }
        };
        read_events(self.pager, child, read);
    }
}

/// Read all that a child has told.
pub(super) fn read_events(pager: &Pager, child: &Uffd, mut read: impl FnMut(Event)) {
    loop {
        match child.read_events(&mut read) {
            Ok(true) => {}
            // For the descriptor of one that it has forked: the event stays till it can be had.
            Err(Errno::MFILE | Errno::NFILE) if pager.fds().give_spare() => {}
            Err(Errno::MFILE) if lent::with_most_descriptors(|| child.read_events(&mut read)).is_ok() => {}
            // Another error means that it is gone.
            Ok(false) | Err(_) => return,
        }
    }
}
