//! `uzswap try`: CMD without a limit, then at lower and lower ones, and which of them to take.
//!
//! ```text
//! managed, no limit    its peak (and files are in the page cache after it)
//! unmanaged            the time that others are compared with
//! managed, each limit  from the largest down, until one is killed or takes far too long
//! unmanaged            again, since a machine changes
//! ```
//! Each is a process of its own, `uzswap run` for those that are managed, with its counters from
//! `--stat-json`.

mod export;
mod interrupt;
mod knee;
pub(crate) mod options;
mod output;
mod process;
mod row;
mod stage;
mod table;

use std::time::Duration;

use options::TryOptions;
use process::Ended;
use row::{Baseline, Outcome, Row};
use stage::{Managed, Stage, Stop};

use crate::output::warn_line;
use crate::{FAILED, Failure, run};

/// So long a run may take, however short it is without a limit.
const SHORT: Duration = Duration::from_secs(1);

/// What was measured.
struct Tried<'a> {
    options: &'a TryOptions,
    baseline: Baseline,
    /// What is to be tried, and what was.
    limits: Vec<u64>,
    rows: Vec<Row>,
    /// Seconds of a last unmanaged run, which tells how steady the machine was.
    again: Option<f64>,
}

/// `uzswap try`
pub(crate) fn try_limits(options: &TryOptions) -> Result<u8, Failure> {
    export::check(options)?;
    options.input.as_deref().map(stage::open).transpose()?;
    if let Err(status) = run::look_at(&options.cmd[0]) {
        return Ok(status);
    }
    let stage = Stage::begin(options)?;
    let (tried, stopped) = match measure(&stage, options) {
        Ok(measured) => measured,
        Err(stop) => {
            if let Stop::Interrupted(_) = stop {
                warn_line!("uzswap: ended before there was anything to compare with");
            }
            return stop.status();
        }
    };
    stage.say(&table::conclusion(&tried))?;
    export::write(&tried)?;
    match stopped {
        Ok(()) if tried.limits.is_empty() => Ok(FAILED),
        Ok(()) => Ok(0),
        Err(stop) => stop.status(),
    }
}

/// CMD without a limit and at each of `options`, as a table and nothing more, for `uzswap demo`.
/// 1: at a limit it did something else.
pub(crate) fn show(options: &TryOptions) -> Result<u8, Failure> {
    let stage = Stage::begin(options)?;
    let (tried, stopped) = match measure(&stage, options) {
        Ok(measured) => measured,
        Err(stop) => return stop.status(),
    };
    let is_same = |row: &Row| row.outcome(&tried.baseline) == Outcome::Same;
    match stopped {
        Ok(()) => Ok(u8::from(!tried.rows.iter().all(is_same))),
        Err(stop) => stop.status(),
    }
}

/// All runs, and why there are no more of them.
fn measure<'a>(stage: &Stage<'_>, options: &'a TryOptions) -> Result<(Tried<'a>, Result<(), Stop>), Stop> {
    let baseline = baseline(stage, options)?;
    let mut tried = Tried {
        options,
        limits: options::limits(&options.at, baseline.peak),
        baseline,
        rows: Vec::new(),
        again: None,
    };
    let stopped = tried.go_down(stage);
    Ok((tried, stopped))
}

impl Stop {
    /// The exit status, as the shell would tell it.
    fn status(self) -> Result<u8, Failure> {
        match self {
            Self::Failed(failure) => Err(failure),
            Self::Interrupted(signal) => Ok(128 + signal),
        }
    }
}

/// What limits are compared with.
fn baseline(stage: &Stage<'_>, options: &TryOptions) -> Result<Baseline, Stop> {
    for _ in 0..options.warmup {
        stage.unmanaged("warming up", None)?;
    }
    let managed = stage.managed(u64::MAX, None)?;
    let mut runs = Vec::new();
    for _ in 0..options.runs {
        runs.push(stage.unmanaged("without uzswap", None)?);
    }
    let failed = runs.iter().find(|run| run.status() != Some(0));
    if let Some(failed) = failed.filter(|_| !options.ignore_failure) {
        return Err(Failure::new(format!(
            "CMD fails without a limit as well, {}; --ignore-failure measures it all the same",
            told(failed)
        ))
        .into());
    }
    let status = runs[0].status().unwrap_or_default();
    if managed.ended.status() != Some(status) {
        return Err(not_as_unmanaged(&managed).into());
    }
    let first = managed.ended.fingerprint;
    let is_same = runs.iter().all(|run| run.fingerprint == first);
    Ok(Baseline {
        seconds: runs.iter().map(|run| run.seconds).collect(),
        peak: managed.peak(),
        status,
        fingerprint: first.filter(|_| is_same),
    })
}

/// Its status, and what it said last.
fn told(run: &Ended) -> String {
    let status = run
        .status()
        .map_or_else(String::new, |status| format!("with status {status}"));
    match &run.last_line {
        Some(line) => format!("{status}: {line}"),
        None => status,
    }
}

/// CMD without a limit, but managed, ended in another way than unmanaged; or `uzswap run` says why
/// it did not start.
fn not_as_unmanaged(managed: &Managed) -> Failure {
    let line = managed.ended.last_line.as_deref().unwrap_or_default();
    match line.strip_prefix("uzswap: ") {
        Some(line) if managed.counters.is_null() => Failure::new(line),
        _ => Failure::new(format!(
            "CMD ends under `uzswap run` in another way than alone, without a limit as well, {}",
            told(&managed.ended)
        )),
    }
}

impl Tried<'_> {
    /// Try each limit, the largest first, until one ends all. The rows that were begun stay,
    /// whatever happens.
    fn go_down(&mut self, stage: &Stage<'_>) -> Result<(), Stop> {
        let most = self.baseline.seconds.median() * self.options.give_up;
        let most = Duration::from_secs_f64(most).max(SHORT);
        let mut is_read = stage.say(&table::beginning(&self.baseline))?;
        for memory_max in self.limits.clone() {
            let mut row = Row {
                memory_max,
                runs: Vec::new(),
            };
            let result = row.fill(stage, &self.baseline, self.options.runs, most);
            if !row.runs.is_empty() {
                is_read &= stage.say(&table::next(&row, &self.baseline))?;
                self.rows.push(row);
            }
            result?;
            let ends_all = |row: &Row| row.outcome(&self.baseline).ends_all();
            if self.rows.last().is_some_and(ends_all) || !(is_read || export::is_wanted(self.options)) {
                break;
            }
        }
        if !self.rows.is_empty() {
            self.again = Some(stage.unmanaged("without uzswap, again", Some(most))?.seconds);
        }
        Ok(())
    }
}

impl Row {
    /// Run CMD so often, or until a run ends all.
    fn fill(&mut self, stage: &Stage<'_>, baseline: &Baseline, runs: u64, most: Duration) -> Result<(), Stop> {
        for _ in 0..runs {
            self.runs.push(stage.managed(self.memory_max, Some(most))?);
            if self.outcome(baseline).ends_all() {
                break;
            }
        }
        Ok(())
    }
}
