//! Plots as inline SVG.

use std::fmt::Write as _;

use uzswap_page::escape;

use crate::report::{Plot, Row};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 180.0;
const BOTTOM: f64 = 36.0;
const TOP: f64 = 12.0;
/// Lines across a plot.
const GRID: usize = 4;
/// Colours that the style sheet has.
const COLOURS: usize = 4;

/// A number on an axis.
fn short(value: f64) -> String {
    match value.abs() {
        big if big >= 1e6 => format!("{:.1}M", value / 1e6),
        big if big >= 1e4 => format!("{:.0}K", value / 1e3),
        big if big >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

fn text(svg: &mut String, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = write!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

fn finish(shapes: &str, height: f64, label: &str) -> String {
    format!(
        "<figure><svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">{shapes}</svg></figure>\n",
        escape(label)
    )
}

/// Lines over steps of equal width: what is along the axis doubles, as a rule.
pub(super) fn lines(plot: &Plot) -> String {
    let points = || plot.series.iter().flat_map(|(_, points)| points);
    let mut xs: Vec<f64> = points().map(|(x, _)| *x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let most = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let least = points().map(|(_, y)| *y).fold(0.0, f64::min);
    if xs.is_empty() || most <= least {
        return String::new();
    }
    let step = (WIDTH - LEFT - RIGHT) / (xs.len() - 1).max(1) as f64;
    let x_of = |x: f64| LEFT + step * xs.partition_point(|other| *other < x) as f64;
    let y_of = |y: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y - least) / (most - least);
    let mut svg = String::new();
    for i in 0..=GRID {
        let value = least + (most - least) * i as f64 / GRID as f64;
        let y = y_of(value);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>",
            WIDTH - RIGHT
        );
        text(&mut svg, "", LEFT - 8.0, y + 4.0, "end", &short(value));
    }
    for x in &xs {
        text(&mut svg, "", x_of(*x), HEIGHT - BOTTOM + 16.0, "middle", &short(*x));
    }
    text(
        &mut svg,
        "",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 4.0,
        "middle",
        &plot.x,
    );
    for (i, (name, points)) in plot.series.iter().enumerate() {
        let class = format!("s{}", i % COLOURS);
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let command = if at == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", x_of(*x), y_of(*y));
        }
        let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
        text(
            &mut svg,
            &class,
            WIDTH - RIGHT + 10.0,
            TOP + 14.0 + 18.0 * i as f64,
            "start",
            name,
        );
    }
    finish(&svg, HEIGHT, &plot.y)
}

const BAR: f64 = 13.0;
const NAME: f64 = 330.0;

/// Published and simulated changes, a pair of bars each.
pub(super) fn bars(rows: &[&Row]) -> String {
    let most = rows
        .iter()
        .flat_map(|row| [row.published.abs(), row.simulated.abs()])
        .fold(1.0, f64::max);
    let zero = NAME + (WIDTH - NAME) / 3.0;
    let scale = (WIDTH - zero - 60.0) / most;
    let left = (zero - NAME - 50.0) / most;
    let mut svg = String::new();
    for (i, row) in rows.iter().enumerate() {
        let y = i as f64 * (BAR * 2.0 + 8.0);
        text(&mut svg, "", NAME - 10.0, y + BAR + 4.0, "end", &row.label);
        for (at, (class, value)) in [("s1", row.published), ("s0", row.simulated)].into_iter().enumerate() {
            let y = y + at as f64 * BAR;
            let width = if value < 0.0 { -value * left } else { value * scale };
            let x = if value < 0.0 { zero - width } else { zero };
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                BAR - 2.0
            );
            let (x, anchor) = if value < 0.0 {
                (x - 5.0, "end")
            } else {
                (x + width + 5.0, "start")
            };
            text(&mut svg, class, x, y + 10.0, anchor, &format!("{value:+.0} %"));
        }
    }
    finish(
        &svg,
        rows.len() as f64 * (BAR * 2.0 + 8.0),
        "published and simulated changes",
    )
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_line_for_each_series() {
        let plot = Plot {
            x: "<batch>".to_owned(),
            y: "KB/s".to_owned(),
            series: vec![
                ("a".to_owned(), vec![(1.0, 10.0), (2.0, 20.0)]),
                ("b".to_owned(), vec![(1.0, 5.0), (2.0, 5.0)]),
            ],
        };
        let svg = lines(&plot);
        assert_eq!(svg.matches("<path").count(), 2);
        assert!(svg.contains("&lt;batch&gt;") && !svg.contains("<batch>"));
        assert_eq!(lines(&Plot::default()), "");
    }
}
