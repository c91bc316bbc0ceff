//! How long faults took: for each side, the share of them in every power of two of nanoseconds.

use uzswap_page::{Anchor, Svg, escape};
use uzswap_workload::latency::Histogram;

use super::super::results::WorkloadResult;
use super::super::side::Side;
use super::side_class;

const WIDTH: f64 = 430.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 10.0;
const STRIP: f64 = 62.0;
const GAP: f64 = 18.0;
const AXIS: f64 = 22.0;
/// Shown are powers of two of nanoseconds from 2^9 (512) to below 2^27 (134 ms).
const FIRST: u32 = 9;
const LAST: u32 = 26;

/// One strip for each side, under one another. `None`: nobody has that histogram.
pub(super) fn plot(workload: &WorkloadResult, name: &str) -> Option<String> {
    let histograms: Vec<(Side, Histogram)> = workload
        .sides()
        .into_iter()
        .filter_map(|side| Some((side, workload.latency(side, name)?)))
        .collect();
    if histograms.is_empty() {
        return None;
    }
    let height = histograms.len() as f64 * (STRIP + GAP) + AXIS;
    let mut svg = Svg::new(WIDTH, height);
    axis(&mut svg, height);
    for (row, (side, histogram)) in histograms.iter().enumerate() {
        strip(&mut svg, *side, histogram, row as f64 * (STRIP + GAP) + GAP);
    }
    Some(format!(
        "<figure><figcaption>{} <span class=\"unit\">lines at p50, p99, p99.9</span></figcaption>{}</figure>",
        escape(&format!("{name}: fault latency")),
        svg.finish(&format!("histogram of {name}"))
    ))
}

fn bucket_width() -> f64 {
    (WIDTH - LEFT - RIGHT) / f64::from(LAST + 1 - FIRST)
}

/// Where `ns` nanoseconds lie, from left to right.
fn x_of(ns: f64) -> f64 {
    let octave = ns.max(1.0).log2().clamp(f64::from(FIRST), f64::from(LAST + 1));
    LEFT + (octave - f64::from(FIRST)) * bucket_width()
}

fn axis(svg: &mut Svg, height: f64) {
    for (ns, label) in [
        (1e3, "1 us"),
        (1e4, "10 us"),
        (1e5, "100 us"),
        (1e6, "1 ms"),
        (1e7, "10 ms"),
        (1e8, "100 ms"),
    ] {
        svg.line("grid", (x_of(ns), GAP), (x_of(ns), height - AXIS));
        svg.text("tick", (x_of(ns), height - 8.0), Anchor::Middle, label);
    }
}

fn strip(svg: &mut Svg, side: Side, histogram: &Histogram, top: f64) {
    let shares = shares(histogram);
    let most = shares.iter().copied().fold(0.0, f64::max).max(1e-9);
    let bottom = top + STRIP;
    svg.line("base", (LEFT, bottom), (WIDTH - RIGHT, bottom));
    svg.text("name", (LEFT - 8.0, bottom - STRIP / 2.0), Anchor::End, side.name());
    let count = super::super::text::number(histogram.count() as f64, 0);
    svg.text(
        "tick",
        (LEFT - 8.0, bottom - STRIP / 2.0 + 15.0),
        Anchor::End,
        &format!("{count} faults"),
    );
    for (at, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let height = (share / most * (STRIP - 4.0)).max(1.0);
        let x = LEFT + at as f64 * bucket_width();
        let range = format!(
            "{} to {}",
            duration(1 << (at as u32 + FIRST)),
            duration(2 << (at as u32 + FIRST))
        );
        let hint = format!("{}: {:.2} % took {range}", side.name(), share * 100.0);
        svg.rect(
            side_class(side),
            (x + 0.5, bottom - height),
            (bucket_width() - 1.0, height),
            &hint,
        );
    }
    for (share, label) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")] {
        let Some(ns) = histogram.percentile(share) else {
            continue;
        };
        svg.line("percentile", (x_of(ns), top - 2.0), (x_of(ns), bottom));
        if label != "p99.9" {
            let text = format!("{label} {}", duration(ns as u64));
            svg.text("tick", (x_of(ns) + 2.0, top - 4.0), Anchor::Start, &text);
        }
    }
}

/// Of all, in each power of two from [`FIRST`] to [`LAST`]; what lies outside counts as the
/// nearest.
fn shares(histogram: &Histogram) -> Vec<f64> {
    let mut shares = vec![0.0; (LAST + 1 - FIRST) as usize];
    let total = histogram.count().max(1) as f64;
    for (ns, count) in histogram.used() {
        let octave = ns.max(1).ilog2().clamp(FIRST, LAST);
        shares[(octave - FIRST) as usize] += count as f64 / total;
    }
    shares
}

/// With two significant digits or so.
fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..10_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000..1_000_000 => format!("{} us", ns / 1_000),
        1_000_000..10_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{} ms", ns / 1_000_000),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn shares_add_up() {
        let mut histogram = Histogram::default();
        histogram.add(10, 1);
        histogram.add(5000, 2);
        histogram.add(u64::MAX, 1);
        let shares = shares(&histogram);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!((shares[0], shares[(12 - FIRST) as usize]), (0.25, 0.5));
    }

    #[test]
    fn durations_are_short() {
        let texts = [800, 1500, 25_600, 3_300_000, 12_000_000].map(duration);
        assert_eq!(texts, ["800 ns", "1.5 us", "25 us", "3.3 ms", "12 ms"]);
    }
}
