//! The table: groups, and their processes beneath.

use ratatui::text::{Line, Span, Text};

use super::columns::{self, Column, Unit};
use super::model::Model;
use super::palette::Palette;
use super::rows::Row;
use super::text;

/// Titles, and as many rows as fit below.
pub(super) fn table(model: &Model, width: usize, height: usize, palette: Palette) -> Text<'static> {
    let columns = columns::fitting(width);
    let mut lines = vec![titles(model, &columns, width, palette)];
    let rows = model.rows();
    let below = height.saturating_sub(1);
    let first = first_row(model.selected(), rows.len(), below);
    for (i, row) in rows.iter().enumerate().skip(first).take(below) {
        let style = match row.key.pid {
            _ if i == model.selected() => palette.selected(),
            None => palette.bold(),
            Some(_) => ratatui::style::Style::new(),
        };
        lines.push(Line::styled(line(model, row, &columns, width), style));
    }
    if rows.is_empty() {
        lines.extend(nobody(width));
    }
    lines.into()
}

fn nobody(width: usize) -> impl Iterator<Item = Line<'static>> {
    let text = "no group is running; `uzswap run --memory-max 512M -- CMD` starts one";
    text::wrapped(text, width).into_iter().map(Line::from)
}

/// The selected row is in the middle, but at the ends.
fn first_row(selected: usize, rows: usize, height: usize) -> usize {
    let last = rows.saturating_sub(height);
    selected.saturating_sub(height / 2).min(last)
}

/// Its cells are aligned as those below: the last begins at the left.
fn titles(model: &Model, columns: &[&'static Column], width: usize, palette: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    for column in columns {
        let name = match column.unit {
            Unit::Text => column.name.to_owned(),
            _ => format!("{:>1$}", column.name, column.width()),
        };
        let style = match column.name == model.sorted_by.name {
            true => palette.sorted(),
            false => palette.titles(),
        };
        spans.push(Span::styled(name, style));
        spans.push(Span::styled(" ", palette.titles()));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::styled(" ".repeat(width.saturating_sub(used)), palette.titles()));
    spans.into()
}

fn line(model: &Model, row: &Row, columns: &[&Column], width: usize) -> String {
    let mut line = String::new();
    for column in columns {
        line += &match column.unit {
            Unit::Id => format!("{:>1$} ", first(model, row, column), column.width()),
            Unit::Text => text::words(&row.label, width.saturating_sub(text::width(&line))),
            _ => format!("{:>1$} ", column.text(row), column.width()),
        };
    }
    // All of a selected row is marked.
    line += &" ".repeat(width.saturating_sub(text::width(&line)));
    line
}

/// A process's id, or whether a group is folded.
fn first(model: &Model, row: &Row, column: &Column) -> String {
    let sign = match (row.key.pid, model.is_folded(&row.key.group)) {
        (Some(_), _) => return column.text(row),
        (None, true) => "+",
        (None, false) => "-",
    };
    format!("{sign:<0$}", column.width())
}

#[cfg(test)]
mod test {
    use super::super::model::test::model;
    use super::super::rows::test::{group, process};
    use super::*;

    fn lines(model: &Model, width: usize, height: usize) -> Vec<String> {
        let text = table(model, width, height, Palette::new(false));
        text.lines
            .iter()
            .map(|line| line.to_string().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn rows_stand_below_their_titles() {
        let mut model = model();
        let expected = [
            "    PID   MEM   MAX   RES  POOL  DISK RATIO FLT/S WAIT% P50us P99us COMMAND",
            "-       64.0M  128M 48.0M 12.8M 8.00M  2.50     -     -     -     - web (2)",
            "      8 61.0M       45.8M 12.2M 7.62M  2.50                         sh",
            "      7 3.00M       2.25M  614K  384K  2.50                         python3",
        ];
        assert_eq!(lines(&model, 80, 4), expected);
        model.fold();
        assert!(lines(&model, 80, 4)[1].starts_with("+       64.0M"));
        let narrow = lines(&model, 40, 4);
        assert_eq!(narrow[0], "    PID   MEM   MAX FLT/S COMMAND");
        assert!(narrow[3].ends_with(" redis-server"), "{narrow:?}");
    }

    #[test]
    fn the_selected_row_is_in_sight() {
        assert_eq!(
            (first_row(0, 100, 10), first_row(5, 100, 10), first_row(6, 100, 10)),
            (0, 0, 1)
        );
        assert_eq!(
            (first_row(99, 100, 10), first_row(3, 4, 10), first_row(0, 0, 0)),
            (90, 0, 0)
        );
        let mut model = Model::new();
        let many: Vec<_> = (0..100).map(|pid| process(pid, &format!("p{pid}"), pid)).collect();
        model.see(vec![group("web", 64, &many)], 1.0);
        for _ in 0..=100 {
            let label = &model.rows()[model.selected()].label;
            assert!(
                lines(&model, 80, 7)
                    .iter()
                    .any(|line| line.ends_with(&format!(" {label}"))),
                "{label}"
            );
            model.go(1);
        }
    }

    #[test]
    fn without_groups_there_is_advice() {
        let lines = lines(&Model::new(), 40, 5);
        assert!(lines[1].starts_with("no group is running"));
        assert!(lines.iter().all(|line| line.len() <= 40));
    }
}
