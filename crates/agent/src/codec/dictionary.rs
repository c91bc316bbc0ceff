//! When kswapd trains dictionaries: if pages are to be stored as zstd-dict, or compressed so again,
//! and enough are stored to sample. At first it does so at once, then at ever longer intervals,
//! since a program's pages change most when it is young.
//!
//! The dictionary that wins is this process's latest from then on
//! ([`Algorithm::with_latest_dictionary`]), and another pool's.

use uzswap_acomp::{Algorithm, Dictionary};
use uzswap_mm::{DictionaryTraining, Worker};
use uzswap_sys::time;

use crate::machine::AgentMachine;
use crate::pager::Pager;

/// Stored pages to take a sample from: 4 MiB.
const STORED_MIN: u64 = 1024;
/// Time from one training to the next, which doubles.
const INTERVAL_NS: u64 = 10_000_000_000;

pub(crate) struct Trainer {
    training: Option<DictionaryTraining>,
    /// When the next one may begin, and what is added then.
    due_ns: u64,
    interval_ns: u64,
}

impl Trainer {
    /// For a process that has just started, or was forked: then its parent's dictionary is as good
    /// for a while.
    pub(crate) fn new() -> Self {
        let mut trainer = Self {
            training: None,
            due_ns: 0,
            interval_ns: INTERVAL_NS,
        };
        if Dictionary::latest().is_some() {
            trainer.wait();
        }
        trainer
    }

    fn wait(&mut self) {
        self.due_ns = time::now_ns() + self.interval_ns;
        self.interval_ns = self.interval_ns.saturating_mul(2);
    }

    /// Whether it is known if a dictionary wins: until then nothing is compressed again without
    /// one.
    pub(crate) const fn has_decided(&self) -> bool {
        self.interval_ns > INTERVAL_NS
    }

    /// One step, a fraction of a millisecond, for what takes a dictionary among `wanted`. False:
    /// there is nothing to do now.
    pub(crate) fn step(
        &mut self,
        pager: &Pager,
        worker: &mut Worker<AgentMachine>,
        wanted: [Option<Algorithm>; 2],
    ) -> bool {
        let Some(training) = &mut self.training else {
            self.training = self.begin(pager, wanted);
            return self.training.is_some();
        };
        if pager.mm.train_dictionary(worker, training).is_some() {
            self.training = None;
            self.wait();
        }
        true
    }

    fn begin(&self, pager: &Pager, wanted: [Option<Algorithm>; 2]) -> Option<DictionaryTraining> {
        let level = wanted.into_iter().find_map(|algorithm| match algorithm? {
            Algorithm::ZstdDict { level, .. } => Some(level),
            _ => None,
        })?;
        let is_due = time::now_ns() >= self.due_ns && Dictionary::is_room();
        (is_due && pager.mm.gauges().stored >= STORED_MIN).then(|| pager.mm.begin_dictionary(level))
    }
}
