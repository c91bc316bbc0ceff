//! What `uzswap sim` is told.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct SimOptions {
    /// Print the names of all tables, and simulate none
    #[arg(long, conflicts_with_all = ["html", "json", "csv"])]
    pub(crate) list: bool,
    /// Simulate this table; may be given again [default: all of them]
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// What all that is random depends on: the same seed prints the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the tables with plots here as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the figures here as one JSON object, with what simulated them and on which machine
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write them here as CSV, below lines with # that say the same
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
}
