//! The columns of the table: which there are, which fit, what is in them.

use super::rows::Row;
use crate::memory_max;
use uzswap_ctl::size::{Size, three_digits};

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Id,
    Bytes,
    /// Bytes, or a word.
    Limit,
    Ratio,
    PerSecond,
    Percent,
    /// Given in nanoseconds.
    Microseconds,
    /// It is no number.
    Text,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// To be shown and to sort by. `None`: not known, or not of such a row.
    pub(super) value: fn(&Row) -> Option<f64>,
    pub(super) help: &'static str,
}

/// Of the bytes that all rows have.
macro_rules! size {
    ($name:literal, $field:ident, $help:literal) => {
        column($name, Unit::Bytes, |row| Some(row.sizes.$field as f64), $help)
    };
}

/// In a second: the so-manieth of `look::RATES`.
macro_rules! rate {
    ($name:literal, $of:literal, $help:literal) => {
        column($name, Unit::PerSecond, |row| Some(row.rates?[$of]), $help)
    };
}

/// The first or the second of `Row::latencies`.
macro_rules! latency {
    ($name:literal, $of:literal, $help:literal) => {
        column($name, Unit::Microseconds, |row| Some(row.latencies?[$of] as f64), $help)
    };
}

/// From left to right.
pub(super) const ALL: [Column; 20] = [
    column(
        "PID",
        Unit::Id,
        |row| Some(row.key.pid? as f64),
        "process; of a group - or, folded, +",
    ),
    size!("MEM", charge, "charged to the limit"),
    column("MAX", Unit::Limit, |row| Some(row.max? as f64), "the limit, memory.max"),
    size!("RES", resident, "resident, managed"),
    size!("POOL", pool, "the compressed pool"),
    size!("DISK", swapped, "in the swap file"),
    column("RATIO", Unit::Ratio, ratio, "before to after compression"),
    rate!("FLT/S", 0, "faults served"),
    column(
        "WAIT%",
        Unit::Percent,
        |row| row.wait,
        "time in which a thread waits; a group's: of its worst",
    ),
    latency!("P50us", 0, "half of the loads take less"),
    latency!("P99us", 1, "99 % of the loads take less"),
    size!("LACKS", shortfall, "more would end most waiting"),
    size!("STORE", stored, "in the pool, before compression"),
    size!("STAGE", staged, "taken out, not yet stored"),
    size!("AGENT", agent, "the agent's own"),
    rate!("ZIN/S", 1, "pages decompressed"),
    rate!("ZOUT/S", 2, "pages compressed"),
    rate!("SWIN/S", 3, "pages read from the swap file"),
    rate!("SWOUT/S", 4, "pages written to the swap file"),
    column(
        "COMMAND",
        Unit::Text,
        |_| None,
        "command line; name of a group (processes)",
    ),
];

/// Which stay longest where there is little room. The first and the last of all always do.
const BY_IMPORTANCE: [&str; ALL.len() - 2] = [
    "MEM", "MAX", "FLT/S", "RES", "POOL", "WAIT%", "RATIO", "DISK", "P99us", "P50us", "LACKS", "ZIN/S", "ZOUT/S",
    "SWIN/S", "SWOUT/S", "STORE", "STAGE", "AGENT",
];
/// What is left for the last at least.
const COMMAND_LEAST: usize = 12;

const fn column(name: &'static str, unit: Unit, value: fn(&Row) -> Option<f64>, help: &'static str) -> Column {
    Column {
        name,
        unit,
        value,
        help,
    }
}

fn ratio(row: &Row) -> Option<f64> {
    let (stored, pool) = (row.sizes.stored, row.sizes.pool);
    (pool > 0).then(|| stored as f64 / pool as f64)
}

/// How many are more important than the one of that name.
pub(super) fn rank(name: &str) -> usize {
    let found = BY_IMPORTANCE.iter().position(|other| *other == name);
    found.expect("names are of columns")
}

/// The column of that name.
pub(super) fn named(name: &str) -> &'static Column {
    let found = ALL.iter().find(|column| column.name == name);
    found.expect("names are of columns")
}

impl Column {
    /// Without the space before it. The last takes what is left.
    pub(super) fn width(&self) -> usize {
        match self.unit {
            Unit::Id => 7,
            _ => self.name.len().max(5),
        }
    }

    /// What is in a row, at most so wide as the column but for the last.
    pub(super) fn text(&self, row: &Row) -> String {
        let value = (self.value)(row);
        match (self.unit, value) {
            (Unit::Text, _) => row.label.clone(),
            // What a process never has.
            (_, None) if row.key.pid.is_some() || self.unit == Unit::Id => String::new(),
            (_, None) => "-".to_owned(),
            (Unit::Id, Some(id)) => id.to_string(),
            (Unit::Limit, Some(0.0)) => memory_max::AUTO.to_owned(),
            (Unit::Bytes | Unit::Limit, Some(bytes)) => Size(bytes as u64).short(),
            (Unit::Ratio, Some(ratio)) => format!("{:.2}", ratio.min(99.99)),
            (Unit::PerSecond, Some(rate)) => three_digits(rate, 1000.0),
            (Unit::Percent, Some(percent)) => format!("{percent:.0}"),
            (Unit::Microseconds, Some(ns)) if ns < 1e5 => format!("{:.1}", ns / 1000.0),
            (Unit::Microseconds, Some(ns)) => three_digits(ns / 1000.0, 1000.0),
        }
    }
}

/// The columns that fit, from left to right.
pub(super) fn fitting(width: usize) -> Vec<&'static Column> {
    let [first, .., last] = &ALL;
    let mut left = width.saturating_sub(first.width() + 1 + COMMAND_LEAST);
    let mut fits = |name: &&&str| {
        let more = named(name).width() + 1;
        let fits = left >= more;
        // None that is less important takes the room of one that did not fit.
        left = if fits { left - more } else { 0 };
        fits
    };
    let chosen: Vec<&str> = BY_IMPORTANCE.iter().filter(&mut fits).copied().collect();
    let is_chosen = |column: &&Column| [first.name, last.name].contains(&column.name) || chosen.contains(&column.name);
    ALL.iter().filter(is_chosen).collect()
}

#[cfg(test)]
mod test {
    use super::super::rows::branches;
    use super::super::rows::test::{group, process};
    use super::*;

    fn names(width: usize) -> String {
        let names: Vec<_> = fitting(width).iter().map(|column| column.name).collect();
        names.join(" ")
    }

    #[test]
    fn each_has_a_name_and_a_place() {
        for (i, column) in ALL.iter().enumerate() {
            assert_eq!(ALL.iter().position(|other| other.name == column.name), Some(i));
            let times = BY_IMPORTANCE.iter().filter(|name| **name == column.name).count();
            assert_eq!(times, usize::from((1..ALL.len() - 1).contains(&i)), "{}", column.name);
        }
    }

    #[test]
    fn the_less_important_go_first() {
        assert_eq!(names(10), "PID COMMAND");
        assert_eq!(names(40), "PID MEM MAX FLT/S COMMAND");
        assert_eq!(
            names(80),
            "PID MEM MAX RES POOL DISK RATIO FLT/S WAIT% P50us P99us COMMAND"
        );
        assert_eq!(fitting(160).len(), ALL.len());
        let used = |width| fitting(width).iter().map(|column| column.width() + 1).sum::<usize>();
        for width in 40..300 {
            assert!(used(width) - "COMMAND ".len() + COMMAND_LEAST <= width, "{width}");
        }
    }

    #[test]
    fn a_cell_is_as_wide_as_its_column() {
        let mut now = group("web", 1 << 40, &[process(4_194_304, "a", 1 << 40)]);
        now.counts = [u32::MAX.into(); 5];
        now.loads[31] = 1;
        let before = group("web", 0, &[process(4_194_304, "a", 0)]);
        let huge = branches(&[before], &[now], 1e-3).remove(0);
        let small = branches(&[], &[group("web", 0, &[process(1, "a", 0)])], 1.0).remove(0);
        for branch in [huge, small] {
            for row in std::iter::once(&branch.heading).chain(&branch.processes) {
                for column in &ALL[..ALL.len() - 1] {
                    let text = column.text(row);
                    assert!(text.len() <= column.width(), "{}: {text}", column.name);
                }
            }
        }
    }

    #[test]
    fn values_are_shown_as_people_read_them() {
        let mut now = group("web", 64, &[process(7, "a b", 3)]);
        now.counts[0] = 12_345;
        now.loads[5] = 1;
        now.max = u64::MAX;
        let web = branches(&[group("web", 64, &[])], &[now], 1.0).remove(0);
        let texts = |row: &Row| fitting(80).iter().map(|column| column.text(row)).collect::<Vec<_>>();
        assert_eq!(
            texts(&web.heading),
            [
                "", "64.0M", "max", "48.0M", "12.8M", "8.00M", "2.50", "12.3K", "-", "2.0", "2.0", "web (1)"
            ]
        );
        assert_eq!(
            texts(&web.processes[0]),
            ["7", "3.00M", "", "2.25M", "614K", "384K", "2.50", "", "", "", "", "a b"]
        );
    }
}
