//! What another process is about to read or write of this one's memory (`guard/others.rs`). The
//! fault thread serves it as if a thread waited for it, and holds it until the other has done.
//!
//! ```text
//! the other      asks, in a word of our slot                     reads or writes -> gives it back
//! kswapd         sees the word when it comes by -> rings              /                  |
//! fault thread   holds it -> nothing moves -> serves it -> answers --/    lets go <-----/
//! ```
//! A write behind the back of whoever copies the page out would be lost. A fork waits until what is
//! asked for is answered, or comes first.

use alloc::vec::Vec;

use uzswap_ctl::{Field, Wanted};
use uzswap_mm::page::{PageRange, Vpn};
use uzswap_mm::swap_table::entry::Slot;
use uzswap_sys::children;
use uzswap_sys::populate::is_guard;
use uzswap_sys::time::now_ns;

use super::Waiting;
use crate::guard::holds::HeldForOther;
use crate::guest::mmap;
use crate::pager::Pager;

/// How long the fault thread looks for the next piece after one was answered. kswapd does later.
/// Nanoseconds.
const NEXT_NS: u64 = 500_000;
/// A process that has not given the word back for so long may be dead. One of another pid namespace
/// seems so: it has had its time. Nanoseconds.
const DEAD_NS: u64 = 1_000_000_000;
/// One that lives has left the call by siglongjmp, or is stopped: it asks again before it counts
/// what it has written as written. Nanoseconds.
const LEFT_NS: u64 = 10_000_000_000;

/// In the fault thread: what is being brought for another process.
#[derive(Default)]
pub(super) struct Wanting {
    asked: Option<Asked>,
    /// Until when there may be more at once; 0: there may not.
    until: u64,
}

struct Asked {
    wanted: Wanted,
    held: HeldForOther,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Some of it may be on the move.
    Held,
    /// What was out waits among the faults. Was the first page?
    Serving(bool),
    /// Since then, in nanoseconds.
    Answered(u64),
}

impl Wanting {
    /// Have what is asked for wait among the faults.
    pub(super) fn take(&mut self, pager: &Pager, inbox: &mut Vec<Waiting>) {
        let (group, slot) = (pager.memcg.group(), pager.memcg.slot());
        if let Some(Asked {
            stage: Stage::Answered(since),
            ..
        }) = self.asked
        {
            self.look_back(pager, since);
        }
        if self.asked.is_none() && !pager.reclaim.is_freezing() {
            let begun = |wanted| {
                let range = range(wanted);
                Asked {
                    wanted,
                    held: HeldForOther::begin(range.start.addr(), range.end.addr()),
                    stage: Stage::Held,
                }
            };
            self.asked = group.asked_for(slot).map(begun);
        }
        let has_room = inbox.capacity() - inbox.len() >= Wanted::PAGES_MAX as usize;
        let Some(asked) = &mut self.asked else { return };
        if matches!(asked.stage, Stage::Held) && has_room && asked.held.has_settled() {
            let fault = |page| fault_at(pager, page, asked.wanted.is_write);
            let is_first_out = range(asked.wanted).iter().next().and_then(fault).is_some();
            inbox.extend(range(asked.wanted).iter().filter_map(fault));
            asked.stage = Stage::Serving(is_first_out);
        }
    }

    /// Let go of what was answered, if the other has done.
    fn look_back(&mut self, pager: &Pager, since: u64) {
        let (group, slot) = (pager.memcg.group(), pager.memcg.slot());
        let word = group.wanted_word(slot);
        let is_theirs = |asked: &Asked| group.answered(slot, asked.wanted).is_some();
        if !self.asked.as_ref().is_some_and(is_theirs) {
            self.asked = None;
            return;
        }
        let asker = group.field(slot, Field::WantedBy) as i32;
        let ago = now_ns().saturating_sub(since);
        if ago >= LEFT_NS || ago >= DEAD_NS && children::has_ended_by_stat(asker) {
            group.drop_asked(slot, word);
            self.asked = None;
        }
    }

    /// Answer, if nothing of it is left in `inbox`.
    pub(super) fn answer(&mut self, pager: &Pager, inbox: &[Waiting]) {
        let Some(asked) = &mut self.asked else { return };
        let Stage::Serving(is_first_out) = asked.stage else {
            return;
        };
        let range = range(asked.wanted);
        if inbox.iter().any(|waiting| range.contains(Vpn::of_addr(waiting.addr))) {
            return;
        }
        let now = now_ns();
        self.until = now + NEXT_NS;
        let is_awaited = pager
            .memcg
            .group()
            .answer(pager.memcg.slot(), asked.wanted, is_first_out);
        match is_awaited {
            true => asked.stage = Stage::Answered(now),
            false => self.asked = None,
        }
    }

    /// Whether the fault thread is to look again soon.
    pub(super) fn is_busy(&mut self) -> bool {
        if self.until != 0 && now_ns() >= self.until {
            self.until = 0;
        }
        let is_answered = |asked: &Asked| matches!(asked.stage, Stage::Answered(_));
        self.until != 0 || self.asked.as_ref().is_some_and(|asked| !is_answered(asked))
    }
}

/// Whether another process wants something, or has not given the word back: kswapd rings.
pub(super) fn is_asked(pager: &Pager) -> bool {
    pager.memcg.group().wanted_word(pager.memcg.slot()) != 0
}

fn range(wanted: Wanted) -> PageRange {
    let most = PageRange::USER.end.number();
    let first = wanted.first.min(most - 1);
    PageRange::new(Vpn::new(first), wanted.pages.min(most - first))
}

/// The fault that an access to this page would be. `None`: it would be none, or nobody may have it.
/// What has no word may be registered all the same, as what has just grown.
fn fault_at(pager: &Pager, page: Vpn, is_write: bool) -> Option<Waiting> {
    let is_there = match pager.mm.lookup(page) {
        // A page would take the guard's place.
        Slot::None if mmap::installs_guards() && is_guard(page.addr()) => return None,
        Slot::Resident { .. } | Slot::Cached(_) => true,
        _ => false,
    };
    let is_fault = !is_there || is_write && pager.mm.machine().protection.is_on();
    is_fault.then_some(Waiting {
        addr: page.addr(),
        is_protected: is_there,
        is_write,
        ticket: None,
    })
}
