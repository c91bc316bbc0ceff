//! Sizes as cgroup files take them: a number of bytes, or with a binary suffix K, M, G, T, or
//! `max`.

/// A number of bytes; `u64::MAX` is `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(u64::MAX));
        }
        let rule =
            || format!("'{text}' is not a size: write a whole number of bytes, or one with K, M, G or T, or max");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(rule()),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(rule());
        }
        let number: u64 = digits
            .parse()
            .map_err(|_| format!("'{text}' is too large for a size"))?;
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("'{text}' is too large for a size"))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    use super::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("512m", 512 << 20),
            ("2G", 2 << 30),
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
            "12Q",
            "-5M",
            "1.5G",
            "0x10",
            "5 M",
            "99999999999999999999",
            "18446744073709551615K",
            "10MB",
        ] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }
}
