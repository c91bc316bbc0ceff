//! The seeds' tables of usemem, beside their simulation.

use crate::fit::Fit;
use crate::lab::{Base, Driver, Lab};
use crate::report::{Body, Kind, Row, Section, Unit, change};
use crate::seeds::{self, Column, Pair, Test};

/// Tests of batching.
const BATCHING: [Test; 4] = [seeds::V9_64K, seeds::V9_2M, seeds::V12_64K, seeds::V12_2M];
/// Tests of folios that are stored whole.
const WHOLE: [Test; 2] = [seeds::V8_64K, seeds::V8_2M];

/// What batching was said to add to them: throughput, elapsed time and time in the kernel.
const WHOLE_BATCHED: [[f64; 3]; 2] = [[35.0, -9.0, -0.4], [34.0, -10.0, -4.0]];

/// All of these tests by name, with their titles.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    BATCHING.iter().chain(&WHOLE).map(|test| (test.name, test.title))
}

/// The table of that name. `None`: it is not one of these.
pub(crate) fn section(lab: &mut Lab, name: &str) -> Option<Section> {
    if let Some(test) = BATCHING.iter().find(|test| test.name == name) {
        return Some(batching(lab, test));
    }
    let at = WHOLE.iter().position(|test| test.name == name)?;
    Some(whole(lab, &WHOLE[at], WHOLE_BATCHED[at]))
}

/// A figure of a column: its name, its unit, and which it is.
type Figure = (&'static str, Unit, fn(&Column) -> f64);

/// Published and simulated figures of a compressor, before and after.
fn rows(compressor: &str, published: &Pair, simulated: &Pair) -> Vec<Row> {
    let figures: [Figure; 4] = [
        ("throughput", Unit::KbPerSecond, |column| column.throughput),
        ("elapsed", Unit::Seconds, |column| column.elapsed_s),
        ("sys", Unit::Seconds, |column| column.system_s),
        ("zswpout", Unit::Count, |column| column.zswpout),
    ];
    let mut rows = Vec::new();
    for (when, published, simulated) in [
        ("before", &published.before, &simulated.before),
        ("after", &published.after, &simulated.after),
    ] {
        for (label, unit, of) in figures {
            let is_chosen_by = when == "before" && label != "zswpout";
            rows.push(Row {
                label: format!("{compressor} {when}: {label}"),
                unit,
                published: of(published),
                simulated: of(simulated),
                kind: if is_chosen_by {
                    Kind::Calibrated
                } else {
                    Kind::Predicted
                },
            });
        }
    }
    for (label, _, of) in figures.into_iter().take(3) {
        rows.push(Row {
            label: format!("{compressor}: {label}, change"),
            unit: Unit::Percent,
            published: change(of(&published.before), of(&published.after)),
            simulated: change(of(&simulated.before), of(&simulated.after)),
            kind: Kind::Predicted,
        });
    }
    rows
}

/// What was chosen, for a note.
fn chosen(compressor: &str, fit: &Fit) -> String {
    let Fit {
        per_page_ns,
        locked_ns,
        spread,
    } = fit;
    format!(
        "{compressor}, chosen: {:.1} us a page, {:.2} us of it under locks, processes {:.0} % apart.",
        per_page_ns / 1e3,
        locked_ns / 1e3,
        spread * 100.0
    )
}

/// What changes with zstd, and with the device. `after`: zstd's column, then the device's.
fn changes(base: &Base, after: &Pair) -> (Pair, Pair) {
    let zstd = Pair {
        before: base.zstd.1.column(),
        after: after.before,
    };
    let iaa = Pair {
        before: base.iaa.1.column(),
        after: after.after,
    };
    (zstd, iaa)
}

fn batching(lab: &mut Lab, test: &Test) -> Section {
    let base = lab.base(test);
    let after = lab.batched(test);
    let (zstd, iaa) = changes(&base, &after);
    let mut table = rows("deflate-iaa", &test.iaa, &iaa);
    table.extend(rows("zstd", &test.zstd, &zstd));
    let notes = vec![
        chosen("zstd", &base.zstd.0),
        chosen("deflate-iaa", &base.iaa.0),
        "Before: one page at a time, each core with a device of its own. After: eight, all devices in turn.".to_owned(),
    ];
    Section {
        name: test.name,
        title: test.title.to_owned(),
        notes,
        body: Body::Published(table),
    }
}

fn whole(lab: &mut Lab, test: &Test, batched: [f64; 3]) -> Section {
    let base = lab.split_base(test);
    let driver = Driver {
        verifies: true,
        ..Driver::sequential()
    };
    let after = lab.whole(test, driver);
    let (zstd, iaa) = changes(&base, &after);
    let mut table = rows("zstd", &test.zstd, &zstd);
    table.extend(rows("deflate-iaa", &test.iaa, &iaa));
    let driver = Driver {
        verifies: true,
        ..Driver::batching()
    };
    let faster = lab.whole(test, driver).after;
    let changes = [
        ("throughput", change(after.after.throughput, faster.throughput)),
        ("elapsed", change(after.after.elapsed_s, faster.elapsed_s)),
        ("sys", change(after.after.system_s, faster.system_s)),
    ];
    for ((label, simulated), published) in changes.into_iter().zip(batched) {
        table.push(Row {
            label: format!("deflate-iaa, whole, then batched: {label}, change"),
            unit: Unit::Percent,
            published,
            simulated,
            kind: Kind::Predicted,
        });
    }
    Section {
        name: test.name,
        title: test.title.to_owned(),
        notes: vec![
            "Before: folios are split into pages. After: they are stored whole, and a page takes what it does in seed 000's columns before."
                .to_owned(),
            "The device verifies what it compresses, and each core has one of its own.".to_owned(),
        ],
        body: Body::Published(table),
    }
}
