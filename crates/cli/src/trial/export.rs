//! What was measured, for programs and documents: `--export-json`, `--export-csv`,
//! `--export-markdown`.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};
use uzswap_bench::export::{self, Header, Sheet};

use super::options::TryOptions;
use super::{Tried, table};
use crate::{Failure, help, remote, report};

const JSON: &str = "--export-json";
const CSV: &str = "--export-csv";
const MARKDOWN: &str = "--export-markdown";

fn named(options: &TryOptions) -> [(&'static str, Option<&Path>); 3] {
    [
        (JSON, options.export_json.as_deref()),
        (CSV, options.export_csv.as_deref()),
        (MARKDOWN, options.export_markdown.as_deref()),
    ]
}

/// Whether anything is to be written into files.
pub(super) fn is_wanted(options: &TryOptions) -> bool {
    named(options).iter().any(|(_, path)| path.is_some())
}

/// Whether it can be, before anything is run.
pub(super) fn check(options: &TryOptions) -> Result<(), Failure> {
    let named = named(options);
    export::apart(&named)?;
    named
        .into_iter()
        .try_for_each(|(option, path)| report::check(option, path))
}

/// Write what was asked for.
pub(super) fn write(tried: &Tried<'_>) -> Result<(), Failure> {
    let options = tried.options;
    if options.export_json.is_some() || options.export_csv.is_some() {
        write_figures(tried, &Header::look(help::VERSION))?;
    }
    if let Some(path) = &options.export_markdown {
        put(MARKDOWN, path, table::markdown(tried))?;
    }
    Ok(())
}

fn write_figures(tried: &Tried<'_>, header: &Header) -> Result<(), Failure> {
    let options = tried.options;
    if let Some(path) = &options.export_json {
        put(JSON, path, export::json(header, figures(tried)))?;
    }
    if let Some(path) = &options.export_csv {
        let refused = |e| Failure::new(format!("{CSV} {}: {e}", path.display()));
        put(CSV, path, export::csv(header, &[sheet(tried)]).map_err(refused)?)?;
    }
    Ok(())
}

fn put(option: &str, path: &Path, text: String) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| Failure::new(format!("{option} {}: {e}", path.display())))
}

fn figures(tried: &Tried<'_>) -> Map<String, Value> {
    let options = tried.options;
    let of_row = |row: &super::Row| row.json(&tried.baseline);
    let figures = [
        ("command", json!(texts(&options.cmd))),
        ("run_options", json!(remote::shown_in(&options.passed.0))),
        ("slowdown", json!(options.slowdown)),
        ("give_up", json!(options.give_up)),
        ("baseline", tried.baseline.json()),
        ("again", json!(tried.again)),
        ("rows", tried.rows.iter().map(of_row).collect()),
        (
            "knee",
            json!(
                tried
                    .knee()
                    .map(|row| json!({ "memory.max": row.memory_max, "slower": row.slower(&tried.baseline) }))
            ),
        ),
    ];
    figures
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

/// The first row is without a limit.
fn sheet(tried: &Tried<'_>) -> Sheet {
    let columns = [
        "memory.max",
        "median",
        "mean",
        "stddev",
        "min",
        "max",
        "slower",
        "memory.peak",
        "loaded_bytes",
        "waited_share",
        "swap_write_bytes",
        "outcome",
        "exit_status",
    ];
    let mut sheet = Sheet::new("limits", columns);
    sheet.row_of(&tried.baseline.json());
    tried
        .rows
        .iter()
        .for_each(|row| sheet.row_of(&row.json(&tried.baseline)));
    sheet
}

fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
