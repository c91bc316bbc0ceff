//! Programs that are started, in a process group of their own, and ended with all that they
//! started.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::undo::{self, Undo};
use crate::Failure;

/// Between two looks at whether a program has ended.
const POLL: Duration = Duration::from_millis(100);

/// A program that runs, with its output piped.
pub(crate) struct Process {
    name: String,
    child: Child,
    began: Instant,
    _undo: Undo,
}

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) output: Output,
    /// From its start to its end.
    pub(crate) seconds: f64,
}

impl Process {
    /// Start a command line, in folder `dir` if given.
    pub(crate) fn start(command_line: &[OsString], dir: Option<&Path>) -> Result<Self, Failure> {
        use std::os::unix::process::CommandExt;
        let name = command_line[0].to_string_lossy().into_owned();
        let mut command = Command::new(&command_line[0]);
        command
            .args(&command_line[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        let _turn = undo::turn();
        let child = command.spawn().map_err(|e| Failure::new(format!("{name}: {e}")))?;
        let pid = child.id();
        Ok(Self {
            _undo: undo::owe(format!("kill -- -{pid}"), move || {
                // Usually it is gone, and nothing that it started is left.
                if signal_group(pid, Signal::TERM) {
                    std::thread::sleep(POLL);
                    signal_group(pid, Signal::KILL);
                }
                Ok(())
            }),
            name,
            child,
            began: Instant::now(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Until it has printed its first line.
    pub(crate) fn wait_for_line(&mut self) -> Result<(), Failure> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.as_mut() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        if line.is_empty() {
            return Err(Failure::new(format!("{} ended before it was ready", self.name)));
        }
        Ok(())
    }

    /// Ask it to end.
    pub(crate) fn terminate(&self) {
        let _ = signal_group(self.pid(), Signal::TERM);
    }

    /// Wait for its end, by force after `timeout`, which is a failure.
    pub(crate) fn wait(self, timeout: Duration) -> Result<Ended, Failure> {
        let name = self.name.clone();
        match self.wait_until(timeout)? {
            (ended, false) => Ok(ended),
            (_, true) => Err(Failure::new(format!(
                "{name} did not end within {} s and was killed",
                timeout.as_secs()
            ))),
        }
    }

    /// Wait for its end, by force after `timeout`, and whether that was needed.
    pub(crate) fn wait_until(self, timeout: Duration) -> Result<(Ended, bool), Failure> {
        let Self {
            name,
            child,
            began,
            _undo,
        } = self;
        let (pid, is_over, is_late) = (child.id(), AtomicBool::new(false), AtomicBool::new(false));
        let (output, seconds) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let deadline = Instant::now() + timeout;
                while !is_over.load(Ordering::Relaxed) && Instant::now() < deadline {
                    std::thread::sleep(POLL);
                }
                if !is_over.load(Ordering::Relaxed) {
                    is_late.store(true, Ordering::Relaxed);
                    let _ = signal_group(pid, Signal::KILL);
                }
            });
            let output = child.wait_with_output();
            let seconds = began.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            (output, seconds)
        });
        let output = output.map_err(|e| Failure::new(format!("{name}: {e}")))?;
        Ok((Ended { output, seconds }, is_late.load(Ordering::Relaxed)))
    }
}

/// Whether there was anybody to get it.
fn signal_group(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process_group(pid, signal).is_ok())
}

/// Run a command line to its end; fails if it did.
pub(crate) fn output(command_line: &[OsString], dir: Option<&Path>, timeout: Duration) -> Result<Output, Failure> {
    let ended = Process::start(command_line, dir)?.wait(timeout)?;
    check(&command_line[0].to_string_lossy(), ended.output)
}

/// `output`, or why it is none: its status and the last line it said.
pub(crate) fn check(name: &str, output: Output) -> Result<Output, Failure> {
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
    Err(Failure::new(format!("{name}: {}: {last}", output.status)))
}

/// Words of a command line.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

#[cfg(test)]
mod test {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_failure_says_what_the_program_said() {
        let line = words(["sh", "-c", "echo first >&2; echo because >&2; exit 3"]);
        let Err(Failure { line, .. }) = output(&line, None, LONG) else {
            panic!("it failed")
        };
        assert!(line.contains("because") && line.contains('3'), "{line}");
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let line = words(["sh", "-c", "sleep 1000 & sleep 1000"]);
        let Err(Failure { line, .. }) = output(&line, None, Duration::from_millis(1)) else {
            panic!("it was killed")
        };
        assert!(line.contains("did not end"), "{line}");
    }
}
