//! Where every page is.

pub(crate) mod ages;
pub(crate) mod block;
pub(crate) mod counts;
pub(crate) mod devices;
pub(crate) mod list_lru;
pub(crate) mod publish;
pub(crate) mod range_set;
pub(crate) mod resident;
pub(crate) mod staging;
pub(crate) mod stored;
pub(crate) mod swap_slots;
pub mod swap_table;
#[cfg(any(test, feature = "sim"))]
mod valid;

use alloc::sync::Arc;

use crate::config::Config;
use crate::zpool::{Arena, Pools};
use counts::Counts;
use list_lru::{LruList, SEGMENT_PAGES};
use range_set::RangeSet;
use staging::Staging;
use stored::Stored;
use swap_slots::SwapSlots;
use swap_table::{SwapTable, TableMemory};

/// Every page's word, and what the words stand for.
pub(crate) struct Pages<R, A: Arena> {
    pub(crate) table: Arc<SwapTable>,
    /// Where pages are under our care.
    pub(crate) managed: RangeSet,
    /// How many words say what.
    pub(crate) counts: Counts,
    /// Resident folios ([`resident`]).
    pub(crate) lru: [LruList; 5],
    pub(crate) stored: Stored,
    pub(crate) staging: Staging,
    pub(crate) pool: Pools<R, A>,
    pub(crate) slots: SwapSlots,
}

impl<R: lock_api::RawMutex, A: Arena> Pages<R, A> {
    /// Nothing is managed yet.
    pub(crate) fn new(table: TableMemory, arena: A, config: &Config) -> Self {
        Self {
            table: Arc::new(SwapTable::new(table)),
            managed: RangeSet::default(),
            counts: Counts::default(),
            lru: resident::TAGS.map(|tags| LruList::new(tags, SEGMENT_PAGES)),
            stored: Stored::new(config.zswap_segment),
            staging: Staging::new(config.staging_slots),
            pool: Pools::new(config.pool, arena),
            slots: SwapSlots::new(config.swap_pages),
        }
    }
}
