//! Seed 002's tables of usemem, with a swap device that is memory: what the lock of the swap cache
//! takes.

use crate::group::Setup;
use crate::lab::Lab;
use crate::report::{Body, Kind, Row, Section, Unit, change};
use crate::usemem::{Outcome, Usemem};
use crate::world::{Coder, Costs};

struct Test {
    name: &'static str,
    title: &'static str,
    processes: usize,
    /// Pages of each, and of memory.
    pages: f64,
    memory: f64,
    /// Seconds in the kernel and MB/s, before and after.
    system_s: [f64; 2],
    throughput: [f64; 2],
}

const TESTS: [Test; 2] = [
    Test {
        name: "swap-table-4g",
        title: "seed 002, swap table, 31 processes of 1 GiB in a group of 4 GiB",
        processes: 31,
        pages: 262_144.0,
        memory: 1_048_576.0,
        system_s: [219.12, 158.16],
        throughput: [4767.13, 6128.59],
    },
    Test {
        name: "swap-table-16g",
        title: "seed 002, swap table, 32 processes of 1,536 MiB in 16 GiB",
        processes: 32,
        pages: 393_216.0,
        memory: 4_194_304.0,
        system_s: [356.16, 284.68],
        throughput: [4648.35, 5453.52],
    },
];

/// A page that is copied to the device. Assumed: 4 GB/s.
const COPY_NS: f64 = 1000.0;
/// What is kept of a page that left: it lies on the device, which is no memory of the group's.
const NOTHING: f64 = 300.0;
/// Publications of a word for each page that leaves: into the swap cache and out of it.
const PUBLICATIONS: f64 = 2.0;
/// Nanoseconds of one, in maps behind a lock of 64 MiB, and in the table. E-186.
const PUBLISHED_NS: [f64; 2] = [90.0, 39.0];
/// KB of an MB.
const KB: f64 = 1024.0;
const ROUNDS: usize = 8;

/// All of these tests by name, with their titles.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    TESTS.iter().map(|test| (test.name, test.title))
}

/// The table of that name. `None`: it is not one of these.
pub(crate) fn section(lab: &mut Lab, name: &str) -> Option<Section> {
    let test = TESTS.iter().find(|test| test.name == name)?;
    let coder = Coder::Software {
        compress_ns: COPY_NS,
        decompress_ns: COPY_NS,
    };
    let run = lab.usemem(0, &coder);
    let pages = lab.pages;
    let run = Usemem {
        setup: Setup {
            programs: test.processes,
            limit: (test.memory / test.pages * pages as f64) as u64,
            ..run.setup
        },
        full_pages: test.pages,
        sleep_ns: 0.0,
        ratio: NOTHING,
        spread: 0.02,
        ..run
    };
    let costs = |store_ns, published_ns| Costs {
        locked_ns: PUBLICATIONS * published_ns,
        store_share: 1.0,
        ..lab.costs(store_ns, coder)
    };
    let costs = [costs(0.0, PUBLISHED_NS[0]), costs(0.0, PUBLISHED_NS[1])];
    let mut store_ns = 10_000.0;
    let mut before = Outcome::default();
    for _ in 0..ROUNDS {
        before = run.run(Costs { store_ns, ..costs[0] }, &mut lab.shelf);
        let missing = run.mean_write_s(test.throughput[0] * KB) - run.mean_write_s(before.throughput);
        store_ns = (store_ns + missing * 1e9 / (before.zswpout / test.processes as f64)).max(0.0);
    }
    // Each core has clusters of its own, and each cluster its table.
    let locks = test.processes;
    let after = Usemem { locks, ..run }.run(Costs { store_ns, ..costs[1] }, &mut lab.shelf);
    Some(Section {
        name: test.name,
        title: test.title.to_owned(),
        notes: vec![
            format!(
                "A page that leaves takes {:.1} us beside its copy and the swap cache: chosen by the throughput before.",
                store_ns / 1e3
            ),
            "Before: all clusters in use lie in one address space, behind one lock. After: each has its own."
                .to_owned(),
            "What cores wait for is the lock alone: lines of the cache that go from core to core are not simulated."
                .to_owned(),
        ],
        body: Body::Published(rows(test, &before, &after)),
    })
}

fn rows(test: &Test, before: &Outcome, after: &Outcome) -> Vec<Row> {
    let row = |label: &str, unit, published, simulated, kind| Row {
        label: label.to_owned(),
        unit,
        published,
        simulated,
        kind,
    };
    let (sys, throughput) = (test.system_s, test.throughput.map(|mb| mb * KB));
    let predicted = Kind::Predicted;
    vec![
        row(
            "before: throughput",
            Unit::KbPerSecond,
            throughput[0],
            before.throughput,
            Kind::Calibrated,
        ),
        row("before: sys", Unit::Seconds, sys[0], before.system_s, predicted),
        row(
            "after: throughput",
            Unit::KbPerSecond,
            throughput[1],
            after.throughput,
            predicted,
        ),
        row("after: sys", Unit::Seconds, sys[1], after.system_s, predicted),
        row(
            "throughput, change",
            Unit::Percent,
            change(throughput[0], throughput[1]),
            change(before.throughput, after.throughput),
            predicted,
        ),
        row(
            "sys, change",
            Unit::Percent,
            change(sys[0], sys[1]),
            change(before.system_s, after.system_s),
            predicted,
        ),
    ]
}
