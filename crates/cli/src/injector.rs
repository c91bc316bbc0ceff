//! Putting the agent into descendants that become programs which load none, or whose environment
//! does not name it any more: each asks for it before it does (`uzswap_sys::ask`), and has a thread
//! here for as long as that takes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use uzswap_ctl::{ENV_ALLOW_UNMANAGED, ENV_GIVEN_GROUP, ENV_GROUP};
use uzswap_sys::ask::Ask;
use uzswap_sys::inject;
use uzswap_sys::launch;
use uzswap_sys::tracee::{Given, Lacks, Tracee};

use crate::agent;
use crate::output::warn_line;

/// Longer than one takes that does not become another program.
const FINISHED_WITHIN: Duration = Duration::from_secs(4);

/// What is put into programs of a group.
pub(crate) struct Injector {
    /// Once somebody has asked for it.
    library: Option<Arc<inject::Library>>,
    group: Arc<Membership>,
    at_work: Vec<JoinHandle<()>>,
}

/// How programs are told of their group.
struct Membership {
    group: PathBuf,
    library: PathBuf,
    allows_unmanaged: bool,
}

impl Membership {
    /// What is put behind an environment, in pairs (`ENV_GIVEN_GROUP`). `preloaded`: what is to be
    /// loaded besides.
    fn entries(&self, preloaded: &[u8]) -> Vec<Vec<u8>> {
        let entry = |name: &str, value: &[u8]| [name.as_bytes(), b"=", value].concat();
        let library = self.library.as_os_str().as_bytes();
        let list = match preloaded {
            b"" => library.to_vec(),
            others => [others, b":", library].concat(),
        };
        let mut entries = vec![
            entry(ENV_GIVEN_GROUP, self.group.as_os_str().as_bytes()),
            // The last is the one that counts for the loader.
            entry("LD_PRELOAD", &list),
        ];
        if self.allows_unmanaged {
            let allows = entry(ENV_ALLOW_UNMANAGED, b"1");
            entries.splice(0..0, [allows.clone(), allows]);
        }
        entries
    }
}

impl Injector {
    /// For the group whose file is at `group`, and whose library at `library`.
    pub(crate) fn new(library: &Path, group: &Path, allows_unmanaged: bool) -> Self {
        let group = Membership {
            group: group.to_owned(),
            library: library.to_owned(),
            allows_unmanaged,
        };
        Self {
            library: None,
            group: Arc::new(group),
            at_work: Vec::new(),
        }
    }

    /// See to one. It is traced by the thread that does: nobody else can go on with it. Where there
    /// can be none it goes on without the agent.
    pub(crate) fn attend(&mut self, ask: Ask) {
        self.at_work.retain(|thread| !thread.is_finished());
        if self.library.is_none() {
            self.library = agent::library(&self.group.library).ok().map(Arc::new);
        }
        let Some(library) = self.library.clone() else { return };
        let group = self.group.clone();
        let thread = thread::Builder::new().name("injector".into());
        let work = move || {
            see_to(ask, &library, &group);
            // What it hid from who waits for children (`launch::reap`).
            uzswap_sys::thread::signal(uzswap_sys::thread::pid(), launch::SIGCHLD);
        };
        self.at_work.extend(thread.spawn(work).ok());
    }

    /// Wait until all are seen to, for some seconds: with its thread a tracee would be left
    /// half-way.
    pub(crate) fn finish(&mut self) {
        let began = Instant::now();
        while self.at_work.iter().any(|thread| !thread.is_finished()) && began.elapsed() < FINISHED_WITHIN {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn see_to(ask: Ask, library: &inject::Library, group: &Membership) {
    let process = ask.process;
    // Who says so may be in another namespace.
    let is_there = Path::new(&format!("/proc/{process}/task/{}", ask.thread)).exists();
    let Some(tracee) = is_there.then(|| Tracee::seize(ask.thread, process).ok()).flatten() else {
        return;
    };
    if !ask.is_traced() {
        // It would be traced for nothing.
        return tracee.let_go();
    }
    let lacks = |pid| {
        let program = Program::of(pid);
        Some(Lacks {
            entries: program.lacks(group)?,
            library: (!program.is_loaded).then_some(library),
        })
    };
    if let Ok(Given::Broken) = tracee.give(|| ask.is_taken_back(), lacks) {
        launch::kill(process);
        warn_line!(
            "uzswap: process {process} was ended, since the agent went wrong in it; run it with --allow-unmanaged"
        );
    }
}

/// A program that has just begun.
struct Program {
    /// Its directory in /proc.
    place: PathBuf,
    environment: Vec<u8>,
    /// glibc's loader begins it.
    is_loaded: bool,
    is_ours: bool,
}

impl Program {
    fn of(pid: i32) -> Self {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let file = |name| fs::read(place.join(name)).unwrap_or_default();
        let owner = fs::metadata(&place).map(|process| process.uid());
        Self {
            environment: file("environ"),
            is_loaded: file("maps").windows(10).any(|word| word == b"/ld-linux-"),
            is_ours: owner.is_ok_and(|owner| owner == uzswap_sys::thread::effective_user()),
            place,
        }
    }

    /// Whether it finds `path` where we do: it may have another root directory.
    fn finds(&self, path: &Path) -> bool {
        let below = path.strip_prefix("/").unwrap_or(path);
        self.place.join("root").join(below).exists()
    }

    fn value(&self, name: &str) -> Option<&[u8]> {
        let entries = self.environment.split(|byte| *byte == 0);
        let mut values = entries.filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        values.next()
    }

    /// The entries that it lacks to be one of `group`. None: it is another group's, or another
    /// user's, who may not be of this one.
    fn lacks(&self, group: &Membership) -> Option<Vec<Vec<u8>>> {
        let named = self.value(ENV_GROUP);
        let is_member = named == Some(group.group.as_os_str().as_bytes());
        if named.is_some() && !is_member || !self.is_ours {
            return None;
        }
        Some(match is_member && !self.is_loaded {
            true => Vec::new(),
            // The loader would say that it cannot be preloaded.
            false if !self.finds(&group.library) || !self.finds(&group.group) => return None,
            false => group.entries(self.value("LD_PRELOAD").unwrap_or_default()),
        })
    }
}
