//! What is told of CMD: that it began, that it is not managed, how it ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use serde_json::json;
use uzswap_ctl::{Group, Statistic};
use uzswap_sys::launch;

use super::exit_status;
use crate::log::{self, Event};
use crate::options::RunOptions;
use crate::output::warn_line;
use crate::report::Past;
use crate::watch::Watch;
use crate::{census, setting};

/// For programs: people know what they started.
pub(super) fn tell_started(options: &RunOptions, cmd: i32, watch: Option<&Watch>) {
    if !log::is_json() || options.report.quiet {
        return;
    }
    let command: Vec<_> = options.cmd.iter().map(|word| word.to_string_lossy()).collect();
    let settings = watch.map(|watch| setting::object(setting::all(&watch.group.group)));
    let fields = json!({ "pid": cmd, "command": command, "settings": settings });
    log::tell(Event::of(log::Kind::Started, None, fields));
}

/// What is to be told of a run that is over.
pub(super) fn past<'a>(
    options: &'a RunOptions,
    watch: Option<&'a mut Watch>,
    began: Instant,
    status: ExitStatus,
) -> Past<'a> {
    let past = Past {
        cmd: &options.cmd,
        group: None,
        name: "",
        status: exit_status(status),
        signal: status.signal(),
        seconds: began.elapsed().as_secs_f64(),
        unmanaged: Vec::new(),
        lines: Vec::new(),
        timeline: None,
    };
    let Some(watch) = watch else { return past };
    last_words(&watch.group.group, &options.cmd[0].to_string_lossy(), status);
    watch.look_once_more();
    Past {
        timeline: watch.take_timeline(),
        group: Some(&watch.group.group),
        name: &watch.group.name,
        unmanaged: watch.census().unmanaged(),
        lines: watch.census().summary(),
        ..past
    }
}

/// CMD runs beside uzswap, and why.
pub(crate) fn tell_unmanaged(options: &RunOptions, reason: &str) {
    let line = format!("uzswap: running unmanaged: {reason}");
    let process = options.cmd[0].to_string_lossy();
    let fields = json!({ "pid": null, "process": process, "reason": reason });
    log::tell(Event::of(log::Kind::Unmanaged, Some(line), fields));
}

/// Say what pagers had to say when they stopped their processes, and why CMD ended if that is not
/// for itself to say.
fn last_words(group: &Group, cmd: &str, status: ExitStatus) {
    let last_words = group.last_words();
    if !last_words.is_empty() {
        warn_line!("{}", String::from_utf8_lossy(&last_words).trim_end());
    }
    if status.signal() == Some(launch::SIGSYS) {
        warn_line!(
            "uzswap: {cmd} was ended by a filter of system calls; if that lets it run without uzswap, allow userfaultfd's and the \
             others that docs/compatibility.md lists"
        );
    }
    if group.get(Statistic::OomPid) != 0 {
        let pid = group.get(Statistic::OomPid) as i64;
        census::say_killed(*group, pid, None, None, group.get(Statistic::OomUsage));
    }
}
