//! The plots of a run.

use uzswap_page::round_up;

use super::super::findings::percent;
use super::super::latencies;
use super::super::timeline::{COUNTED, Moment};
use super::chart::Chart;
use crate::log::Told;
use uzswap_ctl::size::{Size, three_digits};

/// So many columns have hints; rates are of their time.
const COLUMNS: usize = 120;
/// A column has at least so many seconds: in less, one thing happens or none.
const COLUMN_LEAST: f64 = 0.1;
/// A limit so many times as high as all that was there would leave nothing else to see.
const FAR: u64 = 3;

/// Something that takes memory or disk.
struct Layer {
    class: &'static str,
    name: &'static str,
    read: fn(&Moment) -> u64,
}

/// What is stacked, from below.
const LAYERS: [Layer; 4] = [
    Layer {
        class: "resident",
        name: "resident",
        read: |moment| moment.resident,
    },
    Layer {
        class: "unmanaged",
        name: "not managed",
        read: |moment| moment.unmanaged,
    },
    Layer {
        class: "pool",
        name: "pool",
        read: |moment| moment.pool,
    },
    Layer {
        class: "disk",
        name: "swap file, not charged",
        read: |moment| moment.disk,
    },
];

/// Memory over time. `told`: what happened meanwhile.
pub(super) fn memory(moments: &[Moment], told: &[Told]) -> String {
    let end = end(moments);
    let sum = |moment: &Moment| LAYERS.iter().map(|layer| (layer.read)(moment)).sum::<u64>();
    let largest = moments.iter().map(sum).max().unwrap_or(0).max(1);
    let limits = moments
        .iter()
        .map(|moment| moment.max)
        .filter(|max| *max <= largest * FAR);
    let top = axis_end(limits.max().unwrap_or(0).max(largest));
    let mut chart = Chart::new("Memory", "", end);
    for part in 0..=2 {
        chart.grid(
            f64::from(part) / 2.0,
            &Size((top * f64::from(part) / 2.0) as u64).short(),
        );
    }
    layers(&mut chart, moments, top);
    limit(&mut chart, moments, top);
    for event in told {
        chart.mark(event.after.as_secs_f64());
    }
    if !told.is_empty() {
        chart.key("mark", "what happened");
    }
    for column in columns(moments) {
        let lines = LAYERS
            .iter()
            .map(|Layer { name, read, .. }| format!("{name}: {}", Size(read(column.last))));
        chart.hint(column.from, column.last.seconds, &hint(&column, lines));
    }
    chart.finish("tall")
}

fn layers(chart: &mut Chart, moments: &[Moment], top: f64) {
    let mut below = vec![0; moments.len()];
    for Layer { class, name, read } in LAYERS {
        let above: Vec<u64> = below
            .iter()
            .zip(moments)
            .map(|(base, moment)| base + read(moment))
            .collect();
        let points = |heights: &[u64]| -> Vec<(f64, f64)> {
            let heights = heights.iter().map(|bytes| *bytes as f64 / top);
            moments.iter().map(|moment| moment.seconds).zip(heights).collect()
        };
        if above != below {
            chart.area(class, &points(&above), &points(&below));
            chart.key(class, name);
        }
        below = above;
    }
}

/// In steps: it may have been changed.
fn limit(chart: &mut Chart, moments: &[Moment], top: f64) {
    let is_shown = |moment: &&Moment| (moment.max as f64) <= top;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for moment in moments.iter().filter(is_shown) {
        let share = moment.max as f64 / top;
        let before = points.last().map_or(share, |(_, share)| *share);
        points.extend([(moment.seconds, before), (moment.seconds, share)]);
    }
    if let Some((_, share)) = points.last().copied() {
        chart.line("limit", &points);
        chart.key("limit", &format!("limit {}", Size((share * top).round() as u64)));
    }
}

/// The share of time in which the process that waited most did so.
pub(super) fn waiting(moments: &[Moment]) -> String {
    let mut chart = Chart::new(
        "Waiting for pages",
        "% of the time, of the process that waited most",
        end(moments),
    );
    for part in 0..=2 {
        chart.grid(f64::from(part) / 2.0, &format!("{} %", part * 50));
    }
    let columns = columns(moments);
    let shares: Vec<(f64, f64)> = columns.iter().flat_map(|column| column.step(column.waited)).collect();
    let base: Vec<(f64, f64)> = shares.iter().map(|(seconds, _)| (*seconds, 0.0)).collect();
    chart.area("waited", &shares, &base);
    for column in &columns {
        let line = format!("waited: {}", percent(column.waited));
        chart.hint(column.from, column.last.seconds, &hint(column, [line].into_iter()));
    }
    chart.finish("low")
}

/// Something that happens so often in a second. Its name is its class, too.
struct Rate {
    name: &'static str,
    read: fn(&Column<'_>) -> f64,
}

const RATES: [Rate; 3] = [
    Rate {
        name: "loads",
        read: |column| column.rates[0] + column.rates[1],
    },
    Rate {
        name: "stores",
        read: |column| column.rates[2],
    },
    Rate {
        name: "writebacks",
        read: |column| column.rates[3],
    },
];

/// Loads, stores and writebacks.
pub(super) fn rates(moments: &[Moment]) -> String {
    let columns = columns(moments);
    let most = RATES
        .iter()
        .flat_map(|rate| columns.iter().map(rate.read))
        .fold(0.0, f64::max);
    let top = round_up(most);
    let mut chart = Chart::new("Pages moved", "a second", end(moments));
    for part in 0..=2 {
        let share = f64::from(part) / 2.0;
        chart.grid(share, &three_digits(top * share, 1000.0));
    }
    for Rate { name, read } in RATES {
        let steps = columns.iter().flat_map(|column| column.step(read(column) / top));
        chart.line(name, &steps.collect::<Vec<_>>());
        chart.key(name, name);
    }
    for column in &columns {
        let line = |Rate { name, read }: &Rate| format!("{name}: {} a second", three_digits(read(column), 1000.0));
        chart.hint(column.from, column.last.seconds, &hint(column, RATES.iter().map(line)));
    }
    chart.finish("low")
}

/// Percentiles of how long loads took, on a scale of powers of ten. `None`: there were none.
pub(super) fn latency(moments: &[Moment]) -> Option<String> {
    let columns = columns(moments);
    let known = || columns.iter().filter_map(|column| column.latencies);
    let least = known().map(|[p50, _]| p50).min()? as f64;
    let most = known().map(|[_, p99]| p99).max()? as f64;
    let (first, last) = (least.log10().floor(), (most.log10() + 1e-9).ceil());
    let height = |ns: u64| ((ns as f64).log10() - first) / (last - first).max(1.0);
    let mut chart = Chart::new("Time that a load takes", "upper bounds", end(moments));
    for power in first as i32..=last as i32 {
        let share = (f64::from(power) - first) / (last - first).max(1.0);
        chart.grid(share, &nanoseconds(10u64.pow(power as u32)));
    }
    for (at, class, name) in [(1, "p99", "99 % take less"), (0, "p50", "half take less")] {
        // Where there were no loads there is a gap.
        for run in columns.chunk_by(|a, b| a.latencies.is_some() == b.latencies.is_some()) {
            let points = run
                .iter()
                .filter_map(|column| Some(column.step(height(column.latencies?[at]))));
            let points: Vec<(f64, f64)> = points.flatten().collect();
            if !points.is_empty() {
                chart.line(class, &points);
            }
        }
        chart.key(class, name);
    }
    for column in &columns {
        let line = match column.latencies {
            Some([p50, p99]) => format!("p50 < {}, p99 < {}", nanoseconds(p50), nanoseconds(p99)),
            None => "no loads".to_owned(),
        };
        chart.hint(column.from, column.last.seconds, &hint(column, [line].into_iter()));
    }
    Some(chart.finish("low"))
}

fn end(moments: &[Moment]) -> f64 {
    moments.last().map_or(0.0, |moment| moment.seconds)
}

/// A round size that is not less.
fn axis_end(bytes: u64) -> f64 {
    let unit = match bytes {
        ..0x4000_0000 => f64::from(1 << 20),
        _ => f64::from(1 << 30),
    };
    round_up(bytes as f64 / unit) * unit
}

pub(super) fn nanoseconds(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

fn hint(column: &Column<'_>, lines: impl Iterator<Item = String>) -> String {
    let time = format!("{:.1} to {:.1} s", column.from, column.last.seconds);
    std::iter::once(time).chain(lines).collect::<Vec<_>>().join("\n")
}

/// A stretch of time.
struct Column<'a> {
    /// Seconds since the beginning.
    from: f64,
    last: &'a Moment,
    /// Share of its time.
    waited: f64,
    /// In a second, of [`COUNTED`].
    rates: [f64; COUNTED.len()],
    latencies: Option<[u64; 2]>,
}

impl Column<'_> {
    /// The same height from its beginning to its end.
    fn step(&self, height: f64) -> [(f64, f64); 2] {
        [(self.from, height), (self.last.seconds, height)]
    }
}

fn columns(moments: &[Moment]) -> Vec<Column<'_>> {
    let width = (end(moments) / COLUMNS as f64).max(COLUMN_LEAST).min(end(moments));
    let mut columns = Vec::new();
    let Some(mut first) = moments.first() else {
        return columns;
    };
    let mut waited = 0.0;
    for moment in &moments[1..] {
        waited += moment.waited;
        let seconds = moment.seconds - first.seconds;
        let is_end = std::ptr::eq(moment, &moments[moments.len() - 1]);
        if seconds > 0.0 && (seconds >= width || is_end) {
            columns.push(Column {
                from: first.seconds,
                last: moment,
                waited: (waited / seconds).min(1.0),
                rates: std::array::from_fn(|i| moment.counts[i].saturating_sub(first.counts[i]) as f64 / seconds),
                latencies: latencies(&first.loads, &moment.loads),
            });
            (first, waited) = (moment, 0.0);
        }
    }
    columns
}

#[cfg(test)]
mod test {
    use super::*;

    fn moment(seconds: f64, resident: u64, loads: u64) -> Moment {
        let mut moment = Moment {
            seconds,
            resident,
            max: 64 << 20,
            waited: 0.05,
            counts: [loads; COUNTED.len()],
            ..Moment::default()
        };
        moment.loads[10] = loads;
        moment
    }

    fn moments() -> Vec<Moment> {
        (0..=40)
            .map(|i| moment(f64::from(i) / 8.0, 50 << 20, u64::from(i as u32) * 30))
            .collect()
    }

    #[test]
    fn columns_are_of_their_time() {
        let moments = moments();
        let columns = columns(&moments);
        assert_eq!(columns.len(), 40);
        assert!((columns[3].rates[0] - 240.0).abs() < 1.0 && (columns[3].waited - 0.4).abs() < 0.01);
        assert_eq!(columns[3].latencies, Some([1 << 16; 2]));
        assert!(super::columns(&moments[..1]).is_empty() && super::columns(&[]).is_empty());
    }

    #[test]
    fn nothing_to_see_is_drawn_as_well() {
        for moments in [&[][..], &[Moment::default()], &[Moment::default(); 2]] {
            assert!(memory(moments, &[]).contains("<svg"));
            assert!(waiting(moments).contains("<svg") && rates(moments).contains("<svg"));
            assert!(latency(moments).is_none());
        }
        assert!(!memory(&[Moment::default(); 2], &[]).contains("NaN"));
    }

    #[test]
    fn layers_and_the_limit_have_keys() {
        let html = memory(&moments(), &[]);
        assert!(html.contains("limit 64M") && html.contains(">resident<"));
        assert!(!html.contains(">pool<"), "there is none");
        let mut far = moments();
        far.iter_mut().for_each(|moment| moment.max = u64::MAX);
        assert!(!memory(&far, &[]).contains("limit"));
    }

    #[test]
    fn an_axis_of_latencies_has_powers_of_ten() {
        let html = latency(&moments()).unwrap();
        assert!(
            html.contains(">10 us<") && html.contains(">100 us<") && !html.contains(">1 ms<"),
            "{html}"
        );
        assert_eq!([64, 65_536, 1 << 30].map(nanoseconds), ["64 ns", "65 us", "1 s"]);
    }
}
