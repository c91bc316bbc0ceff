//! Background reclaim: from one watermark to the other, the kernel's `balance_pgdat`.

use uzswap_ctl::Field;
use uzswap_ctl::defaults::SWAP_CLUSTER_MAX;
use uzswap_mm::Effort;
use uzswap_mm::machine::Mapper;
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_sys::time;

use super::Kswapd;
use crate::codec::kcompressd;
use crate::cpu::cores::CORES;
use crate::cpu::vigil::VIGIL;
use crate::fault::servers;
use crate::memcg::oldest;
use crate::pager::pause;

/// Rounds of reclaim between two reports to the group, while it goes on and on.
const TELL_ROUNDS: u32 = 32;
/// Pages taken at a time at most, and the part of the memory to work with that they are at most.
const BATCH_MAX: u32 = 512;
const BATCH_SHARE: u64 = 16;
/// How long a process whose pages are all shared is short of memory before it breaks sharing. Each
/// page that it takes so costs the group memory at first, until every relative has taken its own.
/// And relatives may have something to give. Nanoseconds.
const NEED_AFTER_NS: u64 = 10_000_000;
/// Who has so much less left than a relative breaks sharing in one of so many turns. Bytes;
/// nanoseconds.
const AHEAD_BYTES: u64 = 512 << 10;
const TURNS: u64 = 4;
const TURN_NS: u64 = 10_000_000;
/// Rounds of reclaim that may come to nothing before the next tick.
const FRUITLESS_MAX: u32 = 16;

/// What became of pages that relatives have as well.
enum Shared {
    /// Their sharing was broken, as far as it is their turn.
    Tried,
    /// None had to leave: something else was reclaimed.
    Reclaimed,
    /// Nothing else is left, and it is nobody's turn.
    Exhausted,
}

impl Kswapd {
    /// Pages to take at a time: as many folios as the kernel does, of the size that they are made
    /// in, but not much of what there is to work with.
    pub(super) fn batch(&self) -> u32 {
        let share = (self.pager.memcg.workable_pages() / BATCH_SHARE).min(BATCH_MAX.into()) as u32;
        (SWAP_CLUSTER_MAX << self.pager.mm.portions().folio_order).min(share.max(SWAP_CLUSTER_MAX))
    }

    /// Reclaim from `memory.high` down to the low watermark.
    pub(super) fn reclaim(&mut self) {
        let pager = self.pager;
        if pager.memcg.headroom(pager) > 0 && !pager.lacks_room() {
            (self.is_barren, self.short_since) = (false, None);
            oldest::tell(pager, false);
            return;
        }
        self.return_charges();
        self.quiet = 0;
        let low = pager.memcg.low(pager);
        let (mut fruitless, mut rounds) = (self.begun_fruitless(), 0u32);
        while self.is_ours_to_reclaim(low) && fruitless < FRUITLESS_MAX && !self.is_waited_for() {
            rounds += 1;
            pager.come_by();
            if rounds.is_multiple_of(TELL_ROUNDS) {
                self.keep_accounts();
            }
            self.prepare_round();
            let batch = self.batch();
            let scan = pager.shrink(&mut self.worker, batch, Effort::Background);
            if scan.again {
                pause(50_000);
            }
            if pager.memcg.shares() {
                match self.reclaim_shared(batch, scan.is_dry) {
                    Shared::Tried => {}
                    Shared::Reclaimed => {
                        (fruitless, self.is_barren) = (0, false);
                        continue;
                    }
                    Shared::Exhausted => break,
                }
            }
            if scan.reclaimed > 0 || self.copy_out(&scan.unmovable) > 0 {
                (fruitless, self.is_barren) = (0, false);
                continue;
            }
            fruitless += u32::from(scan.isolated == 0);
            if scan.isolated == 0 && self.reclaim_the_last(batch, &scan.shared) {
                (fruitless, self.is_barren) = (0, false);
            }
        }
        self.is_barren |= fruitless >= FRUITLESS_MAX;
    }

    /// As at a tick, while reclaim goes on and on.
    fn keep_accounts(&mut self) {
        // Or what the dead were charged would be reclaimed for ever.
        self.return_charges();
        self.pager.mm.tick();
        self.tell();
        servers::provide(self.pager);
        // A program that keeps us busy is one whose pages are stored.
        self.train();
    }

    /// What comes before each round of reclaim.
    fn prepare_round(&mut self) {
        let pager = self.pager;
        if pager.memcg.shares() {
            // Giving up a page that a relative has as well frees nothing: look or sample, instead
            // of counting on.
            self.look_in = 0;
            self.look_if_due();
            pager.memcg.fit(pager);
        }
        if !pager.kcompressd.workers.is_empty() {
            pager.kcompressd.mail.post(kcompressd::WORK);
        }
        self.affinity.take(VIGIL.out_of_the_way(), CORES.unbound());
        self.protect_if_wanted();
        self.mind_gate();
    }

    /// After a round of reclaim of a process that shares memory: break the sharing of what has to
    /// leave. `is_stuck`: that round has found nothing to take.
    fn reclaim_shared(&mut self, batch: u32, is_stuck: bool) -> Shared {
        let pager = self.pager;
        // Breaking the sharing takes more memory at first: not while anything of our own waits for
        // a second chance, nor for a watermark.
        if is_stuck && pager.shrink(&mut self.worker, batch, Effort::Requested).reclaimed > 0 {
            return Shared::Reclaimed;
        }
        let is_short = is_stuck && (pager.memcg.excess(pager, pager.room()) > 0 || pager.lacks_room());
        let need =
            is_short && self.is_short_for_long() && !self.is_ahead_of_relatives() && !pager.memcg.spares_sharing(pager);
        if !is_short {
            self.short_since = None;
        }
        let shared = pager.mm.take_shared(need);
        if shared.is_empty() && is_stuck && !need {
            return Shared::Exhausted;
        }
        self.unshare(&shared);
        if need && !shared.is_empty() {
            pager.swap_out_staged(&mut self.worker);
        }
        Shared::Tried
    }

    /// Nothing is left to isolate. Whether anything was reclaimed all the same.
    fn reclaim_the_last(&mut self, batch: u32, shared: &[PageRange]) -> bool {
        if !shared.is_empty() {
            self.unshare(shared);
            return false;
        }
        // What waits for a second chance has to go, then the pool's oldest.
        self.pager.shrink(&mut self.worker, batch, Effort::Urgent).reclaimed > 0
    }

    /// Rounds that count as fruitless before the first one. One is tried where there was nothing of
    /// ours to take, as faults that wait for room wake us again and again. What is shared takes
    /// more, and so does what has to wait for a turn to be copied.
    fn begun_fruitless(&self) -> u32 {
        let is_simple = !self.pager.memcg.shares() && !self.pager.mm.machine().copies();
        if self.is_barren && is_simple {
            FRUITLESS_MAX - 1
        } else {
            0
        }
    }

    /// Memory is short now.
    fn is_short_for_long(&mut self) -> bool {
        let now = time::now_ns();
        now - *self.short_since.get_or_insert(now) >= NEED_AFTER_NS
    }

    /// Whether a relative has much more memory left than we have, and it is its turn: what we break
    /// the sharing of is its alone then. All are to give up the same pages at about the same pace,
    /// as a page is free once the last has given it up.
    fn is_ahead_of_relatives(&self) -> bool {
        let (group, own) = (self.pager.memcg.group(), self.pager.memcg.slot());
        let resident = self.pager.mm.gauges().resident * PAGE_SIZE as u64;
        group.set_field(own, Field::Resident, resident);
        let short = self.short_since.map_or(0, |since| time::now_ns().saturating_sub(since));
        let is_own_turn = (short / TURN_NS).is_multiple_of(TURNS);
        !is_own_turn && group.most_of_relatives(own, Field::Resident) > resident + AHEAD_BYTES
    }

    /// Whether there is something to reclaim for, and we are the ones to do it: in any case where a
    /// fault waits, here or elsewhere.
    fn is_ours_to_reclaim(&self, low: u64) -> bool {
        let pager = self.pager;
        let oldest = oldest::tell(pager, self.is_barren);
        let is_waited_for = pager.lacks_room() || pager.memcg.excess(pager, pager.room()) > 0;
        is_waited_for
            || pager.memcg.current(pager) > low && !oldest.is_some_and(|ours| oldest::is_elsewhere(pager, ours))
    }

    /// Others wait for room in the pools of the group: our part of it goes to the device.
    pub(super) fn drain_pool(&mut self) {
        let pager = self.pager;
        let surplus = pager.memcg.pool_surplus(pager);
        let (batch, mut done) = (self.batch(), 0);
        while done < surplus && !self.is_waited_for() {
            match pager.mm.writeback(&mut self.worker, batch) {
                0 => break,
                n => done += n,
            }
        }
    }
}
