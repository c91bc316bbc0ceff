//! What is done to groups: the same that `uzswap set` and `uzswap reclaim` do, with the same words.

use crate::options::{ReclaimOptions, SetOptions};
use crate::{Failure, configure, reclaim, setting};
use uzswap_ctl::size::Size;

/// A reclaim that can be begun.
pub(super) struct Reclaim(ReclaimOptions);

/// `uzswap set GROUP memory.max=TEXT`
///
/// # Errors
/// The value and the rule, or why it cannot be.
pub(super) fn limit(group: &str, text: &str) -> Result<String, String> {
    let text = text.trim();
    let settings = vec![setting::ask(&format!("memory.max={text}"))?];
    let group = group.to_owned();
    let said = format!("memory.max of {group} is {text} now");
    let done = configure::set(&SetOptions { group, settings });
    done.map(|_| said).map_err(|Failure(line)| line)
}

impl Reclaim {
    /// `uzswap reclaim GROUP TEXT`, which is yet to be begun.
    ///
    /// # Errors
    /// The value and the rule.
    pub(super) fn new(group: &str, text: &str) -> Result<Self, String> {
        let options = ReclaimOptions {
            group: group.to_owned(),
            size: text.trim().parse::<Size>()?,
            source: None,
        };
        Ok(Self(options))
    }

    pub(super) fn what(&self) -> String {
        format!("{} from {}", self.0.size, self.0.group)
    }

    /// It may take seconds.
    ///
    /// # Errors
    /// How much less came of it, or why nothing did.
    pub(super) fn run(&self) -> Result<String, String> {
        let done = reclaim::reclaim(&self.0);
        done.map(|_| format!("reclaimed {}", self.what()))
            .map_err(|Failure(line)| line)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn errors_are_those_of_the_commands() {
        for (text, words) in [
            ("5Q", "memory.max: '5Q' is not a size"),
            ("64K", "at least 4M"),
            ("101%", "'101%'"),
        ] {
            let error = limit("no-such-group", text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let error = limit("no-such-group", "64M").unwrap_err();
        assert!(
            error.starts_with("no group named 'no-such-group' is running"),
            "{error}"
        );
        let error = Reclaim::new("web", "x").err().unwrap();
        assert!(error.starts_with("'x' is not a size"), "{error}");
        let reclaim = Reclaim::new("no-such-group", " 20M ").ok().unwrap();
        assert_eq!(reclaim.what(), "20M from no-such-group");
        assert!(reclaim.run().unwrap_err().contains("no group named"));
    }
}
