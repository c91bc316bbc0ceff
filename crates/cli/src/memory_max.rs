//! `--memory-max` and `memory.max`: a size, or a part of the memory that this process may use.

use std::fmt::Display;

use uzswap_ctl::defaults::MEMORY_MAX_LEAST;
use uzswap_ctl::size::{Decimal, Size};
use uzswap_ctl::{Group, Limit};

use crate::cgroup::{self, Named};
use crate::stall::Stall;

/// Instead of a size: as much is left to the program as it wants now and then (`census/auto.rs`).
pub(crate) const AUTO: &str = "auto";
/// Stands for that where limits are words: no limit is as small.
pub(crate) const AUTO_WORD: u64 = 0;
/// Instead of a size: nothing is limited, and nothing given back.
const NONE: &str = "none";
/// Of what may be used an automatic limit leaves so much free, one part in so many: others have
/// memory too, and files.
const FREE_SHARE: u64 = 16;

/// Less is no demonstration. Bytes.
const DATA_LEAST: u64 = 1 << 20;

/// What `--memory-max` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryMax {
    Auto,
    /// `u64::MAX`: there is none.
    Size(Size),
}

impl std::str::FromStr for MemoryMax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            AUTO => Ok(Self::Auto),
            NONE => Ok(Self::Size(Size(u64::MAX))),
            _ => parse(text).map(Self::Size).map_err(with_words),
        }
    }
}

fn with_words(rule: String) -> String {
    match rule.contains("is not a size") {
        true => format!("{rule}, or {AUTO}, or {NONE}"),
        false => rule,
    }
}

/// The memory that this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Available {
    pub(crate) bytes: u64,
    /// A control group allows no more; else the machine has no more.
    is_limited: bool,
}

impl Available {
    /// What /proc and the control groups say. `None`: nothing can be read.
    pub(crate) fn look() -> Option<Self> {
        let file = Named {
            controller: "memory",
            v2: "memory.max",
            v1: "memory.limit_in_bytes",
        };
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self::least(mem_total(&meminfo), &cgroup::first_words(&file))
    }

    /// The least of the machine's memory and the limits of control groups, which have `max` or a
    /// huge number where there is none.
    fn least(total: Option<u64>, limits: &[String]) -> Option<Self> {
        let limits = limits.iter().filter_map(|word| word.parse::<u64>().ok());
        let limits = limits.map(|bytes| Self {
            bytes,
            is_limited: true,
        });
        let total = total.map(|bytes| Self {
            bytes,
            is_limited: false,
        });
        total.into_iter().chain(limits).min_by_key(|available| available.bytes)
    }

    /// What one program may have of it where others are to have something too.
    fn most_of(self) -> u64 {
        self.bytes - self.bytes / FREE_SHARE
    }

    /// What is to be said of a limit that can never be reached.
    pub(crate) fn warning(self, memory_max: u64, given: &impl Display) -> Option<String> {
        let what = self.whose();
        (memory_max > self.bytes).then(|| {
            format!(
                "--memory-max {given}: {what} only {}, which ends first",
                Size(self.bytes)
            )
        })
    }

    /// Who has it.
    pub(crate) fn whose(self) -> &'static str {
        match self.is_limited {
            true => "this container may use",
            false => "this machine has",
        }
    }
}

/// Bytes of the machine's memory, as /proc/meminfo tells them.
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// A size, or a percentage of what may be used.
///
/// # Errors
/// The value and the rule.
pub(crate) fn parse(text: &str) -> Result<Size, String> {
    match text.strip_suffix('%') {
        Some(percent) => percentage(text, percent, Available::look()),
        None => {
            let size = text.parse::<Size>();
            size.map_err(|rule| match rule.contains("is not a size") {
                true => format!("{rule}, or a percentage as 50%"),
                false => rule,
            })
        }
    }
}

fn percentage(text: &str, percent: &str, available: Option<Available>) -> Result<Size, String> {
    let number: Decimal = percent
        .parse()
        .map_err(|_| format!("'{text}' is not a percentage: write a number up to 100 before the %"))?;
    if number.exceeds(100) {
        return Err(format!("'{text}' must be at most 100%"));
    }
    let Some(Available { bytes, .. }) = available else {
        return Err(format!("'{text}': /proc/meminfo does not say of what; write a size"));
    };
    Ok(Size(number.percent_of(bytes)))
}

/// As [`parse`], and not less than a program can start with.
pub(crate) fn parse_word(text: &str) -> Result<u64, String> {
    let Size(bytes) = parse(text)?;
    if bytes < MEMORY_MAX_LEAST {
        return Err(format!("'{text}' must be at least {}", Size(MEMORY_MAX_LEAST)));
    }
    Ok(bytes)
}

/// `--data` of `uzswap demo`: as much as its program can have without uzswap as well, beside
/// others.
///
/// # Errors
/// The value and the rule.
pub(crate) fn data(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    if bytes < DATA_LEAST {
        return Err(format!("'{text}' must be at least {}", Size(DATA_LEAST)));
    }
    match Available::look() {
        Some(available) if bytes > data_most() => Err(format!(
            "'{text}' must be at most {}, half of what {}: it is filled without uzswap first",
            Size(data_most()),
            available.whose()
        )),
        _ => Ok(bytes),
    }
}

/// The most that [`data`] takes.
pub(crate) fn data_most() -> u64 {
    Available::look().map_or(u64::MAX, |available| available.bytes / 2)
}

/// The word of `memory.max=TEXT`.
pub(crate) fn setting_word(text: &str) -> Result<u64, String> {
    match text.parse()? {
        MemoryMax::Auto => Ok(AUTO_WORD),
        MemoryMax::Size(Size(u64::MAX)) => Ok(u64::MAX),
        MemoryMax::Size(_) => parse_word(text),
    }
}

/// The inverse of [`setting_word`].
pub(crate) fn value(word: u64) -> String {
    match word {
        AUTO_WORD => AUTO.to_owned(),
        bytes => Size(bytes).exact(),
    }
}

/// The limit of a group as its setting has it.
pub(crate) fn word_of(group: Group) -> u64 {
    Stall::of(group).map_or_else(|| group.get(Limit::MemoryMax), |_| AUTO_WORD)
}

/// Set it.
pub(crate) fn set_word(group: Group, word: u64) {
    if word != AUTO_WORD {
        group.set(Limit::Stall, 0);
        return group.set(Limit::MemoryMax, word);
    }
    let Stall(millionths) = Stall::of(group).unwrap_or(Stall::DEFAULT);
    group.set(Limit::MemoryMax, u64::MAX);
    let high = Available::look().map_or(u64::MAX, Available::most_of);
    group.set(Limit::MemoryHigh, group.get(Limit::MemoryHigh).min(high));
    group.set(Limit::Stall, millionths);
}

#[cfg(test)]
mod test {
    use super::*;

    fn least(total: Option<u64>, limits: &[&str]) -> Option<(u64, bool)> {
        let limits: Vec<String> = limits.iter().map(|word| (*word).to_owned()).collect();
        Available::least(total, &limits).map(|available| (available.bytes, available.is_limited))
    }

    #[test]
    fn the_least_of_all_limits_holds() {
        assert_eq!(least(Some(100), &[]), Some((100, false)));
        assert_eq!(least(Some(100), &["max", "70", "80"]), Some((70, true)));
        assert_eq!(least(Some(100), &["9223372036854771712", "-1"]), Some((100, false)));
        assert_eq!(least(None, &["50"]), Some((50, true)));
        assert_eq!(least(None, &["max", ""]), None);
    }

    #[test]
    fn the_machine_says_how_much_it_has() {
        let text = "MemTotal:       16384 kB\nMemFree:         100 kB\n";
        assert_eq!(mem_total(text), Some(16 << 20));
        for text in ["", "MemTotal:\n", "MemTotal: x kB\n", "MemTotal: 5 MB\n"] {
            assert_eq!(mem_total(text), None, "{text}");
        }
        assert!(Available::look().is_some_and(|available| available.bytes > 0));
    }

    #[test]
    fn a_percentage_is_of_what_may_be_used() {
        let available = Available::least(Some(4 << 30), &[]);
        let of = |text: &str| percentage(text, text.strip_suffix('%').unwrap(), available);
        assert_eq!(of("50%"), Ok(Size(2 << 30)));
        assert_eq!(of("12.5%"), Ok(Size(512 << 20)));
        assert_eq!(of("100%"), Ok(Size(4 << 30)));
        assert_eq!(of("0%"), Ok(Size(0)));
        for text in ["%", "x%", "-5%", "5 %", "5M%", "50%%"] {
            let error = of(text).unwrap_err();
            assert!(
                error.starts_with(&format!("'{text}' is not a percentage: write")),
                "{error}"
            );
        }
        for text in ["101%", "100.001%", "99999999999999999999%"] {
            assert_eq!(of(text), Err(format!("'{text}' must be at most 100%")));
        }
        let error = percentage("50%", "50", None).unwrap_err();
        assert!(error.contains("'50%'") && error.contains("write a size"), "{error}");
        let halves = [parse("50%"), parse("100%")].map(|size| size.unwrap().0);
        assert_eq!(halves[0], halves[1] / 2);
    }

    #[test]
    fn a_size_is_taken_too() {
        assert_eq!(parse("1.5G"), Ok(Size(3 << 29)));
        let error = parse("12Q").unwrap_err();
        assert!(
            error.contains("'12Q'") && error.ends_with("or a percentage as 50%"),
            "{error}"
        );
        // Where these words are taken, too.
        let error = "12Q".parse::<MemoryMax>().unwrap_err();
        assert!(error.ends_with("or a percentage as 50%, or auto, or none"), "{error}");
        assert_eq!("none".parse(), Ok(MemoryMax::Size(Size(u64::MAX))));
        assert_eq!(parse_word("0.001%").is_ok(), parse("0.001%").unwrap().0 >= 4 << 20);
    }

    #[test]
    fn a_limit_above_what_there_is_has_one_line() {
        let machine = Available::least(Some(4 << 30), &[]).unwrap();
        let container = Available::least(Some(4 << 30), &["1073741824".to_owned()]).unwrap();
        assert_eq!(machine.warning(4 << 30, &"4G"), None);
        assert_eq!(
            machine.warning(5 << 30, &"5G").unwrap(),
            "--memory-max 5G: this machine has only 4096M, which ends first"
        );
        assert_eq!(
            container.warning(2 << 30, &"2GiB").unwrap(),
            "--memory-max 2GiB: this container may use only 1024M, which ends first"
        );
    }
}
