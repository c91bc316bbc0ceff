//! `uzswap run`: check everything, set up the group, start CMD, wait, report.

mod job;
pub(crate) mod told;

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use uzswap_ctl::{Group, Limit, Notice, Test, Tunable, defaults};
use uzswap_sys::Errno;
use uzswap_sys::cut_short;
use uzswap_sys::file::{File, is_memory_backed};
use uzswap_sys::launch::{self, FileSizes, Signals};

use self::job::Job;
use crate::accel::{self, Devices};
use crate::agent::{self, Library};
use crate::calls;
use crate::choices::{Faults, Guard, Isolate, Spin, SwapFormat, SwapPath};
use crate::elf::{self, Found};
use crate::group::{self, OpenGroup, c_path};
use crate::log::Event;
use crate::options::RunOptions;
use crate::output::warn_line;
use crate::remote::Remote;
use crate::stall::Stall;
use crate::start::start;
use crate::watch::{self, Watch};
use crate::{FAILED, Failure, describe, limits, log, memory_max, quota, remote, report};
use uzswap_ctl::size::Size;

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Room for what each process adds to the path of its own swap file: a point and its number. Bytes.
const SUFFIX_MAX: usize = 16;
/// The longest path that a swap file may be given. Bytes.
const SWAP_PATH_MAX: usize = Group::PATH_MAX - SUFFIX_MAX;

/// Where the swap file goes.
#[derive(Debug)]
enum Swap {
    None,
    Directory(PathBuf),
    File(PathBuf),
}

/// Run CMD; the exit status is its own.
pub(crate) fn run(options: &RunOptions) -> Result<u8, Failure> {
    remote::hide_given(&options.cmd);
    log::begin(&options.report.log)?;
    let memory_max = limits::check(options)?;
    report::check_all(&options.report)?;
    accel::check(options)?;
    if !options.allow_unmanaged {
        group::check_free(options.name.as_deref())?;
    }
    let found = match look_at(&options.cmd[0]) {
        Ok(found) => found,
        Err(status) => return Ok(status),
    };
    let loads_nothing = found == Found::LoadsNothing;
    let unmanageable = match found {
        Found::Unmanageable(line) => Some(line),
        _ => None,
    };
    match &unmanageable {
        Some(line) if options.allow_unmanaged => told::tell_unmanaged(options, line),
        Some(line) => {
            return Err(Failure::new(format!(
                "cannot manage this program: {line}, or run it with --allow-unmanaged"
            )));
        }
        None => {}
    }
    let file_sizes = FileSizes::lift();
    let swap = choose_swap(options)?;
    let remote = Remote::begin(options)?;
    // From here on: a limit of file sizes is told by SIGXFSZ too, which would end us without a
    // word.
    let signals = Signals::begin().map_err(|e| Failure::new(format!("signals: {}", describe(e))))?;
    let watch = match set_up(options, memory_max, (&swap, remote), loads_nothing) {
        Ok(watch) => Some(watch),
        Err(Failure(line)) if options.allow_unmanaged => {
            told::tell_unmanaged(options, &line);
            None
        }
        Err(failure) => return Err(group::not_set_up(failure, options.name.as_deref())),
    };
    if !options.report.quiet {
        limits::notice(options.memory_max.as_ref())
            .into_iter()
            .for_each(log::tell);
    }
    let must_load = unmanageable.is_none() && !options.allow_unmanaged;
    supervise(options, watch, &signals, file_sizes, must_load, loads_nothing)
}

/// What CMD is, or the exit status where it cannot be executed, which is said.
pub(crate) fn look_at(cmd: &OsStr) -> Result<Found, u8> {
    match elf::inspect(cmd) {
        Found::Missing => Err(refuse(NOT_FOUND, &format!("{}: command not found", cmd.display()))),
        Found::NotExecutable(line) => Err(refuse(NOT_EXECUTABLE, &line)),
        found => Ok(found),
    }
}

/// All that a managed program needs.
fn set_up(
    options: &RunOptions,
    memory_max: u64,
    (swap, mut remote): (&Swap, Option<Remote>),
    loads_nothing: bool,
) -> Result<Watch, Failure> {
    let guard = match (options.faults, options.guard) {
        (faults, guard) if loads_nothing => {
            if faults == Faults::Thread || guard == Guard::Off {
                return Err(Failure::new(
                    "a static executable is managed by its system calls alone: leave --guard off and --faults thread out",
                ));
            }
            Guard::On
        }
        (Faults::Inline, Guard::Off) => {
            return Err(Failure::new(
                "--faults inline goes with guarded system calls: leave --guard off out",
            ));
        }
        (Faults::Inline, _) => Guard::On,
        (_, guard) => guard,
    };
    let way = crate::doctor::check_machine(
        options.isolate == Isolate::Copy,
        (guard, options.faults),
        options.backend,
    )?;
    let is_inline = way.is_guarded && options.faults != Faults::Thread;
    if way.closes && !is_inline {
        return Err(Failure::new(
            "without userfaultfd the thread that touches a page gets a signal for it: leave --faults thread out",
        ));
    }
    let group = OpenGroup::create(options.name.as_deref())?;
    log::name_group(&group.name);
    configure(&group.group, options, memory_max, swap);
    group.group.set(Tunable::Guard, u64::from(way.is_guarded));
    group.group.set(Tunable::Closes, u64::from(way.closes));
    group.group.set(Tunable::InlineFaults, u64::from(is_inline));
    group.group.set(Tunable::MayBlock, u64::from(way.may_block));
    let may_go_unguarded = way.may_go_unguarded && guard == Guard::Auto;
    group.group.set(Tunable::MayGoUnguarded, u64::from(may_go_unguarded));
    let filters = uzswap_sys::creds::filters_of_calls();
    group
        .group
        .set(Tunable::Filters, filters.map_or(0, |filters| filters + 1));
    if way.is_guarded {
        calls::note(&group.path);
    }
    let attached = remote.as_mut().map_or(Ok(()), |remote| remote.attach(&group));
    let made = attached.and_then(|()| Devices::begin(options, &group));
    let made = made.and_then(|devices| Ok((devices, Library::install(&group.path)?)));
    match made {
        Ok((devices, library)) => {
            if let Some(devices) = &devices {
                devices.tell(&group.group);
            }
            Ok(Watch::begin(group, library, devices, &options.report).with_remote(remote))
        }
        Err(failure) => {
            group.remove_files();
            Err(failure)
        }
    }
}

/// Start CMD, wait for its end, report.
fn supervise(
    options: &RunOptions,
    mut watch: Option<Watch>,
    signals: &Signals,
    file_sizes: FileSizes,
    must_load: bool,
    loads_nothing: bool,
) -> Result<u8, Failure> {
    let name = options.cmd[0].to_string_lossy();
    let began = Instant::now();
    let cmd = match start(options, watch.as_ref(), signals, file_sizes, loads_nothing) {
        Ok(Ok(cmd)) => cmd,
        failed => {
            if let Some(watch) = &watch {
                watch.group.remove_files();
            }
            return Ok(refuse_exec(failed?.err().unwrap_or(Errno::NOENT), &name));
        }
    };
    if let Some(watch) = &mut watch {
        // CMD has its limits already; we keep descriptors for all its processes.
        watch.make_room();
        watch.follow(cmd);
    }
    told::tell_started(options, cmd, watch.as_ref());
    let ended = wait(cmd, signals, watch.as_mut(), must_load);
    if let Some(status) = ended {
        let past = told::past(options, watch.as_mut(), began, status);
        report::finish(&past, &options.report);
    }
    let Some(watch) = watch else {
        return Ok(ended.map_or(FAILED, job::end_as));
    };
    watch.end(cmd);
    Ok(match ended {
        Some(status) => job::end_as(status),
        None => refuse(
            FAILED,
            &format!(
                "{name} was ended, since it did not load the agent: the loader says why above, or the program was given rights that it \
                 is not trusted with; `uzswap doctor` looks at the rest, or run it with --allow-unmanaged"
            ),
        ),
    })
}

fn refuse(status: u8, line: &str) -> u8 {
    log::tell(Event::error(&format!("uzswap: {line}")));
    status
}

fn refuse_exec(error: Errno, cmd: &str) -> u8 {
    let status = if error == Errno::NOENT {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    };
    refuse(status, &format!("{cmd}: {}", describe(error)))
}

fn choose_swap(options: &RunOptions) -> Result<Swap, Failure> {
    let path = match &options.swap {
        _ if options.no_writeback => return Ok(Swap::None),
        Some(SwapPath::None) => return Ok(Swap::None),
        Some(SwapPath::At(path)) => path,
        Some(SwapPath::Remote(url)) => {
            return match default_swap() {
                Swap::None => Err(remote::lacks_file(url)),
                swap => Ok(swap),
            };
        }
        None => return Ok(default_swap()),
    };
    // Programs of the group open it from their own directories.
    let path = std::path::absolute(path).map_err(|e| Failure::new(format!("--swap {}: {e}", path.display())))?;
    let swap = match path.is_dir() {
        true => Swap::Directory(path),
        false => Swap::File(path),
    };
    let (path, result) = match &swap {
        Swap::File(path) => (path, File::create_at(&c_path(path)?)),
        Swap::Directory(path) => (path, File::create_unnamed(&c_path(path)?)),
        Swap::None => return Ok(Swap::None),
    };
    if path.as_os_str().len() > SWAP_PATH_MAX {
        return Err(Failure::new(format!(
            "--swap {}: longer than {} bytes",
            path.display(),
            SWAP_PATH_MAX
        )));
    }
    let error = |e| {
        let what = match e {
            Errno::EXIST => "it is there, and is no directory".to_owned(),
            e => describe(e),
        };
        Failure::new(format!(
            "--swap {}: {what}; name a directory that you can write, a file that is not there yet, or none",
            path.display()
        ))
    };
    result.map_err(error)?;
    Ok(swap)
}

fn default_swap() -> Swap {
    default_swap_directory().map_or(Swap::None, Swap::Directory)
}

/// $TMPDIR or /var/tmp, whichever is writable and on a disk.
pub(crate) fn default_swap_directory() -> Option<PathBuf> {
    let mut candidates = std::env::var_os("TMPDIR")
        .map(PathBuf::from)
        .into_iter()
        .chain([PathBuf::from("/var/tmp")])
        .filter_map(|dir| std::path::absolute(dir).ok());
    let is_good = |dir: &PathBuf| {
        dir.as_os_str().len() <= SWAP_PATH_MAX
            && c_path(dir).is_ok_and(|c| is_memory_backed(&c) == Ok(false) && File::create_unnamed(&c).is_ok())
    };
    candidates.find(is_good)
}

fn configure(group: &Group, options: &RunOptions, memory_max: u64, swap: &Swap) {
    let size = |size: Option<Size>| size.map_or(u64::MAX, |Size(n)| n);
    let has_swap = !matches!(swap, Swap::None);
    let cores = uzswap_sys::thread::cores();
    let pool_percent = (options.max_pool_percent).unwrap_or(defaults::max_pool_percent(has_swap));
    let most = match memory_max {
        memory_max::AUTO_WORD => u64::MAX,
        most => most,
    };
    let folio_order = options.folio_max.unwrap_or(defaults::folio_order(most));
    let kcompressd = options.kcompressd.unwrap_or(defaults::kcompressd(cores));
    let fault_threads = options.fault_threads.unwrap_or(defaults::fault_threads(cores));
    let limits = [
        (
            Limit::MemoryHigh,
            size(options.memory_high.as_ref().map(|high| high.value)),
        ),
        (Limit::Stall, options.stall.map_or(0, |Stall(millionths)| millionths)),
        (Limit::SwapMax, size(options.swap_max)),
        (Limit::ZswapMax, size(options.zswap_max)),
        (Limit::ZswapWriteback, u64::from(!options.no_writeback)),
    ];
    let tunables = [
        (Tunable::Enabled, 1),
        (Tunable::Compressor, options.compressor.to_word()),
        (Tunable::Zpool, options.zpool.to_word()),
        (Tunable::MaxPoolPercent, pool_percent),
        (Tunable::AcceptThresholdPercent, options.accept_threshold_percent),
        (Tunable::ShrinkerEnabled, u64::from(options.shrinker)),
        (Tunable::Balance, u64::from(options.balance.is_on())),
        (Tunable::SwapCache, u64::from(options.swap_cache.is_on())),
        (Tunable::Recompress, options.recompress.to_word()),
        (Tunable::SwapOut, options.swapout as u64),
        (Tunable::Replacement, options.policy as u64),
        (Tunable::FolioOrder, folio_order),
        (Tunable::PageCluster, options.page_cluster),
        (Tunable::StoreBatch, options.batch),
        (Tunable::Kcompressd, kcompressd),
        (Tunable::FaultThreads, fault_threads),
        (Tunable::Spin, u64::from(may_spin(options.spin))),
        (Tunable::Copies, u64::from(options.isolate == Isolate::Copy)),
        (Tunable::Swap, u64::from(has_swap)),
        (Tunable::SwapEncrypted, u64::from(options.encrypt.is_on())),
        (Tunable::SwapPlain, u64::from(options.swap_format == SwapFormat::Plain)),
        (Tunable::SwapPathIsFile, u64::from(matches!(swap, Swap::File(_)))),
        (Tunable::AllowUnmanaged, u64::from(options.allow_unmanaged)),
    ];
    let tests = [
        (Test::FailPerMille, options.fail_per_mille),
        (Test::FailKinds, options.fail_kinds),
    ];
    for (limit, value) in limits {
        group.set(limit, value);
    }
    memory_max::set_word(*group, memory_max);
    for (tunable, value) in tunables {
        group.set(tunable, value);
    }
    for (test, value) in tests {
        group.set(test, value);
    }
    if let Swap::Directory(path) | Swap::File(path) = swap {
        group.set_swap_path(path.as_os_str().as_bytes());
    }
}

/// Where processor time is rationed, what is spent on looking for faults is taken from the program.
fn may_spin(option: Spin) -> bool {
    match option {
        Spin::Auto => !quota::is_set(),
        Spin::On => true,
        Spin::Off => false,
    }
}

/// How long CMD may take until it has loaded the agent, where nothing can be seen of it but that it
/// has not.
const LOADS_WITHIN: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Wait for CMD, doing for it what signals to this process ask for. `None`: CMD had to be ended,
/// since it `must_load` the agent and did not. Orphans that come to this process (the first of a
/// namespace, a subreaper) are waited for as well.
fn wait(cmd: i32, signals: &Signals, mut watch: Option<&mut Watch>, must_load: bool) -> Option<ExitStatus> {
    let mut job = Job::new(cmd);
    let started = Instant::now();
    let mut is_loading = must_load;
    loop {
        while let Some(signal) = signals.next() {
            job.attend(signal);
        }
        job.settle();
        let ended = std::iter::from_fn(launch::reap).find(|(pid, _)| *pid == cmd);
        if ended.is_some() {
            // Before the group is looked at: its number may be another's now.
            cut_short::name_program(None);
        }
        let group = watch.as_ref().map(|watch| watch.group.group);
        is_loading &= has_loaded_nothing(group);
        if let Some((_, status)) = ended {
            let status = ExitStatus::from_raw(status);
            if is_loading && status.success() {
                warn_line!("uzswap: CMD was not managed: it ended without having loaded the agent");
            }
            return Some(status);
        }
        // Looked at once more: the agent may have come since.
        if is_loading && (lacks_agent(cmd) || started.elapsed() > LOADS_WITHIN) && has_loaded_nothing(group) {
            uzswap_sys::thread::signal(cmd, launch::SIGKILL);
            while !std::iter::from_fn(launch::reap).any(|(pid, _)| pid == cmd) {
                watch::sleep(Some(signals.as_fd()), None);
                while signals.next().is_some() {}
            }
            cut_short::name_program(None);
            return None;
        }
        let time = is_loading.then_some(LOOK);
        match &mut watch {
            Some(watch) => watch.step(Some(signals.as_fd()), time),
            None => {
                watch::sleep(Some(signals.as_fd()), None);
            }
        }
    }
}

/// Whether there is a group, and no program of it has loaded the agent yet.
fn has_loaded_nothing(group: Option<Group>) -> bool {
    group.is_some_and(|group| group.get(Notice::Joined) == 0)
}

/// Whether the program of this process has its libc, but not the agent, which comes first. Not
/// while it has our memory still: execve has us go on a moment before it takes that from the child.
fn lacks_agent(pid: i32) -> bool {
    let exe = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    if exe(&pid.to_string()) == exe("self") {
        return false;
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.contains("/libc.so.6") && !maps.contains(agent::NAME)
}

/// As the shell tells it: the code, or 128 and the signal.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => FAILED,
    }
}
