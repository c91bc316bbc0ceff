//! Memory that engines never give back: kept for the next simulation.

use std::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::Tunables;
use uzswap_mm::sim::SimMachine;
use uzswap_mm::swap_table::TableMemory;

/// Tables that no engine has.
pub(crate) struct Shelf {
    /// Engines that decide by these take one folio at a time.
    pub(crate) one_by_one: &'static Tunables,
    tables: Vec<TableMemory>,
    leaves: usize,
    counters: Vec<&'static [AtomicU64]>,
}

impl Default for Shelf {
    fn default() -> Self {
        let mut tunables = Tunables::DEFAULT;
        let set = tunables.set("scan.cluster_max", 1.0);
        set.expect("the engine has that tunable, and 1 is a number of its kind");
        Self {
            one_by_one: Box::leak(Box::new(tunables)),
            tables: Vec::new(),
            leaves: 0,
            counters: Vec::new(),
        }
    }
}

impl Shelf {
    /// Memory for `engines` tables of at most `leaves` leaves, and counters for each.
    pub(crate) fn tables(&mut self, engines: usize, leaves: usize) -> Vec<(TableMemory, &'static [AtomicU64])> {
        if leaves > self.leaves {
            self.leaves = leaves;
            self.tables.clear();
        }
        while self.tables.len() < engines {
            self.tables.push(SimMachine::memory(self.leaves));
        }
        while self.counters.len() < engines {
            let words = (0..uzswap_mm::vmstat::WORDS).map(|_| AtomicU64::new(0)).collect();
            self.counters.push(Vec::leak(words));
        }
        let zeroed = |words: &'static [AtomicU64]| {
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            words
        };
        let tables = self.tables[..engines].iter().map(|table| {
            (table.release)(table.words);
            *table
        });
        tables
            .zip(self.counters[..engines].iter().map(|words| zeroed(words)))
            .collect()
    }
}
