//! A report as a page of its own: no script, nothing from elsewhere, in the reader's light or dark.

mod svg;

use std::fmt::Write as _;

use uzswap_page::{document, escape};

use crate::report::{BAR, Body, Row, Section};
use crate::{Report, text};

const STYLE: &str = include_str!("style.css");

/// All of it.
pub(crate) fn page(report: &Report) -> String {
    let (judged, met) = report.tally();
    let cards: String = report.sections.iter().map(card).collect();
    let main = format!(
        "<h1>The seeds' machines, simulated</h1>\n\
         <p>Nothing here was measured: the engine ran on a virtual clock, seed {}. Costs are chosen by columns before \
         and by microbenchmarks. {met} of {judged} predicted changes are within {BAR:.0} percentage points of those \
         published.</p>\n{cards}",
        report.seed
    );
    document("uzswap sim", STYLE, &main)
}

fn table(head: &[String], rows: impl Iterator<Item = String>) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    for cell in head {
        let _ = write!(html, "<th>{}</th>", escape(cell));
    }
    html.push_str("</tr></thead><tbody>\n");
    html.extend(rows);
    html.push_str("</tbody></table></div>\n");
    html
}

fn row(cells: &[String], class: &str) -> String {
    let mut html = String::from("<tr>");
    for cell in cells {
        let _ = write!(html, "<td class=\"{class}\">{}</td>", escape(cell));
    }
    html.push_str("</tr>\n");
    html
}

fn class(row: &Row) -> &'static str {
    match (row.is_judged(), row.is_met()) {
        (true, true) => "met",
        (true, false) => "not-met",
        (false, _) => "",
    }
}

fn card(section: &Section) -> String {
    let notes: String = section
        .notes
        .iter()
        .map(|note| format!("<p>{}</p>\n", escape(note)))
        .collect();
    let body = match &section.body {
        Body::Published(rows) => {
            let judged: Vec<&Row> = rows.iter().filter(|row| row.is_judged()).collect();
            let rows = rows.iter().map(|figure| row(&text::cells(figure), class(figure)));
            format!(
                "<p>Bars: published above, simulated below.</p>\n{}{}",
                svg::bars(&judged),
                table(&text::HEAD.map(str::to_owned), rows)
            )
        }
        Body::Open { head, rows, plot } => {
            let table = table(head, rows.iter().map(|cells| row(cells, "")));
            format!("{}{table}", svg::lines(plot))
        }
    };
    format!(
        "<section class=\"card\" id=\"{}\">\n<h2>{}</h2>\n{notes}{body}</section>\n",
        section.name,
        escape(&section.title)
    )
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::report::{Kind, Plot, Unit};

    #[test]
    fn the_page_stands_by_itself() {
        let judged = Row {
            label: "<throughput>".to_owned(),
            unit: Unit::Percent,
            published: 49.0,
            simulated: 20.0,
            kind: Kind::Predicted,
        };
        let section = |name, body| Section {
            name,
            title: "a & b".to_owned(),
            notes: vec!["<note>".to_owned()],
            body,
        };
        let open = Body::Open {
            head: vec!["batch".to_owned()],
            rows: vec![vec!["8".to_owned()]],
            plot: Plot::default(),
        };
        let report = Report {
            seed: 7,
            sections: vec![section("a", Body::Published(vec![judged])), section("b", open)],
        };
        let html = page(&report);
        assert!(html.contains("seed 7") && html.contains("0 of 1 predicted changes"));
        assert!(html.contains("class=\"not-met\"") && html.contains("a &amp; b"));
        assert_eq!(uzswap_page::foreign(&html), None);
        for markup in ["<throughput>", "<note>"] {
            assert!(!html.contains(markup), "{markup}");
        }
    }
}
