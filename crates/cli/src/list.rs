//! `uzswap list`: the running groups, a line each.

use std::time::SystemTime;

use serde_json::{Value, json};
use uzswap_ctl::Field;
use uzswap_mm::page::PAGE_SIZE;

use crate::Failure;
use crate::again::json_text;
use crate::group::{self, OpenGroup};
use crate::look_options::ListOptions;
use crate::output::warn_line;
use crate::{memory_max, report};

const MIB: f64 = (1 << 20) as f64;
const MAX: &str = "MAX";
const COLUMNS: [&str; 6] = ["CURRENT", MAX, "RESIDENT", "POOL", "STORED", "SWAP"];
/// As [`object`] names them. A group has no `pid`, a process no `processes`.
const CSV: [&str; 11] = [
    "time",
    "group",
    "pid",
    "processes",
    "memory.current",
    "memory.max",
    "anon_resident",
    "pool_total_size",
    "zswapped",
    "memory.swap.current",
    "shortfall",
];
/// A longer name has a line of its own.
const NAME_WIDTH: usize = 20;

/// A group or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    /// `None`: it is a process.
    processes: Option<usize>,
    /// Bytes, for each column; `None`: it has none.
    sizes: [Option<u64>; COLUMNS.len()],
}

/// `uzswap list`
pub(crate) fn list(options: &ListOptions) -> Result<u8, Failure> {
    let mut before: Option<Vec<Row>> = None;
    let again = &options.again;
    let mut is_first = true;
    for name in group::of_other_versions()? {
        warn_line!("uzswap: group '{name}' is run by another version of uzswap, whose own `uzswap list` shows it");
    }
    again.show(!options.json && !options.csv, || {
        let groups = group::running()?;
        if options.csv {
            return Ok(Some(csv(&groups, options.all, std::mem::take(&mut is_first))));
        }
        if options.json {
            let all = groups.iter().map(|open| object(open, options.all)).collect();
            return Ok(Some(json_text(&Value::Array(all), again.repeats())));
        }
        let rows: Vec<Row> = groups.iter().flat_map(|open| rows(open, options.all)).collect();
        let text = table(&rows, before.as_deref().filter(|_| again.diff));
        before = Some(rows);
        Ok(Some(text))
    })
}

/// What `uzswap stat --json` says of the most important, under the same names.
fn object(open: &OpenGroup, has_processes: bool) -> Value {
    let group = &open.group;
    let mut object = json!({
        "group": open.name,
        "memory.current": group.current(),
        "memory.max": report::memory_max(group),
        "anon_resident": group.sum(Field::Resident),
        "pool_total_size": group.sum(Field::Pool),
        "zswapped": pages(group.sum(Field::Stored)),
        "memory.swap.current": pages(group.sum(Field::Swapped)),
        "shortfall": group.sum(Field::Shortfall),
    });
    let process = |slot| {
        let field = |field| group.field(slot, field);
        json!({
            "pid": field(Field::Pid),
            "memory.current": field(Field::Charge),
            "anon_resident": field(Field::Resident),
            "pool_total_size": field(Field::Pool),
            "zswapped": pages(field(Field::Stored)),
            "memory.swap.current": pages(field(Field::Swapped)),
            "shortfall": field(Field::Shortfall),
        })
    };
    object["processes"] = match has_processes {
        true => open.processes().map(process).collect(),
        false => json!(open.processes().count()),
    };
    object
}

/// A line for each group, and with `has_processes` one for each process below it. Looks are told
/// apart by their time.
fn csv(groups: &[OpenGroup], has_processes: bool, is_first: bool) -> String {
    let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
    let mut text = if is_first { CSV.join(",") + "\n" } else { String::new() };
    for open in groups {
        let group = object(open, has_processes);
        let processes = group["processes"].as_array().into_iter().flatten();
        for row in std::iter::once(&group).chain(processes) {
            let cells = CSV.map(|column| match (column, &row[column]) {
                ("time", _) => format!("{time:.3}"),
                ("group", _) => open.name.clone(),
                (_, Value::Null) => String::new(),
                (_, Value::Array(processes)) => processes.len().to_string(),
                (_, Value::String(text)) => text.clone(),
                (_, value) => value.to_string(),
            });
            text += &(cells.join(",") + "\n");
        }
    }
    text
}

fn pages(count: u64) -> u64 {
    count * PAGE_SIZE as u64
}

fn rows(open: &OpenGroup, has_processes: bool) -> Vec<Row> {
    let group = &open.group;
    let sum = |field| group.sum(field);
    let mut rows = vec![Row {
        name: open.name.clone(),
        processes: Some(open.processes().count()),
        sizes: sizes(Some(group.current()), Some(memory_max::word_of(*group)), sum),
    }];
    let process = |slot| {
        let field = |field| group.field(slot, field);
        let pid = field(Field::Pid);
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Row {
            name: format!("  {pid} {}", comm.trim()),
            processes: None,
            sizes: sizes(Some(field(Field::Charge)), None, field),
        }
    };
    if has_processes {
        rows.extend(open.processes().map(process));
    }
    rows
}

fn sizes(current: Option<u64>, max: Option<u64>, of: impl Fn(Field) -> u64) -> [Option<u64>; COLUMNS.len()] {
    let (stored, swapped) = (pages(of(Field::Stored)), pages(of(Field::Swapped)));
    let rest = [of(Field::Resident), of(Field::Pool), stored, swapped].map(Some);
    let [resident, pool, stored, swapped] = rest;
    [current, max, resident, pool, stored, swapped]
}

/// Sizes in MiB; where there was a look before, by how much they changed. 80 columns, unless
/// something is huge.
fn table(rows: &[Row], before: Option<&[Row]>) -> String {
    let mut text = format!("{:<NAME_WIDTH$} {:>5}", "GROUP, MiB", "PROCS");
    COLUMNS.iter().for_each(|name| text += &format!(" {name:>8}"));
    text.push('\n');
    for row in rows {
        let name = &row.name;
        text += &match name.chars().count() > NAME_WIDTH {
            true => format!("{name}\n{:<NAME_WIDTH$}", ""),
            false => format!("{name:<NAME_WIDTH$}"),
        };
        let processes = row.processes.map_or_else(String::new, |count| count.to_string());
        text += &format!(" {processes:>5}");
        let old = before.and_then(|before| before.iter().find(|old| old.name == *name));
        for (i, size) in row.sizes.iter().enumerate() {
            let cell = match size {
                None => String::new(),
                Some(memory_max::AUTO_WORD) if COLUMNS[i] == MAX => memory_max::AUTO.to_owned(),
                Some(size) => cell(*size, old.and_then(|old| old.sizes[i])),
            };
            text += &format!(" {cell:>8}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let is_gone = |old: &&Row| !rows.iter().any(|row| row.name == old.name);
    for gone in before.unwrap_or_default().iter().filter(is_gone) {
        text += &format!("{} has ended\n", gone.name);
    }
    if rows.is_empty() {
        text += "no group is running: groups are looked for in $TMPDIR/uzswap-UID\n";
    }
    text
}

/// A size, or by how much it differs from the one before.
fn cell(size: u64, before: Option<u64>) -> String {
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / MIB);
    match before {
        Some(before) if before == size => "=".to_owned(),
        Some(before) if before < size && size < u64::MAX => format!("+{}", mib(size - before)),
        Some(before) if before < u64::MAX && size < before => format!("-{}", mib(before - size)),
        _ if size == u64::MAX => "max".to_owned(),
        _ => mib(size),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn row(name: &str, current: u64, max: u64) -> Row {
        Row {
            name: name.to_owned(),
            processes: Some(2),
            sizes: [current, max, 3 * MIB, MIB / 2, 3 * MIB, 0].map(Some),
        }
    }

    #[test]
    fn a_table_has_80_columns() {
        let long = "a-name-of-a-group-that-is-longer-than-its-column-and-as-long-as-it-may";
        let text = table(
            &[row("web", 64 * MIB + MIB / 2, 999_999 * MIB), row(long, 0, u64::MAX)],
            None,
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["web", "2", "64.5", "999999.0", "3.0", "0.5", "3.0", "0.0"]);
        assert_eq!(words[2], [long]);
        assert_eq!(words[3], ["2", "0.0", "max", "3.0", "0.5", "3.0", "0.0"]);
        let text = table(&[row("job", MIB, memory_max::AUTO_WORD)], None);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words, ["job", "2", "1.0", "auto", "3.0", "0.5", "3.0", "0.0"]);
        assert!(table(&[], None).contains("\nno group is running: "));
    }

    #[test]
    fn a_second_table_says_what_changed() {
        let before = [row("web", 4 * MIB, 8 * MIB), row("gone", 0, 0)];
        let now = [row("web", 5 * MIB, 6 * MIB), row("new", MIB, u64::MAX)];
        let text = table(&now, Some(&before));
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["web", "2", "+1.0", "-2.0", "=", "=", "=", "="]);
        assert_eq!(words[2], ["new", "2", "1.0", "max", "3.0", "0.5", "3.0", "0.0"]);
        assert_eq!(words[3], ["gone", "has", "ended"]);
    }

    #[test]
    fn a_limit_that_is_lifted_or_set_is_told_itself() {
        assert_eq!(cell(u64::MAX, Some(5)), "max");
        assert_eq!(cell(5 * MIB, Some(u64::MAX)), "5.0");
        assert_eq!(cell(u64::MAX, Some(u64::MAX)), "=");
    }
}
