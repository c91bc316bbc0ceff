//! What the seeds leave open: nobody published these.

use crate::group::Setup;
use crate::lab::{CORES, Driver, Lab, ZSTD_NS};
use crate::report::{Body, Plot, Section, change};
use crate::seeds::{V12_2M, V12_64K};
use crate::text::grouped;
use crate::usemem::{Outcome, Usemem};
use crate::world::Accelerators;

type Make = fn(&mut Lab, &'static str, &'static str) -> Section;

const ALL: [(&str, &str, Make); 9] = [
    (
        "assumed",
        "what batching adds, if what is assumed is otherwise",
        assumed,
    ),
    ("zstd-time", "what batching adds, if zstd takes less", zstd_time),
    ("batch", "batches of 1 to 64 pages", batch),
    ("devices", "1 to 16 devices", devices),
    ("cores", "112 to 1,024 cores", cores),
    ("reclaim", "4K folios reclaimed 32 at a time", reclaim),
    ("zstd-cores", "parallel zstd on 8 to 64 more cores", zstd_cores),
    ("kcompressd", "threads that reclaim beside the processes", kcompressd),
    ("readahead", "pages that come back in batches", readahead),
];

/// Names of these tables, with their titles.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|(name, title, _)| (*name, *title))
}

/// The table of that name. `None`: it is not one of these.
pub(crate) fn section(lab: &mut Lab, name: &str) -> Option<Section> {
    let (name, title, make) = ALL.iter().find(|(known, ..)| *known == name)?;
    Some(make(lab, name, title))
}

/// What is along an axis, and a number for each series at each of its points.
struct Grid {
    x: &'static str,
    y: &'static str,
    series: &'static [&'static str],
    points: Vec<(f64, Vec<f64>)>,
    /// Each is compared with the first of its series.
    compares: bool,
}

impl Grid {
    fn section(self, name: &'static str, title: &str, notes: &[&str]) -> Section {
        let first: Vec<f64> = self
            .points
            .first()
            .map(|(_, values)| values.clone())
            .unwrap_or_default();
        let mut head = vec![self.x.to_owned()];
        for series in self.series {
            head.push((*series).to_owned());
            if self.compares {
                head.push("against the first".to_owned());
            }
        }
        let cells = |(x, values): &(f64, Vec<f64>)| {
            let mut cells = vec![grouped(*x)];
            for (value, first) in values.iter().zip(&first) {
                cells.push(if *value < 1000.0 {
                    format!("{value:.1}")
                } else {
                    grouped(*value)
                });
                if self.compares {
                    cells.push(format!("{:+.0} %", change(*first, *value)));
                }
            }
            cells
        };
        let line = |(i, series): (usize, &&str)| {
            let points = self.points.iter().map(|(x, values)| (*x, values[i]));
            ((*series).to_owned(), points.collect())
        };
        Section {
            name,
            title: title.to_owned(),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            body: Body::Open {
                head,
                rows: self.points.iter().map(cells).collect(),
                plot: Plot {
                    x: self.x.to_owned(),
                    y: self.y.to_owned(),
                    series: self.series.iter().enumerate().map(line).collect(),
                },
            },
        }
    }
}

const THROUGHPUT: &str = "total throughput, KB/s";

fn batch(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let mut point = |batch: usize| {
        let driver = Driver {
            batch,
            ..Driver::batching()
        };
        let values = [V12_64K, V12_2M].map(|test| lab.with_driver(&test, driver).throughput);
        (batch as f64, values.to_vec())
    };
    let grid = Grid {
        x: "pages in a batch",
        y: THROUGHPUT,
        series: &["64K folios, KB/s", "2M folios, KB/s"],
        points: [1, 2, 4, 8, 16, 32, 64].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = ["Costs of v12's columns before; jobs go to all devices in turn. A folio of 64K has 16 pages."];
    grid.section(name, title, &notes)
}

fn devices(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let mut point = |devices: usize| {
        let vary = |run| Usemem {
            accelerators: Accelerators {
                packages: 1,
                devices,
                ..Accelerators::SEEDS
            },
            ..run
        };
        let drivers = [Driver::sequential(), Driver::batching()];
        let values = drivers.map(|driver| lab.varied(&V12_64K, Some(driver), vary).throughput);
        (devices as f64, values.to_vec())
    };
    let grid = Grid {
        x: "devices",
        y: THROUGHPUT,
        series: &["one page at a time, KB/s", "batches of 8, KB/s"],
        points: [1, 2, 4, 8, 16].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = ["Costs of v12's columns before, 64K folios; all cores are on one package with all devices."];
    grid.section(name, title, &notes)
}

/// Pages of each process where there are many.
const FEW_PAGES: u64 = 1024;
/// Cores of a package.
const PACKAGE: usize = 56;

fn cores(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let mut point = |cores: usize| {
        let scaled = |run: Usemem, locks| {
            let programs = cores * run.setup.programs / CORES;
            Usemem {
                setup: Setup {
                    programs,
                    pages: FEW_PAGES,
                    limit: FEW_PAGES * programs as u64 / 2,
                    ..run.setup
                },
                accelerators: Accelerators {
                    packages: cores.div_ceil(PACKAGE),
                    ..run.accelerators
                },
                locks,
                ..run
            }
        };
        let zstd = lab.varied(&V12_64K, None, |run| scaled(run, 1));
        let iaa = lab.varied(&V12_64K, Some(Driver::batching()), |run| scaled(run, 1));
        let packages = cores.div_ceil(PACKAGE);
        let split = lab.varied(&V12_64K, Some(Driver::batching()), |run| scaled(run, packages));
        let values = [zstd, iaa, split].map(|outcome: Outcome| outcome.throughput);
        (cores as f64, values.to_vec())
    };
    let grid = Grid {
        x: "cores",
        y: THROUGHPUT,
        series: &["zstd, KB/s", "batches of 8, KB/s", "the same, a lock a package, KB/s"],
        points: [112, 224, 448, 1024].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = [
        "As many processes, devices and as much memory for each core as in v12's test with 64K folios.",
        "All processes are in one group, whose locks all cores take.",
    ];
    grid.section(name, title, &notes)
}

fn reclaim(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let mut point = |batch: usize| {
        let vary = |run: Usemem| Usemem {
            setup: Setup { order: 0, ..run.setup },
            fault_order: 0,
            ..run
        };
        let driver = |verifies| Driver {
            batch,
            verifies,
            ..Driver::batching()
        };
        let values = [false, true].map(|verifies| lab.varied(&V12_64K, Some(driver(verifies)), vary).throughput);
        (batch as f64, values.to_vec())
    };
    let grid = Grid {
        x: "folios at a time",
        y: THROUGHPUT,
        series: &["deflate-iaa, KB/s", "verified, KB/s"],
        points: [1, 2, 4, 8, 16, 32].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = [
        "Folios are pages: the engine takes old neighbours together, the kernel's series would take 32 folios of any order.",
        "A page takes what it does in v12's columns before with 64K folios: less than alone.",
    ];
    grid.section(name, title, &notes)
}

fn assumed(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let seed = lab.seed;
    let mut labs = [1.0, 0.5, 0.0].map(|store_share| {
        let mut lab = Lab::new(seed);
        lab.store_share = store_share;
        lab
    });
    let mut point = |engine_ns: f64| {
        let gains = labs.iter_mut().map(|lab| lab.gain(&V12_64K, engine_ns));
        (engine_ns, gains.collect())
    };
    let engine = Driver::sequential().engine_ns;
    let grid = Grid {
        x: "an engine's time for a page, ns",
        y: "throughput of batches of 8 against one page at a time, %",
        series: &["a store locks as a drop, %", "half as long, %", "not at all, %"],
        points: [engine / 2.0, engine, engine * 1.5].map(&mut point).to_vec(),
        compares: false,
    };
    let notes = [
        "v12, 64K folios: +49 % were published. All costs are chosen anew for each figure, by the columns before alone.",
        "The middle row and column are what all other tables are made with.",
    ];
    grid.section(name, title, &notes)
}

/// What zstd takes for a page of numbers below 2^21 at 2.5 GHz (E-185).
const ZSTD_LEAST_NS: f64 = 15_700.0;

fn zstd_time(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let seed = lab.seed;
    let point = |zstd_ns: f64| {
        let mut lab = Lab::new(seed);
        lab.zstd_ns = zstd_ns;
        let engine_ns = Driver::sequential().engine_ns;
        (
            zstd_ns,
            [V12_64K, V12_2M].map(|test| lab.gain(&test, engine_ns)).to_vec(),
        )
    };
    let grid = Grid {
        x: "zstd's time for a page, ns",
        y: "throughput of batches of 8 against one page at a time, %",
        series: &["64K folios, %", "2M folios, %"],
        points: [ZSTD_LEAST_NS, f64::midpoint(ZSTD_LEAST_NS, ZSTD_NS[0]), ZSTD_NS[0]]
            .map(point)
            .to_vec(),
        compares: false,
    };
    let notes = [
        "v12: +49 % and +55 % were published. What zstd does not take of a page's time, all else does, with a device as well.",
        "The last row is what all other tables are made with; the first is what zstd takes for smaller numbers.",
    ];
    grid.section(name, title, &notes)
}

/// Cores that a batch of zstd is spread over.
const LANES: usize = 8;

fn zstd_cores(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let device = lab.with_driver(&V12_2M, Driver::batching()).throughput;
    let mut point = |idle: usize| {
        let vary = |run: Usemem| Usemem {
            setup: Setup {
                lanes: if idle == 0 { 1 } else { LANES },
                ..run.setup
            },
            idle,
            ..run
        };
        let zstd = lab.varied(&V12_2M, None, vary).throughput;
        (idle as f64, vec![zstd, device])
    };
    let grid = Grid {
        x: "more cores",
        y: THROUGHPUT,
        series: &["zstd, KB/s", "the device, batches of 8, KB/s"],
        points: [0, 8, 16, 32, 64].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = [
        "2M folios, costs of v12's columns before. A process spreads 64 pages over itself and seven of the cores that all share.",
        "A core wakes after 3 us, which is assumed. The device's figure is the same in each row.",
    ];
    grid.section(name, title, &notes)
}

fn kcompressd(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let mut point = |threads: usize| {
        let vary = |run: Usemem| Usemem {
            setup: Setup {
                margin: run.setup.limit / 64,
                ..run.setup
            },
            background: threads,
            ..run
        };
        let drivers = [None, Some(Driver::sequential()), Some(Driver::batching())];
        let values = drivers.map(|driver| lab.varied(&V12_64K, driver, vary).throughput);
        (threads as f64, values.to_vec())
    };
    let grid = Grid {
        x: "threads",
        y: THROUGHPUT,
        series: &["zstd, KB/s", "one page at a time, KB/s", "batches of 8, KB/s"],
        points: [0, 8, 16, 32, 64].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = [
        "64K folios, costs of v12's columns before. Threads reclaim from a 64th below the limit on, on cores of their own.",
    ];
    grid.section(name, title, &notes)
}

fn readahead(lab: &mut Lab, name: &'static str, title: &'static str) -> Section {
    let mut point = |page_cluster: u32| {
        let vary = |run: Usemem| Usemem {
            setup: Setup {
                page_cluster,
                ..run.setup
            },
            reads: true,
            ..run
        };
        let drivers = [None, Some(Driver::sequential()), Some(Driver::batching())];
        let values = drivers.map(|driver| lab.varied(&V12_64K, driver, vary).read_s);
        (f64::from(page_cluster), values.to_vec())
    };
    let grid = Grid {
        x: "page-cluster",
        y: "seconds to read 10 GiB",
        series: &["zstd, s", "one page at a time, s", "batches of 8, s"],
        points: [0, 3, 5].map(&mut point).to_vec(),
        compares: true,
    };
    let notes = [
        "Each process reads all of its memory in order after it was written. 64K folios, costs of v12's columns before.",
        "The engine loads up to a folio where faults follow a pattern, unless page-cluster is 0.",
    ];
    grid.section(name, title, &notes)
}
