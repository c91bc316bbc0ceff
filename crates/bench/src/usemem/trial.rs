//! One run of the program under one row's options.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::metric::{METRICS, Metric};
use super::pool_watch::{self, PoolPeak};
use super::row::Row;
use crate::Failure;
use crate::cpu_times::CpuTimes;

/// What all rows have in common.
pub(crate) struct Program {
    pub(crate) uzswap: PathBuf,
    pub(crate) workload: PathBuf,
    pub(crate) mb: u32,
    pub(crate) memory_max_mb: u32,
    pub(crate) run_options: Vec<String>,
}

/// A value for each of [`METRICS`].
pub(crate) type Figures = [f64; METRICS.len()];

/// All that a run leaves behind.
pub(crate) struct Observed {
    pub(crate) stdout: String,
    pub(crate) counters: serde_json::Value,
    pub(crate) elapsed: f64,
    pub(crate) cpu: CpuTimes,
    pub(crate) pool: PoolPeak,
}

impl Program {
    /// Run it, as run `number` of this benchmark.
    pub(crate) fn run(&self, row: &Row, number: usize) -> Result<Figures, Failure> {
        let observed = self.observe(row, number)?;
        let read = |metric: &Metric| {
            (metric.read)(&observed)
                .ok_or_else(|| Failure::new(format!("{}: no figure for {}", row.full_name(), metric.label)))
        };
        let mut figures = [0.0; METRICS.len()];
        for (figure, metric) in figures.iter_mut().zip(&METRICS) {
            *figure = read(metric)?;
        }
        Ok(figures)
    }

    fn observe(&self, row: &Row, number: usize) -> Result<Observed, Failure> {
        // A name of its own: the file of the run before may be there for a moment yet.
        let group_name = format!("bench-{}-{number}", std::process::id());
        let stat_json = std::env::temp_dir().join(format!("uzswap-{group_name}.json"));
        let mut command = self.command(row, &group_name, &stat_json);
        let is_over = AtomicBool::new(false);
        let (before, start) = (CpuTimes::children()?, Instant::now());
        let (output, elapsed, pool) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| pool_watch::watch(&group_name, &is_over));
            let output = command.output();
            let elapsed = start.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            (output, elapsed, watch.join().unwrap_or_default())
        });
        let counters = std::fs::read_to_string(&stat_json);
        let _ = std::fs::remove_file(&stat_json);
        let output = output.map_err(|e| Failure::new(format!("{}: {e}", self.uzswap.display())))?;
        check_status(row, &output)?;
        let counters = counters.map_err(|e| Failure::new(format!("{}: {e}", stat_json.display())))?;
        Ok(Observed {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            counters: serde_json::from_str(&counters)
                .map_err(|e| Failure::new(format!("{}: {e}", stat_json.display())))?,
            elapsed,
            cpu: CpuTimes::children()?.since(before),
            pool,
        })
    }

    fn command(&self, row: &Row, group_name: &str, stat_json: &Path) -> Command {
        let mut command = Command::new(&self.uzswap);
        command
            .args(["run", "--no-config", "--quiet", "--name", group_name, "--memory-max"])
            .arg(format!("{}M", self.memory_max_mb))
            .arg("--stat-json")
            .arg(stat_json)
            .args(&row.options)
            .args(&self.run_options)
            .arg("--")
            .arg(&self.workload)
            .args(["usemem", "--passes", "write,seq", "--mb"])
            .arg(self.mb.to_string())
            .stdin(Stdio::null());
        command
    }
}

/// The program checks every page that it reads, and fails if one is not as written.
fn check_status(row: &Row, output: &Output) -> Result<(), Failure> {
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    Err(Failure::new(format!(
        "{}: {}: {} {}",
        row.full_name(),
        output.status,
        stdout.trim_end(),
        stderr.trim_end()
    )))
}
