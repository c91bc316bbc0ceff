//! Options with values, as all commands of this program take them.

use std::fmt;
use std::str::FromStr;

/// Why a command could not do what it was asked to: one line.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

/// Why a command line was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParseError {
    UnknownCommand(String),
    UnknownOption(String),
    MissingOption(&'static str),
    MissingValue(String),
    BadValue {
        option: String,
        value: String,
        rule: &'static str,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::UnknownCommand(command) => write!(
                f,
                "unknown command `{command}`: the commands are usemem, idle, redis-load and redis-get"
            ),
            Self::UnknownOption(option) => write!(f, "unknown option `{option}`"),
            Self::MissingOption(option) => write!(f, "{option} is required"),
            Self::MissingValue(option) => write!(f, "{option} needs a value"),
            Self::BadValue { option, value, rule } => write!(f, "{option} {value}: {rule}"),
        }
    }
}

/// Option by option.
pub(crate) struct Options<'a>(std::slice::Iter<'a, String>);

impl<'a> Options<'a> {
    pub(crate) fn new(args: &'a [String]) -> Self {
        Self(args.iter())
    }

    /// The next option.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.0.next().map(String::as_str)
    }

    /// The value of `option`, which was read just now.
    pub(crate) fn value(&mut self, option: &str) -> Result<&'a str, ParseError> {
        self.0
            .next()
            .map(String::as_str)
            .ok_or_else(|| ParseError::MissingValue(option.to_owned()))
    }

    /// The same, where it is a number.
    pub(crate) fn number<T: FromStr>(&mut self, option: &str) -> Result<T, ParseError> {
        let value = self.value(option)?;
        value
            .parse()
            .map_err(|_| bad_value(option, value, "must be a whole number that is large enough and fits"))
    }
}

pub(crate) fn bad_value(option: &str, value: &str, rule: &'static str) -> ParseError {
    ParseError::BadValue {
        option: option.to_owned(),
        value: value.to_owned(),
        rule,
    }
}
