//! The seeds' machines, simulated: the engine on a virtual clock, with many cores and accelerators.
//!
//! | module | what it is |
//! |---|---|
//! | `server` | whoever serves one at a time: an engine of a device, a lock |
//! | `world` | clocks of the cores, accelerators, what steps cost |
//! | `machine`, `coder` | `mm`'s machine and `acomp`'s device, which take their time there |
//! | `group` | programs with an engine each, below one limit |
//! | `usemem`, `kernel_build` | the seeds' tests |
//! | `seeds` | what was published of usemem |
//! | `usemem_tables`, `build_tables`, `swap_table` | what was published, and simulated |
//! | `open` | what nobody published |
//! | `fit`, `lab` | costs that are chosen by the columns before, and runs with them |
//! | [`report`] | tables of published, simulated, difference |
//!
//! One thread simulates all cores, a step at a time: the core that is behind all others goes next.
//! Nothing depends on the time of day or on addresses, so one seed gives the same bits everywhere.
//! `docs/sim.md` says what is calibrated by what, and what that leaves open.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod build_tables;
mod coder;
mod contents;
mod fit;
mod group;
mod html;
mod json;
mod kernel_build;
mod lab;
mod machine;
mod open;
mod random;
pub mod report;
mod seeds;
mod server;
mod shelf;
mod swap_table;
mod text;
mod usemem;
mod usemem_tables;
mod world;

use std::fmt;

use lab::Lab;
use report::Section;
use serde_json::{Map, Value};

/// What to simulate.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of tables; none: all of them.
    pub only: Vec<String>,
    /// What all that is random depends on.
    pub seed: u64,
}

impl Options {
    /// Whether each name is that of a table.
    ///
    /// # Errors
    /// The first that is none.
    pub fn check(&self) -> Result<(), UnknownName> {
        let unknown = |name: &&String| list().all(|(known, _)| known != name.as_str());
        let unknown = self.only.iter().find(unknown);
        unknown.map_or(Ok(()), |name| Err(UnknownName(name.clone())))
    }
}

/// There is no table of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = list().map(|(name, _)| name).collect();
        write!(f, "`{}`: the tables are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Names of all tables, each with its title.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    usemem_tables::names()
        .chain(build_tables::names())
        .chain(swap_table::names())
        .chain(open::names())
}

/// Tables, simulated.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The tables.
    pub sections: Vec<Section>,
}

impl Report {
    /// Predicted changes, and how many of them are within the bar.
    pub fn tally(&self) -> (usize, usize) {
        let tallies = self.sections.iter().map(Section::tally);
        tallies.fold((0, 0), |(a, b), (judged, met)| (a + judged, b + met))
    }

    /// As one page of tables and plots.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// As an object of JSON.
    pub fn json(&self) -> Map<String, Value> {
        json::report(self)
    }
}

/// Simulate. `done` is told of each table when it is ready.
///
/// # Errors
/// There is no table of a name: nothing was simulated.
pub fn run(options: &Options, mut done: impl FnMut(&str)) -> Result<Report, UnknownName> {
    run_on(Lab::new(options.seed), options, &mut done)
}

fn run_on(mut lab: Lab, options: &Options, done: &mut dyn FnMut(&str)) -> Result<Report, UnknownName> {
    options.check()?;
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut sections = Vec::new();
    for (name, _) in list().filter(|(name, _)| is_wanted(name)) {
        let section = usemem_tables::section(&mut lab, name)
            .or_else(|| build_tables::section(&mut lab, name))
            .or_else(|| swap_table::section(&mut lab, name))
            .or_else(|| open::section(&mut lab, name));
        if let Some(section) = section {
            done(&text::section(&section));
            sections.push(section);
        }
    }
    Ok(Report {
        seed: options.seed,
        sections,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    /// Everything that a small run prints.
    fn printed(seed: u64) -> String {
        let options = Options {
            only: vec!["v12-64k".to_owned()],
            seed,
        };
        let mut text = String::new();
        let report = run_on(Lab::sized(seed, 128, 4), &options, &mut |section| {
            text.push_str(section)
        })
        .unwrap();
        assert_eq!(report.sections.len(), 1);
        text
    }

    #[test]
    fn the_same_seed_gives_the_same_bits() {
        let first = printed(1);
        assert_eq!(first, printed(1));
        assert_ne!(first, printed(2));
    }

    #[test]
    fn no_two_tables_have_one_name() {
        let mut names: Vec<&str> = list().map(|(name, _)| name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_those_that_are() {
        let options = Options {
            only: vec!["v12-64k".to_owned(), "v13".to_owned()],
            seed: 0,
        };
        let error = run(&options, |_| panic!("nothing is simulated")).unwrap_err();
        assert!(
            error.to_string().starts_with("`v13`: the tables are v9-64k, "),
            "{error}"
        );
    }
}
