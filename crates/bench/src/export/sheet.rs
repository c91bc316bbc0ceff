//! A table of values.

use serde_json::{Map, Value, json};

use crate::samples::Samples;

/// Rows of values below the names of their columns.
#[derive(Clone, Debug)]
pub struct Sheet {
    name: String,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Sheet {
    /// No row yet.
    #[must_use]
    pub fn new<S: Into<String>>(name: impl Into<String>, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            name: name.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// A table as JSON has it: `name`, and `rows` of objects.
    #[must_use]
    pub fn of(table: &Value) -> Option<Self> {
        let rows = table["rows"].as_array()?;
        let columns = rows.iter().filter_map(Value::as_object).flat_map(Map::keys);
        let mut sheet = Self::new(table["name"].as_str()?, [""; 0]);
        for column in columns {
            if !sheet.columns.contains(column) {
                sheet.columns.push(column.clone());
            }
        }
        rows.iter().for_each(|row| sheet.row_of(row));
        Some(sheet)
    }

    /// A value for each column.
    pub fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        let values: Vec<Value> = values.into_iter().collect();
        assert_eq!(values.len(), self.columns.len(), "{}", self.name);
        self.rows.push(values);
    }

    /// A row of what an object says for each column.
    pub fn row_of(&mut self, object: &Value) {
        let values = self.columns.iter().map(|column| object[column].clone());
        self.rows.push(values.collect());
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    pub(super) fn json(&self) -> Value {
        let object = |row: &Vec<Value>| -> Map<String, Value> {
            self.columns.iter().cloned().zip(row.iter().cloned()).collect()
        };
        json!({ "name": self.name, "rows": self.rows.iter().map(object).collect::<Vec<_>>() })
    }

    /// Its name and a text for each of `columns`, of each row.
    pub(super) fn records(&self, columns: &[&str]) -> impl Iterator<Item = Vec<String>> {
        let places: Vec<Option<usize>> = columns
            .iter()
            .map(|column| self.columns.iter().position(|own| own == column))
            .collect();
        self.rows.iter().map(move |row| {
            let cells = places
                .iter()
                .map(|place| place.map_or_else(String::new, |at| text(&row[at])));
            std::iter::once(self.name.clone()).chain(cells).collect()
        })
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Names of the columns of [`spread`].
pub(crate) const SPREAD: [&str; 5] = ["median", "lowest", "highest", "mean", "standard_deviation"];

/// How measurements of one thing lie.
pub(crate) fn spread(samples: &Samples) -> [Value; 5] {
    [
        samples.median(),
        samples.min(),
        samples.max(),
        samples.mean(),
        samples.standard_deviation(),
    ]
    .map(Value::from)
}
