//! What a table was measured by, when, and on which machine.

use serde_json::{Map, Value, json};

use crate::compare::{Machine, utc_now};

/// The first that a reader needs to judge figures.
#[derive(Clone, Debug)]
pub struct Header {
    /// Version and commit.
    pub(crate) uzswap: String,
    /// UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
}

impl Header {
    /// Here and now, of the uzswap of this version and commit.
    #[must_use]
    pub fn look(uzswap: &str) -> Self {
        Self {
            uzswap: uzswap.to_owned(),
            date: utc_now(),
            machine: Machine::look(),
        }
    }

    /// `uzswap`, `date`, `machine`.
    #[must_use]
    pub fn json(&self) -> Map<String, Value> {
        let machine = serde_json::to_value(&self.machine).unwrap_or_default();
        [
            ("uzswap", json!(self.uzswap)),
            ("date", json!(self.date)),
            ("machine", machine),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
    }

    /// The same, a line for each fact.
    pub(super) fn comment(&self) -> String {
        let first = [("uzswap", &self.uzswap), ("date", &self.date)];
        let first = first.map(|(name, value)| (name.to_owned(), value.clone()));
        let facts = first.into_iter().chain(self.machine.facts());
        facts
            .map(|(name, value)| format!("# {name}: {}\n", value.replace('\n', " ")))
            .collect()
    }
}
