//! The command line of `usemem`.

use std::num::NonZeroUsize;
use std::path::Path;

use super::pass::{Order, Pass};
use crate::contents::Contents;
use crate::options::{Failure, Options, ParseError, bad_value};

/// The options of `usemem`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usemem {
    pub(crate) mib: NonZeroUsize,
    pub(crate) seed: u64,
    pub(crate) threads: NonZeroUsize,
    pub(crate) processes: NonZeroUsize,
    pub(crate) passes: Vec<Pass>,
    pub(crate) rand_touches: u64,
    /// heap, random, zero or a file's path.
    pub(crate) contents: String,
    pub(crate) json: bool,
}

impl Usemem {
    /// Reads the arguments that follow `usemem`.
    pub(crate) fn parse(args: &[String]) -> Result<Self, ParseError> {
        let mut mib = None;
        let mut usemem = Self {
            mib: NonZeroUsize::MIN,
            seed: 1,
            threads: NonZeroUsize::MIN,
            processes: NonZeroUsize::MIN,
            passes: passes("--passes", "write,seq,rand")?,
            rand_touches: 200_000,
            contents: "heap".to_owned(),
            json: false,
        };
        let mut options = Options::new(args);
        while let Some(option) = options.next() {
            match option {
                "--mb" => mib = Some(options.number(option)?),
                "--seed" => usemem.seed = options.number(option)?,
                "--threads" => usemem.threads = options.number(option)?,
                "--processes" => usemem.processes = options.number(option)?,
                "--passes" => usemem.passes = passes(option, options.value(option)?)?,
                "--rand-touches" => usemem.rand_touches = options.number(option)?,
                "--contents" => options.value(option)?.clone_into(&mut usemem.contents),
                "--json" => usemem.json = true,
                _ => return Err(ParseError::UnknownOption(option.to_owned())),
            }
        }
        usemem.mib = mib.ok_or(ParseError::MissingOption("--mb"))?;
        Ok(usemem)
    }

    /// What to fill with.
    pub(crate) fn contents(&self) -> Result<Contents, Failure> {
        match self.contents.as_str() {
            "heap" => Ok(Contents::heap()),
            "random" => Ok(Contents::random()),
            "zero" => Ok(Contents::zero()),
            path => Contents::file(Path::new(path)).map_err(|e| Failure(format!("--contents {path}: {e}"))),
        }
    }
}

fn passes(option: &str, value: &str) -> Result<Vec<Pass>, ParseError> {
    const RULE: &str = "must be a list of write, seq, reverse, stride and rand with commas between them, write first, \
                        each with :wPERCENT, :uSIZE or :tTHREADS behind it if wanted";
    let passes: Option<Vec<_>> = value.split(',').map(Pass::parse).collect();
    match passes {
        Some(passes) if passes.first().is_some_and(|first| first.order == Order::Write) => Ok(passes),
        _ => Err(bad_value(option, value, RULE)),
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
        let line = "--mb 64 --seed 9 --threads 2 --processes 3 --passes write,rand:w10,seq --rand-touches 5 \
                    --contents zero --json";
        let usemem = parse(line).unwrap();
        assert_eq!((usemem.mib.get(), usemem.seed, usemem.rand_touches), (64, 9, 5));
        assert_eq!((usemem.threads.get(), usemem.processes.get()), (2, 3));
        let orders: Vec<Order> = usemem.passes.iter().map(|pass| pass.order).collect();
        assert_eq!(orders, [Order::Write, Order::Rand, Order::Seq]);
        assert!(usemem.json && usemem.contents == "zero");
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
        let missing = parse("--mb 1 --contents /nonexistent").unwrap().contents();
        assert!(missing.unwrap_err().0.contains("--contents /nonexistent"));
    }
}
