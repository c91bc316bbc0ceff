//! What was measured, for programs and documents: `--export-json`, `--export-markdown`.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};
use uzswap_bench::Machine;

use super::options::TryOptions;
use super::{Tried, table};
use crate::{Failure, help, report};

const JSON: &str = "--export-json";
const MARKDOWN: &str = "--export-markdown";

/// Whether anything is to be written into files.
pub(super) fn is_wanted(options: &TryOptions) -> bool {
    options.export_json.is_some() || options.export_markdown.is_some()
}

/// Whether it can be, before anything is run.
pub(super) fn check(options: &TryOptions) -> Result<(), Failure> {
    report::check(JSON, options.export_json.as_deref())?;
    report::check(MARKDOWN, options.export_markdown.as_deref())
}

/// Write what was asked for.
pub(super) fn write(tried: &Tried<'_>) -> Result<(), Failure> {
    let options = tried.options;
    if let Some(path) = &options.export_json {
        put(JSON, path, format!("{:#}\n", json(tried)))?;
    }
    if let Some(path) = &options.export_markdown {
        put(MARKDOWN, path, table::markdown(tried))?;
    }
    Ok(())
}

fn put(option: &str, path: &Path, text: String) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| Failure::new(format!("{option} {}: {e}", path.display())))
}

fn json(tried: &Tried<'_>) -> Value {
    let options = tried.options;
    let of_row = |row: &super::Row| row.json(&tried.baseline);
    json!({
        "uzswap": help::VERSION,
        "machine": serde_json::to_value(Machine::look()).unwrap_or_default(),
        "command": texts(&options.cmd),
        "run_options": texts(&options.passed.0),
        "slowdown": options.slowdown,
        "give_up": options.give_up,
        "baseline": tried.baseline.json(),
        "again": tried.again,
        "rows": tried.rows.iter().map(of_row).collect::<Vec<_>>(),
        "knee": tried.knee().map(|row| json!({ "memory.max": row.memory_max, "slower": row.slower(&tried.baseline) })),
    })
}

fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
