//! `uzswap-bench`: measures and prints tables. Nothing here is a test; docs/benchmarks.md says how to run each.

#![forbid(unsafe_code)]

mod allocators;
mod cpu_times;
mod options;
mod samples;
mod swap_table;
mod table;
mod usemem;

use std::process::ExitCode;

use clap::Parser;

use options::{Bench, Cli};

/// Why a benchmark could not be run: one line that names the value and the rule.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse().bench {
        Bench::Allocators(options) => allocators::run(&options),
        Bench::SwapTable(options) => swap_table::run(&options),
        Bench::Usemem(options) => usemem::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(line)) => {
            eprintln!("uzswap-bench: {line}");
            ExitCode::FAILURE
        }
    }
}
