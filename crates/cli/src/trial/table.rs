//! What was measured, for people.

use uzswap_bench::Samples;

use super::row::{Baseline, Outcome, Row};
use super::{Tried, knee, told};
use uzswap_ctl::size::Size;

/// Times that differ by less are the same.
const STEADY: f64 = 1.05;
const COLUMNS: usize = 9;
const WIDTHS: [usize; COLUMNS] = [7, 8, 14, 8, 9, 8, 8, 8, 0];
type Cells = [String; COLUMNS];

fn head() -> Cells {
    [
        "limit", "of peak", "time, s", "slower", "memory", "loaded", "waited", "written", "",
    ]
    .map(str::to_owned)
}

/// With so many digits as matter.
fn seconds(seconds: f64) -> String {
    let digits = match seconds {
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    format!("{seconds:.digits$}")
}

fn time(samples: &Samples) -> String {
    match samples.min() < samples.max() {
        true => format!(
            "{} ± {}",
            seconds(samples.median()),
            seconds(samples.standard_deviation())
        ),
        false => seconds(samples.median()),
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1}M", bytes as f64 / f64::from(1 << 20))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn first(baseline: &Baseline) -> Cells {
    let mut cells = Cells::default();
    cells[0] = "none".to_owned();
    cells[2] = time(&baseline.seconds);
    cells[4] = mib(baseline.peak);
    cells
}

fn cells(row: &Row, baseline: &Baseline) -> Cells {
    let counted = |text: String| if row.is_counted() { text } else { "-".to_owned() };
    [
        Size(row.memory_max).exact(),
        row.share(baseline).map_or("-".to_owned(), percent),
        time(&row.seconds()),
        slower(row, baseline),
        counted(mib(row.peak())),
        counted(mib(row.loaded())),
        counted(percent(row.waited_share())),
        counted(mib(row.written())),
        row.outcome(baseline).name().to_owned(),
    ]
}

fn slower(row: &Row, baseline: &Baseline) -> String {
    match row.outcome(baseline) {
        Outcome::Failed | Outcome::Killed => "-".to_owned(),
        Outcome::GivenUp => format!("> {:.1}x", row.slower(baseline)),
        Outcome::Same | Outcome::Differs => format!("{:.2}x", row.slower(baseline)),
    }
}

/// A line of 80 columns, unless a figure is very large.
fn line(cells: &Cells) -> String {
    let columns = cells.iter().zip(WIDTHS).map(|(cell, width)| match width {
        0 => format!("  {cell}"),
        _ => format!("{cell:>width$}"),
    });
    columns.collect::<String>().trim_end().to_owned() + "\n"
}

/// How the table begins: what is compared with.
pub(crate) fn beginning(baseline: &Baseline) -> String {
    line(&head()) + &line(&first(baseline))
}

/// Its next line.
pub(crate) fn next(row: &Row, baseline: &Baseline) -> String {
    line(&cells(row, baseline))
}

/// All of it.
pub(crate) fn markdown(tried: &Tried<'_>) -> String {
    let row = |cells: Cells| format!("| {} |\n", cells.join(" | "));
    let of_limits = tried.rows.iter().map(|row| cells(row, &tried.baseline));
    let rows = std::iter::once(first(&tried.baseline)).chain(of_limits);
    let mut head = head();
    head[COLUMNS - 1] = "outcome".to_owned();
    format!(
        "{}|{}\n{}",
        row(head),
        "---:|".repeat(COLUMNS),
        rows.map(row).collect::<String>()
    )
}

/// What is to be said of rows, and the limit to take.
pub(crate) fn conclusion(tried: &Tried<'_>) -> String {
    let of_rows = tried.rows.iter().filter_map(|row| remark(row, &tried.baseline));
    let varies = tried.baseline.fingerprint.is_none();
    let varies = varies.then(|| "what it prints is not the same from run to run, so it was not compared".to_owned());
    let lines = of_rows.chain(varies).chain(unsteady(tried)).chain([knee::line(tried)]);
    lines.map(|line| line + "\n").collect()
}

/// Where the machine has changed by more than what is to be decided.
fn unsteady(tried: &Tried<'_>) -> Option<String> {
    let (first, again) = (tried.baseline.seconds.median(), tried.again?);
    let ratio = (first / again).max(again / first);
    (ratio > tried.options.slowdown.max(STEADY)).then(|| {
        format!(
            "without a limit it took {} s at first and {} s in the end: where the machine has other work, --runs 5 tells more",
            seconds(first),
            seconds(again)
        )
    })
}

fn remark(row: &Row, baseline: &Baseline) -> Option<String> {
    let limit = Size(row.memory_max).exact();
    Some(match row.outcome(baseline) {
        Outcome::Same => return None,
        Outcome::Differs => format!("at {limit} it printed something else than without a limit"),
        Outcome::Failed => format!("at {limit} it failed {}", row.last().map(told).unwrap_or_default()),
        Outcome::GivenUp => format!(
            "at {limit} it was ended after {} s (--give-up); nothing lower was tried",
            seconds(row.seconds().max())
        ),
        Outcome::Killed => format!("at {limit} it was killed for want of memory; nothing lower was tried"),
    })
}

#[cfg(test)]
mod test {
    use super::super::row::test::{baseline, row};
    use super::*;

    #[test]
    fn a_line_has_80_columns() {
        let mut widest = row(16 << 30, &[123.4, 999.9]);
        widest.runs[0].counters["memory.peak"] = (16u64 << 30).into();
        for text in [beginning(&baseline()), next(&widest, &baseline())] {
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
        let text = next(&row(70 << 20, &[1.1]), &baseline());
        let words: Vec<&str> = text.split_whitespace().collect();
        let expected = [
            "70M", "70", "%", "1.100", "1.10x", "69.0M", "1.0M", "50", "%", "2.0M", "ok",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn digits_are_those_that_matter() {
        assert_eq!(
            [0.0314, 9.9, 12.345, 1234.5].map(seconds),
            ["0.031", "9.900", "12.35", "1234.5"]
        );
        assert_eq!(time(&[2.0, 1.0, 4.5].into_iter().collect()), "2.000 ± 1.472");
    }
}
