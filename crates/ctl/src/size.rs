//! Sizes as people write them: a number of bytes, or with a unit that is a power of 1024, or `max`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

/// A number of bytes; `u64::MAX` is `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl core::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(u64::MAX));
        }
        let rule = || {
            format!("'{text}' is not a size: write a number of bytes, or one with K, M, G or T (1.5G, 512MiB), or max")
        };
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = unit(&text[number.len()..]).ok_or_else(rule)?;
        let number: Decimal = number.parse().map_err(|NotDecimal| rule())?;
        if unit == 1 && !number.is_whole() {
            return Err(format!(
                "'{text}': there are no parts of a byte; write K, M, G or T behind it"
            ));
        }
        let bytes = number.of(unit).filter(|bytes| *bytes < u64::MAX);
        bytes
            .map(Self)
            .ok_or_else(|| format!("'{text}' is too large for a size"))
    }
}

/// Bytes of a unit. As in the kernel's memparse a B behind the letter changes nothing.
fn unit(text: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let letter = upper.strip_suffix("IB").filter(|letter| !letter.is_empty());
    let letter = letter.or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let shift = match letter {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    Some(1 << shift)
}

/// A number with digits behind its point, kept exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// All digits, as one number.
    digits: u128,
    /// How much of it is one.
    one: u128,
}

/// It is none, or has more digits than anybody needs.
#[derive(Debug)]
pub struct NotDecimal;

/// A number of 64 bits has twenty, and as many may follow the point as tell bytes of a T apart.
const DIGITS_MAX: usize = 20;
const FRACTION_MAX: usize = 12;

impl core::str::FromStr for Decimal {
    type Err = NotDecimal;

    fn from_str(text: &str) -> Result<Self, NotDecimal> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(NotDecimal),
            Some(parts) => parts,
            None => (text, ""),
        };
        let are_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let is_short = whole.len() <= DIGITS_MAX && fraction.len() <= FRACTION_MAX;
        if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) || !is_short {
            return Err(NotDecimal);
        }
        let digits = format!("{whole}{fraction}").parse().map_err(|_| NotDecimal)?;
        let one = 10u128.pow(fraction.len() as u32);
        Ok(Self { digits, one })
    }
}

impl Decimal {
    fn is_whole(self) -> bool {
        self.digits.is_multiple_of(self.one)
    }

    /// Whether it is more than `number`.
    pub fn exceeds(self, number: u64) -> bool {
        self.digits > self.one * u128::from(number)
    }

    /// So many times `unit`, rounded down. `None`: too large.
    pub fn of(self, unit: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(unit))?;
        u64::try_from(product / self.one).ok()
    }

    /// So many hundredths of `whole`, rounded down.
    pub fn percent_of(self, whole: u64) -> u64 {
        let product = self.digits.saturating_mul(u128::from(whole));
        u64::try_from(product / self.one / 100).unwrap_or(u64::MAX)
    }
}

impl Size {
    /// Nothing rounded: [`parse`](str::parse) makes the same size of it.
    pub fn exact(self) -> String {
        match self.0 {
            u64::MAX => "max".to_owned(),
            0 => "0".to_owned(),
            n if n.is_multiple_of(1 << 30) => format!("{}G", n >> 30),
            n if n.is_multiple_of(1 << 20) => format!("{}M", n >> 20),
            n if n.is_multiple_of(1 << 10) => format!("{}K", n >> 10),
            n => n.to_string(),
        }
    }

    /// For narrow columns: at most five characters.
    pub fn short(self) -> String {
        match self.0 {
            u64::MAX => "max".to_owned(),
            n => three_digits(n as f64, 1024.0),
        }
    }
}

/// About three digits of a number, and the power of `base` behind it: at most five characters.
pub fn three_digits(number: f64, base: f64) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    // As powers of it: no_std has none.
    let of = |power: &usize| (0..*power).fold(1.0, |product, _| product * base);
    let is_long = |power: &usize| number / of(power) >= 999.5;
    let power = (0..units.len() - 1).find(|power| !is_long(power));
    let power = power.unwrap_or(units.len() - 1);
    let (number, unit) = (number / of(&power), units[power]);
    match number {
        _ if power == 0 => format!("{number:.0}"),
        n if n < 9.995 => format!("{number:.2}{unit}"),
        n if n < 99.95 => format!("{number:.1}{unit}"),
        _ => format!("{number:.0}{unit}"),
    }
}

impl core::fmt::Display for Size {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            u64::MAX => write!(f, "max"),
            n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => write!(f, "{}M", n >> 20),
            n if n >= 1 << 20 => write!(f, "{:.1}M", n as f64 / f64::from(1 << 20)),
            n if n >= 1 << 10 => write!(f, "{:.1}K", n as f64 / 1024.0),
            n => write!(f, "{n}"),
        }
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use std::prelude::v1::*;

    use super::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("512m", 512 << 20),
            ("512MB", 512 << 20),
            ("512MiB", 512 << 20),
            ("512mib", 512 << 20),
            ("100B", 100),
            ("2G", 2 << 30),
            ("1g", 1 << 30),
            ("1.5G", 3 << 29),
            ("0.25k", 256),
            ("1.0T", 1 << 40),
            ("16777215.999999T", 18_446_744_073_708_452_104),
            ("max", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn anything_else_names_the_value_and_the_rule() {
        for text in [
            "",
            "M",
            "B",
            "iB",
            "5iB",
            "12Q",
            "-5M",
            "+5M",
            "0x10",
            "5 M",
            "5M ",
            "1.G",
            ".5G",
            "1.5.5G",
            "1,5G",
            "1e9",
            "5KM",
            "5MBB",
            "5%",
            "MAX",
            "5\u{212a}",
            "\u{666}M",
            "0.0000000000001T",
        ] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains(&format!("'{text}' is not a size: write")), "{error}");
        }
        for text in [
            "18446744073709551615",
            "99999999999999999999",
            "18446744073709551615K",
            "16777216T",
        ] {
            let error = text.parse::<Size>().unwrap_err();
            assert_eq!(error, format!("'{text}' is too large for a size"));
        }
        for text in ["1.5", "1.5B"] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.starts_with(&format!("'{text}': there are no parts")), "{error}");
        }
        assert_eq!("1.0".parse(), Ok(Size(1)));
    }

    /// Numbers of all magnitudes.
    fn numbers() -> impl Iterator<Item = u64> {
        let next = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let drawn = std::iter::successors(Some(35), next).take(2000);
        drawn.enumerate().map(|(i, n)| n >> (i % 64))
    }

    #[test]
    fn all_spellings_of_a_unit_are_one() {
        for n in numbers() {
            for (letter, shift) in [("K", 10), ("M", 20), ("G", 30), ("T", 40)] {
                let expected = n.checked_mul(1 << shift).map(Size);
                for spelling in [
                    letter.to_owned(),
                    letter.to_lowercase(),
                    format!("{letter}B"),
                    format!("{letter}iB").to_lowercase(),
                    format!("{letter}iB"),
                ] {
                    assert_eq!(format!("{n}{spelling}").parse().ok(), expected, "{n}{spelling}");
                    assert_eq!(format!("{n}.000{spelling}").parse().ok(), expected);
                }
            }
        }
    }

    #[test]
    fn an_exact_size_is_read_as_it_was() {
        for n in numbers().chain([0, 1, 1023, 1024, 4 << 30, u64::MAX]) {
            assert_eq!(Size(n).exact().parse(), Ok(Size(n)));
        }
    }

    #[test]
    fn a_short_size_has_five_characters() {
        for (bytes, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "0.98K"),
            (4096, "4.00K"),
            (64 << 20, "64.0M"),
            (999 << 20, "999M"),
            (1000 << 20, "0.98G"),
            (3 << 29, "1.50G"),
            (u64::MAX, "max"),
        ] {
            assert_eq!(Size(bytes).short(), text);
        }
        assert!(numbers().all(|n| Size(n).short().len() <= 5));
        let counts = [0.4, 999.4, 999.6, 12_345.0, 99_950.0].map(|n| three_digits(n, 1000.0));
        assert_eq!(counts, ["0", "999", "1.00K", "12.3K", "100K"]);
        assert!(numbers().all(|n| three_digits(n as f64, 1000.0).len() <= 5));
    }

    #[test]
    fn parts_are_rounded_down_and_never_turn_the_order() {
        let of = |thousandths: u64| {
            let text = format!("{}.{:03}G", thousandths / 1000, thousandths % 1000);
            let Size(bytes) = text.parse().unwrap();
            assert_eq!(u128::from(bytes), (u128::from(thousandths) << 30) / 1000, "{text}");
            bytes
        };
        let sizes: Vec<u64> = numbers().take(500).map(|n| n % 5_000_000).map(of).collect();
        assert!(sizes.iter().any(|bytes| bytes % 1024 != 0));
        assert!((0..5000).map(of).is_sorted());
    }

    #[test]
    fn a_percentage_is_exact_too() {
        let of = |text: &str, whole| text.parse::<Decimal>().unwrap().percent_of(whole);
        assert_eq!((of("50", 7), of("12.5", 800), of("100", u64::MAX)), (3, 100, u64::MAX));
        let is_more = |text: &str| text.parse::<Decimal>().unwrap().exceeds(100);
        assert!(is_more("100.1") && is_more("101") && !is_more("100") && !is_more("99.999"));
    }
}
