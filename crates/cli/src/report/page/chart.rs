//! A plot that is as wide as the page: shapes are stretched, texts are beside them.

use std::fmt::Write as _;

use uzswap_page::{Svg, escape};

pub(super) const WIDTH: f64 = 1000.0;
pub(super) const HEIGHT: f64 = 300.0;
/// Along the time.
const TICKS: u32 = 4;

/// How a plot is drawn in its frame.
pub(super) struct Chart {
    svg: Svg,
    /// Seconds from the left to the right.
    end: f64,
    title: &'static str,
    unit: String,
    keys: String,
    labels: String,
}

impl Chart {
    pub(super) fn new(title: &'static str, unit: impl Into<String>, end: f64) -> Self {
        Self {
            svg: Svg::new(WIDTH, HEIGHT),
            end: end.max(1e-6),
            title,
            unit: unit.into(),
            keys: String::new(),
            labels: String::new(),
        }
    }

    /// Where a time is, from left to right.
    pub(super) fn x(&self, seconds: f64) -> f64 {
        (seconds / self.end).clamp(0.0, 1.0) * WIDTH
    }

    /// A name for what has a class.
    pub(super) fn key(&mut self, class: &str, name: &str) {
        let _ = write!(
            self.keys,
            "<span class=\"key\"><i class=\"{class}\"></i>{}</span>",
            escape(name)
        );
    }

    /// A line across, and what it stands for at the left. `share`: of the height.
    pub(super) fn grid(&mut self, share: f64, label: &str) {
        let y = y(share);
        self.svg.line("grid", (0.0, y), (WIDTH, y));
        self.label("y", share, label);
    }

    /// A text beside a height.
    pub(super) fn label(&mut self, class: &str, share: f64, label: &str) {
        let percent = share * 100.0;
        let _ = write!(
            self.labels,
            "<span class=\"{class}\" style=\"bottom:{percent:.1}%\">{}</span>",
            escape(label)
        );
    }

    /// Between two lines of times and heights, which are shares.
    pub(super) fn area(&mut self, class: &str, above: &[(f64, f64)], below: &[(f64, f64)]) {
        let (above, below) = (self.points(above), self.points(below));
        self.svg.area(class, &above, &below);
    }

    /// Through times and heights, which are shares.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = self.points(points);
        self.svg.path(&format!("line {class}"), &points);
    }

    /// From bottom to top.
    pub(super) fn mark(&mut self, seconds: f64) {
        let x = self.x(seconds);
        self.svg.line("mark", (x, 0.0), (x, HEIGHT));
    }

    /// What is shown where the pointer is between two times.
    pub(super) fn hint(&mut self, from: f64, to: f64, hint: &str) {
        let (left, right) = (self.x(from), self.x(to));
        self.svg.rect("hit", (left, 0.0), (right - left, HEIGHT), hint);
    }

    fn points(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points
            .iter()
            .map(|(seconds, share)| (self.x(*seconds), y(*share)))
            .collect()
    }

    pub(super) fn finish(self, class: &str) -> String {
        let ticks = (0..=TICKS).map(|tick| {
            format!(
                "<span>{}</span>",
                time(self.end * f64::from(tick) / f64::from(TICKS), self.end)
            )
        });
        format!(
            "<figure><figcaption>{} <span class=\"unit\">{}</span>{}</figcaption>\n<div class=\"plot {class}\">{}{}</div>\n\
             <div class=\"x\">{}</div></figure>\n",
            self.title,
            escape(&self.unit),
            self.keys,
            self.svg.finish_stretched(self.title),
            self.labels,
            ticks.collect::<String>()
        )
    }
}

fn y(share: f64) -> f64 {
    (1.0 - share.clamp(0.0, 1.0)) * HEIGHT
}

/// On an axis that ends at `end` seconds.
fn time(seconds: f64, end: f64) -> String {
    let whole = seconds.round() as u64;
    match end {
        ..4.0 => format!("{seconds:.2} s"),
        ..40.0 => format!("{seconds:.1} s"),
        ..600.0 => format!("{whole} s"),
        ..7200.0 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02} h", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn texts_are_beside_what_is_stretched() {
        let mut chart = Chart::new("Memory", "<MiB>", 10.0);
        chart.grid(0.5, "5 < 6");
        chart.line("a", &[(0.0, 0.0), (10.0, 1.0), (20.0, 9.0)]);
        chart.hint(0.0, 5.0, "x");
        let html = chart.finish("tall");
        assert!(html.contains("bottom:50.0%\">5 &lt; 6<") && html.contains("&lt;MiB&gt;"));
        assert!(html.contains("M0.0 300.0L1000.0 0.0L1000.0 0.0"), "{html}");
        assert!(html.contains("preserveAspectRatio=\"none\"") && !html.contains("<text"));
        assert!(html.contains("<span>7.5 s</span>"));
    }

    #[test]
    fn times_have_as_many_digits_as_the_axis_needs() {
        let shown = [(0.5, 2.0), (5.0, 20.0), (50.0, 99.6), (125.0, 1000.0), (5000.0, 9000.0)];
        let shown = shown.map(|(seconds, end)| time(seconds, end));
        assert_eq!(shown, ["0.50 s", "5.0 s", "50 s", "2:05", "1:23 h"]);
    }
}
