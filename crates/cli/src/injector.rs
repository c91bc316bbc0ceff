//! Putting the agent into descendants that become programs which load none: each asks for it before
//! it does (`uzswap_sys::ask`), and has a thread here for as long as that takes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use uzswap_ctl::ENV_GROUP;
use uzswap_sys::ask::Ask;
use uzswap_sys::inject;
use uzswap_sys::launch;
use uzswap_sys::tracee::{Injected, Tracee};

use crate::agent;
use crate::output::warn_line;

/// Longer than one takes that does not become another program.
const FINISHED_WITHIN: Duration = Duration::from_secs(4);

/// What is put into programs of a group.
pub(crate) struct Injector {
    path: PathBuf,
    /// Once somebody has asked for it.
    library: Option<Arc<inject::Library>>,
    /// What they have in their environment.
    entry: Arc<[u8]>,
    at_work: Vec<JoinHandle<()>>,
}

impl Injector {
    /// For the group whose file is at `group`, and whose library at `path`.
    pub(crate) fn new(path: &Path, group: &Path) -> Self {
        let entry = [ENV_GROUP.as_bytes(), b"=", group.as_os_str().as_bytes()].concat();
        Self {
            path: path.to_owned(),
            library: None,
            entry: entry.into(),
            at_work: Vec::new(),
        }
    }

    /// See to one. It is traced by the thread that does: nobody else can go on with it. Where there
    /// can be none it goes on without the agent.
    pub(crate) fn attend(&mut self, ask: Ask) {
        self.at_work.retain(|thread| !thread.is_finished());
        if self.library.is_none() {
            self.library = agent::library(&self.path).ok().map(Arc::new);
        }
        let Some(library) = self.library.clone() else { return };
        let entry = self.entry.clone();
        let thread = thread::Builder::new().name("injector".into());
        let work = move || {
            see_to(ask, &library, &entry);
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

fn see_to(ask: Ask, library: &inject::Library, entry: &[u8]) {
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
    if let Ok(Injected::Broken) = tracee.inject(library, || ask.is_taken_back(), |pid| is_wanted(pid, entry)) {
        launch::kill(process);
        warn_line!(
            "uzswap: process {process} was ended, since the agent went wrong in it; run it with --allow-unmanaged"
        );
    }
}

/// Whether a program that has just begun is one of the group, has no other user's rights, and gets
/// nothing from glibc's loader.
fn is_wanted(pid: i32, entry: &[u8]) -> bool {
    let file = |name| fs::read(PathBuf::from(format!("/proc/{pid}/{name}"))).unwrap_or_default();
    let is_member = file("environ").split(|byte| *byte == 0).any(|other| other == entry);
    let is_loaded = file("maps").windows(10).any(|word| word == b"/ld-linux-");
    let owner = fs::metadata(format!("/proc/{pid}")).map(|process| process.uid());
    let is_ours = owner.is_ok_and(|owner| owner == uzswap_sys::thread::effective_user());
    is_member && is_ours && !is_loaded
}
