//! Limits of `uzswap run`: whether they go together.

use uzswap_ctl::defaults;

use crate::Failure;
use crate::options::RunOptions;
use uzswap_ctl::size::Size;

/// Bytes of memory that the group may have.
///
/// # Errors
/// The option with its value, and the rule.
pub(crate) fn check(options: &RunOptions) -> Result<u64, Failure> {
    let Size(max) = options.memory_max.unwrap_or(Size(u64::MAX));
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
