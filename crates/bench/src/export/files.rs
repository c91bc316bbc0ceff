//! Where tables for programs go.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Header, Sheet, csv, json, tables};
use crate::Failure;
use crate::compare::commit;

/// Files that were asked for.
#[derive(Args, Clone, Debug, Default)]
pub struct Files {
    /// Write the figures here as one JSON object, with what measured them and on which machine
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write them here as CSV, below lines with # that say the same
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Those files, to be written once there are figures.
pub(crate) struct Outputs {
    json: Option<Output>,
    csv: Option<Output>,
}

impl Files {
    /// Make them: measuring takes a while, after which it is late to hear that one cannot be.
    pub(crate) fn create(&self) -> Result<Outputs, Failure> {
        let (json, csv) = (self.json.as_deref(), self.csv.as_deref());
        apart(&[("--json", json), ("--csv", csv)])?;
        Ok(Outputs {
            json: Output::create("--json", json)?,
            csv: Output::create("--csv", csv)?,
        })
    }
}

impl Outputs {
    pub(crate) fn write(self, sheets: &[Sheet]) -> Result<(), Failure> {
        if self.json.is_none() && self.csv.is_none() {
            return Ok(());
        }
        let header = Header::look(&version(&commit()));
        if let Some(output) = self.json {
            output.write(&json(&header, tables(sheets)))?;
        }
        self.csv.map_or(Ok(()), |output| output.write_csv(&header, sheets))
    }
}

/// Of this package, at a commit.
pub(crate) fn version(commit: &str) -> String {
    format!("{} ({commit})", env!("CARGO_PKG_VERSION"))
}

/// A file that figures go to.
pub struct Output {
    option: &'static str,
    path: PathBuf,
    file: File,
}

impl Output {
    /// Make the file that an option names, if it names one.
    ///
    /// # Errors
    /// The option, the path, and what the system answers.
    pub fn create(option: &'static str, path: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let file = File::create(path).map_err(|e| refused(option, path, &e))?;
        Ok(Some(Self {
            option,
            path: path.to_owned(),
            file,
        }))
    }

    /// Write all of it.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|e| refused(self.option, &self.path, &e))
    }

    /// Write tables as CSV.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn write_csv(self, header: &Header, sheets: &[Sheet]) -> Result<(), Failure> {
        let text = csv(header, sheets).map_err(|e| refused(self.option, &self.path, &e))?;
        self.write(&text)
    }
}

fn refused(option: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{option} {}: {why}", path.display()))
}

/// No two options may name one file: the second would overwrite the first.
///
/// # Errors
/// Both options, and the file.
pub fn apart(options: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    for (at, (option, path)) in options.iter().enumerate() {
        let same = options[..at].iter().find(|(_, other)| path.is_some() && other == path);
        if let (Some((first, _)), Some(path)) = (same, path) {
            return Err(Failure::new(format!(
                "{option} {}: {first} writes this file; name another",
                path.display()
            )));
        }
    }
    Ok(())
}
