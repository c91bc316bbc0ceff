//! The denser compressor (`--recompress`): for what has been stored for a while, and for what is
//! stored where frames are worth it.

use uzswap_acomp::Algorithm;
use uzswap_mm::Idle;
use uzswap_sys::time;

use super::{Kswapd, RECOMPRESS_IDLE_NS};
use crate::mailbox::mail;

impl Kswapd {
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
        while self.allowance > 0 && pager.mail.peek(mail::RECLAIM) == 0 && !self.is_waited_for() {
            let started = time::now_ns();
            let looked_at = pager.mm.recompress(&mut self.worker, idle);
            self.allowance = self.allowance.saturating_sub(time::now_ns() - started);
            if looked_at == 0 {
                return;
            }
        }
    }
}
