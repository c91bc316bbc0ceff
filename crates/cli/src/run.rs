//! `uzswap run`: check everything, set up the group, start CMD, wait, report.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use uzswap_ctl::{ENV_GROUP, Group, Key, PROCESSES, SWAP_ENCRYPTED};
use uzswap_mm::SERVERS_MAX;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::file::{File, is_memory_backed};
use uzswap_sys::keep::Keeper;

use crate::elf::{self, Found};
use crate::group::{OpenGroup, c_path};
use crate::options::{MEMORY_MAX_LEAST, RunOptions};
use crate::size::Size;
use crate::{Failure, agent, keeper, quota, report};

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Where the swap file goes.
#[derive(Debug)]
enum Swap {
    None,
    Directory(PathBuf),
    File(PathBuf),
}

/// Run CMD; the exit status is its own.
pub(crate) fn run(options: &RunOptions) -> Result<u8, Failure> {
    let memory_max = check_limits(options)?;
    check_report(options)?;
    match elf::inspect(&options.cmd[0]) {
        Found::Manageable => {}
        Found::Missing => {
            return Ok(refuse(
                NOT_FOUND,
                &format!("{}: command not found", options.cmd[0].display()),
            ));
        }
        Found::NotExecutable(line) => return Ok(refuse(NOT_EXECUTABLE, &line)),
        Found::Unmanageable(line) if options.allow_unmanaged => eprintln!("uzswap: running unmanaged: {line}"),
        Found::Unmanageable(line) => {
            return Err(Failure::new(format!(
                "cannot manage this program: {line}, or run it with --allow-unmanaged"
            )));
        }
    }
    crate::doctor::check_machine(options.isolate == "copy")?;
    let swap = choose_swap(options)?;
    let library = agent::install()?;
    let group = OpenGroup::create(options.name.as_deref())?;
    configure(&group.group, options, memory_max, &swap);
    if let Err(Failure(line)) = keeper::start(&group.path)
        && !options.quiet
    {
        eprintln!(
            "uzswap: what a process is writing when it is killed may end in zeros: {line}; set TMPDIR to a short path on a disk"
        );
    }

    let outcome = start(options, &library, &group.path).map(|child| {
        // CMD has its limits already; we keep descriptors for all its processes.
        Keeper::make_room(PROCESSES as u64);
        wait(child, &group.group)
    });
    let _ = std::fs::remove_file(keeper::path(&group.path));
    let status = match outcome {
        Ok(status) => {
            report::finish(&group, options)?;
            exit_status(status)
        }
        Err(error) => refuse_exec(&error, &options.cmd[0].to_string_lossy()),
    };
    // Members that outlive CMD keep the file; whoever lists the groups later removes it.
    if group.processes().next().is_none() {
        let _ = std::fs::remove_file(&group.path);
    }
    Ok(status)
}

fn refuse(status: u8, line: &str) -> u8 {
    eprintln!("uzswap: {line}");
    status
}

fn refuse_exec(error: &std::io::Error, cmd: &str) -> u8 {
    let status = if error.kind() == std::io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    };
    refuse(status, &format!("{cmd}: {error}"))
}

fn check_limits(options: &RunOptions) -> Result<u64, Failure> {
    let Size(max) = options.memory_max.unwrap_or(Size(u64::MAX));
    if max < MEMORY_MAX_LEAST {
        let least = Size(MEMORY_MAX_LEAST);
        return Err(Failure::new(format!(
            "--memory-max {}: the least that a program can start with is {least}",
            max_as_given(max)
        )));
    }
    if let Some(Size(high)) = options.memory_high.filter(|high| high.0 > max) {
        return Err(Failure::new(format!(
            "--memory-high {}: must not be above --memory-max {}",
            Size(high),
            Size(max)
        )));
    }
    Ok(max)
}

/// A small size the way people write it.
fn max_as_given(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{}K", bytes >> 10)
    } else {
        bytes.to_string()
    }
}

/// The report is written when CMD ends; that it can be is checked before CMD starts.
fn check_report(options: &RunOptions) -> Result<(), Failure> {
    let Some(path) = &options.stat_json else { return Ok(()) };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map(drop)
        .map_err(|e| Failure::new(format!("--stat-json {}: {e}", path.display())))
}

fn choose_swap(options: &RunOptions) -> Result<Swap, Failure> {
    if options.no_writeback || options.swap.as_deref() == Some(Path::new("none")) {
        return Ok(Swap::None);
    }
    let swap = match &options.swap {
        None => return Ok(default_swap()),
        Some(path) if path.is_dir() => Swap::Directory(path.clone()),
        Some(path) => Swap::File(path.clone()),
    };
    let (path, result) = match &swap {
        Swap::File(path) => (path, File::create_at(&c_path(path)?)),
        Swap::Directory(path) => (path, File::create_unnamed(&c_path(path)?)),
        Swap::None => return Ok(Swap::None),
    };
    if path.as_os_str().len() + 16 > Group::PATH_MAX {
        return Err(Failure::new(format!(
            "--swap {}: longer than {} bytes",
            path.display(),
            Group::PATH_MAX - 16
        )));
    }
    let error = |e| {
        Failure::new(format!(
            "--swap {}: {}; name a directory that you can write, or none",
            path.display(),
            describe(e)
        ))
    };
    result.map_err(error)?;
    Ok(swap)
}

fn describe(errno: uzswap_sys::Errno) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno.raw_os_error())
}

/// $TMPDIR or /var/tmp, whichever is writable and on a disk.
fn default_swap() -> Swap {
    let candidates = std::env::var_os("TMPDIR")
        .map(PathBuf::from)
        .into_iter()
        .chain([PathBuf::from("/var/tmp")]);
    let is_good = |dir: &PathBuf| {
        c_path(dir).is_ok_and(|c| is_memory_backed(&c) == Ok(false) && File::create_unnamed(&c).is_ok())
    };
    candidates.into_iter().find(is_good).map_or(Swap::None, Swap::Directory)
}

fn configure(group: &Group, options: &RunOptions, memory_max: u64, swap: &Swap) {
    let size = |size: Option<Size>| size.map_or(u64::MAX, |Size(n)| n);
    let has_swap = !matches!(swap, Swap::None);
    let swap_word = match has_swap {
        true if options.encrypt == "on" => SWAP_ENCRYPTED,
        has_swap => u64::from(has_swap),
    };
    let pool_percent = options.max_pool_percent.unwrap_or(if has_swap { 50 } else { 100 });
    let settings = [
        (Key::MemoryMax, memory_max),
        (Key::MemoryHigh, size(options.memory_high)),
        (Key::SwapMax, size(options.swap_max)),
        (Key::ZswapMax, size(options.zswap_max)),
        (Key::Compressor, options.compressor.to_word()),
        (Key::Zpool, options.zpool.to_word()),
        (Key::ZswapWriteback, u64::from(!options.no_writeback)),
        (Key::MaxPoolPercent, pool_percent),
        (Key::AcceptThresholdPercent, options.accept_threshold_percent),
        (
            Key::FolioOrder,
            options.folio_max.unwrap_or_else(|| folio_order(memory_max)),
        ),
        (Key::PageCluster, options.page_cluster),
        (Key::StoreBatch, options.batch),
        (Key::Enabled, 1),
        (Key::FailPerMille, options.fail_per_mille),
        (Key::Copies, u64::from(options.isolate == "copy")),
        (Key::FailKinds, options.fail_kinds),
        (Key::SwapOut, options.swapout as u64),
        (Key::SwapPlain, u64::from(options.swap_format == "plain")),
        (Key::Recompress, options.recompress.to_word()),
        (Key::Balance, u64::from(options.balance == "on")),
        (Key::SwapCache, u64::from(options.swap_cache == "on")),
        (Key::ShrinkerEnabled, u64::from(options.shrinker)),
        (Key::Kcompressd, options.kcompressd.unwrap_or_else(spare_cores)),
        (Key::FaultThreads, options.fault_threads.unwrap_or_else(fault_threads)),
        (Key::Spin, u64::from(may_spin(&options.spin))),
        (Key::Swap, swap_word),
        (Key::SwapPathIsFile, u64::from(matches!(swap, Swap::File(_)))),
    ];
    for (key, value) in settings {
        group.set(key, value);
    }
    if let Swap::Directory(path) | Swap::File(path) = swap {
        use std::os::unix::ffi::OsStrExt;
        group.set_swap_path(path.as_os_str().as_bytes());
    }
}

/// Orders up to that of 512K, if memory.max holds so many folios: where faults come in sequence each costs two thread switches, and
/// what is mapped beyond the need of a program takes the place of something.
const FOLIO_ORDER_MAX: u64 = 7;
const FOLIOS: u64 = 512;

fn folio_order(memory_max: u64) -> u64 {
    let pages = memory_max / PAGE_SIZE as u64;
    u64::from((pages / FOLIOS).max(1).ilog2()).min(FOLIO_ORDER_MAX)
}

/// Cores that the program and kswapd leave: each has one.
fn spare_cores() -> u64 {
    uzswap_sys::thread::cores().saturating_sub(2).min(4) as u64
}

/// The program has to run somewhere too; where pages come from the disk, more than one can wait for it.
fn fault_threads() -> u64 {
    let cores = uzswap_sys::thread::cores();
    (1 + cores / 2).min(cores).min(SERVERS_MAX) as u64
}

/// Where processor time is rationed, what is spent on looking for faults is taken from the program.
fn may_spin(option: &str) -> bool {
    match option {
        "auto" => !quota::is_set(),
        option => option == "on",
    }
}

fn start(options: &RunOptions, library: &Path, group: &Path) -> std::io::Result<Child> {
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Command::new(&options.cmd[0])
        .args(&options.cmd[1..])
        .env("LD_PRELOAD", preload)
        .env(ENV_GROUP, group)
        .spawn()
}

/// Wait for CMD, passing on the signals that ask for it. Those of the terminal reach CMD by themselves.
fn wait(mut child: Child, group: &Group) -> ExitStatus {
    let pid = child.id() as i32;
    let (passed_on, from_terminal) = ([1, 10, 12, 15], [2, 3]);
    let caught = passed_on
        .iter()
        .chain(&from_terminal)
        .filter(|signal| !is_ignored(**signal));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(caught) {
        std::thread::spawn(move || {
            for signal in signals.forever().filter(|signal| passed_on.contains(signal)) {
                uzswap_sys::thread::signal(pid, signal);
            }
        });
    }
    let status = loop {
        match child.wait() {
            Ok(status) => break status,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break ExitStatus::from_raw(0),
        }
    };
    let last_words = group.last_words();
    if !last_words.is_empty() {
        eprintln!("{}", String::from_utf8_lossy(&last_words).trim_end());
    }
    if group.get(Key::OomPid) != 0 {
        eprintln!(
            "uzswap: process {} killed: it outgrew --memory-max {} with nothing left to reclaim (the group used {}); raise \
             the limit{}",
            group.get(Key::OomPid),
            Size(group.get(Key::MemoryMax)),
            Size(group.get(Key::OomUsage)),
            if group.get(Key::Swap) == 0 {
                " or give it a swap file"
            } else {
                " or --swap-max"
            },
        );
    }
    status
}

/// Whether we were started with this signal ignored (nohup): CMD must inherit that, so it is not caught.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap_or("0")
        .trim();
    u64::from_str_radix(mask, 16).unwrap_or(0) & 1 << (signal - 1) != 0
}

/// As the shell tells it: the code, or 128 and the signal.
fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => crate::FAILED,
    }
}
