//! `uzswap`: starts programs under a memory limit, watches, reports. Never on the data path.

#![forbid(unsafe_code)]

mod agent;
mod demo;
mod doctor;
mod elf;
mod group;
mod keeper;
mod options;
mod quota;
mod reclaim;
mod report;
mod run;
mod setting;
mod size;
mod top;

use std::process::ExitCode;

use clap::Parser;

use options::{Cli, Command};

/// Exit status when uzswap itself fails.
const FAILED: u8 = 125;

/// Why uzswap could not do what was asked: one line that names the value and the rule.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

/// `uzswap bench`, with this executable.
fn bench(options: &uzswap_bench::Compare) -> Result<u8, Failure> {
    let exe = std::env::current_exe().map_err(|e| Failure::new(format!("finding this executable: {e}")))?;
    let result = uzswap_bench::run_compare(options, &exe);
    result.map(|()| 0).map_err(|failure| Failure::new(failure.line()))
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
        }
    };
    let result = match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Stat(options) => report::stat(&options),
        Command::List => report::list(),
        Command::Top(options) => top::top(&options),
        Command::Reclaim(options) => reclaim::reclaim(&options),
        Command::Set(options) => report::set(&options),
        Command::Doctor => Ok(doctor::doctor()),
        Command::Demo(options) => demo::demo(&options),
        Command::Bench(options) => bench(&options),
        Command::Workload(options) => return uzswap_workload::program::run(&options.args),
        Command::DemoChild(options) => Ok(demo::child(&options)),
    };
    result.map_or_else(
        |Failure(line)| {
            eprintln!("uzswap: {line}");
            ExitCode::from(FAILED)
        },
        ExitCode::from,
    )
}
