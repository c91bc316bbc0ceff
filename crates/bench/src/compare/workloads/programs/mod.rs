//! Real programs at a share of what they take, with uzswap's default options.

mod catalogue;
mod prepare;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use super::Workload;
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::process::{check, words};
use crate::compare::programs::{self, END_FAILED, END_LATE, END_OOM};
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;
use catalogue::{PROGRAMS, Program};

/// Of what the program takes without a limit.
const PERCENTS: (&[u64], &[u64]) = (&[105, 90, 80, 70, 60, 50], &[105, 80, 60]);
const PAIRS: (u32, u32) = (3, 1);
/// A run may take so many times as long as without a limit, and at least so many seconds.
const PATIENCE: (f64, f64) = (30.0, 60.0);

/// What a program does without a limit.
#[derive(Clone, Default)]
struct Baseline {
    dir: PathBuf,
    python: OsString,
    /// What it printed.
    stdout: Vec<u8>,
    peak: u64,
    seconds: f64,
}

/// A program at one share.
pub(super) struct Case {
    program: Program,
    percent: u64,
    pairs: u32,
    /// Shared by all shares of the program; `None` until it ran.
    baseline: Rc<RefCell<Option<Baseline>>>,
}

/// Each program at each share.
pub(super) fn all(context: &Context) -> Vec<Box<dyn Workload>> {
    let percents = match &context.percents[..] {
        [] => context.full_or(PERCENTS.0, PERCENTS.1),
        asked => asked,
    };
    let pairs = context.pairs.unwrap_or(context.full_or(PAIRS.0, PAIRS.1));
    let mut all: Vec<Box<dyn Workload>> = Vec::new();
    for program in PROGRAMS {
        let baseline = Rc::new(RefCell::new(None));
        for percent in percents {
            all.push(Box::new(Case {
                program,
                percent: *percent,
                pairs,
                baseline: Rc::clone(&baseline),
            }));
        }
    }
    all
}

impl Case {
    fn baseline(&self) -> Baseline {
        self.baseline.borrow().clone().unwrap_or_default()
    }

    fn command(&self, python: &OsString) -> Vec<OsString> {
        let mut line: Vec<OsString> = words(["env"]);
        let mut variable = OsString::from("PYTHON=");
        variable.push(python);
        line.push(variable);
        line.extend(words([
            "PYTHONHASHSEED=0",
            "LC_ALL=C",
            "sh",
            "-c",
            self.program.command,
        ]));
        line
    }

    fn measure_without_limit(&self, context: &Context) -> Result<Baseline, Failure> {
        let dir = context.work.join("programs");
        let python = prepare::prepare(&self.program, &dir)?;
        let prepared = Side::NoLimit.prepare(context, 0)?;
        let session = Session {
            context,
            prepared: &prepared,
            is_shared: false,
        };
        let measured = session.run(&self.command(&python), Some(&dir))?;
        Ok(Baseline {
            dir,
            python,
            stdout: measured.output.stdout,
            peak: measured.watched.memory.total_peak,
            seconds: measured.seconds,
        })
    }
}

impl Workload for Case {
    fn name(&self) -> String {
        programs::case_name(self.program.name, self.percent)
    }

    fn title(&self) -> String {
        format!("{} at {} %", self.program.name, self.percent)
    }

    fn description(&self) -> String {
        format!(
            "`{}` ({}), {} % of the {} MiB of anonymous memory that it takes without a limit, with uzswap's default \
             options. No program sees a control group.",
            self.program.command,
            if self.program.has_threads {
                "several threads"
            } else {
                "one thread"
            },
            self.percent,
            self.baseline().peak >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::new("elapsed", "real time", "s", false).digits(2)]
    }

    fn budget(&self) -> Budget {
        let peak = self.baseline().peak;
        Budget::Total {
            bytes: peak * self.percent / 100,
            working_set: peak,
            resident_least: peak / 8,
        }
    }

    fn has_default_options(&self) -> bool {
        true
    }

    fn pairs(&self, _asked: u32) -> u32 {
        self.pairs
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        if self.baseline.borrow().is_none() {
            let baseline = self.measure_without_limit(context)?;
            *self.baseline.borrow_mut() = Some(baseline);
        }
        Ok(())
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        let baseline = self.baseline();
        let timeout = Duration::from_secs_f64((baseline.seconds * PATIENCE.0).max(PATIENCE.1));
        let line = self.command(&baseline.python);
        let ended = session.run_to_any_end(&line, Some(&baseline.dir), timeout)?;
        let (oom_kills, parts) = (session.prepared.oom_kills(), ended.watched.parts);
        let is_late = ended.output.is_none();
        let result = ended.output.map(|output| check(self.program.name, output)).transpose();
        let mut outcome = Outcome::ended(ended.seconds, ended.cpu, ended.watched);
        for (name, bytes) in parts.named() {
            outcome.put(format!("peak.{name}"), bytes as f64);
        }
        match result {
            _ if oom_kills > 0 => outcome.end_with(END_OOM),
            _ if is_late => outcome.end_with(END_LATE),
            Err(Failure { line, .. }) => {
                eprintln!("{}: {}: FAILED: {line}", self.name(), session.prepared.side.name());
                outcome.end_with(END_FAILED);
            }
            Ok(Some(output)) if output.stdout != baseline.stdout => {
                return Err(Failure::new("WRONG OUTPUT: not what it printed without a limit"));
            }
            Ok(_) => {}
        }
        Ok(outcome)
    }
}
