//! Counters with the kernel's names, and latency histograms. All of them live in memory shared by the group.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! items {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Item { $(#[doc = $doc] $variant,)* }

        impl Item {
            /// Every item, in the order of its word.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that users see: the kernel's where the kernel has one.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

items! {
    PgFault "pgfault" "faults served",
    PgMajFault "pgmajfault" "faults that needed compressed, staged or swapped contents",
    ZswpIn "zswpin" "pages loaded from zswap",
    ZswpOut "zswpout" "pages stored in zswap",
    ZswpWb "zswpwb" "pages written back from zswap to the swap device",
    PswpIn "pswpin" "pages read from the swap device",
    PswpOut "pswpout" "pages written to the swap device",
    SwpInZero "swpin_zero" "zero pages mapped again",
    SwpOutZero "swpout_zero" "pages found to be all zeros when stored",
    SameFilled "same_filled_pages" "pages found to be one word over and over, but not zeros, when stored",
    SwapRa "swap_ra" "pages loaded because a neighbour faulted",
    RefaultAnon "workingset_refault_anon" "pages loaded again after they were stored",
    RestoreAnon "workingset_restore_anon" "staged pages taken back before they were stored: second chances used",
    PgScan "pgscan_anon" "pages looked at by reclaim",
    PgSteal "pgsteal_anon" "pages stored by reclaim",
    AllocStall "allocstall" "faults that had to reclaim first",
    PoolLimitHit "pool_limit_hit" "stores that found the pool at its limit",
    RejectReclaimFail "reject_reclaim_fail" "writebacks that failed",
    RejectAllocFail "reject_alloc_fail" "stores that found no pool memory",
    RejectCompressFail "reject_compress_fail" "pages that the compressor refused",
    RejectCompressPoor "reject_compress_poor" "pages kept resident because they do not compress and nothing can be written back",
    DecompressFail "decompress_fail" "pages lost because their stored bytes were damaged",
    SwapReadFail "swap_read_fail" "pages lost because the swap device could not be read",
    SwapFull "memcg_swap_fail" "swap slot allocations refused: swap-max reached or no space left",
    ReclaimBusy "reclaim_busy" "pages passed over because they are shared after a fork or pinned",
    ReclaimUnmovable "reclaim_unmovable" "pages passed over because their mapping is read-only or locked",
    Unshared "cow_unshared" "pages whose copy-on-write sharing reclaim had to break",
    PagesCompacted "pages_compacted" "pool pages that compaction gave back to the system",
    PoolSwitch "pool_switch" "changes of the compressor or the allocator",
    Poisoned "poisoned" "lost pages whose readers get SIGBUS",
    Forks "forks" "forks whose child was handed its own pager",
    OomKill "oom_kill" "processes killed because nothing was left to reclaim",
}

/// Number of counters.
pub const ITEMS: usize = Item::ALL.len();
/// Buckets of a histogram: bucket `i` counts values below `2^(i+6)` ns and not below half of that.
pub const BUCKETS: usize = 32;
/// Words that a [`Vmstat`] needs.
pub const WORDS: usize = ITEMS + 2 * BUCKETS;

/// The counters of a group, over [`WORDS`] shared words.
#[derive(Clone, Copy)]
pub struct Vmstat(&'static [AtomicU64]);

impl Vmstat {
    /// Counters in `words`.
    pub fn new(words: &'static [AtomicU64]) -> Self {
        assert!(words.len() >= WORDS, "a word for each counter and bucket");
        Self(words)
    }

    /// Count `n` more. Relaxed: each counter stands alone.
    pub fn add(&self, item: Item, n: u64) {
        if n > 0 {
            self.0[item as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The count so far.
    pub fn get(&self, item: Item) -> u64 {
        self.0[item as usize].load(Ordering::Relaxed)
    }

    fn record(&self, base: usize, ns: u64) {
        let bucket = (64 - (ns >> 6).leading_zeros() as usize).min(BUCKETS - 1);
        self.0[base + bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// A page was loaded in `ns` nanoseconds.
    pub fn record_load(&self, ns: u64) {
        self.record(ITEMS, ns);
    }

    /// A page was stored in `ns` nanoseconds.
    pub fn record_store(&self, ns: u64) {
        self.record(ITEMS + BUCKETS, ns);
    }

    /// Bucket counts of loads and of stores.
    pub fn histograms(&self) -> [[u64; BUCKETS]; 2] {
        let read = |base: usize| core::array::from_fn(|i| self.0[base + i].load(Ordering::Relaxed));
        [read(ITEMS), read(ITEMS + BUCKETS)]
    }
}
