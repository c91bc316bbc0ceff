//! Plots as inline SVG: shapes with classes, whose colours the page's style sheet gives.

use std::fmt::Write as _;

use crate::escape;

/// A drawing of a fixed size, in CSS pixels.
pub struct Svg {
    width: f64,
    height: f64,
    shapes: String,
}

/// Where a text's position lies in it.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            shapes: String::new(),
        }
    }

    /// A filled rectangle, with a text that is shown when the pointer is over it.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), hint: &str) {
        let hint = escape(hint);
        let _ = write!(
            self.shapes,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\">\
             <title>{hint}</title></rect>"
        );
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.shapes,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = write!(
            self.shapes,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let _ = write!(self.shapes, "<path class=\"{class}\" d=\"{}\"/>", through(points));
    }

    /// The area between a line of points and another, which have the same places from left to
    /// right.
    pub fn area(&mut self, class: &str, above: &[(f64, f64)], below: &[(f64, f64)]) {
        let back: Vec<(f64, f64)> = below.iter().rev().copied().collect();
        let back = through(&back).replacen('M', "L", 1);
        let _ = write!(self.shapes, "<path class=\"{class}\" d=\"{}{back}Z\"/>", through(above));
    }

    /// The element, with what it shows for those who do not see it.
    pub fn finish(self, label: &str) -> String {
        let (width, height) = (self.width, self.height);
        self.element(label, &format!("width=\"{width:.0}\" height=\"{height:.0}\""))
    }

    /// The same, as wide and high as there is room: texts would be stretched, too.
    #[must_use]
    pub fn finish_stretched(self, label: &str) -> String {
        self.element(label, "preserveAspectRatio=\"none\"")
    }

    fn element(self, label: &str, size: &str) -> String {
        let Self { width, height, shapes } = self;
        let label = escape(label);
        format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" {size} role=\"img\" aria-label=\"{label}\">{shapes}</svg>")
    }
}

fn through(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let command = if i == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

/// A round number that is not less than `value`, for the end of an axis: 1, 1.2, 1.5, 2, 2.5, 3, 4,
/// 5, 6 or 8 times a power of ten.
pub fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value * 0.999_999);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("a", (0.0, 0.0), Anchor::Start, "<script>");
        assert!(!svg.finish("</svg>").contains("<script>"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (1234.0, 1500.0),
            (0.07, 0.08),
            (90.0, 100.0),
            (512.0, 600.0),
        ] {
            assert!((round_up(value) - end).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn an_area_is_closed() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.area("a", &[(0.0, 1.0), (5.0, 2.0)], &[(0.0, 9.0), (5.0, 9.0)]);
        assert!(svg.finish("").contains("M0.0 1.0L5.0 2.0L5.0 9.0L0.0 9.0Z"));
    }
}
