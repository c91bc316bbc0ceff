//! What `uzswap run` says while it runs: lines for people, or events for programs (`--log`), on
//! stderr or in a file of their own; in the background the system's log stands for stderr. There is
//! one log, as there is one stderr.

mod event;
mod options;
mod system;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

pub(crate) use self::event::{Event, Kind};
pub(crate) use self::options::{LogTo, log_to};
use crate::{Failure, output};

const OPTION: &str = "--log";
/// A run in which more happens has told enough for a report.
const KEPT: usize = 200;

/// Since it was begun.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    began: Instant,
    /// `None`: lines for people.
    json: Option<Json>,
    /// What the report will have.
    kept: Mutex<Vec<Told>>,
    /// The name of the run's group, once it has one.
    group: OnceLock<String>,
    /// There is no stderr: this is the launcher's copy.
    is_in_background: AtomicBool,
}

/// Where events go: a file, or stderr.
struct Json(Option<File>);

/// An event for people, and when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) after: Duration,
    pub(crate) line: String,
}

/// From now on all is said as `to` says.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn begin(to: &LogTo) -> Result<(), Failure> {
    let open = |path: &std::path::PathBuf| {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map_err(|e| Failure::new(format!("{OPTION} json:{}: {e}", path.display())))
    };
    let json = match to {
        LogTo::Text => None,
        LogTo::Json(path) => Some(Json(path.as_ref().map(open).transpose()?)),
    };
    let _ = LOG.set(Log {
        began: Instant::now(),
        json,
        kept: Mutex::default(),
        group: OnceLock::new(),
        is_in_background: AtomicBool::new(false),
    });
    Ok(())
}

/// From now on there is no stderr, and the system's log stands for it.
pub(crate) fn go_to_background() {
    let _ = LOG.get().map(|log| log.is_in_background.store(true, Ordering::Relaxed));
}

/// Events are of this group from now on.
pub(crate) fn name_group(name: &str) {
    let _ = LOG.get().map(|log| log.group.set(name.to_owned()));
}

/// An event happened.
pub(crate) fn tell(event: Event) {
    let Some(log) = LOG.get() else {
        return event.line.iter().for_each(|line| output::print_error(line));
    };
    let is_written = match &log.json {
        Some(json) => log.write(json, &object(&event, log.group.get(), SystemTime::now())),
        None => false,
    };
    // Of a log that takes no more, a full disk's, people hear what was for them at least.
    if let Some(line) = event.line.as_ref().filter(|_| !is_written) {
        log.print_error(line);
    }
    log.keep(event);
}

/// Whether events are written that people are not told of.
pub(crate) fn is_json() -> bool {
    LOG.get().is_some_and(|log| log.json.is_some())
}

/// What was told so far.
pub(crate) fn told() -> Vec<Told> {
    let kept = LOG
        .get()
        .map(|log| log.kept.lock().unwrap_or_else(PoisonError::into_inner).clone());
    kept.unwrap_or_default()
}

/// What a copy of this process needs to write to the log.
pub(crate) fn descriptor() -> Option<BorrowedFd<'static>> {
    Some(LOG.get()?.json.as_ref()?.0.as_ref()?.as_fd())
}

impl Log {
    /// One object in one write: others write there, too. Whether it went anywhere.
    fn write(&self, json: &Json, object: &Value) -> bool {
        match &json.0 {
            Some(file) => (&mut &*file).write_all(format!("{object}\n").as_bytes()).is_ok(),
            None => {
                self.print_error(&object.to_string());
                true
            }
        }
    }

    fn print_error(&self, line: &str) {
        if self.is_in_background.load(Ordering::Relaxed) {
            system::write(Path::new(system::SOCKET), line);
        } else {
            output::print_error(line);
        }
    }

    fn keep(&self, event: Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = event.line
            && kept.len() < KEPT
        {
            let after = self.began.elapsed();
            kept.push(Told { after, line });
        }
    }
}

fn object(event: &Event, group: Option<&String>, now: SystemTime) -> Value {
    let mut map = Map::new();
    map.insert("time".to_owned(), json!(timestamp(now)));
    map.insert("event".to_owned(), json!(event.kind.name()));
    map.insert("group".to_owned(), json!(group));
    map.extend(event.fields.clone());
    Value::Object(map)
}

/// As RFC 3339 has it, to the millisecond.
pub(crate) fn timestamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = uzswap_bench::utc(since.as_secs());
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), since.subsec_millis())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_event_is_one_line_with_its_time() {
        let event = Event::message("a\n\"b\"");
        let at = UNIX_EPOCH + Duration::from_millis(951_782_400_042);
        let line = object(&event, None, at).to_string();
        assert_eq!(
            line,
            r#"{"event":"message","group":null,"message":"a\n\"b\"","time":"2000-02-29T00:00:00.042Z"}"#
        );
    }

    #[test]
    fn only_so_much_is_kept() {
        let log = Log {
            began: Instant::now(),
            json: None,
            kept: Mutex::default(),
            group: OnceLock::new(),
            is_in_background: AtomicBool::new(false),
        };
        log.keep(Event::of(Kind::NoLimit, None, json!({})));
        (0..KEPT + 5).for_each(|_| log.keep(Event::message("x")));
        assert_eq!(log.kept.lock().unwrap().len(), KEPT);
    }
}
