//! How much there is of what, and what was counted.

use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use crate::pager::{self, Pager};

/// Names and values: sizes in bytes, then counters under the kernel's names.
#[derive(Clone, Debug, Default)]
pub struct Stats(Vec<(&'static str, u64)>);

impl Stats {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }
}

/// How things are in this process. Nothing is named before there is a region or a limit, nor under
/// `uzswap run`, which has its own (`uzswap stat`).
pub fn stats() -> Stats {
    pager::started().map(of).unwrap_or_default()
}

fn of(pager: &'static Pager) -> Stats {
    let (mm, charge) = (&pager.mm, &pager.charge);
    let (gauges, pinned) = uzswap_sys::region::without_signals(|| (mm.gauges(), mm.machine().pins.lock().pages()));
    let page = PAGE_SIZE as u64;
    let (regions, bytes) = pager.regions();
    let sizes = [
        ("memory.max", charge.limit()),
        ("memory.current", charge.current(mm)),
        ("memory.peak", charge.peak()),
        ("limit_exceeded", charge.exceeded()),
        ("regions", regions as u64),
        ("region_bytes", bytes as u64),
        ("resident", gauges.resident * page),
        ("staged", gauges.staged * page),
        ("pool_total_size", gauges.pool * page),
        ("stored_pages", gauges.stored),
        ("swapped", gauges.swapped * page),
        ("pinned", pinned * page),
        ("table_bytes", gauges.table_bytes),
        ("serves_system_calls", mm.machine().fds.serves_system_calls.into()),
    ];
    let counters = Item::ALL.iter().map(|item| (item.name(), mm.stat().get(*item)));
    Stats(sizes.into_iter().chain(counters).collect())
}
