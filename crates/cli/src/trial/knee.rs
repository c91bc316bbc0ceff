//! The knee: the least limit that costs little.

use std::ffi::OsStr;

use super::Tried;
use super::row::Row;
use crate::remote;
use uzswap_ctl::size::Size;

impl Tried<'_> {
    /// The least limit at which CMD does what it does without one, in hardly more time than it
    /// took at first, nor than in the end: a machine may have become quicker.
    pub(crate) fn knee(&self) -> Option<&Row> {
        let first = self.baseline.seconds.median();
        let most = self.again.map_or(first, |again| again.min(first)) * self.options.slowdown;
        let is_good = |row: &&Row| row.outcome(&self.baseline).is_good() && row.seconds().median() <= most;
        self.rows.iter().filter(is_good).min_by_key(|row| row.memory_max)
    }
}

/// The line that tells it.
pub(crate) fn line(tried: &Tried<'_>) -> String {
    let baseline = &tried.baseline;
    match tried.knee() {
        Some(row) => {
            let limit = Size(row.memory_max).exact();
            let at = match row.share(baseline).filter(|share| *share <= 1.0) {
                Some(share) => format!("{:.0} % of its peak ({limit})", share * 100.0),
                None => limit.clone(),
            };
            format!(
                "at {at} it takes {:.2} times as long: uzswap run --memory-max {limit}{} --{}",
                row.slower(baseline),
                words(&remote::shown_in(&tried.options.passed.0)),
                words(&tried.options.cmd),
            )
        }
        None if !tried.rows.is_empty() => format!(
            "no limit that was tried lets it take at most {} times as long (--slowdown)",
            tried.options.slowdown
        ),
        None if !tried.limits.is_empty() => "no limit was tried to its end".to_owned(),
        None => format!(
            "no limit was tried: the percentages of its peak ({}) are less than any program can start with; give --at a size",
            Size(baseline.peak)
        ),
    }
}

/// Each with a space before it, as the shell takes it.
fn words(words: &[impl AsRef<OsStr>]) -> String {
    words
        .iter()
        .map(|word| format!(" {}", quoted(&word.as_ref().to_string_lossy())))
        .collect()
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod test {
    use clap::Parser;

    use super::super::row::test::{baseline, row};
    use super::*;
    use crate::options::{Cli, Command};
    use crate::trial::options::TryOptions;

    fn options(words: &[&str]) -> Box<TryOptions> {
        let words = [&["uzswap", "try"], words, &["--", "sh", "-c", "echo it's"]].concat();
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Try(options)) => options,
            _ => panic!("not understood"),
        }
    }

    fn line_of(words: &[&str], limits: &[u64], seconds: &[(u64, f64)]) -> String {
        line(&Tried {
            options: &options(words),
            baseline: baseline(),
            limits: limits.to_vec(),
            again: None,
            rows: seconds
                .iter()
                .map(|(mib, seconds)| row(mib << 20, &[*seconds]))
                .collect(),
        })
    }

    #[test]
    fn the_least_limit_that_costs_little_is_named_with_its_command() {
        let limits = [80, 70, 60, 50].map(|mib: u64| mib << 20);
        let measured = [(80, 1.3), (70, 1.06), (60, 1.11), (50, 4.0)];
        assert_eq!(
            line_of(&["--compressor", "zstd:1"], &limits, &measured),
            "at 70 % of its peak (70M) it takes 1.06 times as long: uzswap run --memory-max 70M --compressor zstd:1 -- \
             sh -c 'echo it'\\''s'"
        );
        assert!(line_of(&["--slowdown", "1.2"], &limits, &measured).contains("--memory-max 60M --"));
        let none = line_of(&["--slowdown", "1"], &limits, &measured);
        assert_eq!(
            none,
            "no limit that was tried lets it take at most 1 times as long (--slowdown)"
        );
        assert_eq!(line_of(&[], &limits, &[]), "no limit was tried to its end");
        assert!(line_of(&[], &[], &[]).contains("of its peak (100M) are less"));
    }

    #[test]
    fn what_went_wrong_is_no_knee() {
        let options = options(&[]);
        let mut tried = Tried {
            options: &options,
            baseline: baseline(),
            limits: vec![80 << 20, 70 << 20],
            again: None,
            rows: vec![row(80 << 20, &[1.0]), row(70 << 20, &[1.0])],
        };
        tried.rows[1].runs[0].counters["oom_kill"] = 1.into();
        assert_eq!(tried.knee().map(|row| row.memory_max), Some(80 << 20));
        tried.again = Some(0.5);
        assert!(tried.knee().is_none(), "the machine has become quicker");
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(
            words(&["a-b_c/d.e:f=g,50%", "", "a b", "$x"]),
            " a-b_c/d.e:f=g,50% '' 'a b' '$x'"
        );
    }
}
