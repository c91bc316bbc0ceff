//! The report as plain text: a table for each workload, a column for each side.

use super::change;
use super::programs;
use super::promises;
use super::record::Record;
use super::results::{Metric, Results, WorkloadResult};
use super::side::Side;
use crate::table::{Table, grouped};

/// Counters that are shown, in this order.
pub(super) const COUNTERS: [&str; 9] = [
    "zswpout",
    "zswpin",
    "zswpwb",
    "swpout_zero",
    "swpin_zero",
    "pswpout",
    "pswpin",
    "pgmajfault",
    "swap_ra",
];

/// Everything.
pub(super) fn report(results: &Results, last: Option<&Record>) -> String {
    let mut text = heading(results);
    for workload in &results.workloads {
        let line = "=".repeat(workload.title.chars().count());
        let sentence = &workload.description;
        text += &format!("\n{}\n{line}\n{sentence}\n\n{}", workload.title, table(workload));
    }
    text + &programs::section(results) + &bar(results, last)
}

fn heading(results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "uzswap bench of {}, commit {}\n{} processors, {}, {} of memory, Linux {}\n",
        results.date,
        results.commit,
        machine.cpus,
        machine.cpu,
        mib(machine.memory),
        machine.kernel
    );
    let settings: Vec<String> = machine
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    text += &format!("{}\n", settings.join(", "));
    text += &format!(
        "Medians of {} pairs, sides in turn; (n%): highest less lowest, in percent of the median.\n",
        results.pairs
    );
    text += "Equal memory: resident memory (RssAnon; of Redis, which forks, what is charged) and pool together. Neither side's pool \
             is limited by itself.\n";
    if results.is_quick {
        text += "A quick run: small sizes, which are not those of the bar.\n";
    }
    results.skipped.iter().for_each(|line| text += &format!("{line}\n"));
    text
}

fn table(workload: &WorkloadResult) -> Table {
    let sides = workload.sides();
    let compares = sides.contains(&Side::Zswap) && sides.contains(&Side::Uzswap);
    let mut table = Table::default();
    let mut head = vec![String::new()];
    head.extend(sides.iter().map(|side| side.name().to_owned()));
    if compares {
        head.push("uzswap vs. kernel zswap".to_owned());
    }
    table.rule();
    table.row(head);
    table.rule();
    for metric in &workload.metrics {
        metric_rows(&mut table, workload, &sides, metric, compares);
    }
    table.rule();
    for name in COUNTERS {
        let values: Vec<Option<f64>> = sides.iter().map(|side| workload.counter(*side, name)).collect();
        if values.iter().flatten().any(|value| *value > 0.0) {
            let cells = values
                .iter()
                .map(|value| value.map_or("-".to_owned(), |value| grouped(value as u64)));
            table.row(std::iter::once(name.to_owned()).chain(cells));
        }
    }
    table.rule();
    memory_rows(&mut table, workload, &sides);
    table.rule();
    table
}

fn metric_rows(table: &mut Table, workload: &WorkloadResult, sides: &[Side], metric: &Metric, compares: bool) {
    let samples: Vec<_> = sides.iter().map(|side| workload.samples(*side, &metric.key)).collect();
    if samples.iter().all(Option::is_none) {
        return;
    }
    let unit = if metric.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", metric.unit)
    };
    let mut cells = vec![format!("{}{unit}", metric.label)];
    let mut spreads = vec![String::new()];
    for samples in &samples {
        cells.push(
            samples
                .as_ref()
                .map_or("-".to_owned(), |s| number(s.median(), metric.digits)),
        );
        spreads.push(
            samples
                .as_ref()
                .map_or(String::new(), |s| format!("({:.0}%)", s.spread_percent())),
        );
    }
    if compares {
        let medians = (
            workload.median(Side::Zswap, &metric.key),
            workload.median(Side::Uzswap, &metric.key),
        );
        cells.push(match medians {
            (Some(kernel), Some(uzswap)) => change(kernel, uzswap),
            _ => String::new(),
        });
    }
    table.row(cells);
    table.row(spreads);
}

fn memory_rows(table: &mut Table, workload: &WorkloadResult, sides: &[Side]) {
    let memory: Vec<_> = sides.iter().map(|side| workload.memory(*side)).collect();
    if memory.iter().all(|memory| memory.total_peak == 0) {
        return;
    }
    let mut row = |name: &str, read: &dyn Fn(&super::results::MemoryUse) -> String| {
        let cells = memory.iter().map(read);
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    row("resident, largest", &|memory| mib(memory.resident_peak));
    row("pool, largest", &|memory| mib(memory.pool_peak));
    row("both at a time, largest", &|memory| mib(memory.total_peak));
    row("may have", &|memory| match memory.target {
        0 => "-".to_owned(),
        target => mib(target),
    });
    row(
        "equal memory",
        &|memory| match (memory.off_target(), memory.is_held()) {
            (Some(off), Some(is_held)) => {
                let verdict = if is_held { "held" } else { "NOT HELD" };
                format!("{verdict} ({:+.1}%)", off * 100.0)
            }
            _ => "-".to_owned(),
        },
    );
    row("swap device, largest", &|memory| mib(memory.disk_peak));
    let kills = |side: &Side| workload.runs_of(*side).map(|run| run.oom_kills).sum::<u32>();
    if sides.iter().any(|side| kills(side) > 0) {
        let cells = sides.iter().map(|side| kills(side).to_string());
        table.row(std::iter::once("runs repeated after an OOM kill".to_owned()).chain(cells));
    }
}

fn bar(results: &Results, last: Option<&Record>) -> String {
    let mut table = Table::default();
    table.rule();
    let mut head = vec![
        "figure".to_owned(),
        "target".to_owned(),
        "measured".to_owned(),
        String::new(),
    ];
    head.extend(last.map(|last| format!("on {}", last.date())));
    table.row(head);
    table.rule();
    for row in promises::rows(results) {
        let before = last.map(|last| last.measured_text(&row.figure));
        let (measured, verdict) = (row.measured_text(), row.verdict().to_owned());
        table.row([row.figure, row.target, measured, verdict].into_iter().chain(before));
    }
    table.rule();
    format!("\nThe bar\n=======\n{table}")
}

/// With commas between thousands, and so many digits behind the point.
pub(super) fn number(value: f64, digits: usize) -> String {
    let rounded = format!("{value:.digits$}");
    let (whole, fraction) = rounded.split_once('.').unwrap_or((&rounded, ""));
    let Ok(whole) = whole.parse::<u64>() else {
        return rounded;
    };
    match fraction {
        "" => grouped(whole),
        _ => format!("{}.{fraction}", grouped(whole)),
    }
}

/// Bytes in MiB.
pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", grouped((bytes + (1 << 19)) >> 20))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::results::test::workload;

    #[test]
    fn a_column_for_each_side() {
        let text = table(&workload()).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].contains("kernel zswap") && lines[1].ends_with("uzswap vs. kernel zswap"),
            "{text}"
        );
        let cells: Vec<&str> = lines[3]
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        assert_eq!(cells, ["write (MB/s)", "150.0", "400.0", "+166.7%"]);
        assert!(text.contains("zswpout"), "{text}");
    }

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(number(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(number(0.5, 0), "0");
        assert_eq!(number(-3.25, 1), "-3.2");
        assert_eq!(mib(384 << 20), "384 MiB");
    }
}
