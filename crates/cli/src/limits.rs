//! Limits of `uzswap run`: whether they go together, and what is to be said of them.

use serde_json::json;
use uzswap_ctl::defaults::MEMORY_MAX_LEAST;
use uzswap_ctl::size::Size;

use crate::Failure;
use crate::given::Given;
use crate::log::{Event, Kind};
use crate::memory_max::{AUTO, AUTO_WORD, Available, MemoryMax};
use crate::options::RunOptions;

/// The word of `memory.max`.
///
/// # Errors
/// The option with its value, and the rule.
pub(crate) fn check(options: &RunOptions) -> Result<u64, Failure> {
    let Some(given) = &options.memory_max else {
        return Ok(AUTO_WORD);
    };
    let max = match given.value {
        MemoryMax::Auto => return Ok(AUTO_WORD),
        MemoryMax::Size(Size(max)) => max,
    };
    if let Some(stall) = options.stall {
        return Err(Failure::new(format!(
            "--stall {stall}: goes with --memory-max auto, and --memory-max is {given}"
        )));
    }
    // Of the value that holds: settings may have a smaller one, a part of a small machine, which
    // the command line overrules.
    if max < MEMORY_MAX_LEAST {
        return Err(Failure::new(format!(
            "--memory-max '{given}' must be at least {}",
            Size(MEMORY_MAX_LEAST)
        )));
    }
    match &options.memory_high {
        Some(high) if high.value.0 > max => Err(Failure::new(format!(
            "--memory-high {high}: must not be above --memory-max {given}"
        ))),
        _ => Ok(max),
    }
}

/// What is to be said of a limit that is missing, or beyond what there is.
pub(crate) fn notice(memory_max: Option<&Given<MemoryMax>>) -> Option<Event> {
    let event = |kind, line: &str, fields| Event::of(kind, Some(format!("uzswap: {line}")), fields);
    match memory_max.map(|given| (given, given.value)) {
        None => {
            let line = format!(
                "nothing is limited, but cold memory is given back: there is no --memory-max, which is {AUTO} then"
            );
            Some(event(Kind::NoLimit, &line, json!({})))
        }
        Some((_, MemoryMax::Auto | MemoryMax::Size(Size(u64::MAX)))) => None,
        Some((given, MemoryMax::Size(Size(bytes)))) => {
            let available = Available::look()?;
            let fields = json!({ "memory_max": bytes, "available": available.bytes });
            let line = available.warning(bytes, given)?;
            Some(event(Kind::UselessLimit, &line, fields))
        }
    }
}

#[cfg(test)]
mod test {
    use clap::Parser;

    use super::*;
    use crate::options::{Cli, Command};

    fn check_of(options: &[&str]) -> Result<u64, String> {
        let words = [&["uzswap", "run"], options, &["cmd"]].concat();
        let Ok(Command::Run(options)) = Cli::try_parse_from(words).map(|cli| cli.command) else {
            panic!("{options:?}")
        };
        check(&options).map_err(|Failure(line)| line)
    }

    #[test]
    fn limits_that_do_not_go_together_are_named_as_they_were_given() {
        assert_eq!(check_of(&[]), Ok(AUTO_WORD));
        assert_eq!(
            check_of(&["--memory-max", "1.5G", "--memory-high", "1536M"]),
            Ok(3 << 29)
        );
        assert_eq!(
            check_of(&["--memory-max", "0.5G", "--memory-high", "1024m"]).unwrap_err(),
            "--memory-high 1024m: must not be above --memory-max 0.5G"
        );
        assert_eq!(
            check_of(&["--memory-max", "1G", "--stall", "2%"]).unwrap_err(),
            "--stall 2%: goes with --memory-max auto, and --memory-max is 1G"
        );
    }

    #[test]
    fn less_than_a_program_starts_with_is_named_as_it_was_given() {
        for text in ["0%", "0", "1M", "4095K"] {
            let error = check_of(&["--memory-max", text]).unwrap_err();
            assert_eq!(error, format!("--memory-max '{text}' must be at least 4M"));
        }
    }
}
