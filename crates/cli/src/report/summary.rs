//! `--summary`: a run in a few lines.

use uzswap_ctl::{Group, Statistic};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use super::percentile;
use crate::{accel, memory_max};
use uzswap_ctl::size::Size;

pub(super) fn lines(name: &str, group: &Group) -> Vec<String> {
    let stat = group.vmstat();
    let [load, store] = stat.histograms();
    let get = |item| stat.get(item);
    let mib = |pages: u64| pages * PAGE_SIZE as u64 / (1 << 20);
    let (needed, peak) = (group.get(Statistic::NeededPeak), group.get(Statistic::MemoryPeak));
    let below = |buckets, share| match percentile(buckets, share) {
        0 => "-".to_owned(),
        ns => format!("< {} us", ns / 1000),
    };
    let max = memory_max::word_of(*group);
    let of = match max {
        memory_max::AUTO_WORD => memory_max::AUTO.to_owned(),
        bytes => Size(bytes).to_string(),
    };
    let mut lines = vec![
        format!("uzswap: group {name}: peak {} of {of}", Size(peak)),
        format!(
            "  out: {} MiB to zswap ({}), {} MiB zeros, {} MiB written back",
            mib(get(Item::ZswpOut)),
            group.pool().compressor,
            mib(get(Item::SwpOutZero)),
            mib(get(Item::ZswpWb)),
        ),
        format!(
            "  in:  {} MiB from zswap, {} MiB zeros, {} MiB from swap, {} MiB second chances",
            mib(get(Item::ZswpIn)),
            mib(get(Item::SwpInZero)),
            mib(get(Item::PswpIn)),
            mib(get(Item::RestoreAnon)),
        ),
        format!(
            "  faults: {} (p50 {}, p99 {}), {} had to reclaim; a page stored in p50 {}",
            get(Item::PgFault),
            below(&load, 0.5),
            below(&load, 0.99),
            get(Item::AllocStall),
            below(&store, 0.5),
        ),
    ];
    lines.extend(accel::summary(group));
    lines.push(format!(
        "  lost: {:.1} s to waiting for pages; saved: {} of {}",
        get(Item::WaitedNs) as f64 / 1e9,
        Size(needed.saturating_sub(peak)),
        Size(needed),
    ));
    if max == memory_max::AUTO_WORD {
        lines.push(format!(
            "  auto: at most {} given back at a time; {:.1} s waited for that",
            Size(group.get(Statistic::SavedPeak)),
            get(Item::StalledNs) as f64 / 1e9,
        ));
    }
    lines
}
