//! Reports as plain text.

use std::fmt::Write as _;

use crate::report::{Body, Row, Section, Unit};

const GAP: &str = "  ";

/// A whole number with commas between its thousands.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure as it is printed.
pub(crate) fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::KbPerSecond | Unit::Count => grouped(value),
        Unit::Seconds if value >= 100.0 => format!("{} s", grouped(value)),
        Unit::Seconds => format!("{value:.1} s"),
        Unit::Percent => format!("{value:+.1} %"),
    }
}

/// A difference as it is printed.
pub(crate) fn difference(row: &Row) -> String {
    let unit = if row.unit == Unit::Percent { "pp" } else { "%" };
    format!("{:+.1} {unit}", row.difference())
}

/// Columns as wide as their widest cell, all but the first aligned to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: String = cells
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{GAP}{cell:>width$}"),
            })
            .collect();
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    text
}

/// What a row of a published table says.
pub(crate) fn cells(row: &Row) -> Vec<String> {
    vec![
        row.label.clone(),
        figure(row.unit, row.published),
        figure(row.unit, row.simulated),
        difference(row),
        row.kind.name().to_owned(),
    ]
}

/// Names of the columns of a published table.
pub(crate) const HEAD: [&str; 5] = ["", "published", "simulated", "difference", ""];

/// One table.
pub(crate) fn section(section: &Section) -> String {
    let mut text = format!("{}: {}\n", section.name, section.title);
    for note in &section.notes {
        let _ = writeln!(text, "  {note}");
    }
    let table: Vec<Vec<String>> = match &section.body {
        Body::Published(rows) => {
            let head = vec![HEAD.map(str::to_owned).to_vec()];
            head.into_iter().chain(rows.iter().map(cells)).collect()
        }
        Body::Open { head, rows, .. } => core::iter::once(head).chain(rows).cloned().collect(),
    };
    text.push_str(&aligned(&table));
    let (judged, met) = section.tally();
    if judged > 0 {
        let _ = writeln!(
            text,
            "  {met} of {judged} predicted changes are within {:.0} percentage points",
            crate::report::BAR
        );
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::report::Kind;

    #[test]
    fn figures_have_their_units() {
        assert_eq!(figure(Unit::Count, 61_577_440.0), "61,577,440");
        assert_eq!(figure(Unit::Count, -123_456.0), "-123,456");
        assert_eq!(figure(Unit::Seconds, 93.21), "93.2 s");
        assert_eq!(figure(Unit::Seconds, 2190.5), "2,190 s");
        assert_eq!(figure(Unit::Percent, -25.0), "-25.0 %");
    }

    #[test]
    fn a_table_has_three_columns_of_figures() {
        let row = Row {
            label: "throughput".to_owned(),
            unit: Unit::Percent,
            published: 49.0,
            simulated: 45.5,
            kind: Kind::Predicted,
        };
        let text = section(&Section {
            name: "a",
            title: "b".to_owned(),
            notes: vec!["c".to_owned()],
            body: Body::Published(vec![row]),
        });
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "a: b",
                "  c",
                "              published  simulated  difference",
                "  throughput    +49.0 %    +45.5 %     -3.5 pp  predicted",
                "  1 of 1 predicted changes are within 10 percentage points",
            ]
        );
    }
}
