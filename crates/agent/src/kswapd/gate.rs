//! When writes to what relatives share have to wait for room (`mm/upkeep/gate.rs`).
//!
//! Each process tells the group how much of its memory is charged to relatives: written to, all of
//! that would be copies. As long as the group has room for all of them nobody waits. Where it has
//! not, each that shares protects its own pages, a while after the fork: a child that is gone by
//! then, as most are that run another program, costs nothing. The while is as long as it takes to
//! copy a small part of what there is, and room for that is made before the fork
//! ([`Kswapd::make_room_for_child`]).

use uzswap_mm::machine::Mapper;
use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_sys::time;

use super::Kswapd;
use crate::fault::inline;
use crate::guard;
use crate::guest::mutexes::{self, Taking};
use crate::guest::vma;
use crate::pager::pause;

/// How long a page of what is resident keeps the gate open: a copy takes some 50 times as long.
/// Nanoseconds.
const OPEN_NS: u64 = 50;
/// At least so long: a child that runs another program at once. Nanoseconds.
const OPEN_NS_MIN: u64 = 500_000;
/// As long as it was open times so many nothing else is done before it is shut.
const SHUTS_WITHIN: u64 = 8;

/// How often a page is tried whose mapping is being changed, before the next tick.
const TRIES: u32 = 20;
const TRY_NS: u64 = 20_000;

/// Whether the gate is shut, and since when it is open.
#[derive(Default)]
pub(super) struct Gate {
    opened: Option<u64>,
    /// The gate is about to be shut.
    is_awaited: bool,
    /// As far as pages are protected.
    next: Option<Vpn>,
    /// While pages are protected the kernel cannot write to the mutexes in them ([`mutexes`]):
    /// whoever makes one waits.
    shut: Option<Taking>,
}

impl Gate {
    /// More is shared since this moment.
    pub(super) fn open(&mut self) {
        (self.opened, self.next) = (Some(time::now_ns()), None);
    }
}

impl Gate {
    /// Nobody protects anything any more.
    pub(super) fn leave_open(&mut self) {
        self.shut = None;
    }
}

impl Kswapd {
    /// Nanoseconds until the gate may have to be shut. `None`: it is shut, or nothing is shared.
    pub(super) fn gate_due_in(&self) -> Option<u64> {
        let opened = self.gate.opened.filter(|_| self.pager.memcg.shares())?;
        Some((opened + self.opens_for()).saturating_sub(time::now_ns()))
    }

    /// Nanoseconds.
    fn opens_for(&self) -> u64 {
        (self.pager.mm.gauges().resident * OPEN_NS).max(OPEN_NS_MIN)
    }

    /// Shut it, if it is time and copies might not fit; open it when nothing is shared any more, or
    /// the program has mutexes that the kernel writes to.
    pub(super) fn mind_gate(&mut self) {
        let (pager, memcg) = (self.pager, &self.pager.memcg);
        // Who asks the fault thread from under a filter of system calls cannot sleep at the gate.
        let must_be_open = mutexes::is_any() || inline::is_filtered();
        self.gate.is_awaited = false;
        if !memcg.shares() || must_be_open {
            memcg.set_gated(false);
            // Where calls are guarded, not all that the kernel writes to is known: it meets no page
            // that is protected for nothing.
            if (must_be_open || guard::is_on()) && self.gate.shut.is_some() {
                pager.mm.unprotect_mapped();
            }
            self.gate.shut = None;
            return;
        }
        let copyable = self.copyable();
        memcg.tell_copyable(copyable);
        let (due, protection) = (self.gate_due_in(), &pager.mm.machine().protection);
        let can_protect = protection.is_on() || pager.fds().managed.can_protect();
        if pager.mm.machine().copies() || !can_protect || due.is_none() || !memcg.may_outgrow(pager) {
            return;
        }
        if due != Some(0) {
            self.gate.is_awaited = true;
            return;
        }
        if !protection.is_on() {
            if !vma::watch_writes(pager, pager.fds()) {
                return;
            }
            protection.turn_on();
        }
        if self.gate.shut.is_none() {
            let taking = Taking::begin();
            if mutexes::is_any() {
                return;
            }
            self.gate.shut = Some(taking);
        }
        // Before the first page is: its writer waits for the fault thread.
        memcg.set_gated(true);
        self.protect();
        let is_late = |opened| time::now_ns() - opened > self.opens_for() * SHUTS_WITHIN;
        self.gate.is_awaited = self.gate.opened.is_some_and(|opened| !is_late(opened));
    }

    /// Whether the gate is about to be shut: no look comes before that, which takes as long.
    pub(super) fn is_gate_awaited(&self) -> bool {
        self.gate.is_awaited
    }

    fn protect(&mut self) {
        let pager = self.pager;
        for _ in 0..TRIES {
            let from = self.gate.next.unwrap_or(Vpn::new(0));
            match pager
                .mm
                .protect_mapped(from, || !self.is_waited_for() && !mutexes::is_any())
            {
                Ok(()) => return (self.gate.opened, self.gate.next) = (None, None),
                Err(next) => self.gate.next = Some(next),
            }
            if self.is_waited_for() || mutexes::is_any() {
                return;
            }
            pause(TRY_NS);
        }
    }

    /// Bytes that may become copies: what is charged to relatives, or, as long as nobody has
    /// looked, all that there is.
    fn copyable(&self) -> u64 {
        let all = || self.pager.mm.gauges().resident * PAGE_SIZE as u64;
        self.shares.most(self.pager).map_or_else(all, |most| most as u64)
    }
}
