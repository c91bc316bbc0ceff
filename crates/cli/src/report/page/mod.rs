//! `--report`: a run as a page that a browser needs nothing else for.

mod chart;
mod plots;

use std::path::Path;
use std::time::SystemTime;

use uzswap_bench::Machine;
use uzswap_ctl::{Group, Statistic};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;
use uzswap_page::{document, escape};

use super::findings::{Advice, Facts, duration, percent};
use super::{Past, latencies};
use crate::figures::{self, Figure, Unit};
use crate::log::{self, Told};
use crate::output::warn_line;
use crate::{help, setting};
use uzswap_ctl::size::Size;

const STYLE: &str = include_str!("style.css");

/// Write the page; where that cannot be done a line says so.
pub(super) fn write(path: &Path, past: &Past<'_>) {
    if let Err(e) = std::fs::write(path, page(past, &log::told())) {
        warn_line!("uzswap: no report: --report {}: {e}", path.display());
    }
}

fn page(past: &Past<'_>, told: &[Told]) -> String {
    let parts = [
        format!("<h1>{}</h1>\n", escape(&past.command())),
        past.group
            .map_or_else(|| unmanaged_run(past), |group| of_group(past, group, told)),
        happened(told),
        not_managed(past),
        past.group
            .map_or_else(String::new, |group| table("Settings", &settings(group))),
        table("Machine", &Machine::look().facts()),
        past.group.map_or_else(String::new, counters),
        footer(),
    ];
    document(&format!("uzswap: {}", past.command()), STYLE, &parts.concat())
}

fn of_group(past: &Past<'_>, group: &Group, told: &[Told]) -> String {
    let facts = Facts::of(group, past.moments());
    let class = if facts.is_bad() { "verdict bad" } else { "verdict" };
    format!(
        "<p class=\"{class}\">{}</p>\n{}{}{}",
        escape(&facts.verdict()),
        tiles(&facts, past, group),
        advice(&facts, &past.command()),
        plots(past, told)
    )
}

fn unmanaged_run(past: &Past<'_>) -> String {
    format!(
        "<p class=\"verdict bad\">It was not managed: it ran as without uzswap, for {}. Its status is {}.</p>\n",
        duration(past.seconds),
        past.status
    )
}

fn tiles(facts: &Facts, past: &Past<'_>, group: &Group) -> String {
    let stat = group.vmstat();
    let [loads, _] = stat.histograms();
    let latency = latencies(&[0; _], &loads).map_or("no page was loaded".to_owned(), |[p50, p99]| {
        format!(
            "a load: half < {}, 99\u{a0}% < {}",
            plots::nanoseconds(p50),
            plots::nanoseconds(p99)
        )
    });
    let bytes = |pages: u64| Size(pages * PAGE_SIZE as u64).short();
    let limit = match facts.memory_max {
        u64::MAX => "no limit".to_owned(),
        max => format!("of {} that it may have", Size(max)),
    };
    let tiles = [
        ("Time", duration(past.seconds), format!("status {}", past.status)),
        ("Memory, at most", Size(facts.peak).short(), limit),
        (
            "Saved",
            Size(facts.needed.saturating_sub(facts.peak)).short(),
            format!("it would have had {} without uzswap", Size(facts.needed)),
        ),
        ("Waited for pages", percent(facts.waited_share()), latency),
        (
            "Loaded again",
            bytes(facts.from_pool + facts.from_disk),
            format!("{} of it from the swap file", bytes(facts.from_disk)),
        ),
        (
            "Taken out",
            bytes(facts.taken_out),
            format!("{} of it went on to the swap file", bytes(stat.get(Item::PswpOut))),
        ),
    ];
    let tile = |(name, value, more): (&str, String, String)| {
        format!(
            "<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>\n",
            escape(&value),
            escape(&more)
        )
    };
    format!(
        "<dl class=\"tiles\">\n{}</dl>\n",
        tiles.into_iter().map(tile).collect::<String>()
    )
}

fn card(title: &str, body: &str) -> String {
    format!("<section class=\"card\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// `command`: what `CMD` stands for.
fn advice(facts: &Facts, command: &str) -> String {
    let item = |Advice { change, why }: &Advice| {
        let is_literal = change.starts_with("--") || change.starts_with("uzswap");
        let tag = if is_literal { "code" } else { "b" };
        let change = escape(&change.replace("CMD", command));
        format!("<li><{tag}>{change}</{tag}><br>{}</li>\n", escape(why))
    };
    let items: Vec<String> = facts.advice().iter().map(item).collect();
    match items.is_empty() {
        true => String::new(),
        false => card(
            "What may serve better",
            &format!("<ul class=\"advice\">\n{}</ul>\n", items.concat()),
        ),
    }
}

fn plots(past: &Past<'_>, told: &[Told]) -> String {
    let moments = past.moments();
    if moments.len() < 3 {
        return card(
            "Over time",
            "<p>It ended before anything could be seen of it over time.</p>\n",
        );
    }
    let memory = format!("<section class=\"card\">\n{}</section>\n", plots::memory(moments, told));
    let others = [
        plots::waiting(moments),
        plots::latency(moments).unwrap_or_default(),
        plots::rates(moments),
    ];
    format!("{memory}<section class=\"card\">\n{}</section>\n", others.concat())
}

fn happened(told: &[Told]) -> String {
    let row = |event: &Told| {
        let line = event.line.strip_prefix("uzswap: ").unwrap_or(&event.line);
        format!(
            "<tr><td class=\"when\">{}</td><td>{}</td></tr>\n",
            duration(event.after.as_secs_f64()),
            escape(line)
        )
    };
    let rows: String = told.iter().map(row).collect();
    match told.is_empty() {
        true => String::new(),
        false => card("What happened", &format!("<table>\n{rows}</table>\n")),
    }
}

fn not_managed(past: &Past<'_>) -> String {
    if past.unmanaged.is_empty() {
        return String::new();
    }
    let most = past.group.map_or(0, |group| group.get(Statistic::UnmanagedPeak));
    let rows: String = past
        .unmanaged
        .iter()
        .map(|of| {
            format!(
                "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>\n",
                escape(&of.process),
                of.reason,
                of.count
            )
        })
        .collect();
    card(
        "Not managed",
        &format!(
            "<p>Memory of these processes was not taken out. All together they had {} at most.</p>\n\
             <table><tr><th>process</th><th>why</th><th class=\"number\">how many</th></tr>\n{rows}</table>\n",
            Size(most)
        ),
    )
}

fn settings(group: &Group) -> Vec<(String, String)> {
    setting::all(group)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn table(title: &str, rows: &[(String, String)]) -> String {
    let row =
        |(name, value): &(String, String)| format!("<tr><td>{}</td><td>{}</td></tr>\n", escape(name), escape(value));
    let rows: String = rows.iter().map(row).collect();
    format!("<details class=\"card\"><summary>{title}</summary>\n<table>\n{rows}</table></details>\n")
}

/// Those that are not zero.
fn counters(group: &Group) -> String {
    let row = |figure: &Figure| {
        let bytes = figure.unit.bytes(figure.value);
        let value = match (figure.unit, bytes) {
            (_, Some(_)) if figure.value == u64::MAX => "max".to_owned(),
            (Unit::Pages, Some(bytes)) => format!("{} pages, {}", figure.value, Size(bytes)),
            (_, Some(bytes)) => Size(bytes).to_string(),
            (Unit::Nanoseconds, None) => format!("{:.1} s", figure.value as f64 / 1e9),
            (_, None) => figure.value.to_string(),
        };
        format!(
            "<tr><td>{}</td><td class=\"number\">{value}</td><td class=\"what\">{}</td></tr>\n",
            figure.name, figure.help
        )
    };
    let figures = figures::of(group);
    let rows: String = figures.iter().filter(|figure| figure.value > 0).map(row).collect();
    format!("<details class=\"card\"><summary>Counters</summary>\n<table>\n{rows}</table></details>\n")
}

fn footer() -> String {
    format!(
        "<footer>uzswap {}, {}. K, M and G are powers of 1024. Latencies are upper bounds.</footer>\n",
        escape(help::VERSION),
        log::timestamp(SystemTime::now())
    )
}

#[cfg(test)]
mod test {
    use std::time::Duration;

    use super::*;
    use crate::census::Unmanaged;
    use crate::figures::test_group;

    fn past<'a>(cmd: &'a [std::ffi::OsString], group: Option<&'a Group>) -> Past<'a> {
        Past {
            cmd,
            group,
            name: "test",
            status: 7,
            signal: None,
            seconds: 1.5,
            unmanaged: vec![Unmanaged {
                process: "<static>".to_owned(),
                reason: "static",
                count: 2,
            }],
            lines: Vec::new(),
            timeline: None,
        }
    }

    #[test]
    fn a_page_stands_by_itself_whatever_names_are() {
        let cmd = ["<script>alert(1)</script>".into(), "a b".into()];
        let told = [Told {
            after: Duration::from_secs(3),
            line: "uzswap: <b> was killed".to_owned(),
        }];
        let group = test_group();
        for group in [None, Some(&group)] {
            let html = page(&past(&cmd, group), &told);
            assert_eq!(uzswap_page::foreign(&html), None);
            for text in [
                "&lt;static&gt;",
                "&lt;b&gt; was killed",
                "3.0 s",
                "tatus",
                "&#39;a b&#39;",
            ] {
                assert!(html.contains(text), "{text}: {html}");
            }
            assert_eq!(html.matches("<section").count(), html.matches("</section>").count());
        }
    }

    #[test]
    fn a_run_without_a_group_says_so() {
        let cmd = ["true".into()];
        let html = page(&past(&cmd, None), &[]);
        assert!(html.contains("It was not managed") && !html.contains("What happened"));
    }
}
