//! Putting the agent into descendants that become programs which load none, or whose environment
//! does not name it any more: each asks for it before it does (`uzswap_sys::ask`), and has a thread
//! here for as long as that takes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use uzswap_ctl::{ENV_GIVEN_GROUP, ENV_GROUP};
use uzswap_sys::ask::Ask;
use uzswap_sys::creds::{self, Credentials};
use uzswap_sys::executable::{self, Kind};
use uzswap_sys::file::{self, Access};
use uzswap_sys::tracee::{Given, Lacks, Tracee};
use uzswap_sys::{Errno, inject, launch};

use crate::agent;
use crate::group::c_path;
use crate::output::warn_line;

/// Longer than one takes that does not become another program.
const FINISHED_WITHIN: Duration = Duration::from_secs(4);

/// What is put into programs of a group.
pub(crate) struct Injector {
    /// Once somebody has asked for it.
    library: Option<Arc<inject::Library>>,
    group: Arc<Membership>,
    at_work: Vec<JoinHandle<()>>,
    /// Whether a filter lets us trace, once somebody has asked.
    may_trace: Option<bool>,
}

/// How programs are told of their group.
struct Membership {
    group: PathBuf,
    library: PathBuf,
    /// Those that were, and go on.
    given: Mutex<Vec<i32>>,
}

impl Membership {
    /// What is put behind an environment. `preloaded`: what is to be loaded besides.
    fn entries(&self, preloaded: &[u8]) -> Vec<Vec<u8>> {
        let entry = |name: &str, value: &[u8]| [name.as_bytes(), b"=", value].concat();
        let library = self.library.as_os_str().as_bytes();
        let list = match preloaded {
            b"" => library.to_vec(),
            others => [others, b":", library].concat(),
        };
        vec![
            entry(ENV_GIVEN_GROUP, self.group.as_os_str().as_bytes()),
            // The last is the one that counts for the loader.
            entry("LD_PRELOAD", &list),
        ]
    }

    fn given(&self) -> MutexGuard<'_, Vec<i32>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Injector {
    /// For the group whose file is at `group`, and whose library at `library`.
    pub(crate) fn new(library: &Path, group: &Path) -> Self {
        let group = Membership {
            group: group.to_owned(),
            library: library.to_owned(),
            given: Mutex::default(),
        };
        Self {
            library: None,
            group: Arc::new(group),
            at_work: Vec::new(),
            may_trace: None,
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
        if !*self.may_trace.get_or_insert_with(launch::may_trace_children) {
            return;
        }
        let group = self.group.clone();
        let thread = thread::Builder::new().name("injector".into());
        let work = move || {
            see_to(ask, &library, &group);
            // What it hid from who waits for children (`launch::reap`).
            uzswap_sys::thread::signal(uzswap_sys::thread::pid(), launch::SIGCHLD);
        };
        self.at_work.extend(thread.spawn(work).ok());
    }

    /// Those that were told of their group since this was asked, and that their environment does
    /// not show as members.
    pub(crate) fn take_given(&self) -> Vec<i32> {
        std::mem::take(&mut *self.group.given())
    }

    /// Whether anybody is seen to, or was and is not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.at_work.iter().any(|thread| !thread.is_finished()) || !self.group.given().is_empty()
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
    let status = fs::read(format!("/proc/{process}/status")).unwrap_or_default();
    let may_gain = Credentials::parse(&status).is_none_or(|its| its.may_gain());
    // Who is traced by one that lacks CAP_SYS_PTRACE gains nothing. Or it would be traced in vain.
    if may_gain && !creds::may_trace() || !ask.is_traced() {
        return tracee.let_go();
    }
    let lacks = |pid| {
        let program = Program::of(pid)?;
        let lacks = Lacks {
            entries: program.lacks(group)?,
            library: (!program.is_loaded).then_some(library),
            most: program.stack / STACK_SHARE,
        };
        // Before it goes on: until the agent in it has joined the group nothing else tells of it.
        group.given().push(pid);
        Some(lacks)
    };
    if let Ok(Given::Broken) = tracee.give(|| ask.is_taken_back(), lacks) {
        launch::kill(process);
        warn_line!("uzswap: process {process} was ended, since the agent went wrong in it; start it without uzswap");
    }
}

/// A program may have so little of a stack that what is put there leaves it no room.
const STACK_SHARE: usize = 8;

/// A program that has just begun.
struct Program {
    /// Its directory in /proc.
    place: PathBuf,
    environment: Vec<u8>,
    /// glibc's loader begins it.
    is_loaded: bool,
    /// How long its stack may become, in bytes.
    stack: usize,
}

impl Program {
    /// `None`: it is another user's, who may not be of the group, or the agent would not find the
    /// address space that it needs.
    fn of(pid: i32) -> Option<Self> {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let owner = fs::metadata(&place).ok()?.uid();
        let limits = fs::read_to_string(place.join("limits")).ok()?;
        let limit = |name: &str| {
            limits
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        };
        let exe = fs::File::open(place.join("exe")).ok()?;
        let kind = executable::kind(|at, bytes| exe.read_at(bytes, at).map_err(|_| Errno::IO)).ok()?;
        let is_loaded = match kind {
            Kind::Loads => true,
            Kind::LoadsNothing => false,
            _ => return None,
        };
        (owner == uzswap_sys::thread::effective_user() && limit("Max address space") == Some("unlimited")).then(|| {
            Self {
                environment: fs::read(place.join("environ")).unwrap_or_default(),
                is_loaded,
                stack: limit("Max stack size")
                    .and_then(|bytes| bytes.parse().ok())
                    .unwrap_or(usize::MAX),
                place,
            }
        })
    }

    /// Whether the agent can be loaded and find its group: the program may have another root
    /// directory, or file systems that forbid that.
    fn finds(&self, group: &Membership) -> bool {
        let there = |path: &Path| c_path(&self.place.join("root").join(path.strip_prefix("/").unwrap_or(path)));
        let may = |path: &Path, access| there(path).is_ok_and(|path| file::may_access(&path, access));
        // Programs load it by a link, which would lead us to what we see.
        let library = fs::canonicalize(&group.library);
        may(library.as_ref().unwrap_or(&group.library), Access::EXEC_OK) && may(&group.group, Access::WRITE_OK)
    }

    /// Of each variable, the last.
    fn value(&self, name: &str) -> Option<&[u8]> {
        let entries = self.environment.split(|byte| *byte == 0);
        let mut values = entries.filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        values.next_back()
    }

    /// The entries that it lacks to be one of `group`. None: it is another group's, or its loader
    /// would say that the agent cannot be preloaded.
    fn lacks(&self, group: &Membership) -> Option<Vec<Vec<u8>>> {
        let named = self.value(ENV_GROUP);
        let is_member = named == Some(group.group.as_os_str().as_bytes());
        if named.is_some() && !is_member || !self.finds(group) {
            return None;
        }
        Some(match is_member && !self.is_loaded {
            true => Vec::new(),
            false => group.entries(self.value("LD_PRELOAD").unwrap_or_default()),
        })
    }
}
