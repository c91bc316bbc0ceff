//! Limits of `uzswap run`: whether they go together.

use uzswap_ctl::defaults;

use crate::Failure;
use crate::memory_max::{self, MemoryMax};
use crate::options::RunOptions;
use uzswap_ctl::size::Size;

/// The word of `memory.max`.
///
/// # Errors
/// The option with its value, and the rule.
pub(crate) fn check(options: &RunOptions) -> Result<u64, Failure> {
    let max = match options.memory_max {
        None | Some(MemoryMax::Auto) => return Ok(memory_max::AUTO_WORD),
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
