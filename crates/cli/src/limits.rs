//! Limits of `uzswap run`: whether they go together, and what is to be said of them.

use serde_json::json;
use uzswap_ctl::defaults;
use uzswap_ctl::size::Size;

use crate::Failure;
use crate::log::{Event, Kind};
use crate::memory_max::{AUTO, AUTO_WORD, Available, MemoryMax};
use crate::options::RunOptions;

/// The word of `memory.max`.
///
/// # Errors
/// The option with its value, and the rule.
pub(crate) fn check(options: &RunOptions) -> Result<u64, Failure> {
    let max = match options.memory_max {
        None | Some(MemoryMax::Auto) => return Ok(AUTO_WORD),
        Some(MemoryMax::Size(Size(max))) => max,
    };
    if let Some(stall) = options.stall {
        return Err(Failure::new(format!(
            "--stall {stall}: goes with --memory-max auto, and --memory-max is {}",
            Size(max)
        )));
    }
    if max < defaults::MEMORY_MAX_LEAST {
        let least = Size(defaults::MEMORY_MAX_LEAST);
        return Err(Failure::new(format!(
            "--memory-max {}: the least that a program can start with is {least}",
            max_as_given(max)
        )));
    }
    if let Some(Size(high)) = options.memory_high.filter(|high| high.0 > max) {
        return Err(Failure::new(format!(
            "--memory-high {}: must not be above --memory-max {}",
            Size(high),
            Size(max)
        )));
    }
    Ok(max)
}

/// A small size the way people write it.
fn max_as_given(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{}K", bytes >> 10)
    } else {
        bytes.to_string()
    }
}

/// What is to be said of a limit that is missing, or beyond what there is.
pub(crate) fn notice(memory_max: Option<MemoryMax>) -> Option<Event> {
    let event = |kind, line: &str, fields| Event::of(kind, Some(format!("uzswap: {line}")), fields);
    match memory_max {
        None => {
            let line = format!(
                "nothing is limited, but cold memory is given back: there is no --memory-max, which is {AUTO} then"
            );
            Some(event(Kind::NoLimit, &line, json!({})))
        }
        Some(MemoryMax::Auto | MemoryMax::Size(Size(u64::MAX))) => None,
        Some(MemoryMax::Size(Size(bytes))) => {
            let available = Available::look()?;
            let fields = json!({ "memory_max": bytes, "available": available.bytes });
            let line = available.warning(bytes)?;
            Some(event(Kind::UselessLimit, &line, fields))
        }
    }
}
