//! The tables, for programs.

use serde_json::json;

use super::Contestant;
use crate::export::Sheet;
use crate::export::sheet::{SPREAD, spread};

pub(super) fn all(contestants: &[Contestant]) -> [Sheet; 4] {
    [
        build_times(contestants),
        latencies(contestants),
        sizes(contestants),
        densities(contestants),
    ]
}

fn build_times(contestants: &[Contestant]) -> Sheet {
    let mut sheet = Sheet::new("build time, s", ["zpool", "clock"].into_iter().chain(SPREAD));
    for contestant in contestants {
        for (clock, samples) in contestant.build_times() {
            let what = [json!(contestant.zpool.name()), json!(clock)];
            sheet.row(what.into_iter().chain(spread(&samples)));
        }
    }
    sheet
}

fn latencies(contestants: &[Contestant]) -> Sheet {
    let mut sheet = Sheet::new("latency", ["zpool", "step", "least_ns", "pages"]);
    for contestant in contestants {
        let loads = contestant.histogram(|round| &round.load);
        let stores = contestant.histogram(|round| &round.store);
        for (step, histogram) in [("load", loads), ("store", stores)] {
            for (least, pages) in histogram.used() {
                sheet.row([json!(contestant.zpool.name()), json!(step), json!(least), json!(pages)]);
            }
        }
    }
    sheet
}

fn sizes(contestants: &[Contestant]) -> Sheet {
    let mut sheet = Sheet::new("largest size", ["zpool", "bytes"]);
    for contestant in contestants {
        sheet.row([json!(contestant.zpool.name()), json!(contestant.figures().pool_max)]);
    }
    sheet
}

fn densities(contestants: &[Contestant]) -> Sheet {
    let columns = [
        "zpool",
        "full",
        "70_percent_freed",
        "compacted",
        "moved",
        "compaction_s",
    ];
    let mut sheet = Sheet::new("density", columns);
    for contestant in contestants {
        let figures = contestant.figures();
        let seconds = contestant.samples(|round| round.compaction_seconds).median();
        sheet.row([
            json!(contestant.zpool.name()),
            json!(figures.full.ratio()),
            json!(figures.thinned.ratio()),
            json!(figures.compacted.ratio()),
            json!(figures.relocated),
            json!(seconds),
        ]);
    }
    sheet
}
