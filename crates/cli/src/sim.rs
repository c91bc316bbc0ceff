//! `uzswap sim`: the seeds' machines, simulated.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use uzswap_sim::{Options, Report, list, run};

use crate::Failure;
use crate::output::{print, say};
use crate::sim_options::SimOptions;

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
    let html = Output::create("--html", options.html.as_ref())?;
    let json = Output::create("--json", options.json.as_ref())?;
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
    html.write(&report, Report::html)?;
    json.write(&report, Report::json)?;
    Ok(0)
}

/// A file that a report goes to, made before there is one: a run takes a while.
struct Output<'a>(Option<(&'static str, &'a Path, File)>);

impl<'a> Output<'a> {
    fn create(option: &'static str, path: Option<&'a PathBuf>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = File::create(path).map_err(|e| Failure::new(format!("{option} {}: {e}", path.display())))?;
        Ok(Self(Some((option, path, file))))
    }

    fn write(self, report: &Report, text: impl Fn(&Report) -> String) -> Result<(), Failure> {
        let Some((option, path, mut file)) = self.0 else {
            return Ok(());
        };
        let written = file.write_all(text(report).as_bytes());
        written.map_err(|e| Failure::new(format!("{option} {}: {e}", path.display())))
    }
}
