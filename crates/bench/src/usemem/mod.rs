//! A program that fills and re-reads its memory under `uzswap run`, one row of options after the
//! other.

mod metric;
mod pool_watch;
mod row;
mod trial;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Failure;
use crate::export::Sheet;
use crate::export::sheet::{SPREAD, spread};
use crate::options::Usemem;
use crate::samples::{Samples, change};
use crate::table::Table;
use metric::METRICS;
pub(crate) use pool_watch::open as open_group;
use row::Row;
use trial::{Figures, Program};

const QUICK_MB: u32 = 128;

/// A row and its rounds.
struct Measured {
    row: Row,
    rounds: Vec<Figures>,
}

impl Measured {
    fn samples(&self, metric: usize) -> Samples {
        self.rounds.iter().map(|figures| figures[metric]).collect()
    }
}

/// Measure and print.
pub(crate) fn run(options: &Usemem) -> Result<(), Failure> {
    let outputs = options.files.create()?;
    let program = program(options)?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut measured = chosen(&options.only)?;
    let mut number = 0;
    for round in 1..=rounds {
        for Measured { row, rounds } in &mut measured {
            number += 1;
            let figures = program.run(row, number)?;
            eprintln!(
                "round {round}: {}: write {:.1} MB/s, re-read {:.1} MB/s",
                row.full_name(),
                figures[0],
                figures[1]
            );
            rounds.push(figures);
        }
    }
    println!(
        "usemem {} MiB in {} MiB: medians of {rounds} rounds, in turn; (n%): highest less lowest, in percent of the median\n",
        program.mb, program.memory_max_mb
    );
    for block in measured.chunk_by(|a, b| a.row.block == b.row.block) {
        let title = format!("{}:", block[0].row.block);
        println!("{title}\n{}\n\n{}", "=".repeat(title.len()), table(block));
    }
    outputs.write(&[sheet(&measured)])
}

/// All tables as one, for programs.
fn sheet(measured: &[Measured]) -> Sheet {
    let what = ["folios", "family", "row", "metric"];
    let mut sheet = Sheet::new("usemem", what.into_iter().chain(SPREAD));
    for one in measured {
        for (at, metric) in METRICS.iter().enumerate() {
            let what = [&*one.row.block, &one.row.family, &one.row.name, metric.label];
            sheet.row(what.map(Value::from).into_iter().chain(spread(&one.samples(at))));
        }
    }
    sheet
}

fn program(options: &Usemem) -> Result<Program, Failure> {
    let mb = if options.quick { QUICK_MB } else { options.mb };
    Ok(Program {
        uzswap: find_in(options, "uzswap")?,
        workload: find_in(options, "uzswap-workload")?,
        mb,
        memory_max_mb: options.memory_max_mb.unwrap_or(mb / 4 * 3),
        run_options: options.run_options.clone(),
    })
}

/// A program of ours that lies where this one does.
pub(crate) fn find_beside(name: &str) -> Result<PathBuf, Failure> {
    let exe = std::env::current_exe().ok();
    find(exe.as_deref().and_then(Path::parent).unwrap_or(Path::new("")), name)
}

fn find_in(options: &Usemem, name: &str) -> Result<PathBuf, Failure> {
    match &options.bin_dir {
        Some(dir) => find(dir, name),
        None => find_beside(name),
    }
}

fn find(dir: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = dir.join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::new(format!(
        "{} is missing: build it with `cargo build --release --workspace`, or say where it is with --bin-dir",
        path.display()
    )))
}

fn chosen(only: &str) -> Result<Vec<Measured>, Failure> {
    let rows = row::all().into_iter().filter(|row| row.full_name().contains(only));
    let chosen: Vec<Measured> = rows
        .map(|row| Measured {
            row,
            rounds: Vec::new(),
        })
        .collect();
    if chosen.is_empty() {
        let example = row::all()[0].full_name();
        return Err(Failure::misuse(format!(
            "--only '{only}': no row has that in its name; one is '{example}'"
        )));
    }
    Ok(chosen)
}

/// A column for each row and a line for each metric, as the kernel's mailing lists print them.
fn table(block: &[Measured]) -> Table {
    let mut table = Table::default();
    table.rule();
    table.row(line("zswap compressor", block, |measured, _| {
        measured.row.family.clone()
    }));
    table.row(line("", block, |measured, _| measured.row.name.clone()));
    table.rule();
    for (at, metric) in METRICS.iter().enumerate() {
        table.row(line(metric.label, block, |measured, _| {
            metric.format(&measured.samples(at))
        }));
        if metric.is_time {
            table.row(line("", block, |measured, first| note(at, measured, first)));
        }
    }
    table.rule();
    table
}

/// `cell` of each row, and of the first of its family if that is another.
fn line(label: &str, block: &[Measured], cell: impl Fn(&Measured, Option<&Measured>) -> String) -> Vec<String> {
    let cells = block.iter().map(|measured| {
        let first = block.iter().find(|other| other.row.family == measured.row.family);
        cell(measured, first.filter(|first| first.row != measured.row))
    });
    std::iter::once(label.to_owned()).chain(cells).collect()
}

/// How far the rounds lie apart, and the change against the first of the family.
fn note(at: usize, measured: &Measured, first: Option<&Measured>) -> String {
    let samples = measured.samples(at);
    let spread = format!("({:.0}%)", samples.spread_percent());
    match first {
        None => spread,
        Some(first) => format!("{} {spread}", change(first.samples(at).median(), samples.median())),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::export::{self, Header};

    fn measured(name: &str, write: f64) -> Measured {
        let mut figures = [1.0; METRICS.len()];
        figures[0] = write;
        Measured {
            row: Row {
                block: "4K folios".to_owned(),
                family: "lz4".to_owned(),
                name: name.to_owned(),
                options: Vec::new(),
            },
            rounds: vec![figures],
        }
    }

    #[test]
    fn a_row_is_compared_with_the_first_of_its_family() {
        let text = table(&[measured("batch 1", 200.0), measured("batch 8", 250.0)]).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(
            lines[4].starts_with("write throughput (MB/s)") && lines[4].ends_with("250.00"),
            "{text}"
        );
        assert_eq!(
            lines[5].split_whitespace().collect::<Vec<_>>(),
            ["(0%)", "+25.0%", "(0%)"],
            "{text}"
        );
    }

    #[test]
    fn programs_get_a_row_for_each_metric() {
        let csv = export::csv(&Header::look("x"), &[sheet(&[measured("batch 1", 200.0)])]).unwrap();
        let first = "usemem,4K folios,lz4,batch 1,write throughput (MB/s),200.0,200.0,200.0,200.0,0.0\n";
        assert!(csv.contains(first), "{csv}");
        assert_eq!(csv.matches("usemem,4K folios").count(), METRICS.len());
    }

    #[test]
    fn an_unknown_row_is_refused_by_name() {
        let Err(Failure { line, .. }) = chosen("8K folios") else {
            panic!("there is no such row")
        };
        assert!(line.contains("8K folios"), "{line}");
    }
}
