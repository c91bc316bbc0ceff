//! What a group did: its counters as one object, `--stat-json`, `--summary`, `--report`.

mod findings;
mod options;
mod page;
mod summary;
mod timeline;

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};
use uzswap_ctl::{FailKind, Group, Limit, Statistic, Test, Tunable};
use uzswap_mm::page::MAX_ORDER;
use uzswap_mm::vmstat::{BUCKETS, OrderItem};

pub(crate) use self::options::ReportOptions;
pub(crate) use self::timeline::Timeline;
use crate::census::Unmanaged;
use crate::log::{self, Event, Kind};
use crate::output::warn_line;
use crate::recompress::Recompress;
use crate::{Failure, accel, figures, memory_max, output, stall};

/// A run that is over.
pub(crate) struct Past<'a> {
    pub(crate) cmd: &'a [OsString],
    /// `None`: it was not managed.
    pub(crate) group: Option<&'a Group>,
    pub(crate) name: &'a str,
    /// As the shell tells it.
    pub(crate) status: u8,
    pub(crate) signal: Option<i32>,
    pub(crate) seconds: f64,
    pub(crate) unmanaged: Vec<Unmanaged>,
    /// For the summary.
    pub(crate) lines: Vec<String>,
    pub(crate) timeline: Option<Timeline>,
}

impl Past<'_> {
    /// As a shell would take it.
    fn command(&self) -> String {
        let words = self.cmd.iter().map(|word| word.to_string_lossy());
        let quoted =
            words.map(|word| shlex::try_quote(&word).map_or_else(|_| word.to_string(), |quoted| quoted.to_string()));
        quoted.collect::<Vec<_>>().join(" ")
    }

    fn moments(&self) -> &[timeline::Moment] {
        self.timeline.as_ref().map_or(&[], Timeline::moments)
    }
}

/// The limit: a number, or "max" or "auto".
pub(crate) fn memory_max(group: &Group) -> Value {
    match memory_max::word_of(*group) {
        word @ (memory_max::AUTO_WORD | u64::MAX) => json!(memory_max::value(word)),
        bytes => json!(bytes),
    }
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
    put("policy", json!(group.replacement().name()));
    put("enabled", json!(group.get(Tunable::Enabled)));
    put("shrinker_enabled", json!(group.get(Tunable::ShrinkerEnabled)));
    put("balance", json!(group.get(Tunable::Balance)));
    put("swap_cache", json!(group.get(Tunable::SwapCache)));
    put("stall", json!(stall::value(group.get(Limit::Stall))));
    for figure in figures::of(group) {
        let value = match figure.name {
            "memory.max" => memory_max(group),
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

/// Upper bound of the bucket that holds the value at `share` of all; 0: there are none.
pub(crate) fn percentile(buckets: &[u64; BUCKETS], share: f64) -> u64 {
    let total: u64 = buckets.iter().sum();
    if total == 0 {
        return 0;
    }
    let mut seen = 0;
    let reaches = |count: &u64| {
        seen += count;
        seen as f64 >= total as f64 * share
    };
    buckets.iter().position(reaches).map_or(0, |i| 1 << (i + 6))
}

/// Nanoseconds that half of the loads between two looks, and all but a hundredth, took less than.
/// `None`: there were none.
pub(crate) fn latencies(before: &[u64; BUCKETS], now: &[u64; BUCKETS]) -> Option<[u64; 2]> {
    let new = std::array::from_fn(|i| now[i].saturating_sub(before[i]));
    let is_any = new.iter().any(|count| *count > 0);
    is_any.then(|| [0.5, 0.99].map(|share| percentile(&new, share)))
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

/// Whether all that was asked for can be written.
///
/// # Errors
/// As of [`check`].
pub(crate) fn check_all(options: &ReportOptions) -> Result<(), Failure> {
    check("--stat-json", options.stat_json.as_deref())?;
    check("--report", options.report.as_deref())
}

/// Write counters as one JSON object; where that cannot be done a line says so.
pub(crate) fn write(path: &Path, counters: Map<String, Value>) {
    let text = format!("{:#}\n", Value::Object(counters));
    if let Err(e) = std::fs::write(path, text) {
        warn_line!("uzswap: no counters: --stat-json {}: {e}", path.display());
    }
}

/// CMD has ended: write what was asked for. Where that cannot be done a line says so: the exit
/// status is CMD's.
pub(crate) fn finish(past: &Past<'_>, options: &ReportOptions) {
    if let Some(group) = past.group {
        finish_group(past, group, options);
    }
    if log::is_json() && !options.quiet {
        log::tell(ended(past));
    }
    if let Some(path) = &options.report {
        page::write(path, past);
    }
}

fn finish_group(past: &Past<'_>, group: &Group, options: &ReportOptions) {
    if let Some(path) = &options.stat_json {
        write(path, counters(past.name, group));
    }
    if !options.quiet {
        tell_errors(group);
    }
    // Programs have it with the last event.
    if options.summary && !log::is_json() {
        let others = past.lines.iter().map(|line| format!("  {line}"));
        let lines = summary::lines(past.name, group).into_iter().chain(others);
        lines.for_each(|line| output::print_error(&line));
    }
}

/// What processes could not have, and did without.
fn tell_errors(group: &Group) {
    for (statistic, what) in [
        (Statistic::SwapError, "ran without a swap file"),
        (
            Statistic::RemoteError,
            "did not reach the mover, and left all of its swap file on this machine",
        ),
    ] {
        let noted = group.get(statistic);
        if noted != 0 {
            let error = std::io::Error::from_raw_os_error(noted as i32 - 1);
            warn_line!("uzswap: a process of the group {what}: {error}");
        }
    }
}

/// The last event of a run.
fn ended(past: &Past<'_>) -> Event {
    let of = |Unmanaged { process, reason, count }: &Unmanaged| json!({ "process": process, "reason": reason, "count": count });
    let unmanaged: Vec<Value> = past.unmanaged.iter().map(of).collect();
    let fields = json!({
        "status": past.status,
        "signal": past.signal,
        "seconds": past.seconds,
        "is_managed": past.group.is_some(),
        "unmanaged": unmanaged,
        "counters": past.group.map(|group| counters(past.name, group)),
    });
    Event::of(Kind::Ended, None, fields)
}
