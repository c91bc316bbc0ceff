//! Reports as JSON.

use serde_json::{Map, Value, json};

use crate::Report;
use crate::report::{Body, Section};

fn section(section: &Section) -> Value {
    let rows: Vec<Value> = match &section.body {
        Body::Published(rows) => rows
            .iter()
            .map(|row| {
                json!({
                    "label": row.label,
                    "published": row.published,
                    "simulated": row.simulated,
                    "difference": row.difference(),
                    "kind": row.kind.name(),
                })
            })
            .collect(),
        Body::Open { head, rows, .. } => {
            let object = |row: &Vec<String>| head.iter().cloned().zip(row.iter().map(|cell| json!(cell))).collect();
            rows.iter().map(object).collect()
        }
    };
    json!({
        "name": section.name,
        "title": section.title,
        "notes": section.notes,
        "rows": rows,
    })
}

/// All of it.
pub(crate) fn report(report: &Report) -> Map<String, Value> {
    let (judged, met) = report.tally();
    let facts = [
        ("seed", json!(report.seed)),
        ("predicted_changes", json!(judged)),
        ("within_10_points", json!(met)),
        ("tables", report.sections.iter().map(section).collect()),
    ];
    facts
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
