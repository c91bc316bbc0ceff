//! `--swap URL`: the mover, a process that takes cold segments of the group's swap files elsewhere
//! (docs/design/remote.md). It is told what to do on its standard input, a line at a time, and
//! answers on its standard output:
//!
//! ```text
//! launcher                                   mover
//! {"url": ..., "run": ..., "log": ...}  -->  tries the remote
//!                                       <--  {"patience": seconds, "prefix": text} or an error
//! {"group": path}                       -->  binds its socket beside the group
//!                                       <--  {} or {"error": line}
//! {"end": true}, and closes the pipe    -->  deletes all
//!                                       <--  {"left": objects}
//! is killed, or goes without a word     -->  goes on until nobody of the group lives
//! ```

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use uzswap_ctl::Tunable;

use crate::choices::SwapPath;
use crate::group::OpenGroup;
use crate::options::RunOptions;
use crate::output::warn_line;
use crate::{Failure, watch};

/// What sets `--swap` in the environment.
const VARIABLE: &str = "UZSWAP_SWAP";
/// The name of the command that is the mover.
const COMMAND: &str = "mover";
/// How long it is waited for at the end. It goes on alone with what takes longer.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// Where the mover of a group is told of swap files.
pub(crate) fn path(group: &Path) -> PathBuf {
    OsString::from_vec(uzswap_ctl::mover_path(group.as_os_str().as_bytes())).into()
}

/// The mover, as the launcher has it.
pub(crate) struct Remote {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    patience: u64,
    /// Where objects are, for people.
    place: String,
}

/// There is no directory for what has not been sent.
pub(crate) fn lacks_file(url: &str) -> Failure {
    refusal(
        url,
        "it needs a local file as well: set TMPDIR to a directory on a disk that you can write",
    )
}

fn refusal(url: &str, why: &str) -> Failure {
    Failure::new(format!("--swap {}: {why}", shown(url)))
}

impl Remote {
    /// Have a mover if the options ask for one, whose remote takes objects and gives them back.
    ///
    /// # Errors
    /// The URL, and the rule or what the remote answered.
    pub(crate) fn begin(options: &RunOptions) -> Result<Option<Self>, Failure> {
        let url = match &options.swap {
            Some(SwapPath::Remote(url)) if !options.no_writeback => url,
            _ => return Ok(None),
        };
        if !options.encrypt.is_on() {
            return Err(refusal(
                url,
                "what leaves this machine is encrypted: leave --encrypt off out",
            ));
        }
        Self::start(url, options).map(Some)
    }

    fn start(url: &str, options: &RunOptions) -> Result<Self, Failure> {
        let fail = |e: std::io::Error| refusal(url, &format!("starting the mover: {e}"));
        let mut mover = Command::new("/proc/self/exe")
            .arg0("uzswap")
            .arg(COMMAND)
            .env_remove(VARIABLE)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        let (Some(orders), Some(answers)) = (mover.stdin.take(), mover.stdout.take()) else {
            return Err(refusal(url, "starting the mover: it has no pipes"));
        };
        let mut remote = Self {
            orders,
            answers: BufReader::new(answers),
            patience: 0,
            place: String::new(),
        };
        let orders = json!({ "url": url, "run": run_name()?, "log": log_text(options)? });
        let answer = remote.ask(&orders).map_err(|why| refusal(url, &why))?;
        remote.patience = answer["patience"].as_u64().unwrap_or_default();
        remote.place = place(&shown(url), answer["prefix"].as_str().unwrap_or_default());
        Ok(remote)
    }

    /// Give an order; what it answers, or why it cannot be done.
    fn ask(&mut self, order: &Value) -> Result<Value, String> {
        let mut line = String::new();
        let sent = self.orders.write_all(format!("{order}\n").as_bytes());
        // One that ends at once may have said why.
        let read = self.answers.read_line(&mut line);
        if line.is_empty() {
            sent.and(read).map_err(|e| format!("the mover: {e}"))?;
        }
        let answer: Value = serde_json::from_str(&line).map_err(|_| "the mover has ended".to_owned())?;
        match answer["error"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer),
        }
    }

    /// It is for the processes of this group.
    pub(crate) fn attach(&mut self, group: &OpenGroup) -> Result<(), Failure> {
        let fail = |why| Failure(format!("the mover of swapped-out memory: {why}"));
        let order = json!({ "group": group.path.to_str() });
        self.ask(&order).map_err(fail)?;
        group.group.set(Tunable::SwapRemote, self.patience);
        Ok(())
    }

    /// The group is over: have deleted what it had elsewhere, and say what is left.
    pub(crate) fn finish(self) {
        let Self {
            mut orders,
            mut answers,
            place,
            ..
        } = self;
        // One that is not there any more does not answer.
        let _ = orders.write_all(format!("{}\n", json!({ "end": true })).as_bytes());
        drop(orders);
        let mut line = String::new();
        if !watch::sleep(Some(answers.get_ref().as_fd()), Some(ENDS_WITHIN.as_nanos() as u64)) {
            return warn_line!("uzswap: objects of this run are still being deleted at {place}");
        }
        let _ = answers.read_line(&mut line);
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        match answer["left"].as_u64() {
            Some(0) => {}
            Some(left) => warn_line!("{}", left_behind(left, &place)),
            None => warn_line!("uzswap: the mover has ended: objects of this run may be left at {place}"),
        }
    }
}

/// Where objects of a run are, for people.
fn place(shown: &str, prefix: &str) -> String {
    format!("{shown}, under {prefix}")
}

fn left_behind(objects: u64, place: &str) -> String {
    format!("uzswap: {objects} objects of this run are left at {place}: nobody can decrypt them any more")
}

fn hide(url: &str) {
    if shown(url) != *url {
        secret::hide(url);
    }
}

fn is_url(word: &str) -> bool {
    word.contains("://")
}

/// Have no password seen in the arguments before CMD or in the environment of this process, whether
/// it is used or not.
pub(crate) fn hide_given(cmd: &[OsString]) {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    words.truncate(words.len().saturating_sub(cmd.len()));
    words.extend(std::env::var_os(VARIABLE));
    hide_in(&words);
}

/// Have no password of these options of `uzswap run` seen in those of this process.
pub(crate) fn hide_in(options: &[OsString]) {
    let words = options.iter().filter_map(|word| word.to_str());
    words.filter(|word| is_url(word)).for_each(hide);
}

/// These options for people.
pub(crate) fn shown_in(options: &[OsString]) -> Vec<String> {
    let texts = options.iter().map(|word| word.to_string_lossy().into_owned());
    texts
        .map(|word| if is_url(&word) { shown(&word) } else { word })
        .collect()
}

/// Whether a variable of the environment is not for CMD, as it may have a password.
pub(crate) fn is_secret(name: &OsStr, value: &OsStr) -> bool {
    name == VARIABLE && value.to_str().is_none_or(is_url)
}

/// A name that no other run has, anywhere.
fn run_name() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    uzswap_sys::random::fill(&mut bytes)
        .map_err(|e| Failure::new(format!("random numbers: {}", crate::describe(e))))?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// The log, for a process with another directory.
fn log_text(options: &RunOptions) -> Result<String, Failure> {
    use crate::log::LogTo;
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| Failure::of(path, &e));
    Ok(match &options.report.log {
        LogTo::Json(Some(path)) => LogTo::Json(Some(absolute(path)?)),
        other => other.clone(),
    }
    .to_text())
}

mod secret;

#[cfg(feature = "remote")]
mod mover;
#[cfg(feature = "remote")]
mod speaker;

#[cfg(feature = "remote")]
pub(crate) use self::mover::mover;
#[cfg(feature = "remote")]
use uzswap_remote::shown;

/// Only whoever has services can tell where a password is.
#[cfg(not(feature = "remote"))]
fn shown(url: &str) -> String {
    url.split_once("://").map_or(url, |(scheme, _)| scheme).to_owned()
}

/// `uzswap mover`
#[cfg(not(feature = "remote"))]
pub(crate) fn mover() -> Result<u8, Failure> {
    let why = "this uzswap was built without services: build it with `cargo build --release --features remote`";
    crate::output::say!("{}", json!({ "error": why }));
    Ok(crate::FAILED)
}
