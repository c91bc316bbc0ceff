//! The report as a page of its own: no script, nothing from elsewhere, in the reader's light or
//! dark.

mod bars;
mod histogram;
mod tables;
mod timeline;

use uzswap_page::{document, escape};

use super::promises;
use super::results::{Results, WorkloadResult};
use super::side::Side;

const STYLE: &str = include_str!("style.css");

/// All of it.
pub(super) fn page(results: &Results) -> String {
    let cards: String = results.workloads.iter().map(workload).collect();
    document(
        &format!("uzswap bench, {}", results.date),
        STYLE,
        &format!("{}{}{cards}{}", heading(results), bar(results), footer(results)),
    )
}

/// The class that has a side's colour.
fn side_class(side: Side) -> &'static str {
    match side {
        Side::NoLimit => "side-none",
        Side::Zswap => "side-zswap",
        Side::Zram => "side-zram",
        Side::Uzswap => "side-uzswap",
    }
}

fn heading(results: &Results) -> String {
    let facts: String = results
        .machine
        .facts()
        .iter()
        .map(|(name, value)| format!("<li>{} <b>{}</b></li>", escape(name), escape(value)))
        .collect();
    let notes = results
        .skipped
        .iter()
        .map(|line| format!("<p class=\"note\">{}</p>", escape(line)));
    let quick = if results.is_quick {
        "<p class=\"note\">A quick run: small sizes, which are not those of the bar.</p>"
    } else {
        ""
    };
    let links = results.workloads.iter().map(|workload| {
        format!(
            "<a href=\"#{}\">{}</a>",
            escape(&workload.name),
            escape(&workload.title)
        )
    });
    format!(
        "<header>\n<h1>uzswap against the kernel's zswap</h1>\n<p>Each workload in turn without a limit, under the kernel's zswap, \
         under zram and under uzswap. What is resident and what the pool takes, together, are the same for all that are limited. \
         {} of each, medians; {}, commit {}.</p>\n<ul class=\"facts\">{facts}</ul>{quick}{}\n<nav>{}</nav>\n</header>\n",
        plural(results.pairs),
        escape(&results.date),
        escape(&results.commit),
        notes.collect::<String>(),
        links.collect::<String>()
    )
}

fn plural(pairs: u32) -> String {
    if pairs == 1 {
        "1 run".to_owned()
    } else {
        format!("{pairs} runs")
    }
}

fn bar(results: &Results) -> String {
    let rows = promises::rows(results);
    let measured = rows.iter().filter(|row| row.measured.is_some()).count();
    let met = rows.iter().filter(|row| row.is_met).count();
    format!(
        "<section class=\"card\">\n<h2>The bar</h2>\n<p class=\"tally\">{met} of {measured} figures that were measured are \
         met.</p>\n<div class=\"scroll\">{}</div>\n</section>\n",
        tables::promises(&rows)
    )
}

fn workload(workload: &WorkloadResult) -> String {
    let bars = workload
        .metrics
        .iter()
        .filter_map(|metric| bars::plot(workload, metric));
    let mut names: Vec<&String> = workload.runs.iter().flat_map(|run| run.latencies.keys()).collect();
    names.sort();
    names.dedup();
    let histograms = names.into_iter().filter_map(|name| histogram::plot(workload, name));
    format!(
        "<section class=\"card\" id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n<div class=\"plots\">{}</div>\n<div class=\"plots\">{}</div>\n\
         {}\n<details><summary>Counters and memory</summary><div class=\"scroll\">{}</div></details>\n</section>\n",
        escape(&workload.name),
        escape(&workload.title),
        escape(&workload.description),
        bars.collect::<String>(),
        histograms.collect::<String>(),
        timeline::plot(workload).unwrap_or_default(),
        tables::counters_and_memory(workload)
    )
}

fn footer(results: &Results) -> String {
    format!(
        "<footer>Measured in {:.0} minutes by <code>uzswap bench</code>. Bars are medians, the thin line runs from the lowest to \
         the highest. A fault is an access that took more than 1.5 us, as the program saw it. MB is 2<sup>20</sup> bytes.</footer>\n",
        (results.seconds / 60.0).max(1.0)
    )
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::machine::Machine;
    use crate::compare::results::test;

    #[test]
    fn the_page_stands_by_itself() {
        let results = Results {
            date: "2026-11-21T00:00:00Z".to_owned(),
            commit: "<commit>".to_owned(),
            is_quick: true,
            pairs: 2,
            seconds: 1.0,
            machine: Machine::default(),
            skipped: vec!["zram is left out: <why>".to_owned()],
            workloads: vec![test::workload()],
        };
        let html = page(&results);
        assert_eq!(uzswap_page::foreign(&html), None);
        assert!(html.contains("It &lt;writes&gt;.") && html.contains("&lt;commit&gt;") && html.contains("&lt;why&gt;"));
        assert_eq!(html.matches("<section").count(), html.matches("</section>").count());
    }
}
