//! Runs of the seeds' test, and what was chosen by the columns before.

use uzswap_iaa_model::latency::Latency;
use uzswap_mm::page::{MAX_ORDER, PAGE_SIZE};

use crate::fit::{Fit, Knob, fit};
use crate::group::Setup;
use crate::report::change;
use crate::seeds::{Column, Pair, Test, V9_2M, V9_64K};
use crate::shelf::Shelf;
use crate::usemem::{Outcome, Usemem};
use crate::world::{Accelerators, Coder, Costs};

/// Pages of each process here, for 10 GiB there.
const PAGES: u64 = 4096;
const PROCESSES: usize = 30;
/// Of the seeds' test: 10 GiB, and 10 s before a process exits.
const FULL_PAGES: f64 = 2_621_440.0;
const SLEEP_NS: f64 = 10e9;
/// Cores of the seeds' machine.
pub(crate) const CORES: usize = 112;
/// Nanoseconds of zstd, level 3, for a page of running numbers, with the kernel's parameters, at
/// 2.5 GHz: to compress, and to decompress. E-185.
pub(crate) const ZSTD_NS: [f64; 2] = [21_600.0, 7_300.0];
/// How much less is stored of a page by zstd: from zswpout of seed 004's first column, where what
/// is left of 150 GiB holds the blocks of all else.
const ZSTD_RATIO: f64 = 5.09;
/// By the device: as seeds 000 and 001 state.
const IAA_RATIO: f64 = 2.23;
/// Of a core for each page that is given to a device. Assumed.
const SUBMIT_NS: f64 = 300.0;
/// A fault, and a page that is made zero. Assumed: together less than a second of each process.
const FAULT_NS: f64 = 1000.0;
const ZERO_NS: f64 = 250.0;
/// A page that comes back, but for its decompression. Assumed: usemem has next to none.
const LOAD_NS: f64 = 3000.0;
/// A page that is dropped while it is stored, but for what is under locks. Assumed.
const DROP_NS: f64 = 500.0;

/// See [`Costs::store_share`]. Assumed: a drop takes the locks of swap slots and those of the pool
/// for each page, a store those of the pool; slots it takes by the folio.
const STORE_SHARE: f64 = 0.5;

/// What was chosen by the columns before, for one size of folios and one kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) zstd: (Fit, Outcome),
    pub(crate) iaa: (Fit, Outcome),
}

/// How a device is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Driver {
    /// Pages under way at once.
    pub(crate) batch: usize,
    pub(crate) verifies: bool,
    pub(crate) spreads: bool,
    /// Nanoseconds of an engine for a page.
    pub(crate) engine_ns: f64,
}

impl Driver {
    /// One page at a time, each core with a device of its own.
    pub(crate) fn sequential() -> Self {
        Self {
            batch: 1,
            verifies: false,
            spreads: false,
            engine_ns: Latency::default().compress.ns(PAGE_SIZE) as f64,
        }
    }

    /// Eight, all devices in turn.
    pub(crate) fn batching() -> Self {
        Self {
            batch: 8,
            spreads: true,
            ..Self::sequential()
        }
    }

    /// As a coder. What it takes beside is chosen later.
    pub(crate) fn coder(&self) -> Coder {
        Coder::Device {
            submit_ns: SUBMIT_NS,
            compress_ns: self.engine_ns,
            decompress_ns: Latency::default().decompress.ns(PAGE_SIZE) as f64,
            latency_ns: 0.0,
            batch: self.batch,
            verifies: self.verifies,
            spreads: self.spreads,
        }
    }
}

/// All runs of one seed.
pub(crate) struct Lab {
    pub(crate) seed: u64,
    pub(crate) shelf: Shelf,
    /// Pages of each process.
    pub(crate) pages: u64,
    processes: usize,
    /// See [`Costs::store_share`].
    pub(crate) store_share: f64,
    /// What zstd takes to compress a page.
    pub(crate) zstd_ns: f64,
    by_zstd: Vec<(&'static str, (Fit, Outcome))>,
    bases: Vec<(&'static str, Base)>,
}

impl Lab {
    pub(crate) fn new(seed: u64) -> Self {
        Self::sized(seed, PAGES, PROCESSES)
    }

    /// With fewer pages of each process, and fewer processes: for tests.
    pub(crate) fn sized(seed: u64, pages: u64, processes: usize) -> Self {
        Self {
            seed,
            shelf: Shelf::default(),
            pages,
            processes,
            store_share: STORE_SHARE,
            zstd_ns: ZSTD_NS[0],
            by_zstd: Vec::new(),
            bases: Vec::new(),
        }
    }

    /// Software.
    fn zstd(&self) -> Coder {
        Coder::Software {
            compress_ns: self.zstd_ns,
            decompress_ns: ZSTD_NS[1],
        }
    }

    /// The seeds' test with folios of this order.
    pub(crate) fn usemem(&self, order: u32, coder: &Coder) -> Usemem {
        let pages = if order == MAX_ORDER { self.pages * 2 } else { self.pages };
        Usemem {
            setup: Setup {
                programs: self.processes,
                pages,
                // 150 of 300 GiB.
                limit: pages * self.processes as u64 / 2,
                order,
                splits: false,
                store_batch: coder.batch(),
                reclaim_batch: 32,
                lanes: 1,
                page_cluster: 0,
                margin: 0,
            },
            full_pages: FULL_PAGES,
            sleep_ns: SLEEP_NS,
            fault_order: order,
            ratio: match coder {
                Coder::Software { .. } => ZSTD_RATIO,
                Coder::Device { .. } => IAA_RATIO,
            },
            spread: 0.0,
            accelerators: Accelerators::SEEDS,
            idle: CORES - self.processes,
            locks: 1,
            background: 0,
            reads: false,
            seed: self.seed,
        }
    }

    /// What is not chosen by any column, and the cost of a page that was.
    pub(crate) fn costs(&self, store_ns: f64, coder: Coder) -> Costs {
        Costs {
            fault_ns: FAULT_NS,
            zero_ns: ZERO_NS,
            store_ns,
            locked_ns: 0.0,
            store_share: self.store_share,
            load_ns: LOAD_NS,
            drop_ns: DROP_NS,
            store_batch: 1,
            coder,
        }
    }

    /// Choose by a column.
    pub(crate) fn fit(&mut self, run: Usemem, costs: Costs, knob: Knob, column: &Column) -> (Fit, Outcome) {
        fit(run, costs, knob, column, &mut self.shelf)
    }

    /// Run with what was chosen.
    pub(crate) fn run(&mut self, run: Usemem, costs: Costs, knob: Knob, chosen: &Fit) -> Outcome {
        let (run, costs) = chosen.apply(run, costs, knob);
        run.run(costs, &mut self.shelf)
    }

    /// What zstd's column before of a test chooses: once.
    fn choose_by_zstd(&mut self, test: &Test, splits: bool) -> (Fit, Outcome) {
        if let Some((_, chosen)) = self.by_zstd.iter().find(|(known, _)| *known == test.name) {
            return *chosen;
        }
        let run = self.usemem(test.order, &self.zstd()).split(splits);
        let costs = self.costs(0.0, self.zstd());
        let chosen = self.fit(run, costs, Knob::Store, &test.zstd.before);
        self.by_zstd.push((test.name, chosen));
        chosen
    }

    /// What the columns before of a test choose: first a page's cost by zstd, whose own is known,
    /// then the device's with that.
    fn choose(&mut self, test: &Test, splits: bool, driver: Driver) -> Base {
        let zstd = self.choose_by_zstd(test, splits);
        let coder = driver.coder();
        let run = self.usemem(test.order, &coder).split(splits);
        let costs = self.costs(zstd.0.per_page_ns, coder);
        let iaa = self.fit(run, costs, Knob::Latency, &test.iaa.before);
        Base { zstd, iaa }
    }

    /// What steps take in a test of batching, by what its columns before choose: zstd without a
    /// driver.
    pub(crate) fn costs_of(&mut self, test: &Test, driver: Option<Driver>) -> Costs {
        let base = self.base(test);
        let (coder, knob, chosen) = match driver {
            Some(driver) => (driver.coder(), Knob::Latency, base.iaa.0),
            None => (self.zstd(), Knob::Store, base.zstd.0),
        };
        let costs = self.costs(base.zstd.0.per_page_ns, coder);
        chosen.apply(self.usemem(test.order, &coder), costs, knob).1
    }

    /// What batching adds to the throughput of a test, in percent, where an engine takes so long
    /// for a page: everything is chosen anew.
    pub(crate) fn gain(&mut self, test: &Test, engine_ns: f64) -> f64 {
        let with = |driver| Driver { engine_ns, ..driver };
        let base = self.choose(test, false, with(Driver::sequential()));
        let coder = with(Driver::batching()).coder();
        let costs = self.costs(base.zstd.0.per_page_ns, coder);
        let (run, costs) = base.iaa.0.apply(self.usemem(test.order, &coder), costs, Knob::Latency);
        let after = run.run(costs, &mut self.shelf);
        change(base.iaa.1.throughput, after.throughput)
    }

    /// What was chosen by the columns before of a test of batching: once.
    pub(crate) fn base(&mut self, test: &Test) -> Base {
        self.remember(test.name, |lab| lab.choose(test, false, Driver::sequential()))
    }

    /// The same of a test of whole folios, which are split before, and verified.
    pub(crate) fn split_base(&mut self, test: &Test) -> Base {
        let driver = Driver {
            verifies: true,
            ..Driver::sequential()
        };
        self.remember(test.name, |lab| lab.choose(test, true, driver))
    }

    fn remember(&mut self, name: &'static str, choose: impl FnOnce(&mut Self) -> Base) -> Base {
        if let Some((_, base)) = self.bases.iter().find(|(known, _)| *known == name) {
            return *base;
        }
        let base = choose(self);
        self.bases.push((name, base));
        base
    }

    /// The columns after of a test of batching: zstd, and the device.
    pub(crate) fn batched(&mut self, test: &Test) -> Pair {
        let base = self.base(test);
        let run = self.usemem(test.order, &self.zstd());
        let run = Usemem {
            setup: Setup {
                store_batch: 8,
                ..run.setup
            },
            ..run
        };
        let zstd = {
            let costs = self.costs(0.0, self.zstd());
            self.run(run, costs, Knob::Store, &base.zstd.0)
        };
        let iaa = self.with_driver(test, Driver::batching());
        Pair {
            before: zstd.column(),
            after: iaa.column(),
        }
    }

    /// The device's column, used in another way than it was before.
    pub(crate) fn with_driver(&mut self, test: &Test, driver: Driver) -> Outcome {
        self.varied(test, Some(driver), |run| run)
    }

    /// As a column of a test of batching, with something else than there: zstd without a driver.
    pub(crate) fn varied(
        &mut self,
        test: &Test,
        driver: Option<Driver>,
        vary: impl FnOnce(Usemem) -> Usemem,
    ) -> Outcome {
        let base = self.base(test);
        let (coder, knob, chosen) = match driver {
            Some(driver) => (driver.coder(), Knob::Latency, base.iaa.0),
            None => (self.zstd(), Knob::Store, base.zstd.0),
        };
        let costs = self.costs(base.zstd.0.per_page_ns, coder);
        let (run, costs) = chosen.apply(self.usemem(test.order, &coder), costs, knob);
        vary(run).run(costs, &mut self.shelf)
    }

    /// The columns of a test whose folios are stored whole: a page costs what it does in seed
    /// 000's columns before.
    pub(crate) fn whole(&mut self, test: &Test, driver: Driver) -> Pair {
        let split = self.split_base(test);
        let known = if test.order == V9_2M.order { &V9_2M } else { &V9_64K };
        let store_ns = self.base(known).zstd.0.per_page_ns;
        let chosen = Fit {
            per_page_ns: store_ns,
            ..split.zstd.0
        };
        let run = self.usemem(test.order, &self.zstd());
        let zstd = {
            let costs = self.costs(0.0, self.zstd());
            self.run(run, costs, Knob::Store, &chosen)
        };
        let coder = driver.coder();
        let run = self.usemem(test.order, &coder);
        let iaa = {
            let costs = self.costs(store_ns, coder);
            self.run(run, costs, Knob::Latency, &split.iaa.0)
        };
        Pair {
            before: zstd.column(),
            after: iaa.column(),
        }
    }
}

impl Outcome {
    /// As a column of a table.
    pub(crate) fn column(&self) -> Column {
        Column {
            throughput: self.throughput,
            elapsed_s: self.elapsed_s,
            system_s: self.system_s,
            zswpout: self.zswpout,
        }
    }
}
