//! `--stall`: how much of its time a program may wait for pages that the automatic limit took out.

use uzswap_ctl::size::Decimal;
use uzswap_ctl::{Group, Limit};

/// Millionths of the time, more than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall(pub(crate) u64);

/// In a hundredth.
const PERCENT: u64 = 10_000;

impl Stall {
    /// Where nobody says how much.
    pub(crate) const DEFAULT: Self = Self(PERCENT);

    /// That of a group. `None`: its limit is not automatic.
    pub(crate) fn of(group: Group) -> Option<Self> {
        Some(Self(group.get(Limit::Stall))).filter(|stall| stall.0 > 0)
    }
}

impl std::str::FromStr for Stall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(|number| number.parse::<Decimal>().ok());
        let millionths = number.and_then(|number| number.of(PERCENT));
        let is_share = |millionths: &u64| (1..=100 * PERCENT).contains(millionths);
        millionths
            .filter(is_share)
            .map(Self)
            .ok_or_else(|| format!("'{text}' must be a part of the time above 0% and up to 100%, as 1% or 0.5%"))
    }
}

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", self.0 as f64 / PERCENT as f64)
    }
}

/// What the group's word is: `none` where the limit is not automatic.
pub(crate) fn word(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => text.parse().map(|Stall(millionths)| millionths),
    }
}

/// The inverse of [`word`].
pub(crate) fn value(word: u64) -> String {
    match word {
        0 => "none".to_owned(),
        millionths => Stall(millionths).to_string(),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_budget_is_a_percentage_above_none() {
        for (text, millionths) in [("1%", 10_000), ("0.5%", 5_000), ("100%", 1_000_000), ("0.0001%", 1)] {
            assert_eq!(text.parse(), Ok(Stall(millionths)));
            assert_eq!(Stall(millionths).to_string(), text);
        }
        for text in [
            "0", "0%", "200%", "100.1%", "1", "-1%", "x%", "%", "", "1 %", "0.00001%", "none",
        ] {
            let error = text.parse::<Stall>().unwrap_err();
            assert!(error.starts_with(&format!("'{text}' must be")), "{error}");
        }
    }

    #[test]
    fn what_is_shown_is_taken() {
        for text in ["none", "0.25%", "1%"] {
            assert_eq!(word(text).map(value).as_deref(), Ok(text));
        }
    }
}
