//! Workloads by pairs by sides.

use std::collections::BTreeSet;

use super::context::Context;
use super::equal_memory::EqualMemory;
use super::programs;
use super::progress::Progress;
use super::results::{Metric, Run, WorkloadResult};
use super::session::Session;
use super::side::Side;
use super::trial::{self, Terms};
use super::workloads::Workload;
use crate::Failure;

/// Memory that the host of a virtual machine has not backed yet is slow the first time: so much is
/// touched before anything is timed. MiB.
const WARM_UP_MIB: u32 = 2048;

/// Runs everything, and remembers what could not be run.
pub(crate) struct Driver<'a> {
    context: &'a Context,
    pairs: u32,
    sides: Vec<Side>,
    progress: Progress,
    skipped: Vec<String>,
    failed_uzswap: Option<String>,
    /// Where the kernel is not to read swap pages ahead.
    without_readahead: BTreeSet<(String, Side)>,
}

impl<'a> Driver<'a> {
    /// For those of `wanted` (all, if there are none) that the machine has.
    pub(crate) fn new(context: &'a Context, pairs: u32, wanted: &[Side], workloads: &[Box<dyn Workload>]) -> Self {
        let mut skipped = Vec::new();
        let mut sides = Side::ALL.to_vec();
        sides.retain(|side| wanted.is_empty() || wanted.contains(side));
        sides.retain(|side| match side.refusal() {
            None => true,
            Some(line) => {
                skipped.push(line);
                false
            }
        });
        let of = |workload: &dyn Workload| {
            let ran = workload.sides().into_iter().filter(|side| sides.contains(side)).count();
            ran as u64 * u64::from(workload.pairs(pairs))
        };
        let total = workloads.iter().map(|workload| of(workload.as_ref())).sum();
        let progress = Progress::new(total);
        skipped.iter().for_each(|line| progress.say(line));
        Self {
            context,
            pairs,
            sides,
            progress,
            skipped,
            failed_uzswap: None,
            without_readahead: BTreeSet::new(),
        }
    }

    /// What was left out, a line each.
    pub(crate) fn skipped(&self) -> Vec<String> {
        self.skipped.clone()
    }

    /// The first failure of a run under uzswap.
    pub(crate) fn failed_uzswap(&self) -> Option<String> {
        self.failed_uzswap.clone()
    }

    /// One after the other.
    pub(crate) fn measure_all(&mut self, workloads: Vec<Box<dyn Workload>>) -> Vec<WorkloadResult> {
        if let Err(Failure { line, .. }) = self.warm_up() {
            self.note(format!("warming up: {line}"));
        }
        workloads
            .into_iter()
            .filter_map(|workload| self.measure(workload))
            .collect()
    }

    fn note(&mut self, line: String) {
        self.progress.say(&line);
        self.skipped.push(line);
    }

    fn warm_up(&self) -> Result<(), Failure> {
        self.progress.begin("touching memory");
        let prepared = Side::NoLimit.prepare(self.context, 0)?;
        let session = Session {
            context: self.context,
            prepared: &prepared,
            is_shared: false,
        };
        let mib = self.context.full_or(WARM_UP_MIB, WARM_UP_MIB / 4).to_string();
        let args = ["usemem", "--passes", "write", "--mb", &mib].map(str::to_owned);
        session.run(&session.workload_program(&args), None).map(drop)
    }

    fn measure(&mut self, mut workload: Box<dyn Workload>) -> Option<WorkloadResult> {
        let mut sides = workload.sides();
        sides.retain(|side| self.sides.contains(side));
        let pairs = workload.pairs(self.pairs);
        self.progress.begin(&format!("{}: preparing", workload.name()));
        if let Err(Failure { line, .. }) = workload.prepare(self.context) {
            self.note(format!("{} is left out: {line}", workload.name()));
            self.progress.advance(u64::from(pairs) * sides.len() as u64);
            return None;
        }
        let mut equal = EqualMemory::new(workload.budget());
        let mut runs = Vec::new();
        self.find_limits(workload.as_ref(), &mut equal, &mut sides);
        for pair in 1..=pairs {
            for side in sides.clone() {
                match self.run_held(workload.as_ref(), &mut equal, side, pair) {
                    Ok(run) => runs.push(run),
                    Err(line) => self.drop_side(&mut sides, side, line),
                }
                self.progress.advance(1);
            }
        }
        let result = WorkloadResult {
            name: workload.name(),
            title: workload.title(),
            description: workload.description(),
            metrics: metrics(workload.as_ref()),
            runs,
        };
        if let Some(line) = programs::line(&result) {
            self.progress.say(&line);
        }
        Some(result)
    }

    /// Where a control group's limit does not say what resident memory and pool come to, it is
    /// tried.
    fn find_limits(&mut self, workload: &dyn Workload, equal: &mut EqualMemory, sides: &mut Vec<Side>) {
        if !equal.is_to_be_found() {
            return;
        }
        for side in sides.clone().into_iter().filter(|side| side.is_kernel()) {
            match self.run(workload, equal, side, 0) {
                Ok(run) if programs::has_no_end(&run) => {}
                Ok(run) => equal.note(side, &run.memory),
                Err(line) => self.drop_side(sides, side, line),
            }
        }
    }

    fn drop_side(&mut self, sides: &mut Vec<Side>, side: Side, line: String) {
        sides.retain(|other| *other != side);
        if side == Side::Uzswap {
            self.failed_uzswap.get_or_insert_with(|| line.clone());
        }
        self.note(line);
    }

    /// Once more if a control group's limit turned out too high.
    fn run_held(
        &mut self,
        workload: &dyn Workload,
        equal: &mut EqualMemory,
        side: Side,
        pair: u32,
    ) -> Result<Run, String> {
        let run = self.run(workload, equal, side, pair)?;
        if programs::has_no_end(&run) {
            if side == Side::Uzswap {
                let line = format!("{}: uzswap: did not come to its end", workload.name());
                self.failed_uzswap.get_or_insert(line);
            }
            return Ok(run);
        }
        equal.note(side, &run.memory);
        if !equal.is_to_be_repeated(side, &run.memory) {
            return Ok(run);
        }
        let run = self.run(workload, equal, side, pair)?;
        equal.note(side, &run.memory);
        Ok(run)
    }

    fn run(&mut self, workload: &dyn Workload, equal: &EqualMemory, side: Side, pair: u32) -> Result<Run, String> {
        let terms = Terms {
            side,
            pair,
            limit: equal.limit(side),
            target: equal.target(),
            max_pool_percent: match workload.has_default_options() {
                true => None,
                false => equal.max_pool_percent(),
            },
            has_readahead: !self.without_readahead.contains(&(workload.name(), side)),
        };
        let which = if pair == 0 {
            "finding the limit".to_owned()
        } else {
            format!("pair {pair}")
        };
        self.progress
            .begin(&format!("{}: {which}: {}", workload.name(), side.name()));
        let run = trial::run(self.context, workload, terms).map_err(|Failure { line, .. }| line)?;
        if terms.has_readahead && !run.has_readahead {
            self.without_readahead.insert((workload.name(), side));
            self.note(format!(
                "{}: {}: without swap readahead (page-cluster 0): with it the kernel killed the program for memory",
                workload.name(),
                side.name()
            ));
        }
        Ok(run)
    }
}

/// Those of the workload, and those that every run has.
fn metrics(workload: &dyn Workload) -> Vec<Metric> {
    let mut metrics = workload.metrics();
    let common = [
        Metric::new("elapsed", "elapsed time", "s", false).digits(2),
        Metric::new("cpu", "CPU time, all threads", "s", false).digits(2),
        Metric::new("cpu_per_gib", "CPU time per GiB stored", "s", false).digits(2),
        Metric::new("ratio", "compression ratio of the pool", "", true).digits(2),
    ];
    for metric in common {
        if !metrics.iter().any(|other| other.key == metric.key) {
            metrics.push(metric);
        }
    }
    metrics
}
