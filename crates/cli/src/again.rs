//! Looking once, or again and again: `--watch`, `--diff`, `--count`.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::look_options::AgainOptions;
use crate::{Failure, output};

/// Clear the screen, and put the cursor into its first corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

impl AgainOptions {
    /// Between two looks. `None`: one is all.
    fn interval(&self) -> Option<Duration> {
        let default = (self.diff || self.count.is_some_and(|count| count > 1)).then_some(1.0);
        self.watch.or(default).map(Duration::from_secs_f64)
    }

    /// Whether anything is shown twice.
    pub(crate) fn repeats(&self) -> bool {
        self.interval().is_some()
    }

    /// Show what `look` returns as often as was asked for: until it returns `None`, or until nobody
    /// reads any more. `fills_screen`: each takes the place of the one before, on a terminal.
    pub(crate) fn show(
        &self,
        fills_screen: bool,
        mut look: impl FnMut() -> Result<Option<String>, Failure>,
    ) -> Result<u8, Failure> {
        let interval = self.interval();
        let clears = fills_screen && interval.is_some() && !self.diff && has_screen();
        let mut left = self.count.unwrap_or(u64::MAX);
        while let Some(text) = look()? {
            let clear = if clears { CLEAR } else { "" };
            let is_read = output::write(&format!("{clear}{text}"))?;
            left -= 1;
            match interval {
                Some(interval) if left > 0 && is_read => std::thread::sleep(interval),
                _ => break,
            }
        }
        Ok(0)
    }
}

/// Whether what is written to stdout can be put anywhere. A terminal of any other name is taken for
/// one that obeys ANSI's sequences, as all do that are in use.
pub(crate) fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| ["", "dumb", "unknown"].iter().any(|dumb| term == *dumb));
    std::io::stdout().is_terminal() && !is_dumb
}

/// Whole or, in a line of many, short.
pub(crate) fn json_text(value: &Value, is_line: bool) -> String {
    match is_line {
        true => format!("{value}\n"),
        false => format!("{value:#}\n"),
    }
}

/// What differs: of numbers by how much, of all else what it is now, or `null` where it is gone.
pub(crate) fn changes(before: &Map<String, Value>, now: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let changed = now.iter().filter_map(|(key, value)| {
        let change = match (before.get(key), value) {
            (Some(old), value) if old == value => return None,
            (Some(Value::Number(old)), Value::Number(new)) => difference(old.as_u64()?, new.as_u64()?),
            (Some(Value::Object(old)), Value::Object(new)) => Value::Object(changes(old, new)),
            // A histogram has no entry for what was never seen.
            (None, Value::Number(new)) => json!(new),
            (_, value) => value.clone(),
        };
        Some((key.clone(), change))
    });
    changed.chain(gone).collect()
}

fn difference(old: u64, new: u64) -> Value {
    match new.checked_sub(old) {
        Some(more) => json!(more),
        None => json!(-i128::from(old - new) as i64),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn texts(options: AgainOptions, most: usize) -> usize {
        let mut looks = 0;
        let look = || {
            looks += 1;
            Ok((looks <= most).then(String::new))
        };
        options.show(true, look).unwrap();
        looks.min(most)
    }

    #[test]
    fn one_look_is_all_unless_more_are_asked_for() {
        let with = |watch, diff, count| AgainOptions { watch, diff, count };
        assert_eq!(texts(with(None, false, None), 9), 1);
        assert_eq!(texts(with(None, true, Some(1)), 9), 1);
        assert_eq!(texts(with(Some(0.001), false, Some(3)), 9), 3);
        assert_eq!(texts(with(Some(0.001), true, None), 4), 4);
        assert_eq!(texts(with(None, false, None), 0), 0);
        assert!(with(None, false, Some(2)).repeats() && !with(None, false, Some(1)).repeats());
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let before = map(json!({"a": 5, "b": 7, "c": "x", "d": {"64": 1}, "e": 1, "f": u64::MAX, "g": "max"}));
        let now = map(json!({"a": 5, "b": 4, "c": "y", "d": {"64": 1, "128": 2}, "f": u64::MAX - 1, "g": 9}));
        let expected = map(json!({"b": -3, "c": "y", "d": {"128": 2}, "e": null, "f": -1, "g": 9}));
        assert_eq!(changes(&before, &now), expected);
        assert!(changes(&now, &now).is_empty());
    }
}
