//! A run of CMD: started, waited for, and ended with all that it has started.

use std::collections::HashSet;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, set_child_subreaper};
use uzswap_sys::launch;
use uzswap_sys::thread::pid;

use super::interrupt::Interrupt;
use super::output::{Fingerprint, Reading, Tail};
use crate::census::below;
use crate::{Failure, group, run};

/// So long a program that was asked to end may take until it is killed; and so long a launcher that
/// has lost its programs.
const GRACE: Duration = Duration::from_secs(1);
const LAUNCHER_GRACE: Duration = Duration::from_secs(30);
/// Between two looks at whether those that were killed are gone.
const LOOK: Duration = Duration::from_millis(10);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with the status that a shell would tell.
    Status(u8),
    /// It took too long.
    GivenUp,
    /// Somebody wants no more of it.
    Interrupted(u8),
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) seconds: f64,
    /// Of its standard output.
    pub(crate) fingerprint: Option<u64>,
    /// The last line on its standard error.
    pub(crate) last_line: Option<String>,
}

impl Ended {
    /// Its exit status, if it ended by itself.
    pub(crate) fn status(&self) -> Option<u8> {
        match self.end {
            End::Status(status) => Some(status),
            End::GivenUp | End::Interrupted(_) => None,
        }
    }
}

/// How a run is to be treated.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    /// It may take so long.
    pub(crate) most: Option<Duration>,
    /// It is `uzswap run`: where its program is killed it ends by itself, with a report.
    pub(crate) is_launcher: bool,
    /// What it prints is passed on.
    pub(crate) is_shown: bool,
}

/// Whose children come to this process when their parents have ended.
pub(crate) struct Nursery {
    /// Children that this process had before: a shell's that has become `uzswap try`.
    strangers: HashSet<i32>,
}

impl Nursery {
    pub(crate) fn begin() -> Self {
        // Where it cannot be, a daemon is not ended after its run.
        let _ = set_child_subreaper(Pid::from_raw(pid()));
        let strangers = below(pid()).into_iter().collect();
        Self { strangers }
    }

    /// Run a command to its end, or until there is a reason to end it.
    pub(crate) fn run(&self, command: &mut Command, terms: Terms, interrupt: &Interrupt) -> Result<Ended, Failure> {
        let began = Instant::now();
        let program = command.get_program().display().to_string();
        let failed = |e: std::io::Error| Failure::new(format!("{program}: {e}"));
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let to = |to: Box<dyn Write + Send>| terms.is_shown.then_some(to);
        let output = child.stdout.take();
        let output = output.map(|from| Reading::<Fingerprint>::begin(from, to(Box::new(std::io::stdout()))));
        let errors = child.stderr.take();
        let errors = errors.map(|from| Reading::<Tail>::begin(from, to(Box::new(std::io::stderr()))));
        let fd = pidfd(&child).map_err(failed)?;
        let why = wait(&fd, terms.most.map(|most| began + most), interrupt);
        let seconds = began.elapsed().as_secs_f64();
        match why {
            Why::Ended => {}
            Why::Late => end(&child, &fd, terms.is_launcher),
            Why::Interrupted(_) => ask_to_end(&child, &fd, terms.is_launcher),
        }
        let status = child.wait().map_err(failed)?;
        self.clear();
        Ok(Ended {
            end: match why {
                Why::Ended => End::Status(run::exit_status(status)),
                Why::Late => End::GivenUp,
                Why::Interrupted(signal) => End::Interrupted(signal),
            },
            seconds,
            fingerprint: output.and_then(Reading::end).map(|kept| kept.value()),
            last_line: errors.and_then(Reading::end).and_then(|kept| kept.line()),
        })
    }

    /// End whatever a run has left behind: it would be in the way of the next.
    fn clear(&self) {
        let until = Instant::now() + LAUNCHER_GRACE;
        let mut is_first = true;
        loop {
            while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
            let mut left = below(pid());
            left.retain(|pid| !self.strangers.contains(pid));
            if left.is_empty() || Instant::now() > until {
                break;
            }
            left.into_iter().for_each(launch::kill);
            std::thread::sleep(LOOK);
            is_first = false;
        }
        if !is_first {
            // A launcher that stayed for them has left its group's files.
            let _ = group::running();
        }
    }
}

enum Why {
    Ended,
    Late,
    Interrupted(u8),
}

fn pidfd(child: &Child) -> std::io::Result<OwnedFd> {
    let pid = Pid::from_child(child);
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Until the process has ended, it is late, or somebody wants it to end.
fn wait(process: &OwnedFd, until: Option<Instant>, interrupt: &Interrupt) -> Why {
    loop {
        if let Some(signal) = interrupt.signal() {
            return Why::Interrupted(signal);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut polled = [process.as_fd(), interrupt.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let _ = poll(&mut polled, left.map(timespec).as_ref());
        if !polled[0].revents().is_empty() {
            return Why::Ended;
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Why::Late;
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Whether it has ended within `time`.
fn has_ended(process: &OwnedFd, time: Duration) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, Some(&timespec(time))).is_ok_and(|ready| ready > 0)
}

/// From a terminal it has the signal itself.
fn ask_to_end(child: &Child, process: &OwnedFd, is_launcher: bool) {
    uzswap_sys::thread::signal(child.id() as i32, signal_hook::consts::SIGTERM);
    if !has_ended(process, GRACE) {
        end(child, process, is_launcher);
    }
}

/// Kill what it has started, and it; a launcher only if it does not end by itself then.
fn end(child: &Child, process: &OwnedFd, is_launcher: bool) {
    let pid = child.id() as i32;
    let until = Instant::now() + if is_launcher { LAUNCHER_GRACE } else { Duration::ZERO };
    loop {
        below(pid).into_iter().for_each(launch::kill);
        if Instant::now() >= until {
            launch::kill(pid);
        }
        if has_ended(process, LOOK) {
            return;
        }
    }
}
