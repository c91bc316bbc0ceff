//! Options that are a whole number.

use std::ops::RangeInclusive;

/// What takes one of that range, of which one that ends nowhere ends at the largest.
pub(crate) fn number(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("'{text}' must be a whole number from {}", shown(&range)))
    }
}

fn shown(range: &RangeInclusive<u64>) -> String {
    match *range.end() {
        u64::MAX => format!("{} on", range.start()),
        last => format!("{} to {last}", range.start()),
    }
}

#[cfg(test)]
mod test {
    use clap::Parser;

    use super::*;
    use crate::options::Cli;

    /// It is no option of its own, nor CMD.
    #[test]
    fn a_negative_number_is_refused_as_a_value() {
        for (option, rule) in [
            ("--page-cluster", "'-1' must be a whole number from 0 to 5"),
            ("--batch", "'-1' must be a whole number from 1 to 512"),
            ("--kcompressd", "'-1' must be a whole number from 0 to 8"),
            ("--max-pool-percent", "'-1' must be a number from 1 to 100"),
            ("--folio-max", "'-1' is not a size"),
        ] {
            let words = ["uzswap", "run", option, "-1", "--", "cmd"];
            let error = Cli::try_parse_from(words).err().unwrap().to_string();
            assert!(error.contains(option) && error.contains(rule), "{error}");
        }
        for text in ["x", "0", "-1"] {
            let error = Cli::try_parse_from(["uzswap", "stat", "-n", text])
                .err()
                .unwrap()
                .to_string();
            let rule = format!("'{text}' must be a whole number from 1 on");
            assert!(error.contains(&rule), "{error}");
        }
    }

    #[test]
    fn a_number_is_of_its_range() {
        let few = number(0..=5);
        assert_eq!([few("0"), few("5")], [Ok(0), Ok(5)]);
        for text in ["", "6", "-1", "x", "1.5", "1K", "99999999999999999999"] {
            assert_eq!(few(text), Err(format!("'{text}' must be a whole number from 0 to 5")));
        }
        let some = number(1..=u64::MAX);
        assert_eq!(some("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(some("0"), Err("'0' must be a whole number from 1 on".to_owned()));
    }
}
