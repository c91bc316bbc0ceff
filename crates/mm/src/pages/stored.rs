//! Stored folios, oldest first: those that came to rest, which are all older, and the others.

use crate::page::Vpn;
use crate::pages::Pages;
use crate::pages::ages::Ages;
use crate::pages::list_lru::{LruEntry, LruList, Tags};
use crate::pages::swap_table::SwapTable;
use crate::pages::swap_table::entry::{Slot, ZTAG_BITS, ZswapEntry};
use crate::zpool::Arena;

/// The two lists share the tags of a ZSWAP word: even ones are those of the younger.
pub(crate) const TAGS: Tags = Tags {
    bits: ZTAG_BITS,
    first: 0,
    stride: 2,
};
pub(crate) const RESTED_TAGS: Tags = Tags { first: 1, ..TAGS };

/// Where stored folios are among each other.
pub(crate) struct Stored {
    /// Those that came to rest: `upkeep/recompress.rs` has looked at them.
    pub(crate) rested: LruList,
    pub(crate) recent: LruList,
    pub(crate) ages: Ages,
}

impl Stored {
    pub(crate) fn new(segment: u64) -> Self {
        Self {
            rested: LruList::new(RESTED_TAGS, segment),
            recent: LruList::new(TAGS, segment),
            ages: Ages::default(),
        }
    }

    /// The folio that was stored longest ago.
    pub(crate) fn oldest(&mut self) -> Option<LruEntry> {
        let oldest = self.rested.oldest().or_else(|| self.recent.oldest());
        oldest.map(|(entry, _)| entry)
    }

    pub(crate) fn pop_oldest(&mut self) {
        let _ = self.rested.pop_oldest().or_else(|| self.recent.pop_oldest());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rested.is_empty() && self.recent.is_empty()
    }
}

impl<R, A: Arena> Pages<R, A> {
    /// A folio is in the pool now; returns the tag for its words.
    pub(crate) fn add_stored(&mut self, vpn: Vpn, order: u32) -> u32 {
        add(&mut self.stored.recent, &self.table, vpn, order)
    }

    /// A folio came to rest; returns the tag for its words.
    pub(crate) fn add_rested(&mut self, vpn: Vpn, order: u32) -> u32 {
        add(&mut self.stored.rested, &self.table, vpn, order)
    }
}

fn add(list: &mut LruList, table: &SwapTable, vpn: Vpn, order: u32) -> u32 {
    if list.needs_sweep() {
        list.sweep(|entry| is_stored_as(table, entry));
    }
    list.add_tail(vpn, order)
}

/// Whether any page of a stored folio still carries its tag.
fn is_stored_as(table: &SwapTable, folio: LruEntry) -> bool {
    let carries = |slot| matches!(slot, Slot::Zswap(ZswapEntry { tag, .. }) if tag == folio.tag);
    folio.pages().any(|vpn| carries(table.lookup(vpn)))
}
