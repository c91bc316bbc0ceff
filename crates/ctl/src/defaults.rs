//! What holds where nobody asks for something else, and how far tunables go.
//!
//! The launcher says what of it holds, agents and benchmarks go by the same: nobody else repeats
//! such a number.

use uzswap_acomp::{Algorithm, Compressor};
use uzswap_mm::page::{MAX_ORDER, PAGE_SIZE};
use uzswap_mm::zpool::{PoolKind, ZpoolType};
use uzswap_mm::{Replacement, SERVERS_MAX, SwapOut};

/// Pages are stored so: twice as fast as with lz4, where they are pages of a heap.
pub const POOL: PoolKind = PoolKind {
    zpool: ZpoolType::Zsmalloc,
    compressor: Compressor {
        algorithm: Algorithm::Words,
        is_parallel: false,
    },
};
/// What idle pages are compressed with again.
pub const RECOMPRESS: Option<Algorithm> = Some(Algorithm::Zstd { level: 1 });
/// How folios leave.
pub const SWAP_OUT: SwapOut = SwapOut::Whole;
/// In which order.
pub const REPLACEMENT: Replacement = Replacement::Workingset;
/// Of the pool limit, to which a full pool is drained.
pub const ACCEPT_THRESHOLD_PERCENT: u64 = 90;

/// Whether the pool gives way to the working set.
pub const BALANCE: bool = true;
/// Whether stored copies are kept of pages that were loaded.
pub const SWAP_CACHE: bool = true;
/// Whether the swap file is encrypted.
pub const SWAP_ENCRYPTED: bool = true;
/// Whether it has pages as they were.
pub const SWAP_PLAIN: bool = false;

/// Pages compressed between two publications.
pub const STORE_BATCH: u64 = 8;
pub const STORE_BATCH_MAX: u64 = 512;
/// log2 of the neighbours that are loaded with a page, as the kernel's `page-cluster`.
pub const PAGE_CLUSTER: u64 = 3;
pub const PAGE_CLUSTER_MAX: u64 = uzswap_mm::PAGE_CLUSTER_MAX as u64;
/// Folios that a round of reclaim takes, as the kernel's.
pub const SWAP_CLUSTER_MAX: u32 = 32;

/// The least that `memory.max` may be: the staging range, the swap table and the agent's own
/// buffers of one process.
pub const MEMORY_MAX_LEAST: u64 = 4 << 20;

/// The part of `memory.max` that the pool may have: a cap, below which the balance decides (E-168).
/// Without a device there is nowhere else to go.
pub const fn max_pool_percent(has_swap: bool) -> u64 {
    if has_swap { 90 } else { 100 }
}

/// log2 of the pages of the largest folio that can be asked for.
pub const FOLIO_ORDER_LIMIT: u64 = MAX_ORDER as u64;
/// Nobody gets larger ones without asking, 512K: where faults come in sequence each costs two
/// thread switches, and what is mapped beyond the need of a program takes the place of something.
const FOLIO_ORDER_MAX: u64 = 7;
/// So many of the largest folios must find room in `memory.max`.
const FOLIOS: u64 = 512;

/// log2 of the pages of the largest folio.
pub fn folio_order(memory_max: u64) -> u64 {
    let pages = memory_max / PAGE_SIZE as u64;
    u64::from((pages / FOLIOS).max(1).ilog2()).min(FOLIO_ORDER_MAX)
}

/// Background compression threads that can be asked for.
pub const KCOMPRESSD_MAX: u64 = 8;
/// Nobody gets more without asking.
const KCOMPRESSD_UNASKED: u64 = 4;

/// Background compression threads, on so many cores: one each that the program and kswapd leave,
/// who have a core each.
pub fn kcompressd(cores: usize) -> u64 {
    (cores.saturating_sub(2) as u64).min(KCOMPRESSD_UNASKED)
}

/// Fault threads that can be asked for.
pub const FAULT_THREADS_MAX: u64 = SERVERS_MAX as u64;

/// Fault threads, on so many cores. The program has to run somewhere too; where pages come from the
/// disk, more than one can wait for it.
pub fn fault_threads(cores: usize) -> u64 {
    ((1 + cores / 2).min(cores) as u64).min(FAULT_THREADS_MAX)
}

/// The part of `memory.max` that waits for a second chance at most, and fewest and most pages that
/// do. Of less than a round nothing waits, since reclaim stores whole rounds.
const STAGED_SHARE: u64 = 32;
const STAGED_MIN: u64 = 64;
const STAGED_MAX: u64 = 4096;
/// Slots of the staging range beyond twice the target: what is on its way in and out.
const STAGING_SLACK: u32 = 2048;

/// Frames that wait for a second chance in steady state at most, of a limit of so many pages.
pub fn staged_most(pages: u64) -> u64 {
    (pages / STAGED_SHARE).clamp(STAGED_MIN, STAGED_MAX)
}

/// Slots of the staging range.
pub const fn staging_slots(staged_most: u64) -> u32 {
    staged_most as u32 * 2 + STAGING_SLACK
}

/// Refault distances are told apart up to so many times the limit.
const ZSWAP_REACH: u64 = 4;
/// Segments in which they are.
const ZSWAP_SEGMENTS: u64 = 512;
const ZSWAP_SEGMENT_MIN: u64 = 1 << 10;
const ZSWAP_SEGMENT_MAX: u64 = 1 << 16;

/// Stored pages between which refault distances are not told apart, of a limit of so many pages. As
/// few as can be where there is no limit: nothing of a segment is known to be idle before it is
/// full.
pub fn zswap_segment(pages: u64) -> u64 {
    if pages >= u64::MAX / PAGE_SIZE as u64 {
        return ZSWAP_SEGMENT_MIN;
    }
    let segment = (pages / ZSWAP_SEGMENTS).saturating_mul(ZSWAP_REACH);
    segment.clamp(ZSWAP_SEGMENT_MIN, ZSWAP_SEGMENT_MAX)
}

const _: () = assert!(STORE_BATCH <= STORE_BATCH_MAX && PAGE_CLUSTER <= PAGE_CLUSTER_MAX);
const _: () = assert!(FOLIO_ORDER_MAX <= FOLIO_ORDER_LIMIT && KCOMPRESSD_UNASKED <= KCOMPRESSD_MAX);

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_machine_has_somebody_to_serve_faults() {
        let of = |cores| (fault_threads(cores), kcompressd(cores));
        assert_eq!([1, 2, 4, 64].map(of), [(1, 0), (2, 0), (3, 2), (4, 4)]);
    }

    #[test]
    fn large_limits_have_large_folios() {
        assert_eq!([0, 4 << 20, 24 << 20, u64::MAX].map(folio_order), [0, 1, 3, 7]);
    }

    #[test]
    fn no_limit_is_too_small_or_too_large_for_the_staging_range() {
        let of = |pages| {
            (
                staged_most(pages),
                staging_slots(staged_most(pages)),
                zswap_segment(pages),
            )
        };
        assert_eq!(of(0), (64, 2176, 1 << 10));
        assert_eq!(of(1 << 16), (2048, 6144, 1 << 10));
        assert_eq!(of(1 << 40), (4096, 10_240, 1 << 16));
        assert_eq!(of(u64::MAX), (4096, 10_240, 1 << 10));
    }
}
