//! Memory that engines never give back: kept for the next simulation.

use std::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::sim::SimMachine;
use uzswap_mm::swap_table::TableMemory;

/// Tables that no engine has.
#[derive(Default)]
pub(crate) struct Shelf {
    tables: Vec<TableMemory>,
    leaves: usize,
    counters: Vec<&'static [AtomicU64]>,
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
