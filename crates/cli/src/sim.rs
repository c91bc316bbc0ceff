//! `uzswap sim`: the seeds' machines, simulated.

use serde_json::{Map, Value};
use uzswap_bench::export::{self, Header, Output, Sheet};
use uzswap_sim::{Options, Report, list, run};

use crate::output::{print, say};
use crate::sim_options::SimOptions;
use crate::{Failure, help, misuse};

/// Simulate what is asked for, and print each table as soon as it is ready.
pub(crate) fn sim(options: &SimOptions) -> Result<u8, Failure> {
    if options.list {
        for (name, title) in list() {
            say!("{name:<14} {title}");
        }
        return Ok(0);
    }
    let wanted = Options {
        only: options.only.clone(),
        seed: options.seed,
    };
    // Before files are made: what is there keeps its contents.
    if let Err(error) = wanted.check() {
        return Ok(misuse(&format!("--only {error}")));
    }
    let outputs = Outputs::create(options)?;
    let mut printed = Ok(());
    let report = run(&wanted, |table| {
        if printed.is_ok() {
            printed = print(&format!("{table}\n"));
        }
    });
    let report = report.map_err(|error| Failure::new(format!("--only {error}")))?;
    printed?;
    let (judged, met) = report.tally();
    if judged > 0 {
        say!(
            "{met} of {judged} predicted changes are within 10 percentage points; seed {}",
            report.seed
        );
    }
    outputs.write(&report)?;
    Ok(0)
}

/// Files that a report goes to, made before there is one: a run takes a while.
struct Outputs([Option<Output>; 3]);

impl Outputs {
    fn create(options: &SimOptions) -> Result<Self, Failure> {
        let named = [
            ("--html", options.html.as_deref()),
            ("--json", options.json.as_deref()),
            ("--csv", options.csv.as_deref()),
        ];
        export::apart(&named)?;
        let [html, json, csv] = named.map(|(option, path)| Output::create(option, path));
        Ok(Self([html?, json?, csv?]))
    }

    fn write(self, report: &Report) -> Result<(), Failure> {
        let Self([html, json, csv]) = self;
        html.map_or(Ok(()), |output| output.write(&report.html()))?;
        if json.is_none() && csv.is_none() {
            return Ok(());
        }
        let (header, figures) = (Header::look(help::VERSION), report.json());
        csv.map_or(Ok(()), |output| output.write_csv(&header, &sheets(&figures)))?;
        json.map_or(Ok(()), |output| output.write(&export::json(&header, figures)))?;
        Ok(())
    }
}

/// The tables of a report, as objects of JSON are.
fn sheets(figures: &Map<String, Value>) -> Vec<Sheet> {
    let tables = figures.get("tables").and_then(Value::as_array);
    tables.into_iter().flatten().filter_map(Sheet::of).collect()
}
