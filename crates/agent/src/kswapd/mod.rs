//! The reclaim thread: keeps the group under `memory.high`, finds new mappings, keeps the accounts.
//!
//! It sleeps on its mailbox and wakes when memory is short, when a thread mapped memory close to
//! the limit, when a fork is coming, and on a tick. A tick reads the sizes of the process twice;
//! only when the address space has changed, or anonymous memory grew without our doing, are the
//! mappings gone through, and not while that is deferred (`memcg::deferral`).

mod balance;
mod child_room;
mod cold;
mod gate;
pub(crate) mod reclaim;
mod recompress;
mod request;
mod scan;
mod shares;
pub(crate) mod unsharing;

use lock_api::MutexGuard;
use uzswap_acomp::Compressor;
use uzswap_ctl::{FailKind, Field, Limit, Statistic, Tunable};
use uzswap_mm::Worker;
use uzswap_mm::machine::{Mapper, Threads};
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_mm::zpool::PoolKind;
use uzswap_sys::affinity::{Affinity, Place};
use uzswap_sys::creds::{self, Credentials};
use uzswap_sys::futex::RawLock;
use uzswap_sys::procfs::{Life, Sizes};
use uzswap_sys::robust::confess_end;
use uzswap_sys::{sched, shield, thread, time};

use self::cold::Lately;
use self::gate::Gate;
use self::scan::Search;
use self::shares::Shares;
use crate::codec::dictionary::Trainer;
use crate::cpu::cores::CORES;
use crate::cpu::vigil::VIGIL;
use crate::fault::{inline, servers};
use crate::fork;
use crate::guest::order::InOrder;
use crate::guest::vma;
use crate::machine::{AgentMachine, CREW, remote};
use crate::memcg::deferral;
use crate::pager::mailbox::mail;
use crate::pager::{self, Pager, pause};

/// How often, and how far apart, it is looked whether all threads hold what the program does.
const CREDENTIALS_TRIES: u32 = 20_000;
const CREDENTIALS_NS: u64 = 50_000;
/// Tick while the process grows or reclaims, and while it does not.
const TICK_BUSY_NS: u64 = 5_000_000;
const TICK_IDLE_NS: u64 = 20_000_000;
/// The shortest, while the gate is about to be shut.
const GATE_TICK_NS: u64 = 100_000;
/// Ticks without change after which a process counts as idle.
const IDLE_AFTER: u32 = 20;
/// Ticks between looks at who has died, and at what relatives share with us while they may.
const SLOW_TICK: u32 = 10;
const SHARE_TICK: u32 = 2;
/// A forked child is charged half of what is shared once it has looked. By then its parent must
/// have, or both are charged too much.
const FIRST_SHARE_TICK: u32 = 4;
/// Ticks that a parent leaves a new child in peace: looking walks all page tables. It looks before
/// it reclaims, however.
const LOOK_AFTER: u32 = 2;
/// Ticks between looks at what compaction would free (a multiple of `SLOW_TICK`), and what it must
/// free at least: a share of the pool, pages.
const COMPACT_TICK: u32 = 100;
const COMPACT_SHARE: u64 = 16;
const COMPACT_MIN: u64 = 64;
/// Anonymous memory that appears without our doing before the mappings are searched for it.
const DRIFT_BYTES: usize = 1 << 20;

struct Kswapd {
    pager: &'static Pager,
    worker: MutexGuard<'static, RawLock, Worker<AgentMachine>>,
    sizes: Sizes,
    /// What pages are stored as.
    pool: PoolKind,
    /// `RssAnon` that the engine did not know after the last scan.
    unknown: usize,
    has_told_of_executable: bool,
    search: Search,
    shares: Shares,
    gate: Gate,
    ticks: u32,
    /// Ticks until the first look at what a new child shares.
    look_in: u32,
    quiet: u32,
    /// What the automatic limit took out.
    lately: Lately,
    /// Nothing came of the last rounds of reclaim.
    is_barren: bool,
    /// The program's first thread was seen to have ended before another.
    is_leaderless: bool,
    /// What the pager's threads hold.
    credentials: Option<Credentials>,
    /// When the program was looked at last, nanoseconds.
    looked: u64,
    /// Since when memory is short, and nothing left but what is shared.
    short_since: Option<u64>,
    /// When recompression had its share last, and nanoseconds that it may still take.
    recompressed: u64,
    allowance: u64,
    trainer: Trainer,
    affinity: Affinity,
}

/// Of the core: threads that a fault has woken are not to wait behind the compressor. 0.1 ms is the
/// shortest that there is.
pub(crate) const SLICE_NS: u64 = 100_000;

/// Reclaim until the program is over.
pub(crate) fn run(pager: &'static Pager) {
    sched::take_short_turns(SLICE_NS);
    let mut kswapd = Kswapd {
        pager,
        worker: pager.reclaim.worker.lock(),
        sizes: Sizes::default(),
        pool: pager.mm.pool().0,
        unknown: 0,
        has_told_of_executable: false,
        search: Search::default(),
        shares: Shares::new(pager),
        gate: Gate::default(),
        look_in: 0,
        ticks: 0,
        quiet: 0,
        lately: Lately::default(),
        is_barren: false,
        is_leaderless: false,
        credentials: pager.fds().proc.own_credentials(),
        looked: 0,
        short_since: None,
        recompressed: time::now_ns(),
        allowance: 0,
        trainer: Trainer::new(),
        affinity: Affinity::default(),
    };
    if kswapd.pool.compressor.is_parallel {
        CREW.grow(pager.mm.machine().lanes() - 1);
    }
    kswapd.gate.open();
    pager.mm.machine().copy_out.take_on();
    let (group, slot) = (pager.memcg.group(), pager.memcg.slot());
    group.set_field(slot, Field::Image, pager.fds().proc.image());
    // If it cannot say so, an end is seen when all is over.
    let _ = confess_end(pager.memcg.group().word(pager.memcg.slot(), Field::Teller));
    // What is adopted first is not as old as the machine.
    pager.mm.tick();
    kswapd.obey();
    while !thread::is_over() {
        kswapd.round();
    }
}

impl Kswapd {
    /// Whether the program has no thread any more. The pager's end then, with the status of the
    /// thread that was the last. That is the first thread's, if no other was seen without it. Else
    /// it is 0, with which libc has threads end, as theirs is told to nobody.
    fn is_over(&mut self) -> bool {
        match self.pager.fds().proc.life(thread::count()) {
            Life::Led => return false,
            Life::Leaderless => {
                self.is_leaderless = true;
                return false;
            }
            Life::Over(status) => {
                self.pager.let_go_if_shared();
                self.pager.end(if self.is_leaderless { 0 } else { status });
            }
        }
        true
    }

    /// Have all the pager's threads hold what the program's first thread holds, if that has
    /// changed. Not under a filter of system calls, which may end a thread for such a call: whoever
    /// drops what it holds does so before it has a filter, through libc, which waits for us.
    fn take_on_credentials(&mut self) {
        let pager = self.pager;
        let Some(wanted) = pager.fds().proc.credentials() else {
            return;
        };
        if self.credentials.as_ref() == Some(&wanted) || thread::is_filtered() {
            return;
        }
        pager::note_identity();
        creds::ask(&wanted);
        // It takes them on before it comes again.
        VIGIL.recall();
        // While we hold what allows us to.
        shield::ring();
        self.credentials = Some(wanted);
        creds::take_on();
        // One that is at work looks when it has done it.
        for _ in 0..CREDENTIALS_TRIES {
            pager.ring();
            if creds::have_all_taken_on() {
                break;
            }
            pause(CREDENTIALS_NS);
        }
    }

    fn round(&mut self) {
        let pager = self.pager;
        pager.come_by();
        let tick = if self.quiet > IDLE_AFTER {
            TICK_IDLE_NS
        } else {
            TICK_BUSY_NS
        };
        let gate = self.gate_due_in().filter(|due| *due > 0);
        let tick = gate.map_or(tick, |due| due.clamp(GATE_TICK_NS, tick));
        let bits = pager.post.mail.wait(mail::RECLAIM | mail::WAITED_FOR, Some(tick));
        if bits & mail::JOIN != 0 {
            pager.join();
        }
        if bits & mail::FREEZE != 0 {
            self.make_room_for_child();
            self.expect_child();
            fork::freeze_until_forked(pager);
            self.look_in = LOOK_AFTER;
            self.expect_news();
            self.gate.open();
            // The next ticks come closely: to look before the child does, as a rule.
            self.quiet = 0;
        }
        inline::pass_on(pager, bits);
        let ticket = pager.post.requests.newest();
        // Those that were posted before that: the bit comes first, then the ticket.
        let bits = bits | pager.post.mail.take(mail::ASKED);
        if let Some(recorder) = &pager.fds().recorder {
            recorder.flush();
        }
        let now = time::now_ns();
        if bits & mail::CREDENTIALS != 0 || now - self.looked >= TICK_IDLE_NS {
            self.looked = now;
            if self.is_over() {
                return;
            }
            self.take_on_credentials();
        }
        if bits & mail::RELEASE != 0 {
            pager.release();
        }
        if bits & mail::LEAVE != 0 {
            pager.let_go_if_shared();
        }
        if bits & mail::RETIRE != 0 {
            pager.retire();
        }
        if bits & mail::BLOCK != 0 {
            pager.block();
        }
        pager.post.requests.answer(ticket);
        if pager.is_letting_go() {
            self.gate.leave_open();
            return pager.post.scans.answer(pager.post.scans.newest());
        }
        VIGIL.fetch();
        self.affinity.take(VIGIL.out_of_the_way(), CORES.unbound());
        self.mind_gate();
        let looks_again = core::mem::take(&mut self.search.looks_again);
        self.tick(bits & mail::SCAN != 0 || looks_again);
        self.reclaim();
        self.drain_pool();
        self.reclaim_on_request();
        self.give_back_cold();
        self.train();
        self.recompress();
        self.tell();
        if self.quiet > IDLE_AFTER || self.is_barren {
            self.worker.rest();
            pager.seats.rest();
        }
    }

    /// Train a dictionary, if one is wanted and due.
    fn train(&mut self) {
        let pager = self.pager;
        let group = pager.memcg.group();
        let wanted = [Some(group.pool().compressor.algorithm), group.recompress()];
        self.earn();
        while self.allowance > 0 && !self.is_waited_for() {
            let started = time::now_ns();
            let goes_on = self.trainer.step(pager, &mut self.worker, wanted);
            self.allowance = self.allowance.saturating_sub(time::now_ns() - started);
            if !goes_on {
                break;
            }
        }
        self.change_pool();
    }

    /// Have pages stored as the group says, with the latest dictionary if they take one.
    fn change_pool(&mut self) {
        let mut kind = self.pager.memcg.group().pool();
        kind.compressor.algorithm = kind.compressor.algorithm.with_latest_dictionary();
        if kind == self.pool {
            return;
        }
        // New threads of a crew may run where this one may.
        self.affinity.take(Place::Anywhere, CORES.unbound());
        if self.pager.change_pool(kind) {
            self.pool = kind;
        }
    }

    /// Sample the sizes; search the mappings if they changed.
    fn tick(&mut self, asked: bool) {
        let pager = self.pager;
        self.ticks = self.ticks.wrapping_add(1);
        vma::settle(pager);
        let before = pager.mm.usage_pages();
        let Ok(sizes) = pager.fds().proc.sizes() else {
            return pager.post.scans.answer(pager.post.scans.newest());
        };
        // Both sides of the read: what was counted at either moment is not unknown.
        let counted = before.max(pager.mm.usage_pages()) as usize * PAGE_SIZE;
        self.charge_sample(sizes.anon, counted);
        let grown = sizes.anon.saturating_sub(counted) > self.unknown + DRIFT_BYTES;
        let has_changed =
            asked || grown || sizes.virt != self.sizes.virt || deferral::has_unseen() || self.search.is_walk_due;
        if has_changed {
            self.quiet = 0;
        }
        self.search.is_walk_due |= grown || sizes.virt != self.sizes.virt;
        // What is deferred depends on what others use, too.
        if has_changed || deferral::is_deferred() {
            self.scan_unless_deferred(sizes, asked);
        }
        self.quiet = self.quiet.saturating_add(1);
        self.sizes = sizes;
        self.protect_if_wanted();
        servers::provide(pager);
        self.change_pool();
        if self.ticks.is_multiple_of(SLOW_TICK) {
            self.slow_tick();
        }
        self.look_in = self.look_in.saturating_sub(1);
        if self.look_in == 0 && self.ticks >= FIRST_SHARE_TICK && self.ticks.is_multiple_of(SHARE_TICK) {
            self.look_if_due();
        }
        self.sample();
        pager.memcg.fit(pager);
    }

    /// A load wants pages protected, for the first time.
    fn protect_if_wanted(&self) {
        let protection = &self.pager.mm.machine().protection;
        if protection.is_wanted() && vma::watch_writes(self.pager, self.pager.fds()) {
            protection.turn_on();
        }
    }

    fn slow_tick(&mut self) {
        let pager = self.pager;
        pager.mm.settle_sharing();
        pager.mm.forget_unmovable();
        if self.ticks.is_multiple_of(COMPACT_TICK) {
            let worthwhile = (pager.mm.gauges().pool / COMPACT_SHARE).max(COMPACT_MIN);
            pager.mm.compact(worthwhile, || pager.post.mail.peek(mail::FREEZE) != 0);
        }
        fork::release_pins(pager);
        remote::send_on(pager);
        pager.mm.discard_swap();
        self.obey();
        pager.memcg.expire_census(pager);
        self.return_charges();
    }

    /// Take over the limits and tunables that may change at run time.
    fn obey(&self) {
        let (mm, group) = (&self.pager.mm, self.pager.memcg.group());
        self.pager.memcg.share_limits(self.pager);
        mm.set_swap_max(group.get(Limit::SwapMax) / PAGE_SIZE as u64);
        mm.set_enabled(group.is_on(Tunable::Enabled));
        mm.set_swap_out(group.swap_out());
        mm.machine().fail.obey(group);
        if mm.machine().fail.fails(FailKind::HeapEnomem) {
            crate::HEAP.fail_next();
        }
        mm.set_swap_cache(group.is_on(Tunable::SwapCache));
        mm.set_balance(group.is_on(Tunable::Balance));
        mm.set_page_cluster(group.page_cluster());
        mm.set_dense(self.dense().map(Compressor::from));
        mm.set_shrinker(group.is_on(Tunable::ShrinkerEnabled));
    }

    /// Whether somebody waits for more than a join, which is done on the spot: it takes
    /// microseconds, and programs that map over memory again and again must not keep us from
    /// reclaim.
    fn is_waited_for(&self) -> bool {
        if self.pager.post.mail.take(mail::JOIN) != 0 {
            self.pager.join();
        }
        self.pager.post.mail.peek(mail::SCAN | mail::FREEZE | mail::ASKED) != 0
    }

    /// Take what refused to move for being read-only, by copying. Returns how many pages were
    /// isolated.
    fn copy_out(&mut self, refused: &[PageRange]) -> u64 {
        let pager = self.pager;
        let (fds, machine) = (pager.fds(), pager.mm.machine());
        if refused.is_empty() {
            return 0;
        }
        // Copies are protected from writing until they are alone.
        machine.want_protection();
        self.protect_if_wanted();
        if machine.copies() || !machine.protects() {
            return 0;
        }
        let (mut isolated, enough) = (0, u64::from(self.batch()));
        for range in refused {
            let vma = fds.proc.vma_at_or_after(range.start.addr()).ok().flatten();
            let Some(vma) = vma.filter(|vma| vma.start <= range.start.addr() && machine.can_copy(vma)) else {
                // Locked, perhaps, or writable by now.
                pager.mm.forget_unmovable();
                continue;
            };
            pager.mm.note_unmovable(PageRange::of_bytes(vma.start, vma.end));
            // The turn of a thread that changes mappings does not last; whoever has it may wait for
            // us.
            let Some(turn) = InOrder::attempt().filter(|_| isolated < enough) else {
                break;
            };
            let range = PageRange::of_bytes(range.start.addr(), range.end.addr().min(vma.end));
            isolated += pager.mm.isolate_by_copy(&Some(turn), range);
        }
        isolated
    }

    /// Tell the group how we are.
    fn tell(&mut self) {
        let pager = self.pager;
        let (group, slot) = (pager.memcg.group(), pager.memcg.slot());
        let gauges = pager.mm.gauges();
        let page = PAGE_SIZE as u64;
        let agent = gauges.table_bytes + crate::HEAP.live_bytes() as u64 + pager.mm.machine().accel_bytes();
        let fields = [
            (Field::Resident, gauges.resident * page),
            (Field::Staged, gauges.staged * page),
            (Field::Pool, gauges.pool * page),
            (Field::Stored, gauges.stored),
            (Field::Incompressible, gauges.incompressible),
            (Field::Swapped, gauges.swapped),
            (Field::Agent, agent),
            (Field::Cached, gauges.cached * page),
            (Field::Active, gauges.active * page),
            (Field::Shortfall, gauges.shortfall * page),
        ];
        for (field, value) in fields {
            group.set_field(slot, field, value);
        }
        group.raise(Statistic::NeededPeak, group.needed());
        if pager.memcg.current(pager) > group.get(Statistic::MemoryPeak) {
            // Those who have just died would make a peak of their own.
            self.return_charges();
            group.raise(Statistic::MemoryPeak, pager.memcg.current(pager));
        }
    }
}
