//! Values as they were given: errors name them in the words of whoever gave them.

use std::fmt::{Display, Formatter, Result as Written};
use std::str::FromStr;

/// A value, and the text that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    text: String,
}

impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let value = text.parse()?;
        let text = text.to_owned();
        Ok(Self { value, text })
    }
}

impl<T> Display for Given<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use uzswap_ctl::size::Size;

    #[test]
    fn a_value_is_shown_as_it_was_given() {
        let given: Given<Size> = "1024m".parse().unwrap();
        assert_eq!((given.value, given.to_string()), (Size(1 << 30), "1024m".to_owned()));
        let error = "5Q".parse::<Given<Size>>().unwrap_err();
        assert!(error.contains("'5Q' is not a size"), "{error}");
    }
}
