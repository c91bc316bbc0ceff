//! What `uzswap run` is told beside its command line: by files and by the environment. A setting is
//! named as the option is and takes what that takes. Each place overrules those before:
//! /etc/uzswap.toml, the user's own uzswap.toml, UZSWAP_* of the environment, the command line.

mod environment;
mod file;
mod near;
mod place;

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};

use crate::memory_max::MemoryMax;
use crate::options::RunOptions;
use crate::output::warn_line;
use crate::{Failure, help};
use file::File;
use place::Place;
use uzswap_ctl::size::Size;

const RUN: &str = "run";
/// The option that no setting can be: it says whether they are looked for.
const NO_CONFIG: &str = "no_config";
/// Limits of which one may leave no room for the others.
const MEMORY_MAX: &str = "memory_max";
const MEMORY_HIGH: &str = "memory_high";
const STALL: &str = "stall";
const TRUE: &str = "true";
const FALSE: &str = "false";

/// A value for an option, and who says so.
#[derive(Clone, Debug)]
struct Setting {
    arg: Arg,
    value: OsString,
    place: Place,
}

impl Setting {
    /// # Errors
    /// The option does not take that value: a line that names both and the place.
    fn new(run: &Command, arg: &Arg, value: OsString, place: Place) -> Result<Self, Failure> {
        match refusal(run, arg, &value) {
            None => Ok(Self {
                arg: arg.clone(),
                value,
                place,
            }),
            Some(rule) => Err(Failure::new(format!("{place}: {}: {rule}", name(arg)))),
        }
    }

    /// As the command line would have it.
    fn option(&self) -> String {
        format!("--{}", name(&self.arg))
    }

    /// Whether both would be refused in one command line.
    fn excludes(&self, run: &Command, other: &Arg) -> bool {
        let names = |one: &Arg, other: &Arg| {
            run.get_arg_conflicts_with(one)
                .iter()
                .any(|id| id.get_id() == other.get_id())
        };
        self.value != FALSE && (names(&self.arg, other) || names(other, &self.arg))
    }
}

impl Setting {
    /// Whether a limit that a later place sets leaves no room for this one.
    fn is_beyond(&self, limit: &OsStr) -> bool {
        let Some(Ok(MemoryMax::Size(limit))) = limit.to_str().map(str::parse) else {
            return false;
        };
        match self.arg.get_id().as_str() {
            STALL => true,
            MEMORY_HIGH => self
                .value
                .to_str()
                .map(str::parse::<Size>)
                .is_some_and(|high| high > Ok(limit)),
            _ => false,
        }
    }
}

fn name(arg: &Arg) -> &str {
    arg.get_long().expect("settings are of long options")
}

fn is_flag(arg: &Arg) -> bool {
    !arg.get_action().takes_values()
}

/// The options of `uzswap run` that a setting can be for.
fn settable(run: &Command) -> impl Iterator<Item = &Arg> {
    run.get_arguments()
        .filter(|arg| arg.get_long().is_some() && !arg.is_hide_set() && arg.get_id() != NO_CONFIG)
}

/// Why the option does not take the value, as it says so itself.
fn refusal(run: &Command, arg: &Arg, value: &OsStr) -> Option<String> {
    if is_flag(arg) {
        let is_told = value == TRUE || value == FALSE;
        return (!is_told).then(|| format!("'{}' must be true or false", value.display()));
    }
    let mut word = OsString::from(format!("--{}=", name(arg)));
    word.push(value);
    let words = [OsStr::new(RUN), &word, OsStr::new("cmd")];
    let error = run.clone().try_get_matches_from(words).err()?;
    let value = value.display().to_string();
    Some(match std::error::Error::source(&error).map(ToString::to_string) {
        Some(rule) if rule.contains(&value) => rule,
        Some(rule) => format!("'{value}': {rule}"),
        None => {
            let words = arg.get_possible_values();
            let words: Vec<_> = words.iter().map(|word| word.get_name()).collect();
            format!("'{value}' must be one of {}", words.join(", "))
        }
    })
}

/// All settings of which none is overruled by another.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    list: Vec<Setting>,
    /// What is to be said of variables that set nothing.
    strays: Vec<String>,
}

impl Settings {
    /// Those of this machine, this user and this environment.
    ///
    /// # Errors
    /// One is for no option, or not what that takes.
    pub(crate) fn find(options: &RunOptions) -> Result<Self, Failure> {
        let files = match options.no_config {
            true => Vec::new(),
            false => file::all().collect::<Result<Vec<_>, _>>()?,
        };
        let mut settings = Self::default();
        // Most have none, and to describe all options takes a part of the time of a start.
        if files.is_empty() && !environment::has_any() {
            return Ok(settings);
        }
        let command = help::command();
        let run = run_of(&command);
        for found in files {
            match found {
                File::Text(path, text) => settings.overrule(run, file::settings(run, &path, &text)?),
                File::Untrusted(line) if !options.report.quiet => warn_line!("uzswap: {line}"),
                File::Untrusted(_) => {}
            }
        }
        settings.overrule(run, environment::settings(run)?);
        settings.strays = environment::strays(run, environment::names());
        Ok(settings)
    }

    fn overrule(&mut self, run: &Command, later: Vec<Setting>) {
        for setting in &later {
            let is_limit = setting.arg.get_id() == MEMORY_MAX;
            (self.list).retain(|old| {
                let is_overruled = old.arg.get_id() == setting.arg.get_id() || setting.excludes(run, &old.arg);
                !(is_overruled || is_limit && old.is_beyond(&setting.value))
            });
        }
        self.list.extend(later);
    }

    /// What the command line says, which has come to `options`, over these settings. Those that it
    /// overrules are forgotten.
    ///
    /// # Errors
    /// None that the command line alone has not.
    pub(crate) fn under(&mut self, options: RunOptions, words: &[OsString]) -> Result<RunOptions, Failure> {
        let options = self.merged(options, words)?;
        if !options.report.quiet {
            self.strays.iter().for_each(|line| warn_line!("uzswap: {line}"));
        }
        Ok(options)
    }

    fn merged(&mut self, options: RunOptions, words: &[OsString]) -> Result<RunOptions, Failure> {
        if self.list.is_empty() {
            return Ok(options);
        }
        let command = help::command();
        let run = run_of(&command);
        let given = matches(command.clone(), words)?;
        let is_given = |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let is_overruled = |setting: &Setting| settable(run).any(|arg| is_given(arg) && setting.excludes(run, arg));
        let limit = given.get_raw(MEMORY_MAX).and_then(|mut values| values.next());
        let is_beyond = |setting: &Setting| limit.is_some_and(|limit| setting.is_beyond(limit));
        (self.list).retain(|setting| !is_given(&setting.arg) && !is_overruled(setting) && !is_beyond(setting));
        let command = self.list.iter().fold(command.clone(), with_default);
        RunOptions::from_arg_matches(&matches(command, words)?).map_err(|e| misuse(&e))
    }

    /// A failure that is about an option says who set it.
    pub(crate) fn explain(&self, Failure(line): Failure) -> Failure {
        let is_named = |setting: &&Setting| {
            let option = setting.option();
            let is_word = |rest: &str| !rest.starts_with(|c: char| c == '-' || c.is_ascii_alphanumeric());
            line.split(&*option).skip(1).any(is_word)
        };
        let named: Vec<_> = self.list.iter().filter(is_named).collect();
        let who = named
            .iter()
            .map(|setting| format!(" ({} is set by {})", setting.option(), setting.place));
        Failure::new(line.clone() + &who.collect::<String>())
    }
}

/// Whether a variable sets what one run alone can have: a run inside it would be refused, or write
/// over it.
pub(crate) fn is_of_one_run(name: &OsStr) -> bool {
    ["UZSWAP_NAME", "UZSWAP_STAT_JSON", "UZSWAP_REPORT"]
        .iter()
        .any(|of_one| name == *of_one)
}

fn run_of(command: &Command) -> &Command {
    command.find_subcommand(RUN).expect("it is one of the commands")
}

/// The command line, where nothing else is said.
fn with_default(command: Command, setting: &Setting) -> Command {
    let (id, value) = (setting.arg.get_id().clone(), setting.value.clone());
    command.mut_subcommand(RUN, |run| run.mut_arg(id, |arg| arg.default_value(value)))
}

/// What follows `uzswap run`.
fn matches(command: Command, words: &[OsString]) -> Result<ArgMatches, Failure> {
    let mut matches = command.try_get_matches_from(words).map_err(|e| misuse(&e))?;
    Ok(matches.remove_subcommand().expect("this is called for `uzswap run`").1)
}

fn misuse(error: &clap::Error) -> Failure {
    Failure::new(error.to_string().trim_end())
}

#[cfg(test)]
mod test;
