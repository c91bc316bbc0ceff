//! CMD and this process are one job for a shell: signals that are sent to this process are CMD's,
//! and this process stops when CMD does.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::Duration;

use uzswap_sys::job;
use uzswap_sys::launch::{self, Signal};

use super::exit_status;

/// A shell continues the processes of a job one after the other. CMD may be looked at in between.
const IN_BETWEEN: Duration = Duration::from_millis(20);

/// What this process does for CMD.
pub(super) struct Job {
    cmd: i32,
    /// This process leads its session.
    leads_session: bool,
    /// This process was sent SIGTSTP, not by a terminal, and has not stopped yet.
    is_told: bool,
    /// It has stopped with CMD, and goes on. Nothing says yet that CMD does.
    is_ahead: bool,
}

impl Job {
    pub(super) fn new(cmd: i32) -> Self {
        Self {
            cmd,
            leads_session: job::leads_session(),
            is_told: false,
            is_ahead: false,
        }
    }

    /// Do for CMD what a signal to this process asks for.
    pub(super) fn attend(&mut self, signal: Signal) {
        if is_for_cmd(signal, self.cmd, self.leads_session, is_apart(self.cmd)) {
            self.is_told |= signal.number == launch::SIGTSTP;
            launch::pass_on(signal, self.cmd);
        }
        // Of several that wait the first is kept: if it stopped anew, it has gone on before.
        self.is_ahead &= !job::tells_that_goes_on(signal, self.cmd);
        if signal.number == launch::SIGCHLD && !self.is_ahead && self.is_to_stop() {
            self.is_told = false;
            job::stop();
            self.is_ahead = true;
        }
    }

    /// All signals that waited are attended to.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.is_ahead) && job::stopped_by(self.cmd).is_some() {
            uzswap_sys::thread::signal(self.cmd, launch::SIGCONT);
        }
    }

    /// CMD has stopped: the shell that waits for this process is to see it. Who stops CMD by
    /// SIGSTOP, in the background, or without a terminal, continues it as well, and says nothing to
    /// this process.
    fn is_to_stop(&self) -> bool {
        let is_stopped = || job::stopped_by(self.cmd).is_some_and(|signal| signal != launch::SIGSTOP);
        is_stopped() && (self.is_told || is_in_foreground(self.cmd)) && {
            sleep(IN_BETWEEN);
            is_stopped()
        }
    }
}

/// What ends a program that somebody wants to end: SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM.
const ENDS: [i32; 5] = [1, 2, 3, 13, 15];

/// End as CMD has: by the same signal, if somebody wanted its end. A shell ends its script then,
/// and systemd takes it for no failure. Returns the exit status where it does not end so.
pub(super) fn end_as(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal().filter(|signal| ENDS.contains(signal)) {
        let _ = io::stdout().flush();
        job::end_by(signal);
    }
    exit_status(status)
}

/// Whether CMD or this process has the terminal.
fn is_in_foreground(cmd: i32) -> bool {
    let has = |process| job::group_of(process) == job::foreground();
    job::foreground().is_some() && [0, cmd].into_iter().any(has)
}

/// Whether CMD has another process group than this process.
fn is_apart(cmd: i32) -> bool {
    job::group_of(cmd).is_some_and(|group| Some(group) != job::group_of(0))
}

/// Whether a signal that came here has to be sent to CMD too. Those of the terminal reach CMD by
/// themselves, being for the whole process group, unless it `is_apart` (timeout(1)). But that the
/// terminal has gone is told to the leader of the session alone. What CMD sends to its process
/// group it has itself.
fn is_for_cmd(signal: Signal, cmd: i32, leads_session: bool, is_apart: bool) -> bool {
    let is_own = [cmd, uzswap_sys::thread::pid()].contains(&signal.sender);
    match signal.code {
        _ if signal.number == launch::SIGCHLD => false,
        launch::SI_KERNEL => is_apart || signal.number == launch::SIGHUP && leads_session,
        _ => !is_own,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const CMD: i32 = 77;

    fn signal(number: i32, code: i32, sender: i32) -> Signal {
        Signal {
            number,
            code,
            sender,
            value: 0,
        }
    }

    #[test]
    fn what_was_sent_here_alone_is_for_cmd() {
        for number in [1, 2, 3, 10, 12, 15, 28, 40] {
            assert!(is_for_cmd(signal(number, 0, 5), CMD, false, false), "{number}");
            assert!(!is_for_cmd(signal(number, 0, CMD), CMD, false, false), "{number}");
            assert!(
                !is_for_cmd(signal(number, launch::SI_KERNEL, 0), CMD, false, false),
                "{number}"
            );
        }
        assert!(is_for_cmd(signal(1, launch::SI_KERNEL, 0), CMD, true, false));
        assert!(!is_for_cmd(signal(2, launch::SI_KERNEL, 0), CMD, true, false));
        assert!(is_for_cmd(signal(2, launch::SI_KERNEL, 0), CMD, false, true));
        for is_apart in [false, true] {
            assert!(!is_for_cmd(signal(17, 1, 5), CMD, true, is_apart));
        }
    }
}
