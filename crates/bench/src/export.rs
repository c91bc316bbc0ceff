//! Tables for programs: as one JSON object, and as CSV. Each says first what measured it and on
//! which machine. All tables of `uzswap` and `uzswap-bench` leave through here.

mod files;
mod header;
pub(crate) mod sheet;

pub(crate) use files::version;
pub use files::{Files, Output, apart};
pub use header::Header;
pub use sheet::Sheet;

use serde_json::{Map, Value};

/// The header and `figures` as one object, indented.
#[must_use]
pub fn json(header: &Header, figures: Map<String, Value>) -> String {
    let mut object = header.json();
    object.extend(figures);
    format!("{:#}\n", Value::Object(object))
}

/// Figures that are tables and nothing more.
fn tables(sheets: &[Sheet]) -> Map<String, Value> {
    let tables = sheets.iter().map(Sheet::json).collect();
    Map::from_iter([("tables".to_owned(), tables)])
}

/// Lines with `#` for the header, then a line for each row of each table: in the first column the
/// table's name, empty where a table has no such column.
///
/// # Errors
/// None: it is written to memory.
pub fn csv(header: &Header, sheets: &[Sheet]) -> csv::Result<String> {
    let mut columns = vec!["table"];
    for column in sheets.iter().flat_map(Sheet::columns) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut writer = csv::Writer::from_writer(header.comment().into_bytes());
    writer.write_record(&columns)?;
    for sheet in sheets {
        for row in sheet.records(&columns[1..]) {
            writer.write_record(row)?;
        }
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod test;
