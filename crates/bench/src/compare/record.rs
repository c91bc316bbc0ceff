//! A small JSON for each full run, kept in the repository, so that a regression shows.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::promises::{self, Row};
use super::results::Results;
use crate::Failure;

const SUFFIX: &str = "-compare.json";

/// What is kept of a run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    date: String,
    commit: String,
    kernel: String,
    cpu: String,
    cpus: usize,
    pairs: u32,
    seconds: f64,
    promises: Vec<Row>,
    /// By workload, side and metric.
    medians: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

impl Record {
    fn new(results: &Results) -> Self {
        let of_workload = |workload: &super::results::WorkloadResult| {
            let of_side = |side: super::Side| {
                let metrics = workload.metrics.iter();
                let medians = metrics.filter_map(|metric| {
                    let median = workload.median(side, &metric.key)?;
                    Some((metric.key.clone(), (median * 1000.0).round() / 1000.0))
                });
                (side.name().to_owned(), medians.collect())
            };
            (
                workload.name.clone(),
                workload.sides().into_iter().map(of_side).collect(),
            )
        };
        Self {
            date: results.date.clone(),
            commit: results.commit.clone(),
            kernel: results.machine.kernel.clone(),
            cpu: results.machine.cpu.clone(),
            cpus: results.machine.cpus,
            pairs: results.pairs,
            seconds: results.seconds.round(),
            promises: promises::rows(results),
            medians: results.workloads.iter().map(of_workload).collect(),
        }
    }

    pub(crate) fn date(&self) -> &str {
        &self.date
    }

    /// What was measured for a promise then.
    pub(crate) fn measured_text(&self, figure: &str) -> String {
        let row = self.promises.iter().find(|row| row.figure == figure);
        row.map_or("-".to_owned(), Row::measured_text)
    }
}

/// The latest record in `dir` of the same kind of machine, from before `results`.
pub(crate) fn last(dir: &Path, results: &Results) -> Option<Record> {
    let entries = std::fs::read_dir(dir).ok()?;
    let paths = entries.flatten().map(|entry| entry.path());
    let records = paths
        .filter(|path| path.to_string_lossy().ends_with(SUFFIX))
        .filter_map(|path| serde_json::from_str::<Record>(&std::fs::read_to_string(path).ok()?).ok());
    let is_alike = |record: &Record| {
        let machine = &results.machine;
        record.cpu == machine.cpu && record.cpus == machine.cpus && record.date < results.date
    };
    records.filter(is_alike).max_by(|a, b| a.date.cmp(&b.date))
}

/// Add one.
pub(crate) fn write(results: &Results, dir: &Path) -> Result<(), Failure> {
    let name = format!("{}{SUFFIX}", results.date.replace(':', ""));
    let text = serde_json::to_string_pretty(&Record::new(results)).map_err(|e| Failure::new(format!("{name}: {e}")))?;
    super::write(dir, &name, &format!("{text}\n"))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::machine::Machine;
    use crate::compare::results::test::workload;

    fn results(date: &str) -> Results {
        Results {
            date: date.to_owned(),
            commit: "abc".to_owned(),
            is_quick: false,
            pairs: 2,
            seconds: 1.2,
            machine: Machine::default(),
            skipped: Vec::new(),
            workloads: vec![workload()],
        }
    }

    #[test]
    fn the_latest_of_the_same_machine_is_found() {
        let dir = std::env::temp_dir().join(format!("uzswap-records-{}", std::process::id()));
        for date in ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"] {
            write(&results(date), &dir).unwrap();
        }
        let found = last(&dir, &results("2026-01-03T00:00:00Z")).unwrap();
        assert_eq!(found.date(), "2026-01-02T00:00:00Z");
        assert_eq!(
            found.measured_text("usemem write, 1 process: throughput / kernel zswap"),
            "2.67x"
        );
        assert_eq!(found.medians["usemem-write"]["uzswap"]["write.rate"], 400.0);
        assert!(last(&dir, &results("2026-01-01T00:00:00Z")).is_none());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
