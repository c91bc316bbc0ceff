//! Plain text tables: a label, then columns aligned to the right.

use std::fmt;

/// Rows of cells, the first of each a label.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    Rule,
}

const GAP: &str = "  ";

impl Table {
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(Row::Cells(cells.into_iter().map(Into::into).collect()));
    }

    /// A line across the table.
    pub(crate) fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        for row in &self.rows {
            let line = match row {
                Row::Rule => "-".repeat(total),
                Row::Cells(cells) => cells
                    .iter()
                    .zip(&widths)
                    .enumerate()
                    .map(|(column, (cell, &width))| match column {
                        0 => format!("{cell:<width$}"),
                        _ => format!("{GAP}{cell:>width$}"),
                    })
                    .collect(),
            };
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A whole number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::default();
        table.row(["", "before", "after"]);
        table.rule();
        table.row(["throughput", "1", "1,234,567"]);
        let expected = [
            "            before      after",
            "-----------------------------",
            "throughput       1  1,234,567",
            "",
        ];
        assert_eq!(table.to_string(), expected.join("\n"));
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_137_659_904, "1,137,659,904"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
