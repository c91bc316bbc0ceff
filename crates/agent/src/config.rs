//! From the group's words to what is fixed when an engine starts.

use uzswap_ctl::{Group, Key};
use uzswap_mm::Config;
use uzswap_mm::page::PAGE_SIZE;

use crate::swap_file::SwapFile;

/// Pages that a swap file may have.
pub(crate) fn swap_pages(group: Group) -> u64 {
    (group.get(Key::SwapMax) / PAGE_SIZE as u64).min(u64::from(u32::MAX))
}

/// What the engine of a process is made for.
pub(crate) fn config(group: Group, swap: Option<&SwapFile>) -> Config {
    let pages = group.get(Key::MemoryMax) / PAGE_SIZE as u64;
    let staged_target = (pages / 32).clamp(64, 4096);
    // A folio is in the pool before its frames are given up: a small limit has no room for large ones.
    let folio_order_max = (pages / FOLIOS_MIN).max(1).ilog2();
    Config {
        folio_order_max: folio_order_max.min(group.get(Key::FolioOrder).min(9) as u32),
        page_cluster: group.get(Key::PageCluster).min(5) as u32,
        store_batch: group.get(Key::StoreBatch).clamp(1, 512) as u32,
        staging_slots: (staged_target * 2) as u32 + 2048,
        staged_target,
        give_up_batch: (pages / GIVE_UP_SHARE).clamp(1, 256),
        zswap_segment: (pages / 512).saturating_mul(ZSWAP_REACH).clamp(1 << 10, 1 << 16),
        swap_pages: swap.map_or(0, |swap| swap_pages(group).min(swap.slots())),
        writes_plain: group.get(Key::SwapPlain) != 0,
        pool: group.pool(),
    }
}

/// Folios that memory.max must hold at least.
const FOLIOS_MIN: u64 = 64;
/// Refault distances are told apart up to so many times memory.max.
const ZSWAP_REACH: u64 = 4;
/// Of memory.max, the part that may be frames whose pages are in the pool already.
const GIVE_UP_SHARE: u64 = 256;
