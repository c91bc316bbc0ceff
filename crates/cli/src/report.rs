//! What a group did: its counters as one object, `--stat-json`, `--summary`.

use std::path::Path;

use serde_json::{Map, Value, json};
use uzswap_ctl::{FailKind, Group, Limit, Statistic, Test, Tunable};
use uzswap_mm::page::{MAX_ORDER, PAGE_SIZE};
use uzswap_mm::vmstat::{BUCKETS, Item, OrderItem};

use crate::group::OpenGroup;
use crate::options::{Recompress, RunOptions};
use crate::output::warn_line;
use crate::{Failure, accel, figures};
use uzswap_ctl::size::Size;

/// A limit: a number, or "max".
fn limit(bytes: u64) -> Value {
    if bytes == u64::MAX { json!("max") } else { json!(bytes) }
}

/// One flat object: the counters under the kernel's names, sizes, and the histograms.
pub(crate) fn counters(name: &str, group: &Group) -> Map<String, Value> {
    let stat = group.vmstat();
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    put("group", json!(name));
    put("compressor", json!(group.pool().compressor.to_string()));
    put("zpool", json!(group.pool().zpool.name()));
    put("recompress", json!(Recompress(group.recompress()).to_string()));
    put("swapout", json!(group.swap_out().name()));
    put("enabled", json!(group.get(Tunable::Enabled)));
    put("shrinker_enabled", json!(group.get(Tunable::ShrinkerEnabled)));
    put("balance", json!(group.get(Tunable::Balance)));
    put("swap_cache", json!(group.get(Tunable::SwapCache)));
    for figure in figures::of(group) {
        let value = match figure.name {
            "memory.max" => limit(figure.value),
            _ => json!(figure.value),
        };
        put(figure.name, value);
    }
    for order in 1..=MAX_ORDER {
        for item in OrderItem::ALL {
            let key = format!("hugepages-{}kB/stats/{}", 4 << order, item.name());
            put(&key, json!(stat.folios(item, order)));
        }
    }
    if group.get(Test::FailPerMille) != 0 {
        for kind in FailKind::ALL {
            put(&format!("injected/{}", kind.name()), json!(group.failures(*kind)));
        }
    }
    accel::counters(group, &mut map);
    let mut put = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    let last_words = group.last_words();
    if !last_words.is_empty() {
        put("last_words", json!(String::from_utf8_lossy(&last_words).trim_end()));
    }
    let [load, store] = stat.histograms();
    put("load_ns", histogram(&load));
    put("store_ns", histogram(&store));
    map
}

/// Counts by upper bound in nanoseconds.
fn histogram(buckets: &[u64; BUCKETS]) -> Value {
    let used = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    Value::Object(
        used.map(|(i, count)| ((1u64 << (i + 6)).to_string(), json!(count)))
            .collect(),
    )
}

/// Upper bound of the bucket that holds the value at `share` of all.
pub(crate) fn percentile(buckets: &[u64; BUCKETS], share: f64) -> u64 {
    let total: u64 = buckets.iter().sum();
    let mut seen = 0;
    let reaches = |count: &u64| {
        seen += count;
        seen as f64 >= total as f64 * share
    };
    buckets.iter().position(reaches).map_or(0, |i| 1 << (i + 6))
}

/// Whether the file that an option names can be written, as far as that is known beforehand.
///
/// # Errors
/// The option with its value, and why not.
pub(crate) fn check(option: &str, path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map(drop)
        .map_err(|e| Failure::new(format!("{option} {}: {e}", path.display())))
}

/// Write counters as one JSON object; where that cannot be done a line says so.
pub(crate) fn write(path: &Path, counters: Map<String, Value>) {
    let text = format!("{:#}\n", Value::Object(counters));
    if let Err(e) = std::fs::write(path, text) {
        warn_line!("uzswap: no report: --stat-json {}: {e}", path.display());
    }
}

/// CMD has ended: write what was asked for. Where that cannot be done a line says so: the exit
/// status is CMD's.
pub(crate) fn finish(group: &OpenGroup, options: &RunOptions, others: &[String]) {
    if let Some(path) = &options.stat_json {
        write(path, counters(&group.name, &group.group));
    }
    let swap_error = group.group.get(Statistic::SwapError);
    if swap_error != 0 && !options.quiet {
        let error = std::io::Error::from_raw_os_error(swap_error as i32 - 1);
        warn_line!("uzswap: a process of the group ran without a swap file: {error}");
    }
    if options.summary {
        summary(&group.name, &group.group);
        others.iter().for_each(|line| warn_line!("  {line}"));
    }
}

fn summary(name: &str, group: &Group) {
    let stat = group.vmstat();
    let [load, store] = stat.histograms();
    let get = |item| stat.get(item);
    let mib = |pages: u64| pages * PAGE_SIZE as u64 / (1 << 20);
    warn_line!(
        "uzswap: group {name}: peak {} of {}",
        Size(group.get(Statistic::MemoryPeak)),
        Size(group.get(Limit::MemoryMax))
    );
    warn_line!(
        "  out: {} MiB to zswap ({}), {} MiB zeros, {} MiB written back",
        mib(get(Item::ZswpOut)),
        group.pool().compressor,
        mib(get(Item::SwpOutZero)),
        mib(get(Item::ZswpWb)),
    );
    warn_line!(
        "  in:  {} MiB from zswap, {} MiB zeros, {} MiB from swap, {} MiB second chances",
        mib(get(Item::ZswpIn)),
        mib(get(Item::SwpInZero)),
        mib(get(Item::PswpIn)),
        mib(get(Item::RestoreAnon)),
    );
    warn_line!(
        "  faults: {} (p50 < {} us, p99 < {} us), {} had to reclaim; a page stored in p50 < {} us",
        get(Item::PgFault),
        percentile(&load, 0.5) / 1000,
        percentile(&load, 0.99) / 1000,
        get(Item::AllocStall),
        percentile(&store, 0.5) / 1000,
    );
    if let Some(line) = accel::summary(group) {
        warn_line!("{line}");
    }
    let (needed, peak) = (group.get(Statistic::NeededPeak), group.get(Statistic::MemoryPeak));
    warn_line!(
        "  lost: {:.1} s to waiting for pages; saved: {} of {}",
        get(Item::WaitedNs) as f64 / 1e9,
        Size(needed.saturating_sub(peak)),
        Size(needed),
    );
}
