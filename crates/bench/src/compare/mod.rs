//! `uzswap bench`: each workload under each side in turn, at equal memory, and what came of it: a
//! table, JSON, a page to look at.

mod context;
mod driver;
mod equal_memory;
mod heap_dump;
mod html;
mod machine;
mod process;
mod procfs;
mod programs;
mod progress;
mod promises;
mod record;
mod results;
mod sampler;
mod session;
mod sheets;
mod side;
mod text;
mod time;
mod trial;
mod undo;
mod workloads;

use std::path::{Path, PathBuf};

use crate::options::Compare;
use crate::{Failure, samples};
use context::Context;
use driver::Driver;
pub use machine::Machine;
use results::Results;
pub(crate) use side::Side;
pub use time::utc;
pub(crate) use time::{commit, utc_now};

/// Pairs of a full and of a quick run.
const PAIRS: (u32, u32) = (5, 3);

/// Measure and report, or report again.
pub(crate) fn run(options: &Compare, uzswap: &Path) -> Result<(), Failure> {
    if let Some(path) = &options.render {
        return report(&read_results(path)?, options);
    }
    undo::on_every_way_out()?;
    let disk = options.work.clone().unwrap_or_else(disk);
    let mut context = Context::new(uzswap.to_owned(), &disk, options.quick)?;
    context.zswap_compressor.clone_from(&options.zswap_compressor);
    context.run_options.clone_from(&options.run_options);
    context.percents.clone_from(&options.percents);
    context.pairs = options.pairs;
    let workloads = chosen(&context, &options.only)?;
    if options.list {
        workloads.iter().for_each(|workload| println!("{}", workload.name()));
        return Ok(());
    }
    let pairs = options.pairs.unwrap_or(if options.quick { PAIRS.1 } else { PAIRS.0 });
    let machine = Machine::look();
    let began = std::time::Instant::now();
    let mut driver = Driver::new(&context, pairs, &options.sides, &workloads);
    let measured = driver.measure_all(workloads);
    let results = Results {
        date: time::utc_now(),
        commit: time::commit(),
        is_quick: options.quick,
        pairs,
        seconds: began.elapsed().as_secs_f64(),
        machine,
        skipped: driver.skipped(),
        workloads: measured,
    };
    write_results(&results, &options.out)?;
    report(&results, options)?;
    match driver.failed_uzswap() {
        None => Ok(()),
        Some(line) => Err(Failure::new(line)),
    }
}

fn disk() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

fn chosen(context: &Context, only: &[String]) -> Result<Vec<Box<dyn workloads::Workload>>, Failure> {
    let mut all = workloads::all(context);
    let mut names: Vec<String> = all.iter().map(|workload| programs::family(&workload.name())).collect();
    names.dedup();
    all.retain(|workload| programs::is_chosen(only, &workload.name()));
    if all.is_empty() {
        return Err(Failure::misuse(format!(
            "--only {}: no workload has that in its name; they are {}",
            only.join(","),
            names.join(", ")
        )));
    }
    Ok(all)
}

fn read_results(path: &Path) -> Result<Results, Failure> {
    let unreadable = |e: String| Failure::new(format!("--render {}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| unreadable(e.to_string()))
}

fn write_results(results: &Results, out: &Path) -> Result<(), Failure> {
    let text = serde_json::to_string(results).map_err(|e| Failure::new(format!("report.json: {e}")))?;
    write(out, "report.json", &text)
}

/// The text to standard output and all forms to files.
fn report(results: &Results, options: &Compare) -> Result<(), Failure> {
    let last = record::last(&options.records, results);
    let text = text::report(results, last.as_ref());
    println!("{text}");
    write(&options.out, "report.txt", &text)?;
    write(&options.out, "report.html", &html::page(results))?;
    write(&options.out, "report.csv", &sheets::csv(results)?)?;
    eprintln!("{}", options.out.join("report.html").display());
    let is_full = !results.is_quick && options.only.is_empty() && options.sides.is_empty();
    if options.render.is_none() && is_full && options.records.is_dir() {
        record::write(results, &options.records)?;
    }
    Ok(())
}

fn write(dir: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

/// `uzswap` against `kernel`, as `+12.3%`.
fn change(kernel: f64, uzswap: f64) -> String {
    samples::change(kernel, uzswap)
}
