//! The command line of `usemem`.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// What `usemem` does to its memory, once over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Write every page, in order.
    Write,
    /// Read and check every page, in order.
    Seq,
    /// Read and check pages drawn at random.
    Rand,
}

/// The options of `usemem`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usemem {
    pub(crate) mib: NonZeroUsize,
    pub(crate) seed: u64,
    pub(crate) threads: NonZeroUsize,
    pub(crate) passes: Vec<Pass>,
    pub(crate) rand_touches: u64,
}

/// Why a command line was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParseError {
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
            Self::UnknownOption(option) => write!(f, "unknown option `{option}`"),
            Self::MissingOption(option) => write!(f, "{option} is required"),
            Self::MissingValue(option) => write!(f, "{option} needs a value"),
            Self::BadValue { option, value, rule } => write!(f, "{option} {value}: {rule}"),
        }
    }
}

impl Usemem {
    /// Reads the arguments that follow `usemem`.
    pub(crate) fn parse(args: &[String]) -> Result<Self, ParseError> {
        let mut mib = None;
        let mut options = Self {
            mib: NonZeroUsize::MIN,
            seed: 1,
            threads: NonZeroUsize::MIN,
            passes: vec![Pass::Write, Pass::Seq, Pass::Rand],
            rand_touches: 200_000,
        };
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let mut value = || args.next().ok_or_else(|| ParseError::MissingValue(option.clone()));
            match option.as_str() {
                "--mb" => mib = Some(number(option, value()?)?),
                "--seed" => options.seed = number(option, value()?)?,
                "--threads" => options.threads = number(option, value()?)?,
                "--passes" => options.passes = passes(option, value()?)?,
                "--rand-touches" => options.rand_touches = number(option, value()?)?,
                _ => return Err(ParseError::UnknownOption(option.clone())),
            }
        }
        options.mib = mib.ok_or(ParseError::MissingOption("--mb"))?;
        Ok(options)
    }
}

fn number<T: FromStr>(option: &str, value: &str) -> Result<T, ParseError> {
    value
        .parse()
        .map_err(|_| bad_value(option, value, "must be a whole number that is large enough and fits"))
}

fn passes(option: &str, value: &str) -> Result<Vec<Pass>, ParseError> {
    const RULE: &str = "must be a list of write, seq and rand with commas between them, write first";
    let passes: Option<Vec<_>> = value.split(',').map(pass).collect();
    match passes {
        Some(passes) if passes.first() == Some(&Pass::Write) => Ok(passes),
        _ => Err(bad_value(option, value, RULE)),
    }
}

fn pass(name: &str) -> Option<Pass> {
    match name {
        "write" => Some(Pass::Write),
        "seq" => Some(Pass::Seq),
        "rand" => Some(Pass::Rand),
        _ => None,
    }
}

fn bad_value(option: &str, value: &str, rule: &'static str) -> ParseError {
    ParseError::BadValue {
        option: option.to_owned(),
        value: value.to_owned(),
        rule,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Usemem, ParseError> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Usemem::parse(&args)
    }

    #[test]
    fn reads_every_option() {
        let options = parse("--mb 64 --seed 9 --threads 2 --passes write,rand,seq --rand-touches 5").unwrap();
        assert_eq!(
            (
                options.mib.get(),
                options.seed,
                options.threads.get(),
                options.rand_touches
            ),
            (64, 9, 2, 5)
        );
        assert_eq!(options.passes, [Pass::Write, Pass::Rand, Pass::Seq]);
    }

    #[test]
    fn names_the_value_it_refuses() {
        for (line, named) in [
            ("--seed 1", "--mb"),
            ("--mb", "--mb"),
            ("--mb 0", "--mb 0"),
            ("--mb 64 --threads x", "--threads x"),
            ("--mb 64 --passes seq,write", "seq,write"),
            ("--mb 64 --passes write,all", "write,all"),
            ("--mb 64 --frobnicate", "--frobnicate"),
        ] {
            let message = parse(line).unwrap_err().to_string();
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
