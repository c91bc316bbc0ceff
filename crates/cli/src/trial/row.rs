//! What runs came to: without a limit, and at each.

use serde_json::{Map, Value, json};
use uzswap_bench::Samples;
use uzswap_mm::page::PAGE_SIZE;

use super::process::{End, Ended};
use super::stage::Managed;

/// CMD without a limit.
pub(crate) struct Baseline {
    /// Of unmanaged runs.
    pub(crate) seconds: Samples,
    /// The most that it was charged where it was managed without a limit.
    pub(crate) peak: u64,
    pub(crate) status: u8,
    /// Of what it printed. `None`: that was not the same each time.
    pub(crate) fingerprint: Option<u64>,
}

/// All runs at one limit.
pub(crate) struct Row {
    pub(crate) memory_max: u64,
    pub(crate) runs: Vec<Managed>,
}

/// What became of CMD at a limit, the worst of all runs last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Same,
    /// It printed something else.
    Differs,
    /// It ended with another status.
    Failed,
    GivenUp,
    /// A process was killed for want of memory.
    Killed,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Same => "ok",
            Self::Differs => "differs",
            Self::Failed => "failed",
            Self::GivenUp => "given up",
            Self::Killed => "killed",
        }
    }

    /// Whether CMD did what it does without a limit; programs may print other times.
    pub(crate) fn is_good(self) -> bool {
        self <= Self::Differs
    }

    /// Whether there is no hope for less memory.
    pub(crate) fn ends_all(self) -> bool {
        self >= Self::GivenUp
    }
}

impl Managed {
    fn count(&self, name: &str) -> u64 {
        self.counters[name].as_u64().unwrap_or(0)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.count("memory.peak")
    }

    /// Pages that came back from the pool and the swap file, bytes.
    fn loaded(&self) -> u64 {
        let pages: u64 = ["zswpin", "swpin_zero", "pswpin"]
            .map(|name| self.count(name))
            .iter()
            .sum();
        pages * PAGE_SIZE as u64
    }

    fn outcome(&self, baseline: &Baseline) -> Outcome {
        let Ended { end, fingerprint, .. } = &self.ended;
        match end {
            _ if self.count("oom_kill") > 0 => Outcome::Killed,
            End::GivenUp | End::Interrupted(_) => Outcome::GivenUp,
            End::Status(status) if *status != baseline.status => Outcome::Failed,
            End::Status(_) if baseline.fingerprint.is_some() && *fingerprint != baseline.fingerprint => {
                Outcome::Differs
            }
            End::Status(_) => Outcome::Same,
        }
    }
}

impl Row {
    pub(crate) fn outcome(&self, baseline: &Baseline) -> Outcome {
        let outcomes = self.runs.iter().map(|run| run.outcome(baseline));
        outcomes.max().unwrap_or(Outcome::Same)
    }

    /// The limit as a part of what CMD takes without one; nobody may have seen that.
    pub(crate) fn share(&self, baseline: &Baseline) -> Option<f64> {
        (baseline.peak > 0).then(|| self.memory_max as f64 / baseline.peak as f64)
    }

    pub(crate) fn seconds(&self) -> Samples {
        self.runs.iter().map(|run| run.ended.seconds).collect()
    }

    /// Times as long as without a limit.
    pub(crate) fn slower(&self, baseline: &Baseline) -> f64 {
        self.seconds().median() / baseline.seconds.median()
    }

    /// Whether there are counters of all runs: not of a launcher that had to be killed.
    pub(crate) fn is_counted(&self) -> bool {
        self.runs.iter().all(|run| !run.counters.is_null())
    }

    pub(crate) fn peak(&self) -> u64 {
        self.runs.iter().map(Managed::peak).max().unwrap_or(0)
    }

    fn median(&self, of: impl Fn(&Managed) -> f64) -> f64 {
        self.runs.iter().map(of).collect::<Samples>().median()
    }

    /// Bytes.
    pub(crate) fn loaded(&self) -> u64 {
        self.median(|run| run.loaded() as f64) as u64
    }

    /// Bytes.
    pub(crate) fn written(&self) -> u64 {
        self.median(|run| run.count("swap_write_bytes") as f64) as u64
    }

    /// Of the time.
    pub(crate) fn waited_share(&self) -> f64 {
        self.median(|run| run.count("waited_ns") as f64 / 1e9 / run.ended.seconds)
    }

    /// The run that came last; there is one in each row that is shown.
    pub(crate) fn last(&self) -> Option<&Ended> {
        self.runs.last().map(|run| &run.ended)
    }
}

/// Times as hyperfine names them.
fn times(seconds: &Samples) -> Map<String, Value> {
    let figures = [
        ("median", seconds.median()),
        ("mean", seconds.mean()),
        ("stddev", seconds.standard_deviation()),
        ("min", seconds.min()),
        ("max", seconds.max()),
    ];
    figures
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .into_iter()
        .collect()
}

impl Baseline {
    pub(crate) fn json(&self) -> Value {
        let mut json = times(&self.seconds);
        json.insert("memory.peak".into(), json!(self.peak));
        json.insert("exit_status".into(), json!(self.status));
        json.insert("same_output".into(), json!(self.fingerprint.is_some()));
        json.into()
    }
}

impl Row {
    pub(crate) fn json(&self, baseline: &Baseline) -> Value {
        let mut json = times(&self.seconds());
        let times: Vec<f64> = self.runs.iter().map(|run| run.ended.seconds).collect();
        for (name, value) in [
            ("memory.max", json!(self.memory_max)),
            ("memory.peak", json!(self.peak())),
            ("times", json!(times)),
            ("slower", json!(self.slower(baseline))),
            ("loaded_bytes", json!(self.loaded())),
            ("waited_share", json!(self.waited_share())),
            ("swap_write_bytes", json!(self.written())),
            ("outcome", json!(self.outcome(baseline).name())),
            ("exit_status", json!(self.last().and_then(Ended::status))),
        ] {
            json.insert(name.to_owned(), value);
        }
        json.into()
    }
}

#[cfg(test)]
pub(crate) mod test {
    use super::*;

    /// 100 MiB, a second, a fingerprint of 7.
    pub(crate) fn baseline() -> Baseline {
        Baseline {
            seconds: [1.0].into_iter().collect(),
            peak: 100 << 20,
            status: 0,
            fingerprint: Some(7),
        }
    }

    /// Runs that were as without a limit, but for their times.
    pub(crate) fn row(memory_max: u64, seconds: &[f64]) -> Row {
        let run = |seconds: &f64| Managed {
            ended: Ended {
                end: End::Status(0),
                seconds: *seconds,
                fingerprint: Some(7),
                last_line: None,
            },
            counters: json!({
                "memory.peak": memory_max - (1 << 20),
                "zswpin": 200,
                "pswpin": 56,
                "waited_ns": (seconds * 5e8) as u64,
                "swap_write_bytes": 2 << 20,
                "oom_kill": 0,
            }),
        };
        Row {
            memory_max,
            runs: seconds.iter().map(run).collect(),
        }
    }

    #[test]
    fn the_worst_run_decides() {
        let baseline = baseline();
        let mut row = row(70 << 20, &[1.0, 1.0, 1.0, 1.0]);
        let mut outcomes = vec![row.outcome(&baseline)];
        row.runs[3].ended.fingerprint = Some(8);
        outcomes.push(row.outcome(&baseline));
        row.runs[0].ended.end = End::Status(3);
        outcomes.push(row.outcome(&baseline));
        row.runs[2].ended.end = End::GivenUp;
        outcomes.push(row.outcome(&baseline));
        row.runs[1].counters["oom_kill"] = json!(1);
        outcomes.push(row.outcome(&baseline));
        let expected = ["ok", "differs", "failed", "given up", "killed"];
        assert_eq!(
            outcomes.iter().map(|outcome| outcome.name()).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_good()).count(), 2);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.ends_all()).count(), 2);
    }

    #[test]
    fn output_that_varies_is_not_compared() {
        let mut baseline = baseline();
        baseline.fingerprint = None;
        assert_eq!(row(70 << 20, &[1.0]).outcome(&baseline), Outcome::Same);
    }
}
