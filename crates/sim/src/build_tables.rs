//! The seeds' tables of kernel builds, beside their simulation.

use crate::kernel_build::{Demand, Outcome, Rest, THREADS};
use crate::lab::{Driver, Lab};
use crate::report::{Body, Kind, Row, Section, Unit, change};
use crate::seeds::{Test, V9_2M, V9_64K, V12_2M, V12_64K};

/// Figures of one column.
#[derive(Clone, Copy, Debug)]
struct Column {
    real_s: f64,
    user_s: f64,
    system_s: f64,
    zswpout: f64,
    zswpin: f64,
    /// Folios of the test's size that left whole.
    folios: f64,
}

const fn column(real_s: f64, user_s: f64, system_s: f64, zswpout: f64, zswpin: f64, folios: f64) -> Column {
    Column {
        real_s,
        user_s,
        system_s,
        zswpout,
        zswpin,
        folios,
    }
}

/// A compressor's columns, before and after.
type Pair = [Column; 2];

struct Build {
    name: &'static str,
    title: &'static str,
    /// The test of usemem whose costs it has.
    test: Test,
    zstd: Pair,
    iaa: Pair,
}

const BUILDS: [Build; 4] = [
    Build {
        name: "build-v9-64k",
        title: "seed 000, batching v9, kernel build with 64K folios",
        test: V9_64K,
        zstd: [
            column(858.73, 15_682.66, 4858.46, 76_444_847.0, 22_138_662.0, 2_444_259.0),
            column(852.22, 15_649.91, 4703.58, 73_771_346.0, 21_287_433.0, 2_382_986.0),
        ],
        iaa: [
            column(835.31, 15_649.58, 3705.03, 89_767_776.0, 26_362_204.0, 2_958_806.0),
            column(837.75, 15_660.48, 3642.59, 91_376_740.0, 27_700_717.0, 2_992_126.0),
        ],
    },
    Build {
        name: "build-v9-2m",
        title: "seed 000, batching v9, kernel build with 2M folios",
        test: V9_2M,
        zstd: [
            column(818.46, 15_785.34, 5602.95, 90_083_661.0, 29_823_462.0, 7857.0),
            column(819.08, 15_777.70, 5582.45, 90_818_923.0, 29_597_292.0, 8515.0),
        ],
        iaa: [
            column(790.66, 15_757.60, 4307.92, 107_349_845.0, 37_486_883.0, 8810.0),
            column(789.01, 15_759.57, 4184.09, 101_481_140.0, 35_081_184.0, 7772.0),
        ],
    },
    Build {
        name: "build-v12-64k",
        title: "seed 001, batching v12, kernel build with 64K folios",
        test: V12_64K,
        zstd: [
            column(925.08, 15_708.03, 5318.65, 80_735_528.0, 24_155_464.0, 2_580_722.0),
            column(853.14, 15_703.87, 5172.23, 78_500_218.0, 22_898_395.0, 2_489_796.0),
        ],
        iaa: [
            column(874.74, 15_701.49, 3834.35, 91_614_674.0, 27_028_688.0, 3_007_705.0),
            column(821.59, 15_718.29, 3791.12, 103_057_250.0, 30_946_488.0, 3_337_682.0),
        ],
    },
    Build {
        name: "build-v12-2m",
        title: "seed 001, batching v12, kernel build with 2M folios",
        test: V12_2M,
        zstd: [
            column(848.06, 15_822.19, 5898.58, 91_399_677.0, 29_871_078.0, 12_130.0),
            column(845.42, 15_826.68, 5741.31, 87_856_850.0, 28_452_891.0, 11_968.0),
        ],
        iaa: [
            column(808.10, 15_807.59, 4351.01, 109_563_983.0, 38_396_482.0, 16_661.0),
            column(794.85, 15_794.49, 4266.95, 111_586_692.0, 39_089_000.0, 17_020.0),
        ],
    },
];

/// Of what is stored in a build, as the seeds state: zstd, and the device.
const RATIOS: [f64; 2] = [2.96, 2.23];

/// All of these tests by name, with their titles.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILDS.iter().map(|build| (build.name, build.title))
}

/// The table of that name. `None`: it is not one of these.
pub(crate) fn section(lab: &mut Lab, name: &str) -> Option<Section> {
    let build = BUILDS.iter().find(|build| build.name == name)?;
    let mut rows = Vec::new();
    for (compressor, pair, drivers, ratio) in [
        (
            "deflate-iaa",
            &build.iaa,
            [Some(Driver::sequential()), Some(Driver::batching())],
            RATIOS[1],
        ),
        ("zstd", &build.zstd, [None, None], RATIOS[0]),
    ] {
        let simulated = simulate(lab, build, &pair[0], drivers, ratio);
        table(&mut rows, compressor, pair, &simulated);
    }
    Some(Section {
        name: build.name,
        title: build.title.to_owned(),
        notes: vec![
            "A page costs what it does in the same series' test with usemem, zstd's own time included.".to_owned(),
            "Chosen by the columns before: time in the kernel for all else, time asleep. zswpout, zswpin and user time are given."
                .to_owned(),
            "Folios that leave and pages that are wanted back are as many after as before: demand is the program's.".to_owned(),
        ],
        body: Body::Published(rows),
    })
}

/// Both columns.
fn simulate(lab: &mut Lab, build: &Build, before: &Column, drivers: [Option<Driver>; 2], ratio: f64) -> [Outcome; 2] {
    let demand = Demand {
        threads: THREADS,
        order: build.test.order,
        user_s: before.user_s,
        zswpout: before.zswpout,
        zswpin: before.zswpin,
        in_folios: before.folios * f64::from(1 << build.test.order),
        ratio,
    };
    let [mut costs, after] = drivers.map(|driver| lab.costs_of(&build.test, driver));
    let (seed, shelf) = (lab.seed, &mut lab.shelf);
    // With nothing but swapping first: what is missing is the rest.
    let swapping = demand.run(costs, Rest::default(), seed, shelf);
    let mut rest = Rest {
        system_s: (before.system_s - swapping.system_s).max(0.0),
        idle_s: 0.0,
    };
    rest.idle_s = (before.real_s * THREADS as f64 - before.user_s - before.system_s).max(0.0);
    let first = demand.run(costs, rest, seed, shelf);
    costs = after;
    if drivers[1].is_none() {
        costs.store_batch = 8;
    }
    [first, demand.run(costs, rest, seed, shelf)]
}

fn table(rows: &mut Vec<Row>, compressor: &str, published: &Pair, simulated: &[Outcome; 2]) {
    for (at, when) in ["before", "after"].into_iter().enumerate() {
        let (published, simulated) = (&published[at], &simulated[at]);
        let chosen = [Kind::Calibrated, Kind::Predicted][at];
        let given = [Kind::Given, Kind::Predicted][at];
        for (label, unit, published, simulated, kind) in [
            ("real", Unit::Seconds, published.real_s, simulated.real_s, chosen),
            ("sys", Unit::Seconds, published.system_s, simulated.system_s, chosen),
            ("zswpout", Unit::Count, published.zswpout, simulated.zswpout, given),
            ("zswpin", Unit::Count, published.zswpin, simulated.zswpin, given),
        ] {
            rows.push(Row {
                label: format!("{compressor} {when}: {label}"),
                unit,
                published,
                simulated,
                kind,
            });
        }
    }
    let mut of = |label: &str, published: [f64; 2], simulated: [f64; 2]| {
        rows.push(Row {
            label: format!("{compressor}: {label}, change"),
            unit: Unit::Percent,
            published: change(published[0], published[1]),
            simulated: change(simulated[0], simulated[1]),
            kind: Kind::Predicted,
        });
    };
    of(
        "real",
        published.map(|column| column.real_s),
        simulated.map(|outcome| outcome.real_s),
    );
    of(
        "sys",
        published.map(|column| column.system_s),
        simulated.map(|outcome| outcome.system_s),
    );
}
