//! What was measured: written as JSON, and read back to be rendered again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uzswap_workload::latency;

use super::machine::Machine;
use super::sampler::Sample;
use super::side::Side;
use crate::samples::Samples;

/// A run of the whole benchmark.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    /// UTC, as in 2026-11-21T20:05:00Z.
    pub(crate) date: String,
    /// What git calls the sources, if it is there.
    pub(crate) commit: String,
    pub(crate) is_quick: bool,
    pub(crate) pairs: u32,
    pub(crate) seconds: f64,
    pub(crate) machine: Machine,
    /// Sides and workloads that could not be run, and why: one line each.
    pub(crate) skipped: Vec<String>,
    pub(crate) workloads: Vec<WorkloadResult>,
}

/// All runs of one workload.
#[derive(Serialize, Deserialize)]
pub(crate) struct WorkloadResult {
    pub(crate) name: String,
    pub(crate) title: String,
    /// What is done, in a sentence or two.
    pub(crate) description: String,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) runs: Vec<Run>,
}

/// A figure that a workload has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) unit: String,
    pub(crate) is_higher_better: bool,
    pub(crate) digits: usize,
}

/// One run under one side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) side: Side,
    /// From 1.
    pub(crate) pair: u32,
    /// By metric.
    pub(crate) figures: BTreeMap<String, f64>,
    /// By name.
    pub(crate) latencies: BTreeMap<String, Latency>,
    /// Differences over the run, under the kernel's names.
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) memory: MemoryUse,
    pub(crate) timeline: Vec<Sample>,
    /// Runs before this one that the kernel killed for memory although swap was left.
    pub(crate) oom_kills: u32,
    /// Whether the kernel read swap pages ahead: after such kills it may not.
    pub(crate) has_readahead: bool,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemoryUse {
    /// Of the control group, or of `uzswap run`; 0: none.
    pub(crate) limit: u64,
    /// What the side may use, resident and pool together; 0: no limit.
    pub(crate) target: u64,
    /// Largest `RssAnon` of all processes together, without a pool among it.
    pub(crate) resident_peak: u64,
    pub(crate) pool_peak: u64,
    /// Largest sum of both at one time.
    pub(crate) total_peak: u64,
    /// Largest amount on the swap device.
    pub(crate) disk_peak: u64,
}

/// Nanoseconds: the least of each bucket that is not empty, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latency(pub(crate) Vec<(u64, u64)>);

impl From<&latency::Histogram> for Latency {
    fn from(histogram: &latency::Histogram) -> Self {
        Self(histogram.used().collect())
    }
}

impl From<&Latency> for latency::Histogram {
    fn from(latency: &Latency) -> Self {
        let mut histogram = Self::default();
        latency.0.iter().for_each(|(ns, count)| histogram.add(*ns, *count));
        histogram
    }
}

impl Results {
    pub(crate) fn workload(&self, name: &str) -> Option<&WorkloadResult> {
        self.workloads.iter().find(|workload| workload.name == name)
    }
}

impl WorkloadResult {
    /// Sides that were run, in their order.
    pub(crate) fn sides(&self) -> Vec<Side> {
        let ran = |side: &Side| self.runs.iter().any(|run| run.side == *side);
        Side::ALL.into_iter().filter(ran).collect()
    }

    pub(crate) fn runs_of(&self, side: Side) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.side == side)
    }

    /// A figure of all pairs. `None`: that side did not measure it.
    pub(crate) fn samples(&self, side: Side, key: &str) -> Option<Samples> {
        let values: Vec<f64> = self
            .runs_of(side)
            .filter_map(|run| run.figures.get(key).copied())
            .collect();
        (!values.is_empty()).then(|| values.into_iter().collect())
    }

    pub(crate) fn median(&self, side: Side, key: &str) -> Option<f64> {
        Some(self.samples(side, key)?.median())
    }

    /// A figure of one side over that of another.
    pub(crate) fn ratio(&self, side: Side, over: Side, key: &str) -> Option<f64> {
        let below = self.median(over, key).filter(|value| *value != 0.0)?;
        Some(self.median(side, key)? / below)
    }

    /// All pairs together.
    pub(crate) fn latency(&self, side: Side, name: &str) -> Option<latency::Histogram> {
        let mut all = latency::Histogram::default();
        let of_runs = self.runs_of(side).filter_map(|run| run.latencies.get(name));
        of_runs.for_each(|one| all.merge(&one.into()));
        (all.count() > 0).then_some(all)
    }

    /// A difference of a counter, in the median.
    pub(crate) fn counter(&self, side: Side, name: &str) -> Option<f64> {
        let values: Vec<f64> = self
            .runs_of(side)
            .filter_map(|run| run.counters.get(name))
            .map(|value| *value as f64)
            .collect();
        (!values.is_empty()).then(|| values.into_iter().collect::<Samples>().median())
    }

    /// Peaks and limits, in the median of each.
    pub(crate) fn memory(&self, side: Side) -> MemoryUse {
        let median = |read: fn(&MemoryUse) -> u64| {
            let values = self.runs_of(side).map(|run| read(&run.memory) as f64);
            let values: Vec<f64> = values.collect();
            values.into_iter().collect::<Samples>().median_or_zero() as u64
        };
        MemoryUse {
            limit: median(|memory| memory.limit),
            target: median(|memory| memory.target),
            resident_peak: median(|memory| memory.resident_peak),
            pool_peak: median(|memory| memory.pool_peak),
            total_peak: median(|memory| memory.total_peak),
            disk_peak: median(|memory| memory.disk_peak),
        }
    }
}

impl Metric {
    pub(crate) fn new(key: impl Into<String>, label: impl Into<String>, unit: &str, is_higher_better: bool) -> Self {
        Self {
            key: key.into(),
            label: label.into(),
            unit: unit.to_owned(),
            is_higher_better,
            digits: 1,
        }
    }

    /// The same with so many digits behind the point.
    pub(crate) fn digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }
}

#[cfg(test)]
pub(crate) mod test {
    use super::*;

    /// A run with one figure.
    pub(crate) fn run(side: Side, pair: u32, key: &str, value: f64) -> Run {
        Run {
            side,
            pair,
            figures: BTreeMap::from([(key.to_owned(), value)]),
            latencies: BTreeMap::new(),
            counters: BTreeMap::from([("zswpout".to_owned(), 10)]),
            memory: MemoryUse::default(),
            timeline: Vec::new(),
            oom_kills: 0,
            has_readahead: true,
        }
    }

    /// Two pairs of the kernel's zswap and uzswap.
    pub(crate) fn workload() -> WorkloadResult {
        let values = [
            (Side::Zswap, 1, 100.0),
            (Side::Uzswap, 1, 300.0),
            (Side::Zswap, 2, 200.0),
            (Side::Uzswap, 2, 500.0),
        ];
        WorkloadResult {
            name: "usemem-write".to_owned(),
            title: "usemem".to_owned(),
            description: "It <writes>.".to_owned(),
            metrics: vec![Metric::new("write.rate", "write", "MB/s", true)],
            runs: values
                .map(|(side, pair, value)| run(side, pair, "write.rate", value))
                .into(),
        }
    }

    #[test]
    fn medians_are_compared() {
        let workload = workload();
        assert_eq!(workload.median(Side::Zswap, "write.rate"), Some(150.0));
        assert_eq!(
            workload.ratio(Side::Uzswap, Side::Zswap, "write.rate"),
            Some(400.0 / 150.0)
        );
        assert_eq!(workload.ratio(Side::Uzswap, Side::Zram, "write.rate"), None);
        assert_eq!(workload.sides(), [Side::Zswap, Side::Uzswap]);
        assert_eq!(workload.counter(Side::Uzswap, "zswpout"), Some(10.0));
    }

    #[test]
    fn a_histogram_comes_back_from_json() {
        let mut histogram = latency::Histogram::default();
        histogram.add(5000, 3);
        histogram.add(90_000, 1);
        let text = serde_json::to_string(&Latency::from(&histogram)).unwrap();
        let back: Latency = serde_json::from_str(&text).unwrap();
        assert_eq!(latency::Histogram::from(&back), histogram);
    }
}
