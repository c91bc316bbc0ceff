//! Finding the program's memory: what was mapped comes under our care, if its time has come.

use alloc::vec::Vec;

use uzswap_ctl::Limit;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::procfs::Sizes;
use uzswap_sys::{thread, time};

use super::Kswapd;
use crate::guest::{mapped, vma};
use crate::memcg::deferral;
use crate::pager::mailbox::mail;
use crate::pager::{self, Pager, pause};

/// How often a thread that maps memory looks whether to wait on: for ten seconds, as for a turn to
/// change mappings.
const LOOKS: u32 = 1_000;
/// For how many of these it waits during a fork. The forking thread may want a lock of libc's that
/// this one holds; without any wait its mappings outrun the fork.
const LOOKS_WHILE_FORKING: u32 = 1;
/// How often kswapd looks at mappings in one round, and how long it waits after each look.
/// Nanoseconds.
const LOOKS_AT_ONCE: u32 = 8;
const LOOK_AGAIN_NS: u64 = 50_000;
/// For how long it looks again in further rounds while somebody waits: as long as a thread may be
/// without a core on a crowded machine. After that nobody waits so long until a look was had: the
/// thread may have left its call by a signal handler. Nanoseconds.
const ASKED_NS: u64 = 2_000_000_000;

impl Pager {
    /// Have kswapd look at the mappings and wait until it did, or tried. In the program's thread,
    /// which may touch what it has mapped when this returns: what is not under our care by then is
    /// beyond the limit. kswapd tries for [`ASKED_NS`] at most, but it may have to wait for a core
    /// first.
    pub(crate) fn request_scan(&self) {
        let ticket = self.post.scans.ask();
        self.post.mail.post(mail::SCAN);
        let (mut looks, mut while_forking) = (0..LOOKS, 0..LOOKS_WHILE_FORKING);
        // During a fork nobody scans.
        self.post.scans.wait(ticket, || {
            let may_come = !self.reclaim.is_freezing() || while_forking.next().is_some();
            looks.next().is_some() && may_come && !thread::are_over()
        });
    }
}

impl Kswapd {
    /// Take what was mapped under our care, unless that is deferred still.
    pub(super) fn scan_unless_deferred(&mut self, sizes: Sizes, is_asked: bool) {
        let pager = self.pager;
        // All of it, at first.
        let is_asked = is_asked || deferral::is_deferred();
        let ticket = pager.post.scans.newest();
        if !(deferral::is_deferred() && self.defers(sizes)) {
            return self.scan(is_asked);
        }
        self.unknown = sizes.anon;
        pager.post.scans.answer(ticket);
    }

    /// Whether there is room for all that the program may touch unseen.
    fn defers(&mut self, sizes: Sizes) -> bool {
        let pager = self.pager;
        let own = pager.mm.gauges().table_bytes as usize + crate::HEAP.live_bytes();
        // What relatives share may be written to, and is ours then.
        pager
            .memcg
            .note_touched(sizes.anon.saturating_sub(own + self.known_shared().max(0) as usize));
        pager.memcg.claim_unseen(pager) || {
            // Perhaps it is the dead that have it, or less is mapped by now.
            self.return_charges();
            deferral::recount(&pager.fds().proc);
            pager.memcg.claim_unseen(pager)
        }
    }

    /// Look at what was mapped. Somebody waits for it if `is_asked`: he goes on waiting while not
    /// all of it could be looked at, since another thread has the turn to change mappings, or
    /// records a stack. The next round looks again: in this one we reclaim, as that thread may need
    /// a page. A look that nobody has asked for answers only if it was had: who has asked meanwhile
    /// has posted mail.
    pub(super) fn scan(&mut self, is_asked: bool) {
        let pager = self.pager;
        let mut is_complete = false;
        for _ in 0..LOOKS_AT_ONCE {
            let ticket = pager.post.scans.newest();
            deferral::begin_scan();
            is_complete = self.search.look(pager, is_asked);
            if is_complete {
                deferral::end_scan();
                self.search.asked = None;
                pager.post.scans.answer(ticket);
                break;
            }
            // Whoever has the turn may be waiting for us: to join, to fork, or for what the next
            // round begins with.
            let is_called = pager.post.is_called();
            self.is_waited_for();
            if pager.post.mail.peek(mail::FREEZE | mail::CALLED) != 0 {
                break;
            }
            if !is_called {
                pause(LOOK_AGAIN_NS);
            }
        }
        if is_complete {
            pager.memcg.note_seen();
        }
        if !is_complete || mapped::is_missed() {
            deferral::scan_again();
        }
        self.search.looks_again = !is_complete && is_asked && self.search.may_look_again();
        if !is_complete && is_asked && !self.search.looks_again {
            pager.post.scans.answer(pager.post.scans.newest());
        }
        let anon = pager.fds().proc.sizes().map_or(0, |sizes| sizes.anon);
        self.unknown = anon.saturating_sub(pager.mm.usage_pages() as usize * PAGE_SIZE);
        self.tell_of_executable();
    }

    /// Say it, once, where memory that may be executed is most of what is not managed and is more
    /// than the limit.
    fn tell_of_executable(&mut self) {
        let pager = self.pager;
        let most = pager.memcg.group().get(Limit::MemoryMax);
        if self.has_told_of_executable || most > self.unknown as u64 {
            return;
        }
        let (proc, mut bytes) = (&pager.fds().proc, 0);
        let _ = proc.for_each_vma(|vma| {
            if vma.is_executable_anonymous() {
                let _ = proc.for_each_present(vma.start, vma.end, |from, to| bytes += to - from);
            }
        });
        if bytes > self.unknown / 2 {
            self.has_told_of_executable = true;
            pager::say(format_args!(
                "uzswap: process {} cannot be kept within the limit: {} MiB of its memory may be executed, which is not managed; {}raise --memory-max\n",
                thread::pid(),
                bytes >> 20,
                if vma::manages_executable_data() {
                    ""
                } else {
                    "use --guard on, or "
                }
            ));
        }
    }
}

/// The search for what was mapped.
#[derive(Default)]
pub(super) struct Search {
    /// What could not be looked at.
    pending: Vec<(usize, usize)>,
    /// The sizes of the process say that something was mapped, perhaps by a system call that nobody
    /// saw.
    pub(super) is_walk_due: bool,
    /// When that is looked for at the earliest. Nanoseconds.
    next_walk: u64,
    /// Since when looks that somebody waits for could not be had. Nanoseconds.
    asked: Option<u64>,
    /// One is to be had in the next round.
    pub(super) looks_again: bool,
}

/// One part in so many of the time is spent on walks over all mappings that nobody waits for.
const WALK_SHARE: u64 = 16;

impl Search {
    /// Whether who waits is to wait for another look.
    fn may_look_again(&mut self) -> bool {
        let now = time::now_ns();
        now - *self.asked.get_or_insert(now) < ASKED_NS
    }

    /// Look at what was recorded, or at all. False: not at everything.
    fn look(&mut self, pager: &Pager, is_asked: bool) -> bool {
        let (is_missed, began) = (mapped::is_missed(), time::now_ns());
        let may_walk = began >= self.next_walk;
        let fds = pager.fds();
        if is_missed && is_asked || (is_missed || self.is_walk_due) && may_walk {
            // First: what is not recorded from here on has us walk again. What is, the walk finds.
            mapped::restart();
            mapped::drain(|_, _| {});
            self.is_walk_due = false;
            self.pending.clear();
            let Some(again) = vma::scan_all(pager, fds) else {
                mapped::miss();
                return false;
            };
            self.pending = again;
            let now = time::now_ns();
            self.next_walk = now + (now - began) * WALK_SHARE;
        } else {
            mapped::drain(|start, end| self.pending.push((start, end)));
            self.pending = vma::scan_ranges(pager, fds, &self.pending);
        }
        self.pending.is_empty()
    }
}
