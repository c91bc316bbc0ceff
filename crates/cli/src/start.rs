//! Starting CMD, with the agent in it.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use uzswap_ctl::{ENV_ALLOW_UNMANAGED, ENV_GROUP};
use uzswap_sys::launch::{self, FileSizes, Program, Signals};
use uzswap_sys::{Errno, inject};

use crate::group::c_path;
use crate::options::RunOptions;
use crate::run::told::tell_unmanaged;
use crate::watch::Watch;
use crate::{Failure, agent, describe, elf, remote, settings};

/// Start CMD; returns its process id, or why it cannot be executed. `loads_nothing`: the agent is
/// put into it, or it runs without where that may be.
pub(crate) fn start(
    options: &RunOptions,
    watch: Option<&Watch>,
    signals: &Signals,
    file_sizes: FileSizes,
    loads_nothing: bool,
) -> Result<Result<i32, Errno>, Failure> {
    match attempt(options, watch, signals, file_sizes, loads_nothing) {
        Err(Failure(line)) if loads_nothing && options.allow_unmanaged => {
            tell_unmanaged(options, &line);
            attempt(options, watch, signals, file_sizes, false)
        }
        Err(Failure(line)) if loads_nothing => Err(Failure(format!("{line}; run it with --allow-unmanaged"))),
        started => started,
    }
}

/// Where the agent cannot be put into CMD, nothing of that has run or is left.
fn attempt(
    options: &RunOptions,
    watch: Option<&Watch>,
    signals: &Signals,
    file_sizes: FileSizes,
    loads_nothing: bool,
) -> Result<Result<i32, Errno>, Failure> {
    let library = watch
        .filter(|_| loads_nothing)
        .map(|watch| agent::library(watch.library()));
    let library = library.transpose()?;
    let program = program(options, watch, file_sizes, library.is_some())?;
    let started = launch::start(&program, signals);
    let Some(library) = library else { return Ok(started) };
    let why = match started {
        Ok(cmd) => match inject::inject(cmd, &library, signals) {
            // It has ended by itself, as it says.
            Ok(()) | Err(Errno::SRCH) => return Ok(started),
            Err(errno) => {
                launch::end(cmd);
                describe(errno)
            }
        },
        Err(Errno::PERM) => "it may not be traced (another tracer, a filter, kernel.yama.ptrace_scope)".into(),
        Err(_) => return Ok(started),
    };
    Err(Failure(format!(
        "{}: the agent cannot be put into it: {why}",
        options.cmd[0].display()
    )))
}

/// CMD as it is to be started, in the group if there is one.
fn program(
    options: &RunOptions,
    watch: Option<&Watch>,
    file_sizes: FileSizes,
    stops: bool,
) -> Result<Program, Failure> {
    let string = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| Failure::new("an argument with a zero byte"));
    let args = options.cmd.iter().map(|arg| string(arg.as_bytes().to_vec()));
    let paths = elf::candidates(&options.cmd[0]);
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    env.retain(|(name, value)| {
        name != ENV_ALLOW_UNMANAGED && !settings::is_of_one_run(name) && !remote::is_secret(name, value)
    });
    let mut set = |name: &str, value: OsString| match env.iter_mut().find(|(other, _)| other == name) {
        Some((_, old)) => *old = value,
        None => env.push((name.into(), value)),
    };
    if let Some(watch) = watch {
        let mut preload = watch.library().as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        set("LD_PRELOAD", preload);
        set(ENV_GROUP, watch.group.path.as_os_str().to_owned());
    }
    if options.allow_unmanaged {
        set(ENV_ALLOW_UNMANAGED, "1".into());
    }
    let env = env
        .iter()
        .map(|(name, value)| string([name.as_bytes(), b"=", value.as_bytes()].concat()));
    Ok(Program {
        paths: paths.iter().map(|path| c_path(path)).collect::<Result<_, _>>()?,
        args: args.collect::<Result<_, _>>()?,
        env: env.collect::<Result<_, _>>()?,
        file_sizes,
        stops,
    })
}
