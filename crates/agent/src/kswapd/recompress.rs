//! The denser compressor (`--recompress`): for what has been stored for a while, and for what is
//! stored where frames are worth it.

use uzswap_acomp::Algorithm;
use uzswap_mm::Idle;
use uzswap_sys::time;

use super::Kswapd;
use crate::pager::mailbox::mail;

/// Pages that were stored so long ago are idle, and are compressed again.
const RECOMPRESS_IDLE_NS: u64 = 5_000_000_000;
/// One part in so many of a core's time is spent on it and on dictionaries, so much at once at
/// most.
const RECOMPRESS_SHARE: u64 = 12;
const RECOMPRESS_AT_ONCE_NS: u64 = 2_000_000;

impl Kswapd {
    /// Earn a share of the time that went by for what may wait.
    pub(super) fn earn(&mut self) {
        let now = time::now_ns();
        let allowance = now.saturating_sub(self.recompressed) / RECOMPRESS_SHARE;
        self.recompressed = now;
        self.allowance = (self.allowance + allowance).min(RECOMPRESS_AT_ONCE_NS);
    }

    /// The denser compressor, once all servers can read what it makes.
    pub(super) fn dense(&self) -> Option<Algorithm> {
        let pager = self.pager;
        let algorithm = pager.memcg.group().recompress()?;
        if matches!(algorithm, Algorithm::ZstdDict { .. }) && !self.trainer.has_decided() {
            return None;
        }
        let algorithm = algorithm.with_latest_dictionary();
        let is_other = algorithm.improves_on(self.pool.compressor.algorithm);
        (is_other && pager.can_load(algorithm)).then_some(algorithm)
    }

    /// Compress idle pages again, for as much of the time that went by as may be spent on it.
    pub(super) fn recompress(&mut self) {
        let pager = self.pager;
        pager.mm.tick();
        self.earn();
        let now = time::now_ns();
        let Some(algorithm) = self.dense().filter(|_| now >= RECOMPRESS_IDLE_NS) else {
            return;
        };
        let idle = Idle {
            algorithm,
            since_ns: now - RECOMPRESS_IDLE_NS,
        };
        while self.allowance > 0 && pager.post.mail.peek(mail::RECLAIM) == 0 && !self.is_waited_for() {
            let started = time::now_ns();
            let looked_at = pager.mm.recompress(&mut self.worker, idle);
            self.allowance = self.allowance.saturating_sub(time::now_ns() - started);
            if looked_at == 0 {
                return;
            }
        }
    }
}
