//! Ordinary lives of processes, each under a limit and, as its twin, without: what is printed, the
//! status and what the program verifies itself must be the same, and nothing may be left.
//!
//! A life is a line of a table at the end of this file; its programs are in `programs/`. The twin
//! is run first. Lines of uzswap on the managed one's standard error are allowed only where its
//! life says so.

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use common::{TORTURE, UZSWAP};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
/// How long what a life has left behind may take to go: time is no part of what is compared.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so long a life hangs, and is ended.
const LIFETIME: Duration = Duration::from_secs(240);

/// One life.
struct Life {
    name: &'static str,
    /// Run by `sh -c`.
    script: Option<&'static str>,
    words: Vec<&'static str>,
    /// What stands before `uzswap run`.
    within: Vec<&'static str>,
    /// What stands before the twin.
    twin_within: Vec<&'static str>,
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
        twin_within: Vec::new(),
        limit: "16M",
        options: Vec::new(),
        swaps: true,
        may_say: vec![" waited for pages "],
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
        self.twin_within = words(line);
        self
    }

    /// The launcher, or the twin, is the `"$@"` of a shell script.
    fn within_sh(mut self, script: &'static str) -> Self {
        self.within = vec!["sh", "-c", script, "sh"];
        self.twin_within = self.within.clone();
        self
    }

    /// The twin is the `"$@"` of another.
    fn twin_within_sh(mut self, script: &'static str) -> Self {
        self.twin_within = vec!["sh", "-c", script, "sh"];
        self
    }

    fn limit(mut self, limit: &'static str) -> Self {
        self.limit = limit;
        self
    }

    /// Options of `uzswap run`.
    fn with(mut self, line: &'static str) -> Self {
        self.options.extend(words(line));
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

    /// Its output ends when the last process has ended that writes to it. Who hangs is ended, and
    /// so told from its twin.
    fn output(&self, launcher: &[String], group: &str, directory: &Path) -> Output {
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut patience = LIFETIME;
                while is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("{} hangs: {:#?}", self.name, processes_with(group));
                    for (pid, _) in processes_with(group) {
                        let _ = Command::new("kill").args(["-KILL", &pid]).output();
                    }
                    patience = Duration::from_secs(1);
                }
            });
            let output = self.command(launcher, directory).env("LIFE", group).output();
            drop(over);
            output.expect("starting it")
        })
    }

    fn command(&self, launcher: &[String], directory: &Path) -> Command {
        let within = if launcher.is_empty() {
            &self.twin_within
        } else {
            &self.within
        };
        let mut all: Vec<String> = within.iter().map(ToString::to_string).collect();
        all.extend_from_slice(launcher);
        all.extend(self.words.iter().map(ToString::to_string));
        if let Some(script) = self.script {
            all.extend(["sh", "-c", script].map(str::to_owned));
        }
        // A shell that runs the suite in its background has it ignore what a terminal sends.
        let mut command = Command::new("env");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["--default-signal", "--"])
            .args(&all)
            .env("PATH", format!("{}:{path}", bin().display()))
            .env("BIN", bin())
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
        let twin = self.output(&[], &group, &directory.0);
        directory.clear();
        // Not in /tmp, on which some mount another.
        let json = bin().join(format!("{group}.json"));
        let mut launcher: Vec<String> = [UZSWAP, "run", "--memory-max", self.limit, "--name", &group]
            .map(str::to_owned)
            .into();
        launcher.extend(self.options.iter().map(ToString::to_string));
        launcher.extend(["--stat-json".to_owned(), json.display().to_string(), "--".to_owned()]);
        let managed = self.output(&launcher, &group, &directory.0);
        let counters: serde_json::Value = std::fs::read(&json)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let _ = std::fs::remove_file(&json);
        self.compare(&twin, &managed);
        if self.swaps {
            let out = ["zswpout", "pswpout"].map(|name| counters[name].as_u64().unwrap_or(0));
            let out: u64 = out.iter().sum();
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
    let members = processes_with(group).into_iter();
    let mut left: Vec<String> = members.map(|(pid, command)| format!("{pid}: {command}")).collect();
    // Who lists the groups removes files whose last process outlived the launcher.
    let mut list = Command::new(UZSWAP);
    let list = list.arg("list").env("TMPDIR", directory).output().expect("uzswap list");
    let groups = String::from_utf8_lossy(&list.stdout).into_owned();
    left.extend(groups.lines().filter(|line| line.contains(group)).map(str::to_owned));
    // The agent, what calls libc makes, and the lock of names stay for the next run.
    let stays = |name: &String| name.starts_with("agent-") || name.starts_with("calls-") || name == "groups.lock";
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
fn processes_with(group: &str) -> Vec<(String, String)> {
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
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            (pid, command)
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

/// The directory of the compiled programs: `births` and `births-static`, and so on, beside uzswap
/// and the torture machine.
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
        for program in ["births", "threads", "signals", "surroundings"] {
            compile(&format!("{program}.c"), program, &[]);
            compile(&format!("{program}.c"), &format!("{program}-static"), &["-static"]);
        }
        for program in [UZSWAP, TORTURE, &format!("{PROGRAMS}/lives.py"), &python()] {
            let link = bin.join(Path::new(program).file_name().expect("a file"));
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(program, link).expect("a link");
        }
        bin
    })
}

/// The Python that is no wrapper script, or something that is not there.
fn python() -> String {
    let name = "import os, sys; print(os.path.realpath(sys.executable))";
    let output = Command::new("python3").args(["-c", name]).output();
    let found = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    if found.trim().is_empty() {
        "/nonexistent/python3".to_owned()
    } else {
        found.trim().to_owned()
    }
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
    daemon: cmd("births daemon"),
    double_fork: cmd("births double-fork"),
    parent_exits_at_once: cmd("births parent-exits 0 7"),
    parent_exits_after_20_ms: cmd("births parent-exits 20 0"),
    generations_of_orphans: cmd("births generations"),
    // A child whose parent dies before the hand-over cannot go on, and says so.
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
    // The survivor has no pager, and is named if it is seen.
    clone_vm_that_outlives_its_maker: |life: Life| life.cmd("births clone-vm go").may_say("is not managed (without a pager)"),
    #[ignore = "the survivor of a killed maker is stopped, with a line: docs/limits.md"]
    vfork_whose_parent_is_killed: cmd("births vfork-killed"),
    chains_of_forks_by_system_calls: |life: Life| life.cmd("births raw-generations").may_say("is not managed (without a pager)"),
    forks_by_system_calls: |life: Life| life.cmd("births raw-forks").may_say("is not managed (without a pager)"),
    exec_of_itself: cmd("births exec-self 50"),
    job_control: cmd("births job-control"),
    children_nobody_waits_for: |life: Life| life.cmd("births children-ignored").limit("20M"),

    // How much moves at a time, and through how many hands, is bounded by the limit.
    large_folios: |life: Life| life.cmd("births work 48 3").with("--folio-max 2M --fault-threads 4"),
    large_folios_directly: |life: Life| life.cmd("births work 48 3").with("--folio-max 2M --fault-threads 4 --swapout direct"),

    // Thread groups.
    the_leader_ends_first: cmd("threads leader-ends pthread 9"),
    the_leader_ends_by_the_system_call: cmd("threads leader-ends raw 0"),
    the_only_thread_ends_by_the_system_call: cmd("threads raw-exit"),
    #[ignore = "the status of a last thread that is not the first: docs/compatibility.md"]
    all_threads_end_by_the_system_call: cmd("threads raw-exits"),
    exec_from_another_thread: cmd("threads exec births work 24 3"),
    forks_in_threads: |life: Life| life.cmd("threads fork").limit("20M"),
    many_threads: cmd("threads many"),
    cancelled_threads: cmd("threads cancel"),

    // Signals.
    // Where threads serve their own faults /proc shows the handlers for that, and two signals that
    // the program sends itself do not wait.
    dispositions: |life: Life| life.with("--faults thread").cmd("signals dispositions"),
    ignored_signals_are_inherited: |life: Life| life
        .with("--faults thread")
        .cmd("signals dispositions")
        .within_sh("trap '' HUP INT QUIT PIPE TERM CHLD USR1 TSTP XFSZ; exec \"$@\""),
    blocked_signals_are_inherited: |life: Life| life
        .with("--faults thread")
        .cmd("signals dispositions")
        .within("lives.py blocked")
        .needs("python3 --version"),
    ended_by_its_own_hand: |life: Life| life
        .sh("exec signals die $SIGNAL")
        .within_sh(
            "exec 2>/dev/null
             for SIGNAL in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 24 25 26 27 29 30 31 34 64; do
                 export SIGNAL; \"$@\"; echo $?
             done",
        )
        .without_swapping(),
    a_write_to_what_is_read_only: cmd("signals die-of segv"),
    a_read_beyond_a_file: cmd("signals die-of bus"),
    a_trap: cmd("signals die-of ill"),
    a_division: cmd("signals die-of fpe"),
    abort: cmd("signals die-of abort"),
    a_breakpoint: cmd("signals die-of trap"),
    jumps_out_of_faults: cmd("signals jump-out-of-faults"),
    jumps_out_of_calls: cmd("signals jump-out-of-calls"),
    a_timer_ticks: cmd("signals ticking"),
    signals_wait_for_who_waits_for_them: |life: Life| life.with("--faults thread").cmd("signals waited-for"),
    a_stack_that_is_full: cmd("signals stack-overflow"),
    every_status: |life: Life| life
        .sh("exit $STATUS")
        .within_sh("for STATUS in $(seq 0 255); do export STATUS; \"$@\"; echo $?; done")
        .without_swapping(),
    a_status_though_children_are_ignored: |life: Life| life
        .cmd("births work 24 3")
        .within_sh("trap '' CHLD; exec \"$@\""),

    // Limits.
    address_space_limited_later: cmd("surroundings limit as 20000000000"),
    address_space_limited_before: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -v 100000000; exec \"$@\""),
    data_limited_later: cmd("surroundings limit data 400000000"),
    data_limited_before: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -d 400000; exec \"$@\""),
    // Else three are lent to the program's threads.
    descriptors_limited_later: |life: Life| life.with("--faults thread").cmd("surroundings descriptors"),
    descriptors_limited_before: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -n 48; exec \"$@\""),
    file_sizes_limited_later: cmd("surroundings file-size"),
    file_sizes_limited_before_a_program: |life: Life| life.sh("ulimit -f 8; exec births work 40 3"),
    file_sizes_limited_before_children: |life: Life| life.sh("ulimit -f 8; births parent-exits 0 3 | cat"),
    // Where the launcher may not lift it, the device is as small as that; the pool holds the rest,
    // though parent and child may come to store the same pages twice.
    file_sizes_limited_before: |life: Life| life
        .cmd("surroundings limits")
        .limit("20M")
        .within_sh("ulimit -f 16384; exec \"$@\""),
    stack_limited_before: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -s 1024; exec \"$@\""),
    stack_unlimited: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -s unlimited; exec \"$@\""),
    processor_time_limited_later: cmd("surroundings processor-time"),
    processor_time_limited_before: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -t 60; exec \"$@\""),
    threads_limited_later: cmd("surroundings limit nproc 1"),
    nothing_may_be_locked: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -l 0; exec \"$@\""),
    no_core: |life: Life| life
        .cmd("surroundings limits")
        .within_sh("ulimit -c 0; ulimit -m 1000; exec \"$@\""),

    // What is given, and what is not.
    closed_standard_descriptors: |life: Life| life
        .cmd("surroundings fds report")
        .within_sh(
            "for closed in '' '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
                 eval \"\\\"\\$@\\\" $closed\"; echo \"$closed\" $?; cat report; rm -f report
             done",
        ),
    thousands_of_variables: |life: Life| life
        .cmd("surroundings given a b")
        .within_sh("for i in $(seq 5000); do export VARIABLE_$i=some-text-of-$i; done; exec \"$@\""),
    a_megabyte_of_arguments: |life: Life| life.sh("exec surroundings given $(seq 100000)"),
    a_directory_that_is_gone: |life: Life| life
        .cmd("surroundings who")
        .within_sh("mkdir gone; cd gone; rmdir ../gone; exec \"$@\""),
    a_strict_umask: |life: Life| life.cmd("surroundings who").within_sh("umask 777; exec \"$@\""),
    an_open_umask: |life: Life| life.cmd("surroundings who").within_sh("umask 0; exec \"$@\""),
    niceness: |life: Life| life.cmd("surroundings who").within("nice -n 5"),
    input_from_a_pipe: |life: Life| life.cmd("surroundings read-in").within_sh("surroundings copy-through | \"$@\""),
    output_to_a_pipe: |life: Life| life.cmd("surroundings copy-through").within_sh("\"$@\" | surroundings read-in"),
    output_that_nobody_reads: |life: Life| life
        .cmd("surroundings copy-through")
        .within_sh("{ \"$@\"; echo $? >&2; } | head -c 1000 | wc -c"),
    input_from_nowhere: |life: Life| life.cmd("surroundings read-in").limit("24M").without_swapping(),
    at_a_terminal: |life: Life| life
        .cmd("surroundings terminal")
        .within("lives.py at-terminal")
        .needs("python3 --version"),

    // Users, roots and file systems.
    another_user: |life: Life| life
        .cmd("surroundings drop")
        .needs(ROOT)
        .may_say("is not managed and counts as it is: it runs as user 65534")
        .may_say("is not managed (without a pager)"),
    another_root: |life: Life| life
        .cmd("surroundings new-root .")
        .needs(ROOT)
        .may_say("is not managed"),
    su: |life: Life| life
        .sh("births work 24 2; echo $?; su -s /bin/sh nobody -c 'umask; exec sh -c \"exit 3\"'; echo $?")
        .needs("su -s /bin/sh nobody -c true")
        .may_say("is not managed"),
    setpriv: |life: Life| life
        .sh("births work 24 2; exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'id -u; exit 3'")
        .needs("setpriv --reuid=65534 --regid=65534 --clear-groups true")
        .may_say("is not managed"),
    chroot: |life: Life| life.sh("exec chroot / $BIN/births work 24 3").needs(ROOT),
    an_empty_environment: |life: Life| life
        .sh("births work 24 2; env -i $BIN/births work 24 3; echo $?; env -i env; exec env -i $BIN/births work 24 3"),
    another_library: |life: Life| life
        .sh("export LD_PRELOAD=libm.so.6; births work 24 3; echo $?; env | grep LD_; unset LD_PRELOAD; births work 24 3"),
    many_arguments: |life: Life| life
        .sh("births work 24 2; for n in 1 9000; do env -i seq $n | env -i xargs -n $n env -i echo | cksum; done"),
    spawned_bare: |life: Life| life.cmd("lives.py bare births work 24 3").needs("python3 --version"),
    noexec_temporary_directories: |life: Life| life
        .cmd("births work 24 3")
        .within_sh(concat!(
            "exec unshare -m sh -c 'for place in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec lives $place; done; ",
            "unset TMPDIR; exec \"$@\"' sh \"$@\"",
        ))
        .needs(MOUNT),
    a_read_only_root: |life: Life| life
        .cmd("births work 24 3")
        .within_sh(concat!(
            "exec unshare -m sh -c 'mount --bind $BIN $BIN; mount -o remount,bind,ro /; mount -t tmpfs -o noexec lives /tmp; ",
            "unset TMPDIR; exec \"$@\"' sh \"$@\"",
        ))
        .needs(MOUNT),

    // Process namespaces.
    first_process: |life: Life| life
        .cmd("births orphans")
        .within("unshare --pid --fork --mount-proc")
        .twin_within_sh("exec unshare --pid --fork --mount-proc sh -c '\"$@\"; exit $?' sh \"$@\"")
        .limit("20M")
        .needs("unshare --pid --fork --mount-proc true"),
    a_namespace_inside: |life: Life| life
        .sh("births work 24 2; unshare --pid --fork --mount-proc sh -c 'births subreaper; exit 4'")
        .needs("unshare --pid --fork --mount-proc true"),

    // Programs that run programs.
    a_chain_of_programs: |life: Life| life.sh("exec env A=b nice -n 1 nohup timeout 60 births work 24 3"),
    static_children: |life: Life| life
        .sh("births work 24 1; births-static work 8 4; echo $?; births work 24 5")
        .may_say("is not managed (static)"),
    a_pipeline: |life: Life| life.sh("surroundings copy-through | cat | surroundings read-in"),
    in_the_background: |life: Life| life.sh("births work 24 3 & births work 24 4 & wait $!; echo $?; wait"),
    timeout_inside: |life: Life| life.sh("timeout 1 sh -c 'births work 24 0; exec sleep 60'; echo $?"),
    timeout_outside: |life: Life| life.sh("births work 24 0; exec sleep 60").within("timeout 2"),
    a_session: |life: Life| life.sh("setsid -w births work 24 5; echo $?; setsid births parent-exits 0 3 | cat"),
    pool_of_forks: |life: Life| life
        .cmd("python3 -B lives.py workers fork")
        .within_sh("cd $BIN && exec \"$@\"")
        .limit("48M")
        .needs("python3 --version"),
    pool_of_new_processes: |life: Life| life
        .cmd("python3 -B lives.py workers spawn")
        .within_sh("cd $BIN && exec \"$@\"")
        .limit("64M")
        .needs("python3 --version"),
    pool_of_a_server_of_forks: |life: Life| life
        .cmd("python3 -B lives.py workers forkserver")
        .within_sh("cd $BIN && exec \"$@\"")
        .limit("64M")
        .needs("python3 --version"),
    children_of_python: |life: Life| life
        .cmd("python3 -B lives.py children")
        .within_sh("cd $BIN && exec \"$@\"")
        .limit("32M")
        .needs("python3 --version"),
    make: |life: Life| life
        .sh(concat!(
            "for part in 1 2 3 4; do { echo '#include <stdio.h>'; for i in $(seq 300); do echo \"int f_${part}_$i(int x) ",
            "{ for (int i = 0; i < x; i++) x ^= printf(\\\"%d\\\", i * $i); return x; }\"; done; } >$part.c; done; ",
            "printf 'all: 1.o 2.o 3.o 4.o\\n' >Makefile; make -s -j4 CFLAGS=-O2 && cat *.o | cksum; rm -f Makefile *.c *.o",
        ))
        .limit("32M")
        .needs("make --version"),
    perl: |life: Life| life
        .sh("exec perl -e 'my %h; $h{$_} = \"text of $_\" for 1..120000; my $s = 0; $s += length $h{$_} for keys %h; print \"$s\\n\"; exit 3'")
        .needs("perl -e 1"),
    awk: |life: Life| life.sh("awk 'BEGIN { for (i = 0; i < 300000; i++) a[i] = i \" of\"; for (i in a) s += length(a[i]); print s; exit 5 }'"),
    sort: |life: Life| life.sh("seq 1 300000 | tr 0-9 5-90-4 | sort -S 40M | cksum"),
}

/// What some lives need.
const ROOT: &str = "test $(id -u) = 0";
const MOUNT: &str = "unshare -m mount -t tmpfs lives /mnt";
