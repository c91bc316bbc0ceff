//! zsmalloc, zbud and z3fold over the same pages: how long it takes, how long each page waits, how
//! much memory it costs.

mod corpus;
mod histogram;
mod sheets;
mod trial;

use uzswap_mm::zpool::{PoolKind, ZpoolType};

use crate::Failure;
use crate::options::Allocators;
use crate::samples::{Samples, change};
use crate::table::{Table, grouped};
use corpus::Corpus;
use histogram::Histogram;
use trial::{Density, Figures};

/// What zsmalloc promises: pool bytes for each stored byte, at most.
const PROMISE: f64 = 1.06;

/// An allocator and its rounds.
struct Contestant {
    zpool: ZpoolType,
    rounds: Vec<Figures>,
}

impl Contestant {
    /// Sizes and counts are the same in every round.
    fn figures(&self) -> &Figures {
        &self.rounds[0]
    }

    fn samples(&self, f: impl Fn(&Figures) -> f64) -> Samples {
        self.rounds.iter().map(f).collect()
    }

    /// Seconds of storing everything, by the clock.
    fn build_times(&self) -> [(&'static str, Samples); 3] {
        [
            ("real", self.samples(|round| round.real)),
            ("sys", self.samples(|round| round.cpu.sys)),
            ("user", self.samples(|round| round.cpu.user)),
        ]
    }

    fn histogram(&self, f: impl Fn(&Figures) -> &Histogram) -> Histogram {
        let mut sum = Histogram::new();
        self.rounds.iter().for_each(|round| sum.add(f(round)));
        sum
    }
}

/// Measure and print.
pub(crate) fn run(options: &Allocators) -> Result<(), Failure> {
    let outputs = options.files.create()?;
    let corpus = Corpus::new(options)?;
    let mut contestants = ZpoolType::ALL.map(|zpool| Contestant {
        zpool,
        rounds: Vec::new(),
    });
    for _ in 0..options.rounds {
        for contestant in &mut contestants {
            let kind = PoolKind {
                zpool: contestant.zpool,
                compressor: options.compressor.into(),
            };
            contestant.rounds.push(trial::run(kind, &corpus, options.seed)?);
        }
    }
    let first = contestants[0].figures();
    println!(
        "{} pages, {}: {} stored, {} of them as they are; {} of one repeated word cost nothing. {} rounds.\n",
        grouped(corpus.len() as u64),
        options.compressor,
        grouped(first.objects),
        grouped(first.incompressible),
        grouped(first.same_filled),
        options.rounds,
    );
    print_build_times(&contestants);
    print_latencies(&contestants);
    print_sizes(&contestants);
    print_densities(&contestants);
    outputs.write(&sheets::all(&contestants))
}

fn print_build_times(contestants: &[Contestant]) {
    println!("(a) Time to store everything, in seconds\n");
    for contestant in contestants {
        println!("*** {} ***", contestant.zpool);
        let mut table = Table::default();
        table.row(["LABEL", "MIN", "MAX", "MEAN", "MEDIAN", "STDDEV"]);
        table.rule();
        for (clock, samples) in contestant.build_times() {
            table.row(time_row(clock, &samples));
        }
        println!("{table}");
    }
}

fn time_row(label: &str, samples: &Samples) -> Vec<String> {
    let figures = [
        samples.min(),
        samples.max(),
        samples.mean(),
        samples.median(),
        samples.standard_deviation(),
    ];
    std::iter::once(label.to_owned())
        .chain(figures.map(|figure| format!("{figure:.3}")))
        .collect()
}

fn print_latencies(contestants: &[Contestant]) {
    println!("(b) Latencies of loads and stores, compression included\n");
    for contestant in contestants {
        println!("*** {} ***", contestant.zpool);
        println!("@load_ns:\n{}", contestant.histogram(|round| &round.load));
        println!("@store_ns:\n{}", contestant.histogram(|round| &round.store));
    }
}

fn print_sizes(contestants: &[Contestant]) {
    println!("(c) Largest size of the pool\n");
    let base = contestants[0].figures().pool_max as f64;
    for contestant in contestants {
        let bytes = contestant.figures().pool_max;
        let more = match contestant.zpool {
            ZpoolType::Zsmalloc => String::new(),
            ZpoolType::Zbud | ZpoolType::Z3fold => format!(" ({})", change(base, bytes as f64)),
        };
        let mib = bytes as f64 / f64::from(1 << 20);
        println!(
            "*** {} ***\n{} bytes = {mib:.1} MiB{more}",
            contestant.zpool,
            grouped(bytes)
        );
    }
    println!();
}

fn print_densities(contestants: &[Contestant]) {
    println!("(d) Density: pool bytes / stored bytes; zsmalloc promises at most {PROMISE}\n");
    let mut table = Table::default();
    table.row(["", "full", "70 % freed", "compacted", "moved", "ms"]);
    table.rule();
    for contestant in contestants {
        let figures = contestant.figures();
        let seconds = contestant.samples(|round| round.compaction_seconds).median();
        table.row([
            contestant.zpool.name().to_owned(),
            ratio(figures.full),
            ratio(figures.thinned),
            ratio(figures.compacted),
            grouped(figures.relocated),
            format!("{:.1}", seconds * 1e3),
        ]);
    }
    println!("{table}");
    let kept = [contestants[0].figures().full, contestants[0].figures().compacted]
        .into_iter()
        .all(|density| density.ratio() <= PROMISE);
    println!("zsmalloc {} its promise", if kept { "keeps" } else { "BREAKS" });
}

fn ratio(density: Density) -> String {
    format!("{:.4}", density.ratio())
}
