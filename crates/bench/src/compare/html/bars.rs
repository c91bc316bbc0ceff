//! A bar for each side: the median, a line from the lowest to the highest, and how uzswap compares.

use uzswap_page::{Anchor, Svg, escape};

use super::super::results::{Metric, WorkloadResult};
use super::super::side::Side;
use super::super::text::number;
use super::side_class;

const WIDTH: f64 = 430.0;
const NAME: f64 = 92.0;
/// For the number behind the longest bar.
const BEHIND: f64 = 96.0;
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;

/// A figure with its plot. `None`: nobody measured it.
pub(super) fn plot(workload: &WorkloadResult, metric: &Metric) -> Option<String> {
    let sides: Vec<Side> = workload
        .sides()
        .into_iter()
        .filter(|side| workload.samples(*side, &metric.key).is_some())
        .collect();
    if sides.is_empty() {
        return None;
    }
    let of = |side: Side| workload.samples(side, &metric.key);
    let highest = sides
        .iter()
        .filter_map(|side| Some(of(*side)?.max()))
        .fold(0.0, f64::max);
    let scale = (WIDTH - NAME - BEHIND) / if highest > 0.0 { highest } else { 1.0 };
    let mut svg = Svg::new(WIDTH, ROW * sides.len() as f64 + 2.0);
    for (row, side) in sides.iter().enumerate() {
        let Some(samples) = of(*side) else { continue };
        let y = row as f64 * ROW + 2.0;
        let middle = y + BAR / 2.0;
        let median = number(samples.median(), metric.digits);
        let hint = format!(
            "{}: {median} {} ({} to {})",
            side.name(),
            metric.unit,
            number(samples.min(), metric.digits),
            number(samples.max(), metric.digits)
        );
        svg.text("name", (NAME - 8.0, middle + 4.0), Anchor::End, side.name());
        svg.rect(
            side_class(*side),
            (NAME, y),
            ((samples.median() * scale).max(1.0), BAR),
            &hint,
        );
        svg.line(
            "whisker",
            (NAME + samples.min() * scale, middle),
            (NAME + samples.max() * scale, middle),
        );
        svg.text(
            "value",
            (NAME + samples.max() * scale + 6.0, middle + 4.0),
            Anchor::Start,
            &median,
        );
    }
    let label = format!("{} of each side", metric.label);
    Some(format!(
        "<figure><figcaption>{} <span class=\"unit\">{}</span>{}</figcaption>{}</figure>",
        escape(&metric.label),
        escape(&unit(metric)),
        verdict(workload, metric),
        svg.finish(&label)
    ))
}

fn unit(metric: &Metric) -> String {
    let direction = if metric.is_higher_better {
        "more is better"
    } else {
        "less is better"
    };
    match metric.unit.as_str() {
        "" => direction.to_owned(),
        unit => format!("{unit}, {direction}"),
    }
}

/// uzswap over the kernel's zswap, or over no limit where there is no kernel's.
fn verdict(workload: &WorkloadResult, metric: &Metric) -> String {
    let over = [Side::Zswap, Side::NoLimit];
    let found = over
        .into_iter()
        .find_map(|side| Some((side, workload.ratio(Side::Uzswap, side, &metric.key)?)));
    let Some((side, ratio)) = found else {
        return String::new();
    };
    let is_better = (ratio >= 1.0) == metric.is_higher_better;
    let class = if is_better { "better" } else { "worse" };
    let over = if side.is_kernel() { "kernel" } else { side.name() };
    format!("<span class=\"ratio {class}\">{ratio:.2}&times; {over}</span>")
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::results::test::workload;

    #[test]
    fn a_bar_for_each_side_that_measured_it() {
        let workload = workload();
        let html = plot(&workload, &workload.metrics[0]).unwrap();
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(
            html.contains("2.67&times; kernel<") && html.contains("ratio better"),
            "{html}"
        );
        assert!(plot(&workload, &Metric::new("none", "none", "", true)).is_none());
    }
}
