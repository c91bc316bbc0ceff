//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use uzswap_acomp::Algorithm;

/// Benchmarks of uzswap, each printed as a table
#[derive(Parser)]
#[command(name = "uzswap-bench", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) bench: Bench,
}

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// zsmalloc, zbud and z3fold: time, latency and density
    Allocators(Allocators),
    /// The swap table against a cache of sharded maps: operations per second and bytes per page
    SwapTable(SwapTable),
    /// A program that fills and re-reads its memory, by folio size, compressor and batch
    Usemem(Usemem),
}

#[derive(Args)]
pub(crate) struct Allocators {
    /// Heap-like pages to store, in MiB; the most that is read of --corpus
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) mb: u32,
    /// Store the 4 KiB pages of this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// lz4, zstd or deflate, each with an optional :LEVEL
    #[arg(long, value_name = "NAME[:LVL]", default_value = "lz4", value_parser = compressor)]
    pub(crate) compressor: Algorithm,
    /// Seed of the pages and of what is freed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often each is measured, in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

#[derive(Args)]
pub(crate) struct SwapTable {
    /// Pages, in units of 2^20
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) mi_pages: u32,
    /// Most threads at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// How often each is measured, in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

#[derive(Args)]
pub(crate) struct Usemem {
    /// What the program fills, in MiB
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
    pub(crate) mb: u32,
    /// Its limit, in MiB [default: 3/4 of --mb, at which the pool stays below half of the limit]
    #[arg(long, value_name = "N")]
    pub(crate) memory_max_mb: Option<u32>,
    /// How often each row is measured, in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// One round of 128 MiB: whether it works, not how fast it is
    #[arg(long, conflicts_with_all = ["mb", "rounds"])]
    pub(crate) quick: bool,
    /// Only rows whose name contains this, as in '64K folios, lz4'
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,
    /// Where uzswap and uzswap-workload are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) bin_dir: Option<PathBuf>,
    /// More options for every `uzswap run`
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) run_options: Vec<String>,
}

fn compressor(text: &str) -> Result<Algorithm, String> {
    Algorithm::parse(text).map_err(|rule| format!("unknown compressor '{text}': {rule}"))
}
