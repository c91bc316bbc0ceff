//! Children that an event told of: what their userfaultfds tell, and how their faults are served
//! until they have pagers. In the fault thread.

use alloc::vec::Vec;

use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_mm::{Change, Worker};
use uzswap_sys::Errno;
use uzswap_sys::uffd::{Event, Uffd};

use super::populate::read_events;
use crate::fault;
use crate::machine::AgentMachine;
use crate::pager::Pager;

/// Room for so much that a child tells: nothing is allocated as the heap may be copied.
const HEARD: usize = 64;

/// A child that an event told of, and that has no pager yet: its parent serves it.
pub(super) struct Served {
    pub(super) uffd: Uffd,
    /// All that was out was mapped into it: what it misses since it has dropped.
    pub(super) is_filled: bool,
    pub(super) heard: Heard,
}

/// What a child has told and asked for.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) inbox: Vec<usize>,
    /// What was read of it while it was filled.
    pub(super) told: Vec<Event>,
    /// What happened to its mappings since the freeze, before the fork and after.
    pub(super) changes: Vec<Change>,
    /// Who it has forked itself, by a raw system call, and what had happened by then.
    pub(super) born: Vec<(Uffd, Vec<Change>)>,
}

impl Heard {
    pub(super) fn with_room() -> Self {
        Self {
            inbox: Vec::with_capacity(HEARD),
            changes: Vec::with_capacity(HEARD),
            ..Self::default()
        }
    }

    /// Its room, for another child.
    pub(super) fn cleared(mut self) -> Self {
        self.inbox.clear();
        self.told = Vec::new();
        self.changes.clear();
        self.changes.shrink_to(HEARD);
        self.born = Vec::new();
        self
    }
}

impl Served {
    /// Serve what the child asks for, until it asks for nothing.
    pub(super) fn serve(&mut self, pager: &Pager, worker: &mut Worker<AgentMachine>) {
        let uffd = &self.uffd;
        let Heard {
            inbox,
            told,
            changes,
            born,
        } = &mut self.heard;
        let mut read = |event: Event| match event {
            Event::Fault {
                addr,
                is_protected: true,
                ..
            } => uffd.unprotect_and_wake(addr & !(PAGE_SIZE - 1), PAGE_SIZE),
            Event::Fault { addr, .. } => inbox.push(addr & !(PAGE_SIZE - 1)),
            Event::Fork(child) => born.push((child, changes.clone())),
            other => changes.extend(fault::change(&other)),
        };
        core::mem::take(told).into_iter().for_each(&mut read);
        read_events(pager, uffd, read);
        inbox.retain(|addr| {
            let mut retry = false;
            pager
                .mm
                .fault_of_child(worker, Vpn::of_addr(*addr), changes, |page| match page {
                    Some(page) => {
                        let filled = uffd.copy(*addr, page, true);
                        retry = filled.stop == Some(Errno::AGAIN);
                        if filled.stop.is_some() && !retry {
                            uffd.unprotect_and_wake(*addr, PAGE_SIZE);
                        }
                    }
                    None => retry = !fault::poison(pager, uffd, *addr),
                });
            retry
        });
    }
}
