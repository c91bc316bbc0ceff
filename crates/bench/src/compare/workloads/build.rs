//! Compiling a C library: many short processes, each with a heap of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{WITHOUT_ZRAM, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::process::{output, words};
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// Its Debian source package; the library alone is made.
const PACKAGE: &str = "libzstd";
/// Of what the build takes without a limit.
const TOTAL_PERCENT: u64 = 60;

/// `make -j2` of libzstd.
#[derive(Default)]
pub(super) struct Build {
    source: PathBuf,
    /// Bytes that the build takes without a limit.
    peak: u64,
    optimization: &'static str,
    is_quick: bool,
}

impl Build {
    /// A folder with nothing made in it.
    fn fresh_copy(&self) -> Result<PathBuf, Failure> {
        let copy = self.source.with_file_name("build");
        let _ = std::fs::remove_dir_all(&copy);
        let mut line = words(["cp", "-a"]);
        line.extend([self.source.clone().into(), copy.clone().into()]);
        output(&line, None, std::time::Duration::from_secs(60))?;
        Ok(copy.join("lib"))
    }

    fn make(&self, session: &Session) -> Result<Outcome, Failure> {
        let dir = self.fresh_copy()?;
        let flags = format!("CFLAGS={}", self.optimization);
        let line = words(["make", "-j2", "libzstd.a", &flags]);
        Ok(session.run(&line, Some(&dir))?.into())
    }
}

impl Workload for Build {
    fn name(&self) -> String {
        "build".to_owned()
    }

    fn title(&self) -> String {
        "Build of a C library".to_owned()
    }

    fn description(&self) -> String {
        format!(
            "`make -j2` of {PACKAGE}'s Debian source ({}), {TOTAL_PERCENT} % of the {} MiB of anonymous memory that it takes \
             without a limit.",
            self.optimization,
            self.peak >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::new("elapsed", "real time", "s", false).digits(2)]
    }

    fn sides(&self) -> Vec<Side> {
        WITHOUT_ZRAM.to_vec()
    }

    fn budget(&self) -> Budget {
        Budget::Total {
            bytes: self.peak * TOTAL_PERCENT / 100,
            working_set: self.peak,
            resident_least: self.peak / 5,
        }
    }

    fn pairs(&self, asked: u32) -> u32 {
        if self.is_quick { 1 } else { asked }
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        self.is_quick = context.is_quick;
        self.optimization = context.full_or("-O2", "-O0");
        self.source = fetch(&context.work)?;
        let prepared = Side::NoLimit.prepare(context, 0)?;
        let session = Session {
            context,
            prepared: &prepared,
            is_shared: false,
        };
        self.peak = self.make(&session)?.watched.memory.total_peak;
        Ok(())
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        self.make(session)
    }
}

/// The unpacked source.
fn fetch(work: &Path) -> Result<PathBuf, Failure> {
    let failed = |why: String| Failure::new(format!("apt-get source {PACKAGE}: {why}"));
    let output = Command::new("apt-get")
        .args(["source", "-q", PACKAGE])
        .current_dir(work)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    let entries = std::fs::read_dir(work).map_err(|e| failed(e.to_string()))?;
    let mut dirs = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("lib/Makefile").is_file());
    dirs.next().ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        failed(stderr.lines().last().unwrap_or("no source came").to_owned())
    })
}
