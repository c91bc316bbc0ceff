//! From the group's words to what is fixed when an engine starts.

use uzswap_backing::SwapFile;
use uzswap_ctl::{Group, Limit, Tunable, defaults};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::{Config, Portions, Tunables};

/// Pages that a swap file may have.
pub(crate) fn swap_pages(group: Group) -> u64 {
    (group.get(Limit::SwapMax) / PAGE_SIZE as u64).min(u64::from(u32::MAX))
}

/// What the engine of a process is made for.
pub(crate) fn config(group: Group, swap: Option<&SwapFile>) -> Config {
    let pages = group.memory_max() / PAGE_SIZE as u64;
    let staged_most = defaults::staged_most(pages);
    let order_max = group.get(Tunable::FolioOrder).min(defaults::FOLIO_ORDER_LIMIT) as u32;
    let tunables = &Tunables::DEFAULT;
    let portions = tunables.portions(pages);
    Config {
        portions: Portions {
            folio_order: portions.folio_order.min(order_max),
            ..portions
        },
        page_cluster: group.page_cluster(),
        store_batch: group.get(Tunable::StoreBatch).clamp(1, defaults::STORE_BATCH_MAX) as u32,
        staging_slots: defaults::staging_slots(staged_most),
        staged_most,
        zswap_segment: defaults::zswap_segment(pages),
        swap_pages: swap.map_or(0, |swap| swap_pages(group).min(swap.slots())),
        writes_plain: group.is_on(Tunable::SwapPlain),
        pool: group.pool(),
        replacement: group.replacement(),
        tunables,
    }
}
