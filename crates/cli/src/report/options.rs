//! What is told of a run, and where: options of `uzswap run`.

use std::path::PathBuf;

use clap::Args;

use crate::log::{LogTo, log_to};

#[derive(Args, Clone)]
pub(crate) struct ReportOptions {
    /// Write the final counters here, as JSON
    ///
    /// One object, when CMD ends.
    #[arg(long, value_name = "FILE")]
    pub(crate) stat_json: Option<PathBuf>,
    /// Write a page on the run here, as HTML
    ///
    /// When CMD ends: memory, waiting and faults over time, what happened, and better settings. A
    /// browser needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Lines, or events for programs
    ///
    /// text: lines on stderr. json: each event is a JSON object in a line of its own, on stderr or
    /// in FILE; docs/log.md lists them.
    #[arg(long, value_name = "text|json[:FILE]", default_value = "text", value_parser = log_to)]
    pub(crate) log: LogTo,
    /// Print a summary on stderr when CMD ends
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) summary: bool,
    /// Print nothing but errors
    #[arg(long)]
    pub(crate) quiet: bool,
}
