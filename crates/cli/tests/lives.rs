//! Ordinary lives of processes, each under a limit and, as its twin, without: what is printed, the status and what the
//! program verifies itself must be the same, and nothing may be left.
//!
//! A life is a line of a table at the end of this file; its programs are in `programs/`. The twin is run first. Lines of
//! uzswap on the managed one's standard error are allowed only where its life says so.

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use common::{TORTURE, UZSWAP, temp};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
/// How long what a life has left behind may take to go: time is no part of what is compared.
const PATIENCE: Duration = Duration::from_secs(20);

/// One life.
struct Life {
    name: &'static str,
    /// Run by `sh -c`, which is replaced by the last command only if that is so in the script itself.
    script: Option<&'static str>,
    words: Vec<&'static str>,
    /// What stands before `uzswap run`, and before the twin.
    within: Vec<&'static str>,
    limit: &'static str,
    options: Vec<&'static str>,
    /// It fills more than its limit.
    swaps: bool,
    /// Parts of lines that uzswap (or ld.so, about the agent) may print.
    may_say: Vec<&'static str>,
    /// A command that must succeed on this machine, or the life is left out.
    needs: &'static str,
}

fn life(name: &'static str) -> Life {
    Life {
        name,
        script: None,
        words: Vec::new(),
        within: Vec::new(),
        limit: "16M",
        options: Vec::new(),
        swaps: true,
        may_say: Vec::new(),
        needs: "true",
    }
}

/// A command without quotes.
fn words(line: &'static str) -> Vec<&'static str> {
    line.split_whitespace().collect()
}

impl Life {
    fn cmd(mut self, line: &'static str) -> Self {
        self.words = words(line);
        self
    }

    fn sh(mut self, script: &'static str) -> Self {
        self.script = Some(script);
        self
    }

    fn within(mut self, line: &'static str) -> Self {
        self.within = words(line);
        self
    }

    /// The launcher, or the twin, is the `"$@"` of a shell script.
    fn within_sh(mut self, script: &'static str) -> Self {
        self.within = vec!["sh", "-c", script, "sh"];
        self
    }

    fn limit(mut self, limit: &'static str) -> Self {
        self.limit = limit;
        self
    }

    fn options(mut self, line: &'static str) -> Self {
        self.options = words(line);
        self
    }

    /// It is about something else than memory.
    fn without_swapping(mut self) -> Self {
        self.swaps = false;
        self
    }

    fn may_say(mut self, part: &'static str) -> Self {
        self.may_say.push(part);
        self
    }

    fn needs(mut self, script: &'static str) -> Self {
        self.needs = script;
        self
    }

    fn command(&self, launcher: &[String], directory: &Path) -> Command {
        let mut all: Vec<String> = self.within.iter().map(ToString::to_string).collect();
        all.extend_from_slice(launcher);
        all.extend(self.words.iter().map(ToString::to_string));
        if let Some(script) = self.script {
            all.extend(["sh", "-c", script].map(str::to_owned));
        }
        let mut command = Command::new(&all[0]);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(&all[1..])
            .env("PATH", format!("{}:{path}", bin().display()))
            .env("PROGRAMS", PROGRAMS)
            // Swap files go there, on a disk, and what a life writes.
            .env("TMPDIR", directory)
            .current_dir(directory)
            .stdin(Stdio::null());
        command
    }

    /// Run it both ways and compare.
    fn live(&self) {
        if !common::can_manage() || !is_possible(self.needs) {
            eprintln!("{} is left out: this machine cannot do that", self.name);
            return;
        }
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // Short, for a socket's name.
        let group = format!("life-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let directory = Directory::new(&group);
        let twin = self.command(&[], &directory.0).output().expect("the twin");
        directory.clear();
        let json = temp(&format!("{}.json", self.name));
        let mut launcher: Vec<String> = [UZSWAP, "run", "--memory-max", self.limit, "--name", &group]
            .map(str::to_owned)
            .into();
        launcher.extend(self.options.iter().map(ToString::to_string));
        launcher.extend(["--stat-json".to_owned(), json.display().to_string(), "--".to_owned()]);
        // Its output ends when the last process has ended that writes to it.
        let managed = self.command(&launcher, &directory.0).output().expect("uzswap run");
        let counters: serde_json::Value = std::fs::read(&json)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let _ = std::fs::remove_file(&json);
        self.compare(&twin, &managed);
        if self.swaps {
            let out = counters["zswpout"].as_u64().unwrap_or(0);
            assert!(out > 0, "{}: nothing left memory: {counters:#}", self.name);
        }
        self.check_nothing_is_left(&group, &directory.0);
    }

    fn compare(&self, twin: &Output, managed: &Output) {
        let name = self.name;
        let said = String::from_utf8_lossy(&managed.stderr);
        let is_ours = |line: &&str| line.contains("uzswap: ") || line.contains("/uzswap-");
        let (ours, theirs): (Vec<&str>, Vec<&str>) = said.lines().partition(is_ours);
        for line in ours {
            let is_known = self.may_say.iter().any(|part| line.contains(part));
            assert!(is_known, "{name}: uzswap says: {line}");
        }
        let expected = String::from_utf8_lossy(&twin.stderr);
        assert_eq!(theirs, expected.lines().collect::<Vec<_>>(), "{name}: standard error");
        let lossy = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(lossy(managed), lossy(twin), "{name}: standard output\n{said}");
        assert_eq!(status(managed.status), status(twin.status), "{name}: status\n{said}");
        assert!(!lossy(twin).contains("DIFFERENCE"), "{name}: {}", lossy(twin));
    }

    /// No process, no group, no file of it, no file in the directory where the life was.
    fn check_nothing_is_left(&self, group: &str, directory: &Path) {
        let deadline = Instant::now() + PATIENCE;
        let mut left = what_is_left(group, directory);
        while !left.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            left = what_is_left(group, directory);
        }
        assert!(left.is_empty(), "{}: left behind: {left:?}", self.name);
    }
}

fn what_is_left(group: &str, directory: &Path) -> Vec<String> {
    let mut left = processes_with(group);
    // Who lists the groups removes files whose last process outlived the launcher.
    let mut list = Command::new(UZSWAP);
    let list = list.arg("list").env("TMPDIR", directory).output().expect("uzswap list");
    let groups = String::from_utf8_lossy(&list.stdout).into_owned();
    left.extend(groups.lines().filter(|line| line.contains(group)).map(str::to_owned));
    // The agent and the lock of names stay for the next run.
    let stays = |name: &String| name.starts_with("agent-") || name == "groups.lock";
    let (ours, theirs): (Vec<_>, Vec<_>) = entries(directory).partition(|name| name.starts_with("uzswap-"));
    for runtime in ours {
        left.extend(entries(&directory.join(runtime)).filter(|name| !stays(name)));
    }
    left.extend(theirs);
    left
}

/// As the launcher tells it.
fn status(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn entries(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Who has the group in its environment or on its command line.
fn processes_with(group: &str) -> Vec<String> {
    let has = |pid: &String| {
        ["environ", "cmdline"].iter().any(|file| {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(group)
        })
    };
    entries(Path::new("/proc"))
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        .filter(has)
        .map(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid}: {}", String::from_utf8_lossy(&command).replace('\0', " "))
        })
        .collect()
}

fn is_possible(script: &'static str) -> bool {
    static KNOWN: Mutex<Option<HashMap<&str, bool>>> = Mutex::new(None);
    let mut known = KNOWN.lock().expect("no panic holds it");
    let known = known.get_or_insert_default();
    *known.entry(script).or_insert_with(|| {
        let output = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// A directory on a disk, removed with all that is in it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/var/tmp/{name}"));
        std::fs::create_dir(&path).expect("a directory in /var/tmp");
        Self(path)
    }

    fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
        std::fs::create_dir(&self.0).expect("a directory in /var/tmp");
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The directory of the compiled programs: `births` and `births-static`, and so on, beside uzswap and the torture machine.
fn bin() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        let bin = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lives");
        std::fs::create_dir_all(&bin).expect("the target directory");
        let compile = |source: &str, to: &str, more: &[&str]| {
            let to = bin.join(to);
            let output = Command::new("cc")
                .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
                .arg(&to)
                .arg(Path::new(PROGRAMS).join(source))
                .args(more)
                .output()
                .expect("cc");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        for program in ["births"] {
            compile(&format!("{program}.c"), program, &[]);
            compile(&format!("{program}.c"), &format!("{program}-static"), &["-static"]);
        }
        for program in [UZSWAP, TORTURE] {
            let link = bin.join(Path::new(program).file_name().expect("a file"));
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(program, link).expect("a link");
        }
        bin
    })
}

/// A test for each life.
macro_rules! lives {
    ($($(#[$attribute:meta])* $name:ident: $life:expr,)*) => {
        $(#[test] $(#[$attribute])* fn $name() {
            #[allow(clippy::redundant_closure_call, reason = "a life is said by what it does to its name")]
            ($life)(life(stringify!($name))).live();
        })*
    };
}

fn cmd(line: &'static str) -> impl Fn(Life) -> Life {
    move |life| life.cmd(line)
}

lives! {
    // Who begins, and who is left behind.
    #[ignore = "waits for row 1"]
    daemon: cmd("births daemon"),
    #[ignore = "waits for row 1"]
    double_fork: cmd("births double-fork"),
    #[ignore = "waits for row 1"]
    parent_exits_at_once: cmd("births parent-exits 0 7"),
    #[ignore = "waits for row 1"]
    parent_exits_after_20_ms: cmd("births parent-exits 20 0"),
    #[ignore = "waits for row 1"]
    generations_of_orphans: cmd("births generations"),
    // A child whose parent dies before the hand-over cannot go on, and says so.
    #[ignore = "waits for row 1"]
    parents_killed_while_forking: |life: Life| life
        .cmd("births killed-while-forking")
        .limit("20M")
        .may_say("is not managed: a parent that lived until the fork was complete")
        .may_say("is not managed: a thread that a filter of the program lets live")
        .may_say("a forked child lost its pager before it had its own and is stopped"),
    subreaper: cmd("births subreaper"),
    a_dozen_children_at_once: cmd("births brood"),
    spawn_and_vfork: cmd("births spawn"),
    clone_vm_whose_maker_waits: cmd("births clone-vm stay"),
    #[ignore = "waits for row 2"]
    clone_vm_that_outlives_its_maker: cmd("births clone-vm go"),
    #[ignore = "waits for row 2"]
    vfork_whose_parent_is_killed: cmd("births vfork-killed"),
    forks_by_system_calls: |life: Life| life.cmd("births raw-forks").may_say("is not managed (without a pager)"),
    exec_of_itself: cmd("births exec-self 50"),
    job_control: cmd("births job-control"),
    children_nobody_waits_for: |life: Life| life.cmd("births children-ignored").limit("20M"),
}
