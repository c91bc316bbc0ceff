//! A program under a side, watched from its start to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uzswap_workload::latency::Histogram;

use super::context::Context;
use super::process::{self, Process};
use super::sampler::{self, Watched};
use super::side::Prepared;
use crate::Failure;
use crate::cpu_times::CpuTimes;

/// Where a workload runs its programs.
pub(crate) struct Session<'a> {
    pub(crate) context: &'a Context,
    pub(crate) prepared: &'a Prepared,
    /// Processes share memory after a fork: sums of `RssAnon` would count it twice.
    pub(crate) is_shared: bool,
}

/// A program that ran.
pub(crate) struct Measured {
    pub(crate) output: Output,
    pub(crate) seconds: f64,
    /// All threads of all its processes, and `uzswap run` itself.
    pub(crate) cpu: CpuTimes,
    pub(crate) watched: Watched,
}

/// A program that ended in any way.
pub(crate) struct AnyEnd {
    /// None: it took too long.
    pub(crate) output: Option<Output>,
    pub(crate) seconds: f64,
    pub(crate) cpu: CpuTimes,
    pub(crate) watched: Watched,
}

/// What a workload makes of that.
pub(crate) struct Outcome {
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) latencies: BTreeMap<String, Histogram>,
    pub(crate) cpu: CpuTimes,
    pub(crate) watched: Watched,
}

impl Session<'_> {
    /// Run a program to its end.
    pub(crate) fn run(&self, program: &[OsString], dir: Option<&Path>) -> Result<Measured, Failure> {
        Ok(self.run_while(program, dir, |_| Ok(()))?.1)
    }

    /// Run a program, and `during` beside it, which is to see to it that the program ends.
    pub(crate) fn run_while<T>(
        &self,
        program: &[OsString],
        dir: Option<&Path>,
        during: impl FnOnce(&Process) -> Result<T, Failure>,
    ) -> Result<(T, Measured), Failure> {
        let wait = |process: Process| {
            let done = during(&process);
            if done.is_err() {
                process.terminate();
            }
            // What `during` has waited for is not this program's.
            let before = CpuTimes::children();
            (done, before, process.wait(self.context.timeout))
        };
        let ((done, before, ended), watched) = self.watch(program, dir, wait)?;
        let (done, ended) = (done?, ended?);
        let cpu = CpuTimes::children()?.since(before?);
        let output = process::check(&program[0].to_string_lossy(), ended.output)?;
        let measured = Measured {
            output,
            seconds: ended.seconds,
            cpu,
            watched,
        };
        Ok((done, measured))
    }

    /// Run a program until it ends, fails, is killed or has taken `timeout`.
    pub(crate) fn run_to_any_end(
        &self,
        program: &[OsString],
        dir: Option<&Path>,
        timeout: Duration,
    ) -> Result<AnyEnd, Failure> {
        let before = CpuTimes::children()?;
        let (ended, watched) = self.watch(program, dir, |process| process.wait_until(timeout))?;
        let (ended, is_late) = ended?;
        Ok(AnyEnd {
            output: (!is_late).then_some(ended.output),
            seconds: ended.seconds,
            cpu: CpuTimes::children()?.since(before),
            watched,
        })
    }

    /// Start a program, and look at its memory until `wait` is back.
    fn watch<T>(
        &self,
        program: &[OsString],
        dir: Option<&Path>,
        wait: impl FnOnce(Process) -> T,
    ) -> Result<(T, Watched), Failure> {
        let process = Process::start(&self.prepared.command_line(program), dir)?;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (pid, probe) = (process.pid(), &self.prepared.probe);
            let watcher = scope.spawn({
                let (is_shared, is_over) = (self.is_shared, &is_over);
                move || sampler::watch(pid, probe, is_shared, is_over)
            });
            let waited = wait(process);
            is_over.store(true, Ordering::Relaxed);
            Ok((waited, watcher.join().unwrap_or_default()))
        })
    }

    /// `uzswap workload` with `args`.
    pub(crate) fn workload_program(&self, args: &[String]) -> Vec<OsString> {
        let mut program: Vec<OsString> = vec![self.context.uzswap.clone().into(), "workload".into()];
        program.extend(args.iter().map(OsString::from));
        program
    }
}

impl From<Measured> for Outcome {
    /// With no figure but the time.
    fn from(measured: Measured) -> Self {
        Self::ended(measured.seconds, measured.cpu, measured.watched)
    }
}

impl Outcome {
    /// With no figure but the time.
    pub(crate) fn ended(seconds: f64, cpu: CpuTimes, watched: Watched) -> Self {
        Self {
            figures: BTreeMap::from([("elapsed".to_owned(), seconds)]),
            latencies: BTreeMap::new(),
            cpu,
            watched,
        }
    }

    /// The program did not come to its own end.
    pub(crate) fn end_with(&mut self, key: &str) {
        self.put(key, 1.0);
    }

    pub(crate) fn put(&mut self, key: impl Into<String>, value: f64) {
        self.figures.insert(key.into(), value);
    }
}
