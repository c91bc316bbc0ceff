//! Dictionaries for zstd: trained on pages of this process that are stored, since what is stored is
//! what they are for.
//!
//! In pieces of a fraction of a millisecond: under the lock, blocks of a few pages at random are
//! copied out; without it they are decompressed. Nothing is marked or changed by that. Once the
//! sample is complete, the training works on its copies alone.

use alloc::vec::Vec;

use lock_api::RawMutex;
use uzswap_acomp::{Dictionary, Training, Verdict};

use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::pages::swap_table::entry::Slot;
use crate::policy::tunables::COMPRESSED_MAX;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::{Held, Mm};

/// A training of this process.
pub struct DictionaryTraining {
    /// What was managed when it began.
    ranges: Vec<PageRange>,
    pages: u64,
    random: u64,
    looks: u32,
    training: Training,
}

impl DictionaryTraining {
    /// A managed page at random.
    fn pick(&mut self) -> Option<Vpn> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let mut at = self.random.checked_rem(self.pages)?;
        for range in &self.ranges {
            if at < range.pages() {
                return Some(range.start.add(at));
            }
            at -= range.pages();
        }
        None
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Begin to train a dictionary for zstd at `level`, against the latest one.
    pub fn begin_dictionary(&self, level: i32) -> DictionaryTraining {
        let ranges: Vec<PageRange> = self.with_for_reclaim(|inner| inner.pages.managed.iter().collect());
        DictionaryTraining {
            pages: ranges.iter().map(|range| range.pages()).sum(),
            ranges,
            random: self.machine.now_ns() | 1,
            looks: 0,
            training: Training::new(level, Dictionary::latest(), COMPRESSED_MAX),
        }
    }

    /// One step of it. `None`: there are more.
    pub fn train_dictionary(&self, worker: &mut Worker<M>, dictionary: &mut DictionaryTraining) -> Option<Verdict> {
        let verdict = if dictionary.training.pages_wanted() == 0 {
            dictionary.training.step()?
        } else if dictionary.looks < self.tunables().stored.looks_max {
            self.sample(worker, dictionary);
            return None;
        } else {
            Verdict::Loses
        };
        let item = match verdict {
            Verdict::Wins(_) => Item::DictionaryWins,
            Verdict::Loses => Item::DictionaryLoses,
        };
        self.stat.add(item, 1);
        Some(verdict)
    }

    fn sample(&self, worker: &mut Worker<M>, dictionary: &mut DictionaryTraining) {
        self.with_for_reclaim(|inner| inner.take_samples(worker, dictionary));
        let intact = worker.decompress_loads(&self.machine);
        for page in worker.io().bytes(intact * PAGE_SIZE).chunks_exact(PAGE_SIZE) {
            dictionary.training.push(page);
        }
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Have the worker load a few pages that are stored compressed.
    fn take_samples(&self, worker: &mut Worker<M>, dictionary: &mut DictionaryTraining) {
        let stored = &self.policy.tunables.stored;
        worker.begin_loads();
        let room = worker.load_room().min(stored.sampled_at_once);
        let wanted = dictionary.training.pages_wanted().min(room) as u64;
        for _ in 0..stored.looks_at_once {
            dictionary.looks += 1;
            let Some(vpn) = dictionary.pick() else { return };
            if let Slot::Zswap(entry) = self.pages.table.lookup(vpn)
                && (entry.len as usize) < PAGE_SIZE
            {
                self.pages
                    .pool
                    .with_block(entry.handle, entry.len, |block| worker.push_load(vpn, block));
            }
            if worker.loads() >= wanted {
                return;
            }
        }
    }
}
