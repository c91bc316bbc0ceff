//! The reclaim thread: keeps what is charged below the limit, registers regions, keeps the
//! accounts.

use uzswap_ctl::defaults::{self, SWAP_CLUSTER_MAX};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Effort, Worker};
use uzswap_sys::{sched, thread, time};

use crate::machine::RegionMachine;
use crate::pager::Pager;

/// What its mail is about.
pub(crate) mod mail {
    /// Memory is short, or the limit has changed.
    pub(crate) const RECLAIM: u32 = 1;
    /// A region is to be registered.
    pub(crate) const ADOPT: u32 = 2;
}

/// How often it looks while there are faults.
const TICK_NS: u64 = 20_000_000;
/// Ticks without any after which it waits to be told.
const IDLE_AFTER: u32 = 50;
/// Ticks between looks at what the device and the pool can give back.
const SLOW_TICK: u32 = 10;
const COMPACT_TICK: u32 = 100;
/// Between two steps of a limit that has given way.
const BACK_NS: u64 = 1_000_000_000;
/// What compaction must free at least: a part of the pool, and pages.
const COMPACT_SHARE: u64 = 16;
const COMPACT_MIN: u64 = 64;
/// Pages taken at a time at most, and the part of the limit that they are at most.
const BATCH_MAX: u32 = 512;
const BATCH_SHARE: u64 = 16;
/// Rounds of reclaim between two ticks, while it goes on and on.
const TICK_ROUNDS: u32 = 32;
/// Rounds of reclaim that may come to nothing before the next tick.
const FRUITLESS_MAX: u32 = 16;
/// Of the core: who a fault has woken is not to wait behind the compressor.
const SLICE_NS: u64 = 100_000;

pub(crate) struct Kswapd {
    pager: &'static Pager,
    worker: Worker<RegionMachine>,
    ticks: u32,
    /// Ticks without a fault, and how many there were before.
    quiet: u32,
    faults: u64,
    /// When the limit has come back last, nanoseconds.
    came_back: u64,
}

impl Kswapd {
    pub(crate) fn new(pager: &'static Pager) -> Self {
        Self {
            worker: Worker::for_reclaim(pager.mm.config(), pager.mm.machine()),
            pager,
            ticks: 0,
            quiet: 0,
            faults: 0,
            came_back: 0,
        }
    }

    pub(crate) fn run(mut self) -> ! {
        sched::take_short_turns(SLICE_NS);
        loop {
            let timeout = (self.quiet <= IDLE_AFTER).then_some(TICK_NS);
            let bits = self.pager.mail.wait(mail::RECLAIM | mail::ADOPT, timeout);
            if bits & mail::ADOPT != 0 {
                self.pager.register();
            }
            self.pager.come_by();
            self.tick();
            self.reclaim();
        }
    }

    fn tick(&mut self) {
        let (pager, mm) = (self.pager, &self.pager.mm);
        self.ticks = self.ticks.wrapping_add(1);
        let faults = core::mem::replace(&mut self.faults, mm.stat().get(Item::PgFault));
        self.quiet = if faults == self.faults { self.quiet + 1 } else { 0 };
        mm.tick();
        pager.charge.note_table(mm.gauges().table_bytes);
        self.fit();
        if self.ticks.is_multiple_of(SLOW_TICK) {
            mm.forget_unmovable();
            mm.discard_swap();
        }
        let now = time::now_ns();
        if now - self.came_back >= BACK_NS {
            self.came_back = now;
            pager.charge.come_back();
        }
        if self.ticks.is_multiple_of(COMPACT_TICK) {
            mm.compact((mm.gauges().pool / COMPACT_SHARE).max(COMPACT_MIN), || false);
        }
    }

    /// Pool and portions by the limit.
    fn fit(&self) {
        let (mm, limit) = (&self.pager.mm, self.pager.charge.limit());
        let has_swap = mm.config().swap_pages > 0;
        let most = u128::from(limit / PAGE_SIZE as u64) * u128::from(defaults::max_pool_percent(has_swap)) / 100;
        let most = most as u64;
        mm.set_pool_limit(most, most / 100 * defaults::ACCEPT_THRESHOLD_PERCENT);
        let free = limit.saturating_sub(self.pager.charge.current(mm)) / PAGE_SIZE as u64;
        let workable = mm
            .workable_pages()
            .map_or(limit / PAGE_SIZE as u64, |pages| free + pages);
        mm.fit_portions(workable);
    }

    fn batch(&self) -> u32 {
        let share = (self.pager.charge.limit() / PAGE_SIZE as u64 / BATCH_SHARE).min(BATCH_MAX.into()) as u32;
        (SWAP_CLUSTER_MAX << self.pager.mm.portions().folio_order).min(share.max(SWAP_CLUSTER_MAX))
    }

    /// Reclaim from the high watermark down to the low one.
    fn reclaim(&mut self) {
        let pager = self.pager;
        if pager.charge.current(&pager.mm) <= pager.charge.high(&pager.mm) {
            return;
        }
        self.quiet = 0;
        let (mut fruitless, mut rounds) = (0, 0u32);
        while pager.charge.current(&pager.mm) > pager.charge.low(&pager.mm) && fruitless < FRUITLESS_MAX {
            if pager.mail.take(mail::ADOPT) != 0 {
                pager.register();
            }
            rounds += 1;
            pager.come_by();
            if rounds.is_multiple_of(TICK_ROUNDS) {
                self.tick();
            }
            let batch = self.batch();
            let mut scan = pager.mm.shrink(&mut self.worker, batch, Effort::Background);
            if scan.reclaimed == 0 && scan.isolated == 0 {
                // What waits for a second chance has to go, then the pool's oldest.
                scan = pager.mm.shrink(&mut self.worker, batch, Effort::Urgent);
            }
            if scan.again {
                thread::yield_now();
            }
            fruitless = match scan.reclaimed + u64::from(scan.isolated) {
                0 => fruitless + 1,
                _ => 0,
            };
        }
    }
}
