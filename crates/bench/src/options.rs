//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use uzswap_acomp::Algorithm;
use uzswap_mm::Replacement;

use crate::compare::Side;
use crate::export::Files;

/// Benchmarks of uzswap, each printed as a table
#[derive(Parser)]
#[command(name = "uzswap-bench", version, about)]
pub struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

impl Cli {
    pub(crate) fn bench(&self) -> &Bench {
        &self.bench
    }
}

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Programs without a limit, under the kernel's zswap, under zram and under uzswap, at equal
    /// memory
    Compare(Compare),
    /// zsmalloc, zbud and z3fold: time, latency and density
    Allocators(Allocators),
    /// Single steps of the engine over a simulated machine: nanoseconds a page
    Steps(Steps),
    /// The order of reclaim against LRU, CLOCK, FIFO and the optimum, on traces: miss ratios
    Policy(Policy),
    /// The swap table against a cache of sharded maps: operations per second and bytes per page
    SwapTable(SwapTable),
    /// A program that fills and re-reads its memory, by folio size, compressor and batch
    Usemem(Usemem),
}

/// Options of the comparison, which is also `uzswap bench`.
#[derive(Args)]
pub struct Compare {
    /// Small sizes and 3 pairs: some 6 minutes. Whether it works, and roughly how fast it is
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often each side runs each workload, in turn [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) pairs: Option<u32>,
    /// Only workloads whose name contains one of these, as in 'usemem,redis'; 'programs' or
    /// 'programs:node,sort' for real programs, which are not run otherwise
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Shares of what programs take that they are given (of `--only programs`) [default:
    /// 105,90,80,70,60,50; --quick: 105,80,60]
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(10..=1000))]
    pub(crate) percents: Vec<u64>,
    /// Only these sides
    #[arg(long, value_name = "SIDE,...", value_delimiter = ',', value_enum)]
    pub(crate) sides: Vec<Side>,
    /// What the workloads are, and nothing more
    #[arg(long)]
    pub(crate) list: bool,
    /// Where report.html, report.json, report.csv and report.txt go
    #[arg(long, value_name = "DIR", default_value = "uzswap-bench-report")]
    pub(crate) out: PathBuf,
    /// Where the small records of full runs are kept, which this one is compared with and added to,
    /// if it is there
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub(crate) records: PathBuf,
    /// For the swap files, sources and dumps, on a disk with 6 GiB to spare [default: $TMPDIR or
    /// /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    /// Compressor of the kernel's zswap, the first that it has
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "lz4,lzo")]
    pub(crate) zswap_compressor: Vec<String>,
    /// Measure nothing: write the report of an earlier run's report.json again
    #[arg(long, value_name = "FILE")]
    pub(crate) render: Option<PathBuf>,
    /// More options for every `uzswap run`
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) run_options: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Allocators {
    /// Heap-like pages to store, in MiB; the most that is read of --corpus
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) mb: u32,
    /// Store the 4 KiB pages of this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// lz4, words, zstd or deflate, each with an optional :LEVEL
    #[arg(long, value_name = "NAME[:LVL]", default_value = "lz4", value_parser = compressor)]
    pub(crate) compressor: Algorithm,
    /// Seed of the pages and of what is freed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often each is measured, in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Args)]
pub(crate) struct Steps {
    /// Samples of each step
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub(crate) batches: u32,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Args)]
pub(crate) struct Policy {
    /// Recorded traces instead of generated ones: files of --record, or text with a page number a
    /// line, decimal, or hexadecimal with 0x
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    pub(crate) trace: Vec<PathBuf>,
    /// Pages that may be resident, in percent of those that a trace touches
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "25,50,75", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) percent: Vec<u32>,
    /// Pages of generated traces
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1024..=1 << 16))]
    pub(crate) pages: u32,
    /// Touches of generated traces, about
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1000..=1 << 26))]
    pub(crate) touches: u32,
    /// Seed of generated traces
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The engine's order, or several, a row each: as `uzswap run --policy` takes them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = Replacement::default().name(), value_parser = replacement)]
    pub(crate) policy: Vec<Replacement>,
    /// What the engine decides by, in place of a constant (--tunables lists them)
    #[arg(long, value_name = "NAME=VALUE,...", value_delimiter = ',', value_parser = tunable)]
    pub(crate) set: Vec<(String, f64)>,
    /// Print the constants that the engine decides by, and measure nothing
    #[arg(long)]
    pub(crate) tunables: bool,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) recording: crate::policy::record::Options,
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
    #[command(flatten)]
    pub(crate) files: Files,
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
    #[command(flatten)]
    pub(crate) files: Files,
    /// More options for every `uzswap run`
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) run_options: Vec<String>,
}

/// `NAME=VALUE`; whether there is such a constant is said where they are set.
fn tunable(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    let value = value.parse().map_err(|_| format!("'{value}' must be a number"))?;
    Ok((name.to_owned(), value))
}

fn replacement(text: &str) -> Result<Replacement, String> {
    let unknown = || format!("unknown policy '{text}': the policies are {}", Replacement::NAMES);
    Replacement::parse(text).ok_or_else(unknown)
}

fn compressor(text: &str) -> Result<Algorithm, String> {
    Algorithm::parse(text).map_err(|rule| format!("unknown compressor '{text}': {rule}"))
}

#[cfg(test)]
mod test {
    use super::*;

    /// Why a command line is refused.
    fn refused(words: &[&str]) -> String {
        let words = ["uzswap-bench"].into_iter().chain(words.iter().copied());
        let Err(error) = Cli::try_parse_from(words) else {
            panic!("it is taken")
        };
        error.to_string()
    }

    #[test]
    fn what_does_not_go_together_is_refused_by_name() {
        for option in ["--json", "--csv"] {
            let line = refused(&["policy", "--record", "a", option, "b", "--", "true"]);
            assert!(line.contains("--record <FILE>") && line.contains(option), "{line}");
        }
        let line = refused(&["policy", "--policy", "fifo,lru"]);
        let names = Replacement::ALL.map(Replacement::name);
        assert!(
            line.contains("unknown policy 'lru'") && names.iter().all(|name| line.contains(name)),
            "{line}"
        );
        assert!(refused(&["compare", "--json", "a"]).contains("unexpected argument '--json'"));
    }
}
