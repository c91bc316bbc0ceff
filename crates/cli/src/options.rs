//! The command line. A contract: other programs call it (DESIGN.md section 5).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use uzswap_acomp::Compressor;
use uzswap_ctl::{FailKind, defaults};
use uzswap_mm::zpool::ZpoolType;
use uzswap_mm::{Replacement, SwapOut};

use crate::accel::options::{AccelCommand, AccelOptions};
use crate::choices::{Backend, Faults, Guard, Isolate, OnOff, ReclaimSource, Shell, Spin, SwapFormat, SwapPath};
use crate::given::Given;
use crate::jupyter::options::JupyterCommand;
use crate::look_options::{GetOptions, ListOptions, MetricsOptions, StatOptions, TopOptions};
use crate::memory_max::{self, MemoryMax};
use crate::number::number;
use crate::recompress::{Recompress, recompress};
use crate::report::ReportOptions;
use crate::setting::{self, Asked};
use crate::sim_options::SimOptions;
use crate::stall::Stall;
use crate::trial::options::TryOptions;
use crate::zram_options::ZramOptions;
use uzswap_ctl::size::Size;

/// zswap in user space: run unmodified programs in a fraction of their memory
#[derive(Parser)]
#[command(name = "uzswap", about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a program with its anonymous memory paged by uzswap
    Run(Box<RunOptions>),
    /// Run a program at several limits: what each costs, and the least that costs little
    Try(Box<TryOptions>),
    /// Show what a running group has and did
    Stat(StatOptions),
    /// List the running groups
    List(ListOptions),
    /// Show the running groups and their processes on a screen with keys, of which `h` lists all;
    /// without a terminal, as tables again and again
    Top(TopOptions),
    /// Reclaim memory of a running group now (memory.reclaim)
    Reclaim(ReclaimOptions),
    /// Change a limit or tunable of a running group
    Set(SetOptions),
    /// Show the settings of a running group, as `set` takes them
    Get(GetOptions),
    /// Show the counters of all groups to Prometheus, as OpenMetrics text
    Metrics(MetricsOptions),
    /// Say what this machine allows, and the fix for each thing that is missing
    Doctor,
    /// Run a program with a gibibyte of data in a quarter of that, its worst case, and a real one
    Demo(DemoOptions),
    /// Serve a block device whose pages lie compressed in memory, over NBD on a Unix socket
    Zram(ZramOptions),
    /// Devices that compress: list and configure them, test them, show what they did
    Accel(AccelCommand),
    /// Kernels of Jupyter that run under a limit: write one, remove it
    Jupyter(JupyterCommand),
    /// Simulate the seeds' machines: published figures, simulated ones, and what they leave open
    Sim(SimOptions),
    /// Compare with no limit, the kernel's zswap and zram at equal memory: tables, JSON and a page
    /// of plots
    Bench(Box<uzswap_bench::Compare>),
    /// Print what completes this command line in a shell
    #[command(hide = true)]
    Completions(CompletionsOptions),
    /// Write a manual page for each command into a directory
    #[command(hide = true)]
    Man(ManOptions),
    /// What the benchmark runs
    #[command(hide = true, disable_help_flag = true)]
    Workload(WorkloadOptions),
    #[command(hide = true)]
    DemoChild(DemoChildOptions),
    /// Take cold segments of swap files elsewhere, as a pipe from `uzswap run` says
    #[command(hide = true)]
    Mover,
}

#[derive(Args, Clone)]
pub(crate) struct RunOptions {
    /// Limit for all memory
    ///
    /// It is for resident memory + compressed pool + the agent's own memory. 50% is half of what
    /// this machine or container may use. auto, which it is without this option: nothing is
    /// limited, but cold memory is given back (--stall). none: it is not.
    #[arg(long, value_name = "SIZE|N%|auto", allow_hyphen_values = true)]
    pub(crate) memory_max: Option<Given<MemoryMax>>,
    /// What auto may cost in waiting
    ///
    /// The part of the time in which threads may wait for memory that --memory-max auto gave back.
    /// [default: 1%]
    #[arg(long, value_name = "N%", allow_hyphen_values = true)]
    pub(crate) stall: Option<Stall>,
    /// Reclaim starts here
    ///
    /// [default: just under memory-max]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory_high: Option<Given<Size>>,
    /// Compressor and level
    ///
    /// They are words, lz4, zstd, zstd-dict, deflate and deflate-iaa; all but words take a level.
    /// words is twice as fast as lz4 on pages of heaps, and lz4 for others. zstd-dict has a
    /// dictionary of the program's own pages. With -parallel behind the name a batch is spread over
    /// the cores.
    #[arg(long, value_name = "NAME[:LVL]", default_value_t = defaults::POOL.compressor, value_parser = compressor)]
    pub(crate) compressor: Compressor,
    /// The denser one, or none
    ///
    /// It is for all pages where the memory is worth it, and for those that were not needed for 5
    /// seconds. These are compressed again at 8 % of a core at most.
    #[arg(long, value_name = "NAME[:LVL]|none", default_value_t = Recompress(defaults::RECOMPRESS), value_parser = recompress)]
    pub(crate) recompress: Recompress,
    /// Pool allocator
    ///
    /// They are zsmalloc, zbud and z3fold.
    #[arg(long, value_name = "NAME", default_value_t = defaults::POOL.zpool, value_parser = zpool)]
    pub(crate) zpool: ZpoolType,
    /// Most of memory-max that the pool may take
    ///
    /// [default: 90; 100 without a swap file]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = percent)]
    pub(crate) max_pool_percent: Option<u64>,
    /// Drain a full pool to this
    ///
    /// It takes no more before. A share of the pool's limit.
    #[arg(long, value_name = "N", default_value_t = defaults::ACCEPT_THRESHOLD_PERCENT, allow_negative_numbers = true, value_parser = percent)]
    pub(crate) accept_threshold_percent: u64,
    /// Swap file, its directory, URL, or none
    ///
    /// With a URL the cold part of the file in the default directory goes there, encrypted:
    /// redis://HOST/DB, s3://BUCKET?endpoint=URL, of a build with `--features remote`. [default:
    /// $TMPDIR or /var/tmp if it is on a disk]
    #[arg(long, value_name = "PATH|URL|none", value_parser = PathBufValueParser::new().map(SwapPath::from))]
    pub(crate) swap: Option<SwapPath>,
    /// Most that the swap file may take
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) swap_max: Option<Size>,
    /// Most that the compressed pool may take
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) zswap_max: Option<Size>,
    /// Write no pages back to the swap file
    #[arg(long)]
    pub(crate) no_writeback: bool,
    /// What it holds
    ///
    /// Pages as they are compressed, or plain.
    #[arg(long, value_name = "compressed|plain", value_enum, default_value_t = SwapFormat::DEFAULT)]
    pub(crate) swap_format: SwapFormat,
    /// Encrypt what goes in
    ///
    /// The key is nowhere but in the processes' memory.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = OnOff::from(defaults::SWAP_ENCRYPTED))]
    pub(crate) encrypt: OnOff,
    /// Write cold pages back early
    ///
    /// Under pressure, before the pool is full.
    #[arg(long)]
    pub(crate) shrinker: bool,
    /// Pool gives way to hot pages
    ///
    /// Its coldest goes to the swap file when pages are faulted soon after they were stored.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = OnOff::from(defaults::BALANCE))]
    pub(crate) balance: OnOff,
    /// Keep copies of loaded pages
    ///
    /// They are of pages that are expected to leave again, unwritten.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = OnOff::from(defaults::SWAP_CACHE))]
    pub(crate) swap_cache: OnOff,
    /// How large folios leave
    ///
    /// split: into pages first. direct: to the swap file, without zswap.
    #[arg(long, value_name = "whole|split|direct", default_value = defaults::SWAP_OUT.name(), value_parser = swap_out)]
    pub(crate) swapout: SwapOut,
    /// Which page leaves
    #[arg(long, value_name = "NAME", default_value = defaults::REPLACEMENT.name(), long_help = policies(), value_parser = policy)]
    pub(crate) policy: Replacement,
    /// Move or copy pages out
    ///
    /// auto: they are moved if they can be. Linux 6.8 can move them; copying is for Linux 5.7 to
    /// 6.7.
    #[arg(long, value_name = "auto|copy", value_enum, default_value_t = Isolate::Auto)]
    pub(crate) isolate: Isolate,
    /// See system calls first
    ///
    /// It needs no privilege. auto: wherever it can be, unless a thread is to serve faults, or
    /// pages are to be copied.
    #[arg(long, value_name = "auto|on|off", value_enum, default_value_t = Guard::Auto)]
    pub(crate) guard: Guard,
    /// What tells of a touch
    ///
    /// To a page that is out. uffd: a userfaultfd; auto: that, if it can be had. mprotect: such
    /// pages cannot be accessed, and a signal tells. For containers whose filter of system calls
    /// forbids userfaultfd; calls are guarded then.
    #[arg(long, value_name = "auto|uffd|mprotect", value_enum, default_value_t = Backend::Auto)]
    pub(crate) backend: Backend,
    /// Which thread serves faults
    ///
    /// The one that raises a fault, or another. auto: the one that raises it, where system calls
    /// can be guarded.
    #[arg(long, value_name = "auto|inline|thread", value_enum, default_value_t = Faults::Auto)]
    pub(crate) faults: Faults,
    /// Background compression threads
    ///
    /// Of each process. [default: the cores beyond the second, 4 at most]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=defaults::KCOMPRESSD_MAX))]
    pub(crate) kcompressd: Option<u64>,
    /// Threads that serve faults
    ///
    /// Of each process with --faults thread, where several threads of it fault. [default: one,
    /// and one for every two cores, 4 at most]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(1..=defaults::FAULT_THREADS_MAX))]
    pub(crate) fault_threads: Option<u64>,
    /// Keep cores awake
    ///
    /// While faults follow each other closely or the swap file is read. auto: unless the container
    /// has a processor quota.
    #[arg(long, value_name = "auto|on|off", value_enum, default_value_t = Spin::Auto)]
    pub(crate) spin: Spin,
    /// Most memory that one fault maps
    ///
    /// It is the largest folio. [default: a 512th of --memory-max, 512K at most]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = folio)]
    pub(crate) folio_max: Option<u64>,
    /// Pages compressed at a time
    #[arg(long, value_name = "N", default_value_t = defaults::STORE_BATCH, allow_negative_numbers = true, value_parser = number(1..=defaults::STORE_BATCH_MAX))]
    pub(crate) batch: u64,
    /// log2 of the pages brought
    ///
    /// With a page, where faults follow no pattern. 0: only the page.
    #[arg(long, value_name = "N", default_value_t = defaults::PAGE_CLUSTER, allow_negative_numbers = true, value_parser = number(0..=defaults::PAGE_CLUSTER_MAX))]
    pub(crate) page_cluster: u64,
    /// For tests: of 1000 steps of the machine under the engine, make so many fail
    #[arg(long, value_name = "N", hide = true, default_value_t = 0, allow_negative_numbers = true, value_parser = number(0..=500))]
    pub(crate) fail_per_mille: u64,
    /// For tests: what fails, names separated by commas [default: all after which nothing may be
    /// lost]
    #[arg(long, value_name = "LIST", hide = true, default_value = "harmless", value_parser = fail_kinds)]
    pub(crate) fail_kinds: u64,
    #[command(flatten)]
    pub(crate) accel: AccelOptions,
    /// Name of the group
    #[arg(long, value_name = "GROUP", value_parser = group_name)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
    /// Run CMD even if it cannot be managed
    #[arg(long)]
    pub(crate) allow_unmanaged: bool,
    /// Read no files of settings
    ///
    /// These are /etc/uzswap.toml and uzswap.toml in $XDG_CONFIG_HOME or ~/.config.
    #[arg(long)]
    pub(crate) no_config: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) cmd: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct ReclaimOptions {
    /// Name of the group
    pub(crate) group: String,
    /// How much
    pub(crate) size: Size,
    /// Only write compressed pages back to the swap file
    #[arg(long, value_name = "zswap", value_enum)]
    pub(crate) source: Option<ReclaimSource>,
}

#[derive(Args)]
pub(crate) struct SetOptions {
    /// Name of the group
    pub(crate) group: String,
    #[arg(required = true, value_name = "KEY=VALUE", help = setting::help(), value_parser = setting::ask)]
    pub(crate) settings: Vec<Asked>,
}

#[derive(Args)]
pub(crate) struct DemoOptions {
    /// Data that the program holds [default: 1G, or half of what there is]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = memory_max::data)]
    pub(crate) data: Option<u64>,
    /// Memory that it gets [default: a quarter of the data]
    #[arg(long, value_name = "SIZE|N%", allow_hyphen_values = true, value_parser = memory_max::parse_word)]
    pub(crate) memory_max: Option<u64>,
}

#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManOptions {
    /// The directory, which is made if need be
    pub(crate) dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct WorkloadOptions {
    /// As `uzswap-workload` takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

#[derive(Args)]
pub(crate) struct DemoChildOptions {
    pub(crate) megabytes: u64,
    /// Say nothing where all is right
    #[arg(long)]
    pub(crate) silent: bool,
    /// Between writing and reading, wait until this file exists, two minutes at most
    #[arg(long)]
    pub(crate) hold: Option<PathBuf>,
}

pub(crate) fn swap_out(text: &str) -> Result<SwapOut, String> {
    SwapOut::parse(text).ok_or_else(|| format!("'{text}' must be whole, split or direct"))
}

fn policies() -> String {
    let about = |order: Replacement| format!("{}: {}.", order.name(), order.about());
    let each = Replacement::ALL.map(about);
    format!("Which page leaves\n\n{}", each.join(" "))
}

fn policy(text: &str) -> Result<Replacement, String> {
    let unknown = || format!("unknown policy '{text}': the policies are {}", Replacement::NAMES);
    Replacement::parse(text).ok_or_else(unknown)
}

pub(crate) fn compressor(text: &str) -> Result<Compressor, String> {
    Compressor::parse(text).map_err(|rule| format!("unknown compressor '{text}': {rule}"))
}

pub(crate) fn percent(text: &str) -> Result<u64, String> {
    let percent = text.parse().ok().filter(|n| (1..=100).contains(n));
    percent.ok_or_else(|| format!("'{text}' must be a number from 1 to 100"))
}

pub(crate) fn zpool(text: &str) -> Result<ZpoolType, String> {
    let known = || format!("unknown allocator '{text}': the allocators are {}", ZpoolType::NAMES);
    ZpoolType::parse(text).ok_or_else(known)
}

/// A set of failures.
pub(crate) fn fail_kinds(text: &str) -> Result<u64, String> {
    if text == "harmless" {
        return Ok(FailKind::set_of(FailKind::HARMLESS));
    }
    let names = || {
        FailKind::ALL
            .iter()
            .map(|kind| kind.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let unknown = |name| format!("unknown failure '{name}': the failures are {}", names());
    text.split(',').try_fold(0, |set, name| {
        let kind = FailKind::parse(name).ok_or_else(|| unknown(name))?;
        Ok(set | kind.bit())
    })
}

/// log2 of the pages of the largest folio.
fn folio(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    let is_valid = bytes.is_power_of_two() && (4096..=2 << 20).contains(&bytes);
    is_valid
        .then(|| u64::from(bytes.ilog2()) - 12)
        .ok_or_else(|| format!("'{text}' must be a power of two from 4K to 2M"))
}

fn group_name(text: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > 64 || text.starts_with('.') || !text.chars().all(is_valid) {
        return Err(format!(
            "'{text}' is not a group name: 1 to 64 letters, digits, '-', '_' or '.', not '.' first"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod test {
    use clap::CommandFactory;

    use super::*;

    fn run(options: &[&str]) -> Result<RunOptions, String> {
        let words = [&["uzswap", "run"], options, &["--", "cmd"]].concat();
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Run(options)) => Ok(*options),
            Ok(_) => panic!("not `uzswap run`"),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What the help says of an option of `uzswap run`.
    fn help(option: &str) -> String {
        let cli = Cli::command();
        let run = cli.find_subcommand("run").unwrap();
        let option = run.get_arguments().find(|arg| arg.get_long() == Some(option));
        let option = option.unwrap();
        option.get_long_help().or(option.get_help()).unwrap().to_string()
    }

    #[test]
    fn options_that_are_not_given_are_the_defaults() {
        let run = run(&[]).unwrap();
        assert_eq!(
            (run.compressor, run.zpool),
            (defaults::POOL.compressor, defaults::POOL.zpool)
        );
        assert_eq!(run.recompress.0, defaults::RECOMPRESS);
        assert_eq!((run.swapout, run.policy), (defaults::SWAP_OUT, defaults::REPLACEMENT));
        assert!(run.balance.is_on() && run.swap_cache.is_on() && run.encrypt.is_on());
        assert_eq!((run.swap_format, run.spin), (SwapFormat::Compressed, Spin::Auto));
        assert_eq!(run.accept_threshold_percent, defaults::ACCEPT_THRESHOLD_PERCENT);
        assert_eq!(
            (run.batch, run.page_cluster),
            (defaults::STORE_BATCH, defaults::PAGE_CLUSTER)
        );
        assert_eq!((run.swap, run.folio_max, run.kcompressd), (None, None, None));
    }

    /// Where it is not clap who says so.
    #[test]
    fn the_help_names_the_defaults() {
        let [without, with] = [false, true].map(defaults::max_pool_percent);
        let pool = format!("[default: {with}; {without} without a swap file]");
        assert!(help("max-pool-percent").ends_with(&pool));
        let kcompressd = format!("{} at most]", defaults::kcompressd(usize::MAX));
        assert!(help("kcompressd").ends_with(&kcompressd));
        let fault_threads = format!("{} at most]", defaults::fault_threads(usize::MAX - 1));
        assert!(help("fault-threads").ends_with(&fault_threads));
        let largest = 4 << defaults::folio_order(u64::MAX);
        assert!(help("folio-max").ends_with(&format!("{largest}K at most]")));
        assert_eq!(folio("2M"), Ok(defaults::FOLIO_ORDER_LIMIT));
    }

    #[test]
    fn the_help_names_the_policies_and_an_error_all_of_them() {
        let error = run(&["--policy", "lru"]).err().unwrap();
        assert!(
            error.contains("'--policy <NAME>': unknown policy 'lru': the policies are "),
            "{error}"
        );
        for order in Replacement::ALL {
            let policy = format!("{}: {}.", order.name(), order.about());
            assert!(
                help("policy").contains(&policy) && error.contains(order.name()),
                "{policy}"
            );
            assert_eq!(run(&["--policy", order.name()]).unwrap().policy, order);
        }
    }

    #[test]
    fn one_of_few_words_is_taken_as_it_is_written() {
        let run_with = |option, word| run(&[option, word]).unwrap();
        assert!(!run_with("--balance", "off").balance.is_on());
        assert_eq!(run_with("--swap-format", "plain").swap_format, SwapFormat::Plain);
        assert_eq!(run_with("--isolate", "copy").isolate, Isolate::Copy);
        assert_eq!(run_with("--spin", "on").spin, Spin::On);
        assert_eq!(run_with("--swap", "none").swap, Some(SwapPath::None));
        let url = "redis://host/1".to_owned();
        assert_eq!(run_with("--swap", &url).swap, Some(SwapPath::Remote(url.clone())));
        let path = PathBuf::from("./none");
        assert_eq!(run_with("--swap", "./none").swap, Some(SwapPath::At(path)));
        for (option, word, rule) in [
            ("--balance", "ON", "[possible values: on, off]"),
            ("--encrypt", "yes", "[possible values: on, off]"),
            ("--spin", "", "[possible values: auto, on, off]"),
            ("--isolate", "move", "[possible values: auto, copy]"),
            ("--swap-format", "raw", "[possible values: compressed, plain]"),
        ] {
            let error = run(&[option, word]).err().unwrap();
            assert!(
                error.contains(option) && error.contains(word) && error.contains(rule),
                "{error}"
            );
        }
    }
}
