//! `uzswap stat`: the counters of a running group, for people and for programs.

use std::fmt::Write;

use serde_json::{Map, Value};
use uzswap_ctl::size::Size;
use uzswap_ctl::{Field, Group};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use crate::Failure;
use crate::again::{changes, json_text};
use crate::figures::{self, Figure, Unit};
use crate::group::{self, OpenGroup};
use crate::look_options::StatOptions;
use crate::memory_max;
use crate::output::warn_line;
use crate::recompress::Recompress;
use crate::report::{counters, percentile};
use crate::stall::Stall;

const MIB: f64 = (1 << 20) as f64;

/// A title, and figures by name with what each is in a few words.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

const SECTIONS: [Section; 4] = [
    (
        "memory, MiB",
        &[
            ("memory.current", "charged now"),
            ("memory.max", "the limit"),
            ("memory.peak", "the most so far"),
            ("memory.needed_peak", "the most without uzswap"),
            ("anon_resident", "resident, managed"),
            ("anon_staged", "taken out, not yet stored"),
            ("agent", "the agent's own"),
            ("unmanaged.current", "of processes without an agent"),
            ("shmem", "shared, not charged"),
            ("shortfall", "more would end most waiting"),
        ],
    ),
    (
        "stored, MiB",
        &[
            ("zswapped", "in the pool, before compression"),
            ("pool_total_size", "the pool"),
            ("memory.swap.current", "in the swap file"),
        ],
    ),
    (
        "moved so far, MiB",
        &[
            ("zswpout", "compressed"),
            ("zswpin", "decompressed"),
            ("swpout_zero", "zeros, out"),
            ("swpin_zero", "zeros, in"),
            ("pswpout", "written to the swap file"),
            ("pswpin", "read from the swap file"),
            ("workingset_restore_anon", "taken back before it was stored"),
            ("cold_taken", "taken out for memory.max=auto"),
        ],
    ),
    (
        "faults",
        &[
            ("pgfault", "served"),
            ("pgmajfault", "of them, of pages taken out before"),
            ("allocstall", "had to reclaim first"),
            ("waited_ns", "seconds in which a thread waited"),
            ("stalled_ns", "seconds waited for what was out"),
        ],
    ),
];

/// Shown where they are not zero.
const TROUBLE: [Item; 11] = [
    Item::PoolLimitHit,
    Item::RejectReclaimFail,
    Item::RejectAllocFail,
    Item::RejectCompressFail,
    Item::RejectCompressPoor,
    Item::DecompressFail,
    Item::SwapReadFail,
    Item::SwapFull,
    Item::ReclaimBusy,
    Item::Poisoned,
    Item::OomKill,
];

/// `uzswap stat`
pub(crate) fn stat(options: &StatOptions) -> Result<u8, Failure> {
    let open = group::find(options.group.as_deref())?;
    match options.json || options.all {
        true => for_programs(options, &open),
        false => for_people(options, &open),
    }
}

/// Whether there is more to be seen after a first look.
fn goes_on(open: &OpenGroup, is_first: bool) -> bool {
    let goes_on = is_first || open.is_alive();
    if !goes_on {
        warn_line!("uzswap: group {} has ended", open.name);
    }
    goes_on
}

fn for_programs(options: &StatOptions, open: &OpenGroup) -> Result<u8, Failure> {
    let mut before: Option<Map<String, Value>> = None;
    let again = &options.again;
    again.show(!options.json, || {
        if !goes_on(open, before.is_none()) {
            return Ok(None);
        }
        let now = counters(&open.name, &open.group);
        let shown = match &before {
            Some(before) if again.diff => changes(before, &now),
            _ => now.clone(),
        };
        before = Some(now);
        Ok(Some(match options.json {
            true => json_text(&Value::Object(shown), again.repeats()),
            false => flat(shown),
        }))
    })
}

/// A line each, as files of control groups have them.
fn flat(counters: Map<String, Value>) -> String {
    let line = |(key, value): (String, Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{key} {value}\n")
    };
    counters.into_iter().map(line).collect()
}

fn for_people(options: &StatOptions, open: &OpenGroup) -> Result<u8, Failure> {
    let mut before: Option<Vec<Figure>> = None;
    options.again.show(true, || {
        if !goes_on(open, before.is_none()) {
            return Ok(None);
        }
        let now = figures::of(&open.group);
        let text = match &before {
            Some(before) if options.again.diff => difference(before, &now),
            _ => page(open, &now),
        };
        before = Some(now);
        Ok(Some(text))
    })
}

/// A figure as people read it, in the unit that its section or its row names.
fn shown(unit: Unit, value: u64) -> String {
    match (unit, unit.bytes(value)) {
        (_, Some(_)) if value == u64::MAX => "max".to_owned(),
        (_, Some(bytes)) => format!("{:.1}", bytes as f64 / MIB),
        (Unit::Nanoseconds, _) => format!("{:.1}", value as f64 / 1e9),
        _ => value.to_string(),
    }
}

fn row(text: &mut String, name: &str, value: &str, what: &str) {
    let line = format!("  {name:<26} {value:>12}  {what}");
    *text += line.trim_end();
    text.push('\n');
}

/// All that people ask for first. At most 80 columns.
fn page(open: &OpenGroup, figures: &[Figure]) -> String {
    let group = &open.group;
    let mut text = format!("{}: {}\n", open.name, processes(open.processes().count()));
    text += &format!(
        "  {}, compressor {}, recompress {}, policy {}\n",
        group.pool().zpool.name(),
        group.pool().compressor,
        Recompress(group.recompress()),
        group.replacement().name(),
    );
    for (title, rows) in SECTIONS {
        let _ = writeln!(text, "{title}");
        let named = |name| figures.iter().find(|figure| figure.name == name);
        for (figure, what) in rows.iter().filter_map(|(name, what)| Some((named(*name)?, what))) {
            match (figure.name, Stall::of(*group)) {
                ("memory.max", Some(stall)) => limit(&mut text, group, stall),
                _ => row(&mut text, figure.name, &shown(figure.unit, figure.value), what),
            }
        }
        match title {
            "stored, MiB" => ratio(&mut text, group),
            "faults" => latencies(&mut text, group),
            _ => {}
        }
    }
    let trouble: Vec<_> = TROUBLE.iter().filter(|item| group.vmstat().get(**item) > 0).collect();
    if !trouble.is_empty() {
        text += "what went another way, times or pages\n";
    }
    for item in trouble {
        row(&mut text, item.name(), &group.vmstat().get(*item).to_string(), "");
    }
    text += &format!(
        "`uzswap stat --all` shows every counter, `uzswap get {}` the settings.\n",
        open.name
    );
    text
}

/// One that is automatic.
fn limit(text: &mut String, group: &Group, stall: Stall) {
    let what = format!("now {}, as long as {stall} is waited", Size(group.current()));
    row(text, "memory.max", memory_max::AUTO, &what);
}

pub(crate) fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}

fn ratio(text: &mut String, group: &Group) {
    let sum = |field| group.sum(field);
    let stored = sum(Field::Stored) * PAGE_SIZE as u64;
    let ratio = match sum(Field::Pool) {
        0 => "-".to_owned(),
        pool => format!("{:.2}", stored as f64 / pool as f64),
    };
    row(text, "ratio", &ratio, "before to after compression");
}

/// Percentiles of loads and stores.
fn latencies(text: &mut String, group: &Group) {
    let [load, store] = group.vmstat().histograms();
    let below = |buckets, share| match percentile(buckets, share) {
        0 => "-".to_owned(),
        ns => format!("< {:.1}", ns as f64 / 1000.0),
    };
    row(text, "load p50", &below(&load, 0.5), "us, a page");
    row(text, "load p99", &below(&load, 0.99), "us, a page");
    row(text, "store p50", &below(&store, 0.5), "us, a page");
}

/// The figures that changed: value, and by how much. Changes too small to be seen are none.
fn difference(before: &[Figure], now: &[Figure]) -> String {
    let mut text = String::new();
    for (old, new) in before.iter().zip(now).filter(|(old, new)| old.value != new.value) {
        let sign = if new.value < old.value { '-' } else { '+' };
        let change = shown(new.unit, new.value.abs_diff(old.value));
        if change == "0.0" {
            continue;
        }
        let change = format!("{sign}{change}");
        let unit = match new.unit {
            Unit::Bytes | Unit::Pages => "MiB",
            Unit::Nanoseconds => "s",
            Unit::Times => "",
        };
        let value = shown(new.unit, new.value);
        let _ = writeln!(text, "  {:<28} {value:>14} {change:>14} {unit}", new.name);
    }
    match text.is_empty() {
        true => "nothing changed\n".to_owned(),
        false => format!("changed:\n{text}"),
    }
}

#[cfg(test)]
mod test {
    use uzswap_ctl::{Limit, Statistic};

    use super::*;
    use crate::figures::test_group;

    #[test]
    fn sections_name_figures() {
        let figures = figures::of(&test_group());
        for (_, rows) in SECTIONS {
            for (name, what) in rows {
                assert!(figures.iter().any(|figure| figure.name == *name), "{name}");
                assert!(2 + 26 + 1 + 12 + 2 + what.len() <= 80, "{what}");
            }
        }
    }

    #[test]
    fn figures_are_shown_as_people_read_them() {
        assert_eq!(shown(Unit::Bytes, 3 << 19), "1.5");
        assert_eq!(shown(Unit::Pages, 256), "1.0");
        assert_eq!(shown(Unit::Bytes, u64::MAX), "max");
        assert_eq!(shown(Unit::Nanoseconds, 2_500_000_000), "2.5");
        assert_eq!(shown(Unit::Times, 1234), "1234");
        assert_eq!((processes(1), processes(0)), ("1 process".into(), "0 processes".into()));
    }

    #[test]
    fn a_difference_has_what_changed_alone() {
        let group = test_group();
        group.note(Statistic::Shmem, 3 << 20);
        group.set(Limit::MemoryMax, 64 << 20);
        let before = figures::of(&group);
        assert_eq!(difference(&before, &before), "nothing changed\n");
        group.note(Statistic::Shmem, 1 << 20);
        group.vmstat().add(Item::WaitedNs, 1_500_000_000);
        group.vmstat().add(Item::PgFault, 7);
        group.vmstat().add(Item::ZswpIn, 1);
        let text = difference(&before, &figures::of(&group));
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            &["changed:"][..],
            &["shmem", "1.0", "-2.0", "MiB"],
            &["pgfault", "7", "+7"],
            &["waited_ns", "1.5", "+1.5", "s"],
        ];
        assert_eq!(words, expected);
    }
}
