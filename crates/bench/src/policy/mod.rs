//! The order in which reclaim takes pages, against the policies of the textbooks and the optimum,
//! on traces.
//!
//! What is compared is *which* page leaves, not what that costs: of the touches that are not the
//! first of their page, how many find it in the pool. Every policy has the same room; what waits in
//! staging takes the engine's.

mod baseline;
mod engine;
mod generate;
pub(crate) mod record;
mod s3_fifo;
mod sheets;
mod swept;
mod trace;

use uzswap_mm::{Replacement, Tunables};

use crate::Failure;
use crate::export::Sheet;
use crate::options::Policy as Options;
use crate::table::{Table, grouped};
use baseline::BASELINES;
pub use baseline::{Policy, misses};
use engine::{CAPACITY_MIN, Layout, Outcome, Space};
use record::Summary;
pub use trace::Trace;

/// What one share of a trace's pages in memory came to.
struct Row {
    percent: u32,
    /// The engine's.
    order: Replacement,
    engine: Outcome,
    /// With pages that have no neighbours.
    apart: Outcome,
    baselines: [usize; BASELINES.len()],
}

/// Measure and print.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let tunables = tuned(&options.set)?;
    let outputs = options.files.create()?;
    if options.tunables {
        print!("{}", table_of(tunables));
        return outputs.write(&[sheets::tunables(tunables)]);
    }
    if let Some(file) = &options.recording.record {
        return record::make(&options.recording, file);
    }
    let (traces, summaries) = traces(options)?;
    let mut table = Table::default();
    table.rule();
    table.row(heading());
    table.rule();
    let mut misses = sheets::misses();
    for trace in &traces {
        for row in measure(trace, options, tunables) {
            table.row(row.cells(trace));
            misses.row(row.values(trace));
        }
    }
    table.rule();
    println!("Misses in percent of the touches that are not the first of their page\n\n{table}");
    for trace in &traces {
        let (pages, touches) = (grouped(trace.pages() as u64), grouped(trace.touches().len() as u64));
        println!("{}: {pages} pages, {touches} touches", trace.name);
    }
    for (trace, summary) in traces.iter().zip(&summaries) {
        if let Some(summary) = summary {
            print!("\n{}, {summary}", trace.name);
            let blind = |percent: &&u32| summary.is_blind_at(capacity(trace, **percent));
            for percent in options.percent.iter().filter(blind) {
                println!("{percent} % is less than it was recorded with: touches of what was resident are missing");
            }
        }
    }
    outputs.write(&[misses, sizes(&traces, &summaries)])
}

/// What pages took, of the traces that say it.
fn sizes(traces: &[Trace], summaries: &[Option<Summary>]) -> Sheet {
    let mut sizes = Summary::no_sizes();
    for (trace, summary) in traces.iter().zip(summaries) {
        if let Some(summary) = summary {
            summary.add_sizes(&trace.name, &mut sizes);
        }
    }
    sizes
}

/// What the engine decides by, with `set` of it as the options say.
fn tuned(set: &[(String, f64)]) -> Result<&'static Tunables, Failure> {
    let mut tunables = Tunables::DEFAULT;
    for (name, value) in set {
        let refused = |why| Failure::new(format!("--set {name}={value}: {why}"));
        tunables.set(name, *value).map_err(refused)?;
    }
    Ok(Box::leak(Box::new(tunables)))
}

fn table_of(tunables: &Tunables) -> Table {
    let mut table = Table::default();
    table.rule();
    table.row(["constant", "value", "unit"]);
    table.rule();
    for one in tunables.iter() {
        let fixed = if one.is_fixed { " (fixed)" } else { "" };
        table.row([one.name.to_owned(), one.value.to_string(), one.unit.to_owned() + fixed]);
    }
    table.rule();
    table
}

/// And what was recorded besides, of those that are files of `--record`.
fn traces(options: &Options) -> Result<(Vec<Trace>, Vec<Option<Summary>>), Failure> {
    let traces: Vec<_> = match &options.trace[..] {
        [] => generate::all(options).into_iter().map(|trace| (trace, None)).collect(),
        paths => paths.iter().map(|path| Trace::read(path)).collect::<Result<_, _>>()?,
    };
    for (trace, _) in &traces {
        check(trace, &options.percent)?;
    }
    Ok(traces.into_iter().unzip())
}

/// Whether the engine can work with so little memory.
fn check(trace: &Trace, percents: &[u32]) -> Result<(), Failure> {
    let too_few = |percent: &&u32| capacity(trace, **percent) < CAPACITY_MIN;
    match percents.iter().find(too_few) {
        None => Ok(()),
        Some(percent) => Err(Failure::new(format!(
            "trace '{}' touches {} pages: {percent} % of them must be at least {CAPACITY_MIN}",
            trace.name,
            trace.pages()
        ))),
    }
}

fn capacity(trace: &Trace, percent: u32) -> usize {
    trace.pages() * percent as usize / 100
}

fn measure(trace: &Trace, options: &Options, tunables: &'static Tunables) -> Vec<Row> {
    let [space, apart] = [Layout::AsTraced, Layout::Apart].map(|layout| Space::new(trace, layout));
    let rows = |percent: &u32| {
        let capacity = capacity(trace, *percent);
        let baselines = BASELINES.map(|baseline| baseline.misses(trace, capacity));
        let row = |order: &Replacement| Row {
            percent: *percent,
            order: *order,
            engine: space.run(trace, capacity, *order, tunables),
            apart: apart.run(trace, capacity, *order, tunables),
            baselines,
        };
        options.policy.iter().map(row).collect::<Vec<_>>()
    };
    options.percent.iter().flat_map(rows).collect()
}

fn heading() -> Vec<&'static str> {
    let before = ["trace", "memory", "--policy", "uzswap", "2nd chances", "no neighbours"];
    before
        .into_iter()
        .chain(BASELINES.map(|baseline| baseline.name))
        .collect()
}

/// In percent of the touches that are not the first of their page.
fn share(trace: &Trace, touches: usize) -> f64 {
    100.0 * touches as f64 / trace.repeats().max(1) as f64
}

impl Row {
    /// Touches that missed, in the order of the columns.
    fn counts(&self) -> impl Iterator<Item = usize> {
        let engines = [self.engine.misses, self.engine.second_chances, self.apart.misses];
        engines.into_iter().chain(self.baselines)
    }

    fn cells(&self, trace: &Trace) -> Vec<String> {
        let percent = format!("{} %", self.percent);
        let shares = self.counts().map(|touches| format!("{:.3}", share(trace, touches)));
        [trace.name.clone(), percent, self.order.name().to_owned()]
            .into_iter()
            .chain(shares)
            .collect()
    }
}

#[cfg(test)]
mod test {
    use clap::Parser;

    use super::*;
    use crate::export::Files;

    #[test]
    fn a_trace_of_too_few_pages_is_refused() {
        let trace = Trace::new("small", 0..800);
        assert!(check(&trace, &[50, 75]).is_ok());
        let refused = check(&trace, &[50, 25]).unwrap_err();
        assert_eq!(
            refused.line(),
            "trace 'small' touches 800 pages: 25 % of them must be at least 256"
        );
    }

    #[test]
    fn constants_are_for_programs_too() {
        let files = ["json", "csv"].map(|kind| {
            let name = format!("uzswap-constants-{}.{kind}", std::process::id());
            std::env::temp_dir().join(name)
        });
        let [json, csv] = files.each_ref().map(|path| path.to_str().unwrap());
        let words = ["uzswap-bench", "policy", "--tunables", "--set", "hold.many=7"];
        let words = [&words[..], &["--json", json, "--csv", csv]].concat();
        crate::run(&crate::Cli::try_parse_from(words).unwrap()).unwrap();
        let text = std::fs::read_to_string(json).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = read["tables"][0]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), Tunables::DEFAULT.iter().count());
        let many = rows.iter().find(|row| row["constant"] == "hold.many").unwrap();
        assert_eq!(many["value"], 7.0);
        assert!(
            std::fs::read_to_string(csv)
                .unwrap()
                .contains("\ntunables,hold.many,7.0,pages,false\n")
        );
        files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    #[test]
    fn nothing_beats_the_optimum_on_any_trace() {
        let options = Options {
            trace: Vec::new(),
            percent: vec![50],
            pages: 1024,
            touches: 5000,
            seed: 1,
            policy: Replacement::ALL.to_vec(),
            set: Vec::new(),
            files: Files::default(),
            tunables: false,
            recording: record::Options::none(),
        };
        for trace in traces(&options).unwrap().0 {
            for row in measure(&trace, &options, &Tunables::DEFAULT) {
                let [optimum, rest @ ..] = row.baselines;
                let engines = [row.engine.misses, row.apart.misses];
                let mut others = rest.into_iter().chain(engines);
                assert!(others.all(|misses| misses >= optimum), "{}", trace.name);
                assert_eq!(row.cells(&trace).len(), heading().len());
                sheets::misses().row(row.values(&trace));
            }
        }
    }
}
