//! What it costs to start a program: `true`, again and again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Workload;
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::results::Metric;
use crate::compare::sampler::Watched;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;
use crate::cpu_times::CpuTimes;
use crate::samples::Samples;

/// `true`, and `uzswap run -- true`.
pub(super) struct Start {
    times: u32,
}

impl Start {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            times: context.full_or(100, 30),
        }
    }
}

impl Workload for Start {
    fn name(&self) -> String {
        "start".to_owned()
    }

    fn title(&self) -> String {
        "Start-up".to_owned()
    }

    fn description(&self) -> String {
        format!(
            "`true`, {} times, from its start to its end, by itself and as `uzswap run -- true`.",
            self.times
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::new("start_ms", "start to end", "ms", false).digits(2)]
    }

    fn sides(&self) -> Vec<Side> {
        vec![Side::NoLimit, Side::Uzswap]
    }

    fn budget(&self) -> Budget {
        Budget::Unlimited
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        let mut line: Vec<OsString> = Vec::new();
        if session.prepared.side == Side::Uzswap {
            line.push(session.context.uzswap.clone().into());
            line.extend(["run", "--no-config", "--"].map(OsString::from));
        }
        line.push("true".into());
        let before = CpuTimes::children()?;
        let times = (0..self.times).map(|_| milliseconds(&line));
        let times: Samples = times.collect::<Result<Vec<f64>, _>>()?.into_iter().collect();
        Ok(Outcome {
            figures: BTreeMap::from([("start_ms".to_owned(), times.median())]),
            latencies: BTreeMap::new(),
            cpu: CpuTimes::children()?.since(before),
            watched: Watched::default(),
        })
    }
}

fn milliseconds(line: &[OsString]) -> Result<f64, Failure> {
    let failed = |e: String| Failure::new(format!("{}: {e}", line[0].display()));
    let began = Instant::now();
    let status = Command::new(&line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .status()
        .map_err(|e| failed(e.to_string()))?;
    let ms = began.elapsed().as_secs_f64() * 1000.0;
    if status.success() {
        Ok(ms)
    } else {
        Err(failed(status.to_string()))
    }
}
