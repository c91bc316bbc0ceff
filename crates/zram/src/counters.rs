//! What the kernel's zram counts, under its names (`mm_stat`, `io_stat`).
//!
//! # Counting
//! `pages_stored` pages are written: of them `same_pages` are one word over and over and take
//! nothing, `huge_pages` lie in the pool as they are, the others compressed. `compr_data_size` is
//! the sum of the lengths of both.

use std::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::page::PAGE_SIZE;

use crate::slot::Slot;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// A number that a device keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Bytes of the pages that are written, as the clients see them.
    OrigDataSize "orig_data_size",
    /// Bytes of their blocks.
    ComprDataSize "compr_data_size",
    /// Pages of one word over and over.
    SamePages "same_pages",
    /// Pages that do not compress.
    HugePages "huge_pages",
    /// The same, of all that were ever written.
    HugePagesSince "huge_pages_since",
    /// Pages of the pool that compaction freed.
    PagesCompacted "pages_compacted",
    /// Most bytes that the pool has taken so far.
    MemUsedMax "mem_used_max",
    /// Requests to read that were not refused.
    NumReads "num_reads",
    /// Requests to write that were not refused, zeros included.
    NumWrites "num_writes",
    /// Of them, those that met a damaged page.
    FailedReads "failed_reads",
    /// Of them, those that failed for want of memory, or met a damaged page.
    FailedWrites "failed_writes",
    /// Requests that were refused: beyond the end, unknown, too long.
    InvalidIo "invalid_io",
    /// Pages that TRIM freed.
    NotifyFree "notify_free",
}

/// The numbers of a device.
pub struct Counters([AtomicU64; Counter::ALL.len()]);

impl Counters {
    pub(crate) fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Counter::ALL.len()])
    }

    /// What a counter says.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, counter: Counter, n: u64) {
        self.0[counter as usize].fetch_add(n, Ordering::Relaxed);
    }

    fn sub(&self, counter: Counter, n: u64) {
        self.0[counter as usize].fetch_sub(n, Ordering::Relaxed);
    }

    pub(crate) fn reached(&self, counter: Counter, n: u64) {
        self.0[counter as usize].fetch_max(n, Ordering::Relaxed);
    }

    /// A page whose word was `old` has the word `new`.
    pub(crate) fn replaced(&self, old: Slot, new: Slot) {
        for (counter, n) in Self::parts(new) {
            self.add(counter, n);
        }
        for (counter, n) in Self::parts(old) {
            self.sub(counter, n);
        }
        if matches!(new, Slot::Stored(stored) if stored.is_huge()) {
            self.add(Counter::HugePagesSince, 1);
        }
    }

    /// What a page with this word counts for.
    fn parts(slot: Slot) -> [(Counter, u64); 4] {
        let (is_same, is_huge, len) = match slot {
            Slot::Empty => return [(Counter::OrigDataSize, 0); 4],
            Slot::Same(_) => (true, false, 0),
            Slot::Stored(stored) => (false, stored.is_huge(), stored.len as u64),
        };
        [
            (Counter::OrigDataSize, PAGE_SIZE as u64),
            (Counter::ComprDataSize, len),
            (Counter::SamePages, is_same.into()),
            (Counter::HugePages, is_huge.into()),
        ]
    }
}
