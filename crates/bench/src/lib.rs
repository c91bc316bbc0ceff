//! Benchmarks: whole programs against no limit, the kernel's zswap and zram
//! ([`compare`](run_compare), which is also `uzswap bench`), and tables of parts. Nothing here is a
//! test; docs/benchmarks.md says how to run each.

#![forbid(unsafe_code)]

mod allocators;
mod compare;
mod cpu_times;
pub mod export;
mod options;
mod policy;
mod samples;
mod steps;
mod swap_table;
mod table;
mod usemem;

use std::path::Path;

pub use compare::{Machine, utc};
use options::Bench;
pub use options::{Cli, Compare};
pub use samples::Samples;

/// What policies of `uzswap-bench policy` are made of.
pub mod replacement {
    pub use crate::policy::{Policy, Trace, misses};
}

/// The example of docs/adding-a-policy.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-policy.md")]
struct AddingAPolicy;

/// Why a benchmark could not be run: one line that names the value and the rule.
#[derive(Debug)]
pub struct Failure {
    line: String,
    cause: Cause,
}

/// Whose failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// An option has a value that is none.
    Misuse,
    /// Something could not be done.
    Work,
}

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            cause: Cause::Work,
        }
    }

    /// Of an option whose value is none.
    pub(crate) fn misuse(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            cause: Cause::Misuse,
        }
    }

    /// Whether the command line is to blame.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        self.cause == Cause::Misuse
    }

    /// The line.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }
}

/// Run the benchmark that was asked for.
///
/// # Errors
/// If it cannot be run to its end.
pub fn run(cli: &Cli) -> Result<(), Failure> {
    match cli.bench() {
        Bench::Compare(options) => compare::run(options, &usemem::find_beside("uzswap")?),
        Bench::Allocators(options) => allocators::run(options),
        Bench::Steps(options) => steps::run(options),
        Bench::Policy(options) => policy::run(options),
        Bench::SwapTable(options) => swap_table::run(options),
        Bench::Usemem(options) => usemem::run(options),
    }
}

/// Run the comparison with the executable `uzswap`.
///
/// # Errors
/// If it cannot be run to its end, or if uzswap failed in it.
pub fn run_compare(options: &Compare, uzswap: &Path) -> Result<(), Failure> {
    compare::run(options, uzswap)
}
