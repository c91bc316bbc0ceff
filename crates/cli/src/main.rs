//! `uzswap`: starts programs under a memory limit, watches, reports. Never on the data path.

#![forbid(unsafe_code)]

mod accel;
mod again;
mod agent;
mod calls;
mod census;
mod cgroup;
mod choices;
mod configure;
mod demo;
mod doctor;
mod elf;
mod figures;
mod given;
mod group;
mod help;
mod injector;
mod install;
mod jupyter;
mod keeper;
mod limits;
mod list;
mod log;
mod look_options;
mod memory_max;
mod metrics;
mod number;
mod options;
mod output;
mod quota;
mod reclaim;
mod recompress;
mod remote;
mod report;
mod run;
mod setting;
mod settings;
mod sim;
mod sim_options;
mod stall;
mod start;
mod stat;
mod top;
mod trial;
mod watch;
mod zram;
mod zram_options;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches;
use uzswap_sys::Errno;

use options::{Cli, Command, RunOptions};
use settings::Settings;

/// Exit status when uzswap itself fails.
const FAILED: u8 = 125;
/// Exit status for a command line that is not understood.
const MISUSED: u8 = 2;

/// Why uzswap could not do what was asked: one line that names the value and the rule.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// What the system answered about a file.
    pub(crate) fn of(path: &Path, error: &std::io::Error) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

impl From<uzswap_bench::Failure> for Failure {
    fn from(failure: uzswap_bench::Failure) -> Self {
        Self::new(failure.line())
    }
}

/// What the system answered, and what helps where that is the same whatever was tried.
pub(crate) fn describe(errno: Errno) -> String {
    let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
    match errno {
        Errno::MFILE => format!("{error}; raise `ulimit -n`"),
        Errno::FBIG => format!("{error}; raise `ulimit -f`"),
        _ => error.to_string(),
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = help::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(help::without_tips)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Exit status for a command line that is not understood. Of `uzswap run` any other than this might
/// be CMD's.
fn misused() -> u8 {
    match std::env::args_os().nth(1) {
        Some(verb) if verb == "run" => FAILED,
        _ => MISUSED,
    }
}

/// One line on stderr, and the exit status of a value that clap cannot judge and that is wrong.
pub(crate) fn misuse(line: &str) -> u8 {
    log::tell(log::Event::error(&format!("uzswap: {line}")));
    MISUSED
}

/// `uzswap run`, as it is told by its command line and by settings.
fn run(options: RunOptions) -> Result<u8, Failure> {
    let mut settings = Settings::find(&options)?;
    let options = settings.under(options, &std::env::args_os().collect::<Vec<_>>())?;
    run::run(&options).map_err(|failure| settings.explain(failure))
}

/// `uzswap bench`, with this executable.
fn bench(options: &uzswap_bench::Compare) -> Result<u8, Failure> {
    let exe = std::env::current_exe().map_err(|e| Failure::new(format!("finding this executable: {e}")))?;
    match uzswap_bench::run_compare(options, &exe) {
        Err(failure) if failure.is_misuse() => Ok(misuse(failure.line())),
        result => Ok(result.map(|()| 0)?),
    }
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            if error.use_stderr() {
                return ExitCode::from(misused());
            }
            return exit(output::printed(printed).map(|_| 0));
        }
    };
    let result = match cli.command {
        Command::Run(options) => run(*options),
        Command::Try(options) => trial::try_limits(&options),
        Command::Stat(options) => stat::stat(&options),
        Command::List(options) => list::list(&options),
        Command::Top(options) => top::top(&options),
        Command::Reclaim(options) => reclaim::reclaim(&options),
        Command::Set(options) => configure::set(&options),
        Command::Get(options) => configure::get(&options),
        Command::Metrics(options) => metrics::metrics(&options),
        Command::Doctor => doctor::doctor(),
        Command::Demo(options) => demo::demo(&options),
        Command::Zram(options) => zram::zram(&options),
        Command::Accel(options) => accel::run(&options),
        Command::Jupyter(options) => jupyter::jupyter(&options.verb),
        Command::Sim(options) => sim::sim(&options),
        Command::Bench(options) => bench(&options),
        Command::Completions(options) => install::completions(&options),
        Command::Man(options) => install::man(&options),
        Command::Workload(options) => return uzswap_workload::program::run(&options.args),
        Command::DemoChild(options) => demo::child(&options),
        Command::Mover => remote::mover(),
    };
    exit(result)
}

/// The exit status, and a line where it failed.
fn exit(result: Result<u8, Failure>) -> ExitCode {
    result.map_or_else(
        |Failure(line)| {
            log::tell(log::Event::error(&format!("uzswap: {line}")));
            ExitCode::from(FAILED)
        },
        ExitCode::from,
    )
}
