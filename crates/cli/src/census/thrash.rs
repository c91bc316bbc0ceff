//! A process that spends most of its time waiting for pages: whoever reads its lines is told, once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::json;

use crate::log::{Event, Kind};
use uzswap_ctl::size::Size;

/// So long is looked at.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
/// More than this part of it is waiting: one in so many.
pub(crate) const PART: u32 = 2;
/// Who waits for more than one part in so many shares in what would end the waits of others: room
/// that one process gets all of the group take.
const SHARING_PART: u32 = 10;

/// A slot of the group, and the number that its process has where it lives: others may have the
/// same elsewhere, and the slot another time.
pub(super) type Who = (usize, i32);

/// What a process tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) who: Who,
    /// How long some thread of it has waited, ever.
    pub(super) waited: Duration,
    /// Bytes of memory more with which it would hardly wait; 0: it waits for none that was out.
    pub(super) shortfall: u64,
}

/// A process that thrashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thrashing {
    pub(super) who: Who,
    pub(super) percent: u32,
    /// Of all processes of the group that wait, and how many these are.
    pub(super) shortfall: u64,
    pub(super) waiting: usize,
}

impl Thrashing {
    /// Of `process`, its number and name here, if they are known.
    pub(super) fn event(&self, process: Option<(i32, String)>, memory_max: u64) -> Event {
        let name = match &process {
            Some((pid, name)) => format!("{name} ({pid})"),
            None => "a process".to_owned(),
        };
        let (pid, name_alone) = process.unzip();
        let fields = json!({
            "pid": pid,
            "process": name_alone,
            "waited_percent": self.percent,
            "seconds": WINDOW.as_secs(),
            "shortfall": self.shortfall,
            "waiting_processes": self.waiting,
            "memory_max": memory_max,
        });
        Event::of(Kind::Thrashing, Some(self.line(&name, memory_max)), fields)
    }

    /// The line that says so of the process that is called `name` here.
    fn line(&self, name: &str, memory_max: u64) -> String {
        let whose = match self.waiting {
            0 | 1 => String::new(),
            several => format!(" for the {several} processes that wait"),
        };
        format!(
            "uzswap: {name} waited for pages {} % of the last {} s; about {} more{whose} would end that (--memory-max {})",
            self.percent,
            WINDOW.as_secs(),
            Size(self.shortfall),
            Size(memory_max)
        )
    }
}

/// Who waited how long when the window began.
#[derive(Debug, Default)]
pub(super) struct Thrash {
    began: Option<Duration>,
    waited: HashMap<Who, Duration>,
    told: HashSet<Who>,
}

impl Thrash {
    /// Those that are to be told of, at `now` of a clock that nobody sets. Processes are asked for
    /// at the end of a window only.
    pub(super) fn look<I: Iterator<Item = Waits>>(
        &mut self,
        now: Duration,
        processes: impl FnOnce() -> I,
    ) -> Vec<Thrashing> {
        let began = *self.began.get_or_insert(now);
        let window = now.saturating_sub(began);
        if window < WINDOW {
            return Vec::new();
        }
        let processes: Vec<Waits> = processes().collect();
        let waited = |process: &Waits| {
            let before = self.waited.get(&process.who).copied().unwrap_or_default();
            process.waited.saturating_sub(before).min(window)
        };
        let shares = |process: &&Waits| process.shortfall > 0 && waited(process) > window / SHARING_PART;
        let (waiting, shortfall) = processes.iter().filter(shares).fold((0, 0), |(count, sum), process| {
            (count + 1, process.shortfall.saturating_add(sum))
        });
        let thrashes = |process: &Waits| {
            let is_new = !self.told.contains(&process.who);
            let waited = waited(process);
            (is_new && waited > window / PART && process.shortfall > 0).then(|| Thrashing {
                who: process.who,
                percent: (waited.as_secs_f64() / window.as_secs_f64() * 100.0) as u32,
                shortfall,
                waiting,
            })
        };
        let found: Vec<Thrashing> = processes.iter().filter_map(thrashes).collect();
        // Another process may be the same later.
        let lives = |who: &Who| processes.iter().any(|process| process.who == *who);
        self.told.retain(lives);
        self.told.extend(found.iter().map(|thrashing| thrashing.who));
        self.waited = processes.iter().map(|process| (process.who, process.waited)).collect();
        self.began = Some(now);
        found
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waits(pid: i32, seconds: u32, shortfall: u64) -> Waits {
        Waits {
            who: (0, pid),
            waited: SECOND * seconds,
            shortfall,
        }
    }

    fn look(thrash: &mut Thrash, at: u32, processes: &[Waits]) -> Vec<Thrashing> {
        thrash.look(SECOND * at, || processes.iter().copied())
    }

    #[test]
    fn who_waits_for_more_than_half_of_ten_seconds_is_told_once() {
        let mut thrash = Thrash::default();
        assert_eq!(look(&mut thrash, 100, &[]), []);
        assert_eq!(look(&mut thrash, 109, &[waits(7, 9, 5)]), []);
        let found = look(&mut thrash, 110, &[waits(7, 8, 5), waits(8, 5, 5), waits(9, 9, 0)]);
        let thrashing = Thrashing {
            who: (0, 7),
            percent: 80,
            shortfall: 10,
            waiting: 2,
        };
        assert_eq!(found, [thrashing]);
        assert_eq!(look(&mut thrash, 120, &[waits(7, 18, 5), waits(8, 9, 5)]), []);
        // What it waited before the window does not count.
        assert_eq!(look(&mut thrash, 130, &[waits(8, 19, 5)])[0].who, (0, 8));
        // Another process of the same number.
        assert_eq!(look(&mut thrash, 140, &[waits(7, 10, 5)])[0].percent, 100);
    }

    #[test]
    fn the_line_names_who_how_long_and_what_helps() {
        let thrashing = Thrashing {
            who: (0, 7),
            percent: 83,
            shortfall: 210 << 20,
            waiting: 1,
        };
        assert_eq!(
            thrashing.line("node (7)", 124 << 20),
            "uzswap: node (7) waited for pages 83 % of the last 10 s; about 210M more would end that (--memory-max 124M)"
        );
        let several = Thrashing {
            waiting: 4,
            ..thrashing
        };
        assert_eq!(
            several.line("node (7)", 124 << 20),
            "uzswap: node (7) waited for pages 83 % of the last 10 s; about 210M more for the 4 processes that wait would end that (--memory-max 124M)"
        );
    }
}
