//! Counters with the kernel's names, and latency histograms. All of them live in memory shared by
//! the group.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::page::MAX_ORDER;

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

            /// What it counts, for people.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

items! {
    PgFault "pgfault" "faults served",
    PgMajFault "pgmajfault" "faults that needed compressed, staged or swapped contents",
    PgFaultHelped "pgfault_helped" "faults served by another thread than the one that reads them",
    PgFaultInline "pgfault_inline" "faults served by the thread that raised them",
    ZswpIn "zswpin" "pages loaded from zswap",
    ZswpOut "zswpout" "pages stored in zswap",
    SwpOutClean "swpout_clean" "pages that left again as they had been stored, without being compressed",
    SwpOutDirty "swpout_dirty" "pages whose stored copy was kept in vain, since they were written",
    ZswpWb "zswpwb" "pages written back from zswap to the swap device",
    ShrinkerWb "zswpwb_shrinker" "of them, pages that the shrinker chose before the pool was full",
    WorkingsetWb "zswpwb_workingset" "entries written back to make room for pages that are faulted soon after they were stored",
    PswpIn "pswpin" "pages read from the swap device",
    PswpOut "pswpout" "pages written to the swap device",
    SwpInZero "swpin_zero" "zero pages mapped again",
    SwpOutZero "swpout_zero" "pages found to be all zeros when stored",
    SameFilled "same_filled_pages" "pages found to be one word over and over, but not zeros, when stored",
    SwapRa "swap_ra" "pages loaded because another one faulted",
    RefaultAnon "workingset_refault_anon" "pages loaded again after they were stored",
    ActivateAnon "workingset_activate_anon" "faults on pages stored so lately that as much memory again would have kept them",
    RestoreAnon "workingset_restore_anon" "staged pages taken back before they were stored: second chances used",
    PgScan "pgscan_anon" "pages looked at by reclaim",
    PgSteal "pgsteal_anon" "pages stored by reclaim",
    AllocStall "allocstall" "faults that had to reclaim first",
    PoolLimitHit "pool_limit_hit" "stores that found the pool at its limit",
    RejectReclaimFail "reject_reclaim_fail" "writebacks that failed",
    RejectAllocFail "reject_alloc_fail" "stores that found no pool memory",
    RejectCompressFail "reject_compress_fail" "pages that the compressor refused",
    KnownIncompressible "known_incompressible" "pages not tried again, as they have not changed since they did not compress",
    RejectCompressPoor "reject_compress_poor" "pages kept resident because they do not compress and nothing can be written back",
    DecompressFail "decompress_fail" "pages lost because their stored bytes were damaged",
    SwapReadFail "swap_read_fail" "pages lost because the swap device could not be read",
    SwapFull "memcg_swap_fail" "swap slot allocations refused: swap-max reached or no space left",
    ReclaimBusy "reclaim_busy" "pages passed over because they are shared after a fork or pinned",
    ReclaimUnmovable "reclaim_unmovable" "pages passed over because their mapping is read-only or locked",
    ReclaimNeeded "reclaim_needed" "pages passed over because the kernel writes to them: a mutex of the program lies there, or a call holds them",
    Unshared "cow_unshared" "pages whose copy-on-write sharing reclaim had to break",
    PagesCompacted "pages_compacted" "pool pages that compaction gave back to the system",
    ZswpOutDense "zswpout_dense" "pages stored with the denser compressor at once, as frames were worth it",
    Recompressed "recompressed" "stored pages compressed again with the stronger compressor",
    DictionaryWins "dictionary_wins" "zstd dictionaries made from a sample of stored pages and used",
    DictionaryLoses "dictionary_loses" "samples of which a dictionary would save less than 3 %: what was in use stays",
    SwapWriteBytes "swap_write_bytes" "bytes written to the swap device",
    SwapReadBytes "swap_read_bytes" "bytes read from the swap device",
    PoolSwitch "pool_switch" "changes of the compressor or the allocator",
    Poisoned "poisoned" "lost pages whose readers get SIGBUS",
    WaitedNs "waited_ns" "nanoseconds in which some thread of a process waited for a page, at least; of all processes",
    StalledNs "stalled_ns" "nanoseconds in which threads waited for pages that were taken out; each by itself",
    Forks "forks" "forks whose child was handed its own pager",
    OomKill "oom_kill" "processes killed because nothing was left to reclaim",
}

/// What is counted for each folio order above 0, as in `hugepages-*kB/stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum OrderItem {
    /// Folios stored in zswap whole.
    ZswpOut,
    /// Folios written straight to the swap device whole.
    SwpOut,
    /// Folios that could not be stored whole and were split.
    SwpOutFallback,
    /// Folios loaded whole.
    SwpIn,
    /// Folios of which not all pages could be loaded together.
    SwpInFallback,
}

impl OrderItem {
    /// All of them, in the order of their words.
    pub const ALL: [Self; 5] = [
        Self::ZswpOut,
        Self::SwpOut,
        Self::SwpOutFallback,
        Self::SwpIn,
        Self::SwpInFallback,
    ];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZswpOut => "zswpout",
            Self::SwpOut => "swpout",
            Self::SwpOutFallback => "swpout_fallback",
            Self::SwpIn => "swpin",
            Self::SwpInFallback => "swpin_fallback",
        }
    }
}

/// Number of counters.
pub const ITEMS: usize = Item::ALL.len();
/// Where the histograms begin, and the counters of each order.
const HISTOGRAMS: usize = ITEMS;
const ORDERS: usize = HISTOGRAMS + 2 * BUCKETS;
/// Buckets of a histogram: bucket `i` counts values below `2^(i+6)` ns and not below half of that.
pub const BUCKETS: usize = 32;
/// Words that a [`Vmstat`] needs.
pub const WORDS: usize = ORDERS + MAX_ORDER as usize * OrderItem::ALL.len();

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

    /// Take back what was counted before it was certain.
    pub fn sub(&self, item: Item, n: u64) {
        self.0[item as usize].fetch_sub(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self, item: Item) -> u64 {
        self.0[item as usize].load(Ordering::Relaxed)
    }

    fn order_word(&self, item: OrderItem, order: u32) -> &AtomicU64 {
        &self.0[ORDERS + (order as usize - 1) * OrderItem::ALL.len() + item as usize]
    }

    /// Count a folio of `order`; pages by themselves (order 0) are not counted here.
    pub fn add_folio(&self, item: OrderItem, order: u32) {
        if order > 0 {
            self.order_word(item, order).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The count of folios of `order`, 1 to [`MAX_ORDER`], so far.
    pub fn folios(&self, item: OrderItem, order: u32) -> u64 {
        self.order_word(item, order).load(Ordering::Relaxed)
    }

    fn record(&self, base: usize, ns: u64, n: u64) {
        let bucket = (64 - (ns >> 6).leading_zeros() as usize).min(BUCKETS - 1);
        self.0[base + bucket].fetch_add(n, Ordering::Relaxed);
    }

    /// A page was loaded in `ns` nanoseconds.
    pub fn record_load(&self, ns: u64) {
        self.record(HISTOGRAMS, ns, 1);
    }

    /// `pages` pages were stored in `ns` nanoseconds each.
    pub fn record_stores(&self, pages: u64, ns: u64) {
        self.record(HISTOGRAMS + BUCKETS, ns, pages);
    }

    /// Bucket counts of loads and of stores.
    pub fn histograms(&self) -> [[u64; BUCKETS]; 2] {
        let read = |base: usize| core::array::from_fn(|i| self.0[base + i].load(Ordering::Relaxed));
        [read(HISTOGRAMS), read(HISTOGRAMS + BUCKETS)]
    }
}
