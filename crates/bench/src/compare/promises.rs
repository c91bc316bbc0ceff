//! The bar: what SPECIFICATION.md promises, and what was measured.

use serde::{Deserialize, Serialize};

use super::results::{Results, WorkloadResult};
use super::side::Side;

/// What a figure is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

struct Promise {
    figure: &'static str,
    target: Target,
    /// Behind the number.
    unit: &'static str,
    measure: fn(&Results) -> Option<f64>,
}

/// A promise and its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) target: String,
    pub(crate) unit: String,
    /// `None`: it was not measured.
    pub(crate) measured: Option<f64>,
    pub(crate) is_met: bool,
    /// How far: 1 is just met, more is better.
    pub(crate) share: Option<f64>,
}

const PROMISES: [Promise; 16] = [
    at_least("usemem write, 1 process: throughput / kernel zswap", 2.5, |r| {
        against_kernel(r, "usemem-write", "write.rate")
    }),
    at_least("usemem write, 2 processes: throughput / kernel zswap", 1.7, |r| {
        against_kernel(r, "usemem-write-2", "write.rate")
    }),
    at_most(
        "usemem write: CPU seconds per GiB stored / kernel zswap",
        0.6,
        "x",
        |r| against_kernel(r, "usemem-write", "cpu_per_gib"),
    ),
    at_least("usemem sequential re-read: throughput / kernel zswap", 4.0, |r| {
        against_kernel(r, "usemem-read", "seq.rate")
    }),
    at_most("random touch: fault p50 / kernel zswap", 0.7, "x", |r| {
        against_kernel(r, "usemem-read", "rand.p50")
    }),
    at_most("random touch: fault p99 / kernel zswap", 0.25, "x", |r| {
        against_kernel(r, "usemem-read", "rand.p99")
    }),
    at_most(
        "paging at 2 MiB: CPU per stored page / compressor alone",
        1.15,
        "x",
        paging_cost,
    ),
    at_least("Redis GET uniform, 55 % resident: rate / kernel zswap", 1.5, |r| {
        against_kernel(r, "redis", "uniform.rate")
    }),
    at_least("Redis GET uniform during BGSAVE: rate / kernel zswap", 1.5, |r| {
        against_kernel(r, "redis", "bgsave.rate")
    }),
    at_most("build at 60 % of its peak: real time / kernel zswap", 0.95, "x", |r| {
        against_kernel(r, "build", "elapsed")
    }),
    at_most("idle-heavy at 40 %: slowdown against no limit", 5.0, "%", |r| {
        slowdown(r.workload("idle-heavy")?, "work.seconds")
    }),
    at_most(
        "a limit never reached, write: slowdown against no limit",
        1.0,
        "%",
        |r| slowdown(r.workload("headroom")?, "write.seconds"),
    ),
    at_most(
        "a limit never reached, re-read: slowdown against no limit",
        1.0,
        "%",
        |r| slowdown(r.workload("headroom")?, "seq.seconds"),
    ),
    at_most(
        "a limit never reached, whole run: slowdown against no limit",
        1.0,
        "%",
        |r| slowdown(r.workload("headroom")?, "elapsed"),
    ),
    at_most("start-up of `true`: more than without", 5.0, "ms", |r| {
        let start = r.workload("start")?;
        Some(start.median(Side::Uzswap, "start_ms")? - start.median(Side::NoLimit, "start_ms")?)
    }),
    at_least("1 to 2 fault-heavy threads: faults a second, 2 / 1", 1.6, |r| {
        let read = r.workload("usemem-read")?;
        Some(read.median(Side::Uzswap, "rand:t2.faults")? / read.median(Side::Uzswap, "rand.faults")?)
    }),
];

const fn at_least(figure: &'static str, least: f64, measure: fn(&Results) -> Option<f64>) -> Promise {
    Promise {
        figure,
        target: Target::AtLeast(least),
        unit: "x",
        measure,
    }
}

const fn at_most(figure: &'static str, most: f64, unit: &'static str, measure: fn(&Results) -> Option<f64>) -> Promise {
    Promise {
        figure,
        target: Target::AtMost(most),
        unit,
        measure,
    }
}

fn against_kernel(results: &Results, workload: &str, key: &str) -> Option<f64> {
    results.workload(workload)?.ratio(Side::Uzswap, Side::Zswap, key)
}

/// Percent more time than without a limit.
fn slowdown(workload: &WorkloadResult, key: &str) -> Option<f64> {
    Some((workload.ratio(Side::Uzswap, Side::NoLimit, key)? - 1.0) * 100.0)
}

/// What paging added to the processor time of the program, a stored page, over the compressor's own
/// time for a page.
fn paging_cost(results: &Results) -> Option<f64> {
    let workload = results.workload("paging-cost")?;
    let added = workload.median(Side::Uzswap, "cpu")? - workload.median(Side::NoLimit, "cpu")?;
    let pages = workload.counter(Side::Uzswap, "zswpout").filter(|pages| *pages > 0.0)?;
    let raw_us = workload.median(Side::Uzswap, "raw_us").filter(|us| *us > 0.0)?;
    Some(added * 1e6 / pages / raw_us)
}

/// All promises with what was measured.
pub(crate) fn rows(results: &Results) -> Vec<Row> {
    PROMISES.iter().map(|promise| promise.row(results)).collect()
}

impl Promise {
    fn row(&self, results: &Results) -> Row {
        let measured = (self.measure)(results).filter(|value| value.is_finite());
        let (sign, number) = match self.target {
            Target::AtLeast(least) => ("≥", least),
            Target::AtMost(most) => ("≤", most),
        };
        Row {
            figure: self.figure.to_owned(),
            target: format!("{sign} {number}{}", spaced(self.unit)),
            unit: self.unit.to_owned(),
            measured,
            is_met: measured.is_some_and(|value| self.target.is_met(value)),
            share: measured.map(|value| self.target.share(value)),
        }
    }
}

fn spaced(unit: &str) -> String {
    if unit == "x" {
        unit.to_owned()
    } else {
        format!(" {unit}")
    }
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn share(self, value: f64) -> f64 {
        match self {
            Self::AtLeast(least) => value / least,
            Self::AtMost(_) if value <= 0.0 => f64::MAX,
            Self::AtMost(most) => most / value,
        }
    }
}

impl Row {
    /// `2.91x`, or a dash.
    pub(crate) fn measured_text(&self) -> String {
        let digits = if self.unit == "x" { 2 } else { 1 };
        match self.measured {
            Some(value) => format!("{value:.digits$}{}", spaced(&self.unit)),
            None => "-".to_owned(),
        }
    }

    /// met, not met, or not measured.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.measured, self.is_met) {
            (None, _) => "not measured",
            (_, true) => "met",
            (_, false) => "not met",
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::machine::Machine;
    use crate::compare::results::test::workload;

    fn results() -> Results {
        Results {
            date: String::new(),
            commit: String::new(),
            is_quick: false,
            pairs: 2,
            seconds: 1.0,
            machine: Machine::default(),
            skipped: Vec::new(),
            workloads: vec![workload()],
        }
    }

    #[test]
    fn what_was_measured_is_judged() {
        let rows = rows(&results());
        assert_eq!(rows[0].measured_text(), "2.67x");
        assert_eq!((rows[0].verdict(), rows[0].target.as_str()), ("met", "≥ 2.5x"));
        assert_eq!(
            (rows[1].verdict(), rows[1].measured_text().as_str()),
            ("not measured", "-")
        );
    }

    #[test]
    fn a_share_of_one_is_just_met() {
        assert_eq!(Target::AtLeast(2.0).share(2.0), 1.0);
        assert_eq!(Target::AtMost(0.5).share(1.0), 0.5);
        assert!(Target::AtMost(5.0).is_met(-1.0) && !Target::AtMost(5.0).is_met(5.1));
    }
}
