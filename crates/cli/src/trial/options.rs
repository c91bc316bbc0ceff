//! What `uzswap try` is told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::Result as Parsed;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use uzswap_ctl::defaults::MEMORY_MAX_LEAST;

use crate::memory_max;
use crate::options::RunOptions;
use uzswap_ctl::size::{Decimal, Size};

/// Nobody waits for longer.
const TIMES_MOST: f64 = 1000.0;

#[derive(Args)]
pub(crate) struct TryOptions {
    /// Limits to try: percentages of the most that CMD takes, or sizes
    ///
    /// 75 and 75% are the same; a size has a unit, as 512M.
    #[arg(long, value_name = "N|SIZE,...", value_delimiter = ',', allow_hyphen_values = true, default_value = "90,80,70,60,50,40,30", value_parser = at)]
    pub(crate) at: Vec<At>,
    /// Runs without a limit, and at each; the median is shown
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) runs: u64,
    /// Runs before the first that counts
    #[arg(long, short, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub(crate) warmup: u64,
    /// Command of the shell before each run
    #[arg(long, short, value_name = "COMMAND")]
    pub(crate) prepare: Option<OsString>,
    /// What CMD reads as its standard input [default: nothing]
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// A limit is good if CMD takes at most so many times as long as without
    #[arg(long, value_name = "TIMES", allow_hyphen_values = true, default_value_t = 1.1, value_parser = times)]
    pub(crate) slowdown: f64,
    /// End a run that takes more than so many times as long as without a limit, or than a second if
    /// that is longer, and try no lower limit
    #[arg(long, value_name = "TIMES", allow_hyphen_values = true, default_value_t = 10.0, value_parser = times)]
    pub(crate) give_up: f64,
    /// Measure a CMD that fails without a limit, too
    #[arg(long, short)]
    pub(crate) ignore_failure: bool,
    /// Pass on what CMD prints
    #[arg(long)]
    pub(crate) show_output: bool,
    /// Write what was measured here as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,
    /// Write it here as CSV, below lines with # that say what measured it and on which machine
    #[arg(long, value_name = "FILE")]
    pub(crate) export_csv: Option<PathBuf>,
    /// Write the table here as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) passed: Passed,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) cmd: Vec<OsString>,
}

impl TryOptions {
    /// One run of `cmd` without a limit and one at each, however long they take, whatever files of
    /// settings say.
    pub(crate) fn of(cmd: Vec<OsString>, at: Vec<At>) -> Self {
        Self {
            at,
            runs: 1,
            warmup: 0,
            prepare: None,
            input: None,
            slowdown: 1.0,
            give_up: TIMES_MOST,
            ignore_failure: false,
            show_output: false,
            export_json: None,
            export_csv: None,
            export_markdown: None,
            passed: Passed(vec!["--no-config".into()]),
            cmd,
        }
    }
}

/// A limit to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Of the most that CMD takes.
    Percent(Decimal),
    Size(u64),
}

impl At {
    /// Bytes; of a percentage the nearest mebibyte, which people can write.
    fn of(self, peak: u64) -> u64 {
        match self {
            Self::Percent(percent) => (percent.percent_of(peak) + (1 << 19)) >> 20 << 20,
            Self::Size(bytes) => bytes,
        }
    }
}

/// What limits these are where CMD takes `peak`, the largest first, without those with which no
/// program can start.
pub(crate) fn limits(at: &[At], peak: u64) -> Vec<u64> {
    let mut limits: Vec<u64> = at.iter().map(|at| at.of(peak)).collect();
    limits.retain(|bytes| *bytes >= MEMORY_MAX_LEAST);
    limits.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
    limits.dedup();
    limits
}

/// A limit to try; the error names the value and the rule.
pub(crate) fn at(text: &str) -> Result<At, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<Decimal>() {
        Ok(percent) if percent.exceeds(100) => Err(format!(
            "'{text}' must be at most 100, being a percentage of what CMD takes; a size has a unit, as 512M"
        )),
        Ok(percent) if !percent.exceeds(0) => Err(format!("'{text}' must be more than 0")),
        Ok(percent) => Ok(At::Percent(percent)),
        Err(_) if text == Size(u64::MAX).exact() => {
            Err(format!("'{text}' is no limit: without one CMD is run at any rate"))
        }
        Err(_) => match memory_max::parse_word(text) {
            Err(rule) if rule.contains("is not a size") => Err(format!(
                "'{text}' is no limit to try: write percentages of what CMD takes as 75, or sizes as 512M"
            )),
            size => size.map(At::Size),
        },
    }
}

fn times(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|n| (1.0..=TIMES_MOST).contains(n));
    times.ok_or_else(|| format!("'{text}' must be a number from 1 to {TIMES_MOST}"))
}

/// Options of `uzswap run` that it gets at each limit, as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed(pub(crate) Vec<OsString>);

/// Those that `uzswap try` gives it itself, or has no use for.
const NOT_PASSED: [&str; 10] = [
    "memory_max",
    "stall",
    "memory_high",
    "name",
    "stat_json",
    "report",
    "log",
    "summary",
    "quiet",
    "cmd",
];

/// The others, as `uzswap run` declares them; only the long help has them.
fn of_run() -> Vec<Arg> {
    let run = RunOptions::augment_args(Command::new("run"));
    let passed = run
        .get_arguments()
        .filter(|arg| !NOT_PASSED.contains(&arg.get_id().as_str()));
    passed.map(|arg| arg.clone().hide_short_help(true)).collect()
}

/// An option as it was given. `None`: it was not, or by the environment, which a run has itself.
fn given(arg: &Arg, matches: &ArgMatches) -> Option<Vec<OsString>> {
    let id = arg.get_id().as_str();
    let source = matches.value_source(id)?;
    let option = format!("--{}", arg.get_long()?);
    if source != clap::parser::ValueSource::CommandLine {
        return None;
    }
    Some(match arg.get_action().takes_values() {
        true => matches
            .get_raw(id)?
            .flat_map(|value| [option.clone().into(), value.to_owned()])
            .collect(),
        false => vec![option.into()],
    })
}

impl FromArgMatches for Passed {
    fn from_arg_matches(matches: &ArgMatches) -> Parsed<Self> {
        let given = of_run().into_iter().filter_map(|arg| given(&arg, matches));
        Ok(Self(given.flatten().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Parsed<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Passed {
    fn augment_args(command: Command) -> Command {
        command.args(of_run())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod test {
    use clap::Parser;

    use super::*;
    use crate::options::{Cli, Command};

    const MIB: u64 = 1 << 20;

    fn try_with(options: &[&str]) -> Result<TryOptions, String> {
        let words = [&["uzswap", "try"], options, &["--", "cmd", "--at", "5"]].concat();
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Try(options)) => Ok(*options),
            Ok(_) => panic!("not `uzswap try`"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn limits_of(at: &str, peak: u64) -> Vec<u64> {
        let options = try_with(&["--at", at]).unwrap();
        limits(&options.at, peak).iter().map(|bytes| bytes / MIB).collect()
    }

    #[test]
    fn limits_are_parts_of_the_peak_or_sizes() {
        let default = try_with(&[]).unwrap().at;
        let limits: Vec<u64> = limits(&default, 100 * MIB).iter().map(|bytes| bytes / MIB).collect();
        assert_eq!(limits, [90, 80, 70, 60, 50, 40, 30]);
        assert_eq!(limits_of("12.5,75%,0.5G,64M", 100 * MIB), [512, 75, 64, 13]);
        assert_eq!(limits_of("50,49.9,50M", 100 * MIB), [50]);
        assert_eq!(limits_of("50,3", 100 * MIB + 5000), [50]);
        assert_eq!(limits_of("100,90", 3 * MIB), [0; 0]);
    }

    #[test]
    fn options_of_run_are_passed_as_they_were_given() {
        let passed = |options: &[&str]| try_with(options).unwrap().passed.0;
        assert_eq!(passed(&["--runs", "3"]), [""; 0]);
        let given = [
            "--compressor",
            "zstd:1",
            "--swap-max",
            "1G",
            "--no-writeback",
            "--allow-unmanaged",
        ];
        assert_eq!(passed(&given), given);
        for option in ["--memory-max=1G", "--name=x", "--stat-json=x", "--summary", "--quiet"] {
            let error = try_with(&[option]).err().unwrap();
            assert!(error.contains("unexpected argument"), "{error}");
        }
        let error = try_with(&["--compressor", "gzip"]).err().unwrap();
        assert!(error.contains("unknown compressor 'gzip'"), "{error}");
    }

    #[test]
    fn anything_else_names_the_value_and_the_rule() {
        for (option, value, rule) in [
            ("--at", "101", "at most 100"),
            ("--at", "50,4096%", "a size has a unit"),
            ("--at", "0", "more than 0"),
            ("--at", "-5", "write percentages"),
            ("--at", "50,", "write percentages"),
            ("--at", "12Q", "write percentages"),
            ("--at", "max", "is no limit"),
            ("--at", "4095K", "at least 4M"),
            ("--runs", "0", "1..=1000"),
            ("--slowdown", "0.9", "from 1 to 1000"),
            ("--slowdown", "nan", "from 1 to 1000"),
            ("--give-up", "-1", "from 1 to 1000"),
        ] {
            let error = try_with(&[option, value]).err().unwrap();
            let last = value.split(',').next_back().unwrap();
            assert!(
                error.contains(last) && error.contains(option) && error.contains(rule),
                "{error}"
            );
        }
    }
}
