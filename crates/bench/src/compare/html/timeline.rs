//! What a run held, from its start to its end: resident memory, the pool and the swap device, one
//! above the other; and its faults a second.

use uzswap_page::{Anchor, Svg, round_up};

use super::super::results::{Run, WorkloadResult};
use super::super::sampler::Sample;
use super::super::side::Side;
use super::super::text::{mib, number};
use super::side_class;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = 64.0;
const STRIP: f64 = 92.0;
const GAP: f64 = 14.0;
const AXIS: f64 = 22.0;
const FAULTS: f64 = 130.0;
/// Faults a second are means over so many seconds at least, and over a fiftieth of the run.
const WINDOW_LEAST: f64 = 0.2;

/// Something that takes memory or disk.
struct Layer {
    class: &'static str,
    name: &'static str,
    /// Bytes.
    read: fn(&Sample) -> u64,
}

/// What is stacked, from below.
const LAYERS: [Layer; 3] = [
    Layer {
        class: "resident",
        name: "resident",
        read: |sample| sample.resident,
    },
    Layer {
        class: "pool",
        name: "pool",
        read: |sample| sample.pool,
    },
    Layer {
        class: "disk",
        name: "swap device",
        read: |sample| sample.disk,
    },
];

/// Both plots, of the run of each side in the pair in the middle. `None`: nothing was sampled.
pub(super) fn plot(workload: &WorkloadResult) -> Option<String> {
    let runs: Vec<&Run> = workload
        .sides()
        .into_iter()
        .filter_map(|side| middle_run(workload, side))
        .collect();
    if runs.is_empty() {
        return None;
    }
    let seconds = runs
        .iter()
        .flat_map(|run| run.timeline.last())
        .map(|sample| sample.seconds);
    let end = round_up(seconds.fold(0.5, f64::max));
    Some(format!(
        "<figure class=\"wide\"><figcaption>Memory over time <span class=\"unit\">one run of each side; seconds from its start; \
         dashed: what resident memory and pool may come to</span>{}</figcaption>{}</figure>{}",
        legend(),
        memory(&runs, end),
        faults(&runs, end)
    ))
}

fn middle_run(workload: &WorkloadResult, side: Side) -> Option<&Run> {
    let runs: Vec<&Run> = workload.runs_of(side).filter(|run| run.timeline.len() > 1).collect();
    runs.get(runs.len() / 2).copied()
}

fn legend() -> String {
    let key = |Layer { class, name, .. }: &Layer| format!("<span class=\"key\"><i class=\"{class}\"></i>{name}</span>");
    LAYERS.iter().map(key).collect()
}

fn x_of(seconds: f64, end: f64) -> f64 {
    LEFT + seconds / end * (WIDTH - LEFT - RIGHT)
}

fn time_axis(svg: &mut Svg, end: f64, top: f64, bottom: f64) {
    for step in 0..=4 {
        let seconds = end * f64::from(step) / 4.0;
        let x = x_of(seconds, end);
        svg.line("grid", (x, top), (x, bottom));
        let digits = if end < 10.0 { 1 } else { 0 };
        svg.text(
            "tick",
            (x, bottom + 15.0),
            Anchor::Middle,
            &format!("{seconds:.digits$} s"),
        );
    }
}

fn memory(runs: &[&Run], end: f64) -> String {
    let sum = |sample: &Sample| sample.resident + sample.pool + sample.disk;
    let largest = runs
        .iter()
        .flat_map(|run| run.timeline.iter().map(sum))
        .max()
        .unwrap_or(0);
    let target = runs.iter().map(|run| run.memory.target).max().unwrap_or(0);
    let limited = runs.iter().filter(|run| run.side != Side::NoLimit);
    let limited = limited
        .flat_map(|run| run.timeline.iter().map(sum))
        .max()
        .unwrap_or(largest);
    // A limit far above all that is used would leave nothing to see.
    let shown_target = if target > 2 * largest { 0 } else { target };
    let top = (largest.max(shown_target).max(limited) as f64 * 1.05).max(1.0);
    let height = runs.len() as f64 * (STRIP + GAP) + AXIS;
    let mut svg = Svg::new(WIDTH, height);
    time_axis(&mut svg, end, 4.0, height - AXIS);
    for (row, run) in runs.iter().enumerate() {
        let bottom = row as f64 * (STRIP + GAP) + STRIP + 4.0;
        strip(&mut svg, run, bottom, end, top);
    }
    svg.finish("resident memory, pool and swap device of each side over time")
}

fn strip(svg: &mut Svg, run: &Run, bottom: f64, end: f64, top: f64) {
    let y_of = |bytes: u64| bottom - bytes as f64 / top * STRIP;
    svg.line("base", (LEFT, bottom), (WIDTH - RIGHT, bottom));
    svg.text(
        "name",
        (LEFT - 10.0, bottom - STRIP / 2.0),
        Anchor::End,
        run.side.name(),
    );
    let both = mib(run.memory.total_peak);
    svg.text("tick", (LEFT - 10.0, bottom - STRIP / 2.0 + 15.0), Anchor::End, &both);
    let mut below: Vec<u64> = vec![0; run.timeline.len()];
    for Layer { class, read, .. } in LAYERS {
        let above: Vec<u64> = below
            .iter()
            .zip(&run.timeline)
            .map(|(base, sample)| base + read(sample))
            .collect();
        let points = |heights: &[u64]| -> Vec<(f64, f64)> {
            let places = run.timeline.iter().map(|sample| x_of(sample.seconds, end));
            places.zip(heights).map(|(x, bytes)| (x, y_of(*bytes))).collect()
        };
        if above != below {
            svg.area(class, &points(&above), &points(&below));
        }
        below = above;
    }
    if run.memory.target > 0 && run.memory.target as f64 <= top {
        let y = y_of(run.memory.target);
        svg.line("target", (LEFT, y), (WIDTH - RIGHT, y));
        svg.text(
            "tick",
            (WIDTH - RIGHT + 4.0, y + 4.0),
            Anchor::Start,
            &mib(run.memory.target),
        );
    }
}

fn faults(runs: &[&Run], end: f64) -> String {
    let lines: Vec<(Side, Vec<(f64, f64)>)> = runs.iter().map(|run| (run.side, rates(&run.timeline))).collect();
    let most = lines
        .iter()
        .flat_map(|(_, line)| line.iter().map(|point| point.1))
        .fold(0.0, f64::max);
    if most < 1.0 {
        return String::new();
    }
    let top = round_up(most);
    let bottom = FAULTS + 8.0;
    let mut svg = Svg::new(WIDTH, bottom + AXIS);
    time_axis(&mut svg, end, 8.0, bottom);
    for part in 0..=2 {
        let y = bottom - FAULTS * f64::from(part) / 2.0;
        svg.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
        svg.text(
            "tick",
            (LEFT - 10.0, y + 4.0),
            Anchor::End,
            &number(top * f64::from(part) / 2.0, 0),
        );
    }
    for (side, line) in &lines {
        let points = line
            .iter()
            .map(|(seconds, rate)| (x_of(*seconds, end), bottom - rate / top * FAULTS));
        svg.path(&format!("curve {}", side_class(*side)), &points.collect::<Vec<_>>());
    }
    let keys = lines.iter().map(|(side, _)| {
        format!(
            "<span class=\"key\"><i class=\"{}\"></i>{}</span>",
            side_class(*side),
            side.name()
        )
    });
    format!(
        "<figure class=\"wide\"><figcaption>Major faults a second <span class=\"unit\">page loads that a program waited for</span>{}\
         </figcaption>{}</figure>",
        keys.collect::<String>(),
        svg.finish("faults a second of each side over time")
    )
}

/// Seconds and faults a second, over windows.
fn rates(timeline: &[Sample]) -> Vec<(f64, f64)> {
    let whole = timeline.last().map_or(0.0, |sample| sample.seconds);
    let window = (whole / 50.0).max(WINDOW_LEAST);
    let mut points = Vec::new();
    let Some(mut from) = timeline.first() else {
        return points;
    };
    for sample in timeline {
        let seconds = sample.seconds - from.seconds;
        if seconds >= window {
            let faults = sample.major_faults.saturating_sub(from.major_faults) as f64;
            points.push((f64::midpoint(from.seconds, sample.seconds), faults / seconds));
            from = sample;
        }
    }
    points
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_are_of_windows() {
        let sample = |seconds: f64, major_faults| Sample {
            seconds,
            major_faults,
            ..Sample::default()
        };
        let timeline = [sample(0.0, 0), sample(0.1, 5), sample(0.25, 50), sample(0.5, 50)];
        assert_eq!(rates(&timeline), [(0.125, 200.0), (0.375, 0.0)]);
        assert!(rates(&[]).is_empty());
    }
}
