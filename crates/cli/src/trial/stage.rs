//! Where runs take place: what each needs before it, how it is started, how far all are.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::interrupt::Interrupt;
use super::options::TryOptions;
use super::process::{End, Ended, Nursery, Terms};
use crate::output::write;
use crate::{Failure, agent, remote};
use uzswap_ctl::size::Size;

/// Why there are no more runs.
pub(crate) enum Stop {
    Interrupted(u8),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A run under `uzswap run`, with what it counted; null where it did not come to that.
pub(crate) struct Managed {
    pub(crate) ended: Ended,
    pub(crate) counters: Value,
}

pub(crate) struct Stage<'a> {
    options: &'a TryOptions,
    nursery: Nursery,
    interrupt: Interrupt,
    /// Where a run puts its counters: nobody else can write there.
    counters: PathBuf,
    progress: ProgressBar,
}

impl<'a> Stage<'a> {
    pub(crate) fn begin(options: &'a TryOptions) -> Result<Self, Failure> {
        remote::hide_in(&options.passed.0);
        let counters = agent::runtime_dir()?.join(format!("try-{}.json", std::process::id()));
        Ok(Self {
            options,
            nursery: Nursery::begin(),
            interrupt: Interrupt::begin()?,
            counters,
            progress: progress(options),
        })
    }

    /// CMD as it is, for `most` at most.
    pub(crate) fn unmanaged(&self, what: &str, most: Option<Duration>) -> Result<Ended, Stop> {
        let mut command = Command::new(&self.options.cmd[0]);
        command.args(&self.options.cmd[1..]);
        for (name, _) in std::env::vars_os().filter(|(name, value)| remote::is_secret(name, value)) {
            command.env_remove(name);
        }
        self.run(&mut command, what, most, false)
    }

    /// CMD under `uzswap run`, with a limit or `u64::MAX`, for `most` at most.
    pub(crate) fn managed(&self, memory_max: u64, most: Option<Duration>) -> Result<Managed, Stop> {
        let limit = Size(memory_max).exact();
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["run", "--quiet", "--log", "text", "--memory-max", &limit, "--stat-json"])
            .arg(&self.counters)
            .args(&self.options.passed.0)
            .arg("--")
            .args(&self.options.cmd);
        let ended = self.run(&mut command, &format!("--memory-max {limit}"), most, true);
        let counters = std::fs::read_to_string(&self.counters).unwrap_or_default();
        let _ = std::fs::remove_file(&self.counters);
        Ok(Managed {
            ended: ended?,
            counters: serde_json::from_str(&counters).unwrap_or_default(),
        })
    }

    fn run(&self, command: &mut Command, what: &str, most: Option<Duration>, is_launcher: bool) -> Result<Ended, Stop> {
        self.progress.set_message(what.to_owned());
        let prepared = self.prepare();
        // From a terminal the shell has the signal, too.
        if let Some(signal) = self.interrupt.signal() {
            return Err(Stop::Interrupted(signal));
        }
        prepared?;
        command.stdin(match &self.options.input {
            Some(path) => Stdio::from(open(path)?),
            None => Stdio::null(),
        });
        let terms = Terms {
            most,
            is_launcher,
            is_shown: self.options.show_output,
        };
        let ended = self.nursery.run(command, terms, &self.interrupt)?;
        self.progress.inc(1);
        match ended.end {
            End::Interrupted(signal) => Err(Stop::Interrupted(signal)),
            _ => Ok(ended),
        }
    }

    fn prepare(&self) -> Result<(), Failure> {
        let Some(prepare) = &self.options.prepare else {
            return Ok(());
        };
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(prepare).stdin(Stdio::null());
        if !self.options.show_output {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let named = format!("--prepare '{}'", prepare.display());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::new(format!(
                "{named}: {status}; --show-output shows what it says"
            ))),
            Err(e) => Err(Failure::new(format!("{named}: {e}"))),
        }
    }

    /// Print; whether anybody reads it.
    pub(crate) fn say(&self, text: &str) -> Result<bool, Failure> {
        self.progress.suspend(|| write(text))
    }
}

/// What CMD is to read.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|e| Failure::new(format!("--input {}: {e}", path.display())))
}

/// Nothing where it would not be seen, or would be mixed with what CMD prints.
fn progress(options: &TryOptions) -> ProgressBar {
    if options.show_output {
        return ProgressBar::hidden();
    }
    let runs = options.warmup + 2 + options.runs * (1 + options.at.len() as u64);
    let progress = ProgressBar::new(runs);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed} {wide_msg}") {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_millis(500));
    progress
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}
