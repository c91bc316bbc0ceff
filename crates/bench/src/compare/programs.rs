//! Real programs at shares of what they take: what came of all of them, in one table.

use super::results::{Results, Run, WorkloadResult};
use super::side::Side;
use crate::table::Table;

/// Figures of a run that did not come to its end: the kernel killed it for memory, it took too
/// long, it failed.
pub(super) const END_OOM: &str = "end.oom";
pub(super) const END_LATE: &str = "end.late";
pub(super) const END_FAILED: &str = "end.failed";

const PREFIX: &str = "programs:";
const HELD: [Side; 3] = [Side::Zswap, Side::Zram, Side::Uzswap];
/// Where memory is, when most of it is used.
const PARTS: [&str; 5] = ["resident", "staged", "pool", "kept", "metadata"];

/// Of a program at a share.
pub(super) fn case_name(program: &str, percent: u64) -> String {
    format!("{PREFIX}{program}@{percent}")
}

/// Program and share.
fn parse_case(name: &str) -> Option<(&str, u64)> {
    let (program, percent) = name.strip_prefix(PREFIX)?.split_once('@')?;
    Some((program, percent.parse().ok()?))
}

/// What --only names: a program, at whatever share.
pub(super) fn family(name: &str) -> String {
    match parse_case(name) {
        Some((program, _)) => format!("{PREFIX}{program}"),
        None => name.to_owned(),
    }
}

/// Whether --only chooses a workload. Programs are only run where `programs` is named: all of
/// them, or those after a colon and the commas behind it.
pub(super) fn is_chosen(only: &[String], name: &str) -> bool {
    let programs = only.iter().position(|part| part.starts_with("programs"));
    let Some((program, _)) = parse_case(name) else {
        let others = &only[..programs.unwrap_or(only.len())];
        return only.is_empty() || others.iter().any(|part| name.contains(part.as_str()));
    };
    let Some(at) = programs else { return false };
    match only[at].strip_prefix(PREFIX) {
        None => true,
        Some(first) => first == program || only[at + 1..].iter().any(|part| part == program),
    }
}

/// Whether a run did not come to its end, so that what it took says nothing of what it needs.
pub(super) fn has_no_end(run: &Run) -> bool {
    [END_OOM, END_LATE, END_FAILED]
        .into_iter()
        .any(|end| run.figures.contains_key(end))
}

/// What came of a program at a share, for whoever watches.
pub(super) fn line(case: &WorkloadResult) -> Option<String> {
    let (program, percent) = parse_case(&case.name)?;
    let seconds = or_dash(case.median(Side::NoLimit, "elapsed"));
    let sides = HELD.into_iter().filter(|side| case.sides().contains(side));
    let times: String = sides
        .map(|side| format!(", {} x {}", side.name(), time_cell(case, side)))
        .collect();
    Some(format!("{program} at {percent} %: {seconds} s{times}"))
}

/// None of no values.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// Why a side has no time here.
fn end(case: &WorkloadResult, side: Side) -> Option<&'static str> {
    let ends = [(END_OOM, "OOM killed"), (END_LATE, "> limit"), (END_FAILED, "FAILED")];
    let had = |key: &str| case.runs_of(side).any(|run| run.figures.contains_key(key));
    ends.into_iter().find(|(key, _)| had(key)).map(|(_, name)| name)
}

/// Against no limit; none where a run of either did not come to its end.
fn slowdown(case: &WorkloadResult, side: Side) -> Option<f64> {
    let is_whole = end(case, side).is_none() && end(case, Side::NoLimit).is_none();
    is_whole.then(|| case.ratio(side, Side::NoLimit, "elapsed")).flatten()
}

fn over_zswap(case: &WorkloadResult) -> Option<f64> {
    let is_whole = end(case, Side::Zswap).is_none() && end(case, Side::Uzswap).is_none();
    is_whole
        .then(|| case.ratio(Side::Uzswap, Side::Zswap, "elapsed"))
        .flatten()
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

fn time_cell(case: &WorkloadResult, side: Side) -> String {
    let Some(why) = end(case, side) else {
        return or_dash(slowdown(case, side));
    };
    match case.median(side, "elapsed") {
        Some(seconds) if why == "> limit" => format!("> {seconds:.0} s"),
        _ => why.to_owned(),
    }
}

/// Thousands of pages that had to be waited for, MiB read and written of the device.
fn traffic_cells(case: &WorkloadResult, side: Side) -> [String; 3] {
    let counter = |name| case.counter(side, name);
    let mib = |name| counter(name).map_or("-".to_owned(), |pages| format!("{:.0}", pages / 256.0));
    let faults = counter("pgmajfault").map_or("-".to_owned(), |count| format!("{count:.0}"));
    [faults, mib("pswpin"), mib("pswpout")]
}

/// The whole section; nothing where no program was run.
pub(super) fn section(results: &Results) -> String {
    let cases: Vec<_> = results
        .workloads
        .iter()
        .filter_map(|case| Some((parse_case(&case.name)?, case)))
        .collect();
    if cases.is_empty() {
        return String::new();
    }
    format!(
        "\nPrograms\n========\nTime over that without a limit (x), and uzswap over the kernel's zswap. Control groups are \
         hidden from the\nprograms on all sides. Major faults, MiB read and written of the swap device (zram: of its \
         memory).\n\n{}\nMiB when most is used\n{}\nGeometric means, of programs that came to their end on the sides \
         compared\n{}",
        times(&cases),
        memory(&cases),
        means(&cases)
    )
}

type Case<'a> = ((&'a str, u64), &'a WorkloadResult);

fn times(cases: &[Case]) -> Table {
    let mut table = Table::default();
    let mut head: Vec<String> = ["program", "%", "s", "zswap x", "zram x", "uzswap x", "uzswap/zswap"]
        .map(str::to_owned)
        .to_vec();
    for side in ["zswap", "zram", "uzswap"] {
        head.extend(["faults", "read", "written"].map(|what| format!("{side} {what}")));
    }
    table.row(head);
    table.rule();
    for ((program, percent), case) in cases {
        let mut row = vec![(*program).to_owned(), percent.to_string()];
        row.push(or_dash(case.median(Side::NoLimit, "elapsed")));
        row.extend(HELD.map(|side| time_cell(case, side)));
        row.push(or_dash(over_zswap(case)));
        row.extend(HELD.into_iter().flat_map(|side| traffic_cells(case, side)));
        table.row(row);
    }
    table
}

fn memory(cases: &[Case]) -> Table {
    let mut table = Table::default();
    let mut head = vec![
        "program".to_owned(),
        "%".to_owned(),
        "side".to_owned(),
        "may have".to_owned(),
    ];
    head.extend(PARTS.map(str::to_owned));
    head.extend(["free".to_owned(), "held".to_owned()]);
    table.row(head);
    table.rule();
    for ((program, percent), case) in cases {
        for side in HELD.into_iter().filter(|side| case.sides().contains(side)) {
            let memory = case.memory(side);
            let part = |name: &str| case.median(side, &format!("peak.{name}"));
            let mib = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
            let mut row = vec![(*program).to_owned(), percent.to_string(), side.name().to_owned()];
            row.push(mib(memory.target as f64));
            row.extend(PARTS.map(|name| part(name).map_or("-".to_owned(), mib)));
            row.push(mib(memory.target.saturating_sub(memory.total_peak) as f64));
            row.push(match memory.is_held() {
                Some(false) => "NOT HELD".to_owned(),
                _ => String::new(),
            });
            table.row(row);
        }
    }
    table
}

fn means(cases: &[Case]) -> Table {
    let mut table = Table::default();
    table.row(["%", "zswap x", "zram x", "uzswap x", "uzswap/zswap", "programs"]);
    table.rule();
    let mut percents: Vec<u64> = cases.iter().map(|((_, percent), _)| *percent).collect();
    percents.sort_unstable_by(|a, b| b.cmp(a));
    percents.dedup();
    for percent in percents {
        let here = || cases.iter().filter(|((_, of), _)| *of == percent);
        let mean = |read: &dyn Fn(&WorkloadResult) -> Option<f64>| {
            let values: Vec<f64> = here().filter_map(|(_, case)| read(case)).collect();
            or_dash(geometric_mean(&values))
        };
        let mut row = vec![percent.to_string()];
        row.extend(HELD.map(|side| mean(&|case| slowdown(case, side))));
        row.push(mean(&over_zswap));
        row.push(
            here()
                .filter(|(_, case)| over_zswap(case).is_some())
                .count()
                .to_string(),
        );
        table.row(row);
    }
    table
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn cases_have_names() {
        assert_eq!(parse_case(&case_name("c++", 80)), Some(("c++", 80)));
        assert_eq!(parse_case("redis"), None);
        assert_eq!(family(&case_name("c++", 80)), "programs:c++");
        assert_eq!(family("redis"), "redis");
    }

    #[test]
    fn programs_are_chosen_by_name_only() {
        let only = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_chosen(&[], "redis") && !is_chosen(&[], "programs:node@80"));
        assert!(is_chosen(&only("programs"), "programs:node@80"));
        assert!(!is_chosen(&only("programs"), "redis"));
        assert!(is_chosen(&only("programs:sort,node"), "programs:node@80"));
        assert!(!is_chosen(&only("programs:sort,node"), "programs:node-json@80"));
        assert!(!is_chosen(&only("redis"), "programs:redis@80"));
        assert!(!is_chosen(&only("programs:sort,python"), "contents-cpython"));
        assert!(is_chosen(&only("redis,programs:sort"), "redis"));
    }

    #[test]
    fn means_are_geometric() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0, 8.0]).unwrap() - 2.0).abs() < 1e-9);
    }
}
