//! Who belongs to a group without a pager of its own: it is seen, charged and named, and the limit
//! holds for all together.

mod common;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::place::Place;
use common::{UZSWAP, can_manage, compile, temp, uzswap_run};

const MIB: u64 = 1 << 20;
/// How long anything is waited for; loaded machines take their time.
const PATIENCE: Duration = Duration::from_secs(90);

/// `holds`, compiled as it is wanted, and the file that lets it go.
struct Program {
    path: PathBuf,
    go: PathBuf,
}

impl Program {
    fn compile(name: &str, options: &[&str]) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/holds.c");
        let (path, go) = (temp(name), temp(&format!("{name}.go")));
        let mut cc = Command::new("cc");
        let status = cc.args(["-O2", "-o"]).arg(&path).args(options).arg(source).status();
        assert!(status.expect("cc").success(), "compiling holds.c {options:?}");
        Self { path, go }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.go);
    }
}

/// A run that is watched from outside.
struct Watched {
    child: Option<Child>,
    group: String,
    go: PathBuf,
    known: HashSet<i32>,
}

impl Watched {
    fn start(name: &str, program: &Program, options: &[&str], cmd: &[&str]) -> Self {
        let group = format!("census-{name}-{}", std::process::id());
        let child = uzswap_run()
            .args(["--name", &group])
            .args(options)
            .arg("--")
            .args(cmd)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starting uzswap");
        let known = HashSet::new();
        Self {
            child: Some(child),
            group,
            go: program.go.clone(),
            known,
        }
    }

    fn counter(&self, name: &str) -> u64 {
        // 0 before the group is there.
        common::counter(&self.group, name).unwrap_or(0)
    }

    /// Anonymous memory of all descendants, each page once.
    fn sum(&mut self) -> u64 {
        let mut all: Vec<i32> = self.child.iter().map(|child| child.id() as i32).collect();
        all.extend(&self.known);
        while let Some(pid) = all.pop() {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten();
            let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
            for child in children.flat_map(|line| line.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>()) {
                if self.known.insert(child) {
                    all.push(child);
                }
            }
        }
        // Orphans, by the environment that they were started with.
        let group = format!("/{}.group", self.group).into_bytes();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_in = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(group.len()).any(|part| part == group)
        };
        self.known.extend(pids.filter(is_in));
        self.known.iter().map(|pid| pss_anon(*pid)).sum()
    }

    /// Wait until `is_so`, again and again for a while.
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut in_a_row = 0;
        while in_a_row < 5 {
            in_a_row = if is_so(self) { in_a_row + 1 } else { 0 };
            if Instant::now() > deadline {
                let (sum, unmanaged) = (self.sum(), self.counter("unmanaged.current"));
                let _ = std::fs::write(&self.go, "");
                let output = self.child.take().map(Child::wait_with_output);
                let output = output.expect("waited for before its end").expect("its end");
                panic!(
                    "{}: waited until {what}; all have {sum}, unmanaged {unmanaged}; {}, {}",
                    self.group,
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_until_within(&mut self, limit: u64, at_least: u64) {
        let most = limit + limit * 3 / 100;
        self.wait_until("the limit holds", |all| (at_least..=most).contains(&all.sum()));
    }

    /// Let it go, and wait for its end.
    fn finish(mut self) -> (Output, String) {
        let _ = std::fs::write(&self.go, "");
        let output = self
            .child
            .take()
            .expect("finished once")
            .wait_with_output()
            .expect("its end");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, stderr)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.go, "");
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

fn pss_anon(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// A process that escapes the agent by `escape` holds 24 MiB, a managed one has 40 MiB: together
/// they have 48.
fn is_seen(name: &str, link: &[&str], escape: &str, reason: &str) {
    let escapes = Program::compile(&format!("{name}-escapes"), link);
    let managed = Program::compile(&format!("{name}-managed"), &[]);
    let (program, own, go) = (escapes.path.display(), managed.path.display(), managed.go.display());
    let script = format!(
        "{} & {own} 40 {go}; status=$?; wait; exit $status",
        escape.replace("PROGRAM", &format!("{program} 24 {go}"))
    );
    // With the guard what loads nothing is managed.
    let options = ["--memory-max", "48M", "--summary", "--guard", "off"];
    let mut run = Watched::start(name, &managed, &options, &["sh", "-c", &script]);
    run.wait_until("it is seen", |run| run.counter("unmanaged.current") >= 24 * MIB);
    run.wait_until_within(48 * MIB, 30 * MIB);
    assert_eq!(run.counter("unmanaged_processes"), 1, "{name}");
    let (output, stderr) = run.finish();
    assert!(output.status.success(), "{name}: {}: {stderr}", output.status);
    assert!(
        output.stdout.is_empty(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let said = format!("is not managed ({reason})");
    assert_eq!(stderr.matches(&said).count(), 1, "{name}: {stderr}");
    assert!(
        stderr.contains("not managed: 1 processes, at most 24."),
        "{name}: {stderr}"
    );
}

#[test]
fn static_children_are_charged() {
    if can_manage() {
        is_seen("static", &["-static"], "PROGRAM", "static");
    }
}

/// One that a filter of its own keeps from asking for the agent.
#[test]
fn children_without_an_environment_are_charged() {
    if can_manage() {
        let filters = compile("without_userfaultfd");
        let reason = "started without uzswap's LD_PRELOAD";
        is_seen("env", &[], &format!("{} env -i PROGRAM", filters.display()), reason);
        let _ = std::fs::remove_file(filters);
    }
}

#[test]
fn children_of_another_user_are_charged() {
    if can_manage()
        && Command::new("setpriv")
            .args(["--reuid", "65534", "true"])
            .status()
            .is_ok_and(|s| s.success())
    {
        // With the agent, which cannot reach its group, and with an environment of its own.
        for (name, way) in [("user", ""), ("login", "env -i ")] {
            let child = format!("setpriv --reuid 65534 --clear-groups {way}PROGRAM");
            is_seen(name, &[], &child, "another user's");
        }
    }
}

#[test]
fn static_daemons_are_charged_after_their_parents_have_gone() {
    if can_manage() {
        is_seen(
            "daemon",
            &["-static"],
            "(setsid sh -c 'PROGRAM & exit' & exit); sleep 0",
            "static",
        );
    }
}

/// What a process shares with those that it forked is charged once.
#[test]
fn forked_children_are_charged_for_their_share() {
    if !can_manage() {
        return;
    }
    let program = Program::compile("shares", &["-static"]);
    let (path, go) = (program.path.display().to_string(), program.go.display().to_string());
    let script = format!("{path} 20 {go} 4");
    let mut run = Watched::start(
        "shares",
        &program,
        &["--memory-max", "64M", "--guard", "off"],
        &["sh", "-c", &format!("{script}; exit $?")],
    );
    run.wait_until("all are seen", |run| run.counter("unmanaged_processes") == 5);
    run.wait_until("they are charged once", |run| {
        (20 * MIB..24 * MIB).contains(&run.counter("unmanaged.current"))
    });
    let (output, stderr) = run.finish();
    assert!(output.status.success(), "{}: {stderr}", output.status);
}

/// A shell is small, and is charged for what it has.
#[test]
fn idle_processes_are_charged_and_not_named() {
    if !can_manage() {
        return;
    }
    let program = Program::compile("idle", &[]);
    let go = program.go.display();
    // Many that begin and end while they are looked at, too.
    let script = format!("for i in $(seq 500); do /bin/true; done; while [ ! -e {go} ]; do sleep 0.05; done");
    let options = ["--memory-max", "64M", "--summary"];
    let mut run = Watched::start("idle", &program, &options, &["sh", "-c", &script]);
    run.wait_until("it is charged", |run| run.counter("memory.current") > 64 << 10);
    assert_eq!(run.counter("unmanaged_processes"), 0);
    let (output, stderr) = run.finish();
    assert!(output.status.success() && !stderr.contains("not managed"), "{stderr}");
}

/// A process without a pager, which has the number in its namespace that a member with one has in
/// another.
#[test]
fn who_has_the_number_of_a_member_elsewhere_is_charged() {
    if !can_manage() {
        return;
    }
    let place = Place::new("without-proc");
    let program = place.program("without_proc");
    let (uzswap, name) = (place.0.join("uzswap"), format!("without-proc-{}", std::process::id()));
    let mut run = place.unprivileged(&uzswap);
    let run = run.args(["run", "--quiet", "--memory-max", "256M", "--name", &name, "--"]);
    let pipes = run.arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.stderr(Stdio::null()).spawn().expect("starting uzswap");
    let charged = || {
        let mut stat = place.unprivileged(&uzswap);
        let output = stat.args(["stat", &name, "--all"]).output().expect("uzswap stat");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix("unmanaged.current "));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    };
    let began = Instant::now();
    let mut has_namespaces = true;
    while charged() < 50 * MIB && has_namespaces {
        assert!(began.elapsed() < PATIENCE, "{} bytes are charged", charged());
        has_namespaces = child.try_wait().expect("it").is_none();
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{:?}", output.status);
    let said = if has_namespaces { "" } else { "no namespaces\n" };
    assert_eq!(String::from_utf8_lossy(&output.stdout), said);
}

/// The smaller limit of the two holds.
#[test]
fn a_group_inside_another_stays_within_both_limits() {
    if !can_manage() {
        return;
    }
    let program = Program::compile("nested", &[]);
    let (path, go) = (program.path.display().to_string(), program.go.display().to_string());
    let inner = [UZSWAP, "run", "--memory-max", "400M", "--quiet", "--", &path, "80", &go];
    let mut run = Watched::start("nested", &program, &["--memory-max", "40M"], &inner);
    run.wait_until("it is told to the outer group", |run| {
        run.counter("memory.current") > 20 * MIB
    });
    run.wait_until_within(40 * MIB, 20 * MIB);
    let (output, stderr) = run.finish();
    assert!(output.status.success(), "{}: {stderr}", output.status);
}

/// A server of 8 MiB and what it has started, of 120: the latter outgrows the limit, whoever of the
/// two asks for the last page.
#[test]
fn the_largest_is_killed() {
    if !can_manage() {
        return;
    }
    for (name, link) in [("victim", &[][..]), ("victim-static", &["-static"][..])] {
        let (program, server) = (
            Program::compile(name, link),
            Program::compile(&format!("{name}-server"), &[]),
        );
        let (kernel, own, go) = (program.path.display(), server.path.display(), server.go.display());
        let script = format!("{own} 8 {go} & {kernel} 120 {go}; echo $?; : > {go}; wait $!");
        let options = ["--memory-max", "40M", "--swap", "none", "--guard", "off"];
        let run = Watched::start(name, &server, &options, &["sh", "-c", &script]);
        let output = { run }
            .child
            .take()
            .expect("it runs")
            .wait_with_output()
            .expect("its end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}: {stderr}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "137\n", "{name}: {stderr}");
        let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("is killed")).collect();
        assert!(
            lines.len() == 1 && lines[0].contains("the largest of the group"),
            "{name}: {stderr}"
        );
        assert!(
            lines[0].contains("--memory-max 40M") && !lines[0].contains("--swap-max"),
            "{name}: {stderr}"
        );
    }
}

/// A killed process that cannot end yet has its memory still. Nobody else is killed for want of it,
/// however long that takes, and a line says who is waited for.
fn is_waited_for(name: &str, link: &[&str]) {
    let (program, server) = (
        Program::compile(name, link),
        Program::compile(&format!("{name}-server"), &[]),
    );
    let (lingers, may_end) = (compile("lingers"), temp(&format!("{name}.end")));
    let (kernel, own, go) = (program.path.display(), server.path.display(), server.go.display());
    let held = format!("{} {} {kernel}", lingers.display(), may_end.display());
    let script = format!("{own} 8 {go} & {held} 120 {go}; echo $?; : > {go}; wait $!");
    let options = ["--memory-max", "40M", "--swap", "none", "--guard", "off"];
    let mut run = Watched::start(name, &server, &options, &["sh", "-c", &script]);
    let child = run.child.as_mut().expect("it runs");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut said = Vec::new();
    for line in lines.by_ref().map_while(Result::ok) {
        said.push(line);
        let killed = said.iter().filter(|line| line.contains("is killed")).count();
        if killed > 1 || said.iter().any(|line| line.contains("waits for process")) {
            break;
        }
    }
    std::fs::write(&may_end, "").expect("a file");
    said.extend(lines.map_while(Result::ok));
    let (output, _) = run.finish();
    for file in [lingers, may_end] {
        let _ = std::fs::remove_file(file);
    }
    let said = said.join("\n");
    assert!(output.status.success(), "{name}: {}: {said}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "137\n", "{name}: {said}");
    for what in ["is killed", "waits for process"] {
        assert_eq!(said.matches(what).count(), 1, "{name}: {said}");
    }
}

#[test]
fn nobody_is_killed_for_memory_that_is_on_its_way_back() {
    if can_manage() {
        is_waited_for("lingers", &[]);
        is_waited_for("lingers-static", &["-static"]);
    }
}

/// A launcher that gets no core is as one that is stopped. It decides when it gets one; until then
/// who lacks memory waits.
#[test]
fn a_launcher_that_looks_late_is_not_gone() {
    if !can_manage() {
        return;
    }
    let program = Program::compile("late", &[]);
    let (path, go, start) = (program.path.display(), program.go.display(), temp("late.start"));
    let script = format!(
        "until [ -e {} ]; do sleep 0.1; done; {path} 120 {go}; exit $?",
        start.display()
    );
    let options = ["--memory-max", "40M", "--swap", "none"];
    let mut run = Watched::start("late", &program, &options, &["sh", "-c", &script]);
    run.wait_until("it is a member", |run| run.counter("memory.current") > 0);
    let launcher = run.child.as_ref().expect("it runs").id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &launcher]).status().expect("kill");
    assert!(signal("-STOP").success());
    std::fs::write(&start, "").expect("a file");
    run.wait_until("it lacks memory", |run| run.counter("memory.current") > 36 * MIB);
    // Of these, 5 were enough for one that takes the launcher for gone.
    std::thread::sleep(Duration::from_secs(10));
    assert!(signal("-CONT").success());
    let child = run.child.take().expect("it runs");
    let output = child.wait_with_output().expect("its end");
    let _ = std::fs::remove_file(start);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{stderr}");
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("is killed")).collect();
    assert!(
        lines.len() == 1 && lines[0].contains("the largest of the group"),
        "{stderr}"
    );
}

/// Where a process says that it is number 1, another is that here: the first of the machine, from
/// whom all descend.
#[test]
fn nobody_else_is_a_member() {
    let unshares = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    if !can_manage() || !unshares(Command::new("unshare").args(["-pf", "true"])) {
        return;
    }
    let program = Program::compile("first", &[]);
    let (path, go) = (program.path.display().to_string(), program.go.display().to_string());
    let cmd = ["unshare", "-pf", &path, "60", &go];
    let mut run = Watched::start("first", &program, &["--memory-max", "40M"], &cmd);
    run.wait_until("it is managed", |run| run.counter("memory.current") > 30 * MIB);
    run.wait_until("others are not seen", |run| {
        let stranger = Command::new("sleep")
            .arg("0.05")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .status();
        stranger.is_ok() && run.counter("unmanaged_processes") == 0 && run.counter("memory.current") <= 42 * MIB
    });
    let (output, stderr) = run.finish();
    assert!(output.status.success(), "{}: {stderr}", output.status);
}
