//! More about the group of the selected row, where there is room: its figures and its last minutes.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};

use super::columns;
use super::history::Series;
use super::model::Model;
use super::palette::Palette;
use super::rows::Branch;
use super::text;
use uzswap_ctl::size::{Size, three_digits};

/// Before a curve: what it is of, and how much its full height is.
const LABEL: u16 = 9;

/// Lines of it on a terminal of so many.
pub(super) fn height(screen: u16) -> u16 {
    match screen {
        ..20 => 0,
        20..40 => 6,
        _ => 10,
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let Some(branch) = model.group() else { return };
    let [titles, faults, memory] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let width = usize::from(area.width);
    let lines = [title(branch, width, palette), facts(branch, width).into()];
    frame.render_widget(Paragraph::new(lines.to_vec()), titles);
    let Some(history) = model.history(&branch.heading.key.group) else {
        return;
    };
    let limit = branch.heading.limit();
    let count = |faults: u64| three_digits(faults as f64, 1000.0);
    curve(frame, faults, "FLT/S", &history.faults, None, count, palette.other());
    let size = |bytes| Size(bytes).short();
    curve(frame, memory, "MEM", &history.memory, limit, size, palette.resident());
}

/// In a rule across the screen.
fn title(branch: &Branch, width: usize, palette: Palette) -> Line<'static> {
    let whole = format!("{}: {}", branch.heading.key.group, branch.means);
    let title = format!("── {} ", text::words(&whole, width.saturating_sub(4)));
    let rule = "─".repeat(width.saturating_sub(text::width(&title)));
    Line::styled(title + &rule, palette.bold())
}

fn facts(branch: &Branch, width: usize) -> String {
    let heading = &branch.heading;
    let cell = |column| columns::named(column).text(heading);
    let mut pieces = match heading.latencies {
        None => vec!["no loads".to_owned()],
        Some(_) => vec![
            format!("load p50 < {} us", cell("P50us")),
            format!("p99 < {} us", cell("P99us")),
        ],
    };
    pieces.extend([
        format!("wait {} %", cell("WAIT%")),
        format!("lacks {}", cell("LACKS")),
        format!("saved {}", Size(branch.saved).short()),
    ]);
    text::fitting(&pieces, "  ", width)
}

/// The newest value stands at the right. Its full height is `whole`, or the largest that is seen.
fn curve(
    frame: &mut Frame<'_>,
    area: Rect,
    name: &str,
    series: &Series,
    whole: Option<u64>,
    text: impl Fn(u64) -> String,
    style: Style,
) {
    let [label, area] = Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1)]).areas(area);
    let mut values = series.last(area.width.into());
    let whole = whole.unwrap_or_else(|| values.iter().copied().max().unwrap_or(0));
    values.reverse();
    let lines = vec![Line::from(name.to_owned()), Line::from(format!("of {}", text(whole)))];
    frame.render_widget(Paragraph::new(lines), label);
    let curve = Sparkline::default().data(&values).max(whole.max(1)).style(style);
    frame.render_widget(curve.direction(RenderDirection::RightToLeft), area);
}
