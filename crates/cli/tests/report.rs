//! What is told of a run: the page of `--report`, the events of `--log json`.

mod common;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use common::{UZSWAP, can_manage, compile, run, temp, uzswap_run};
use serde_json::Value;

/// What every event has.
const COMMON: [&str; 3] = ["time", "event", "group"];

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn output(options: &[&str], cmd: &[&str]) -> Output {
    let mut command = uzswap_run();
    command.args(options).arg("--").args(cmd);
    command.output().expect("starting uzswap")
}

/// A file of our own.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(temp(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_else(|e| panic!("{}: {e}", self.path()))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[track_caller]
fn assert_page(html: &str, texts: &[&str]) {
    assert_eq!(uzswap_page::foreign(html), None);
    assert!(
        html.starts_with("<!doctype html>") && html.ends_with("</html>\n"),
        "{html}"
    );
    for text in texts {
        assert!(html.contains(text), "no {text}: {html}");
    }
}

#[test]
fn a_page_shows_what_a_run_had() {
    if !can_manage() {
        return;
    }
    let page = File::new("page.html");
    let options = ["--memory-max", "24M", "--report", page.path()];
    let run = output(&options, &[UZSWAP, "demo-child", "64"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let html = page.text();
    assert_page(
        &html,
        &[
            "demo-child 64</h1>",
            "limit 24M",
            ">resident<",
            ">pool<",
            "Waiting for pages",
            "Pages moved",
            "page_cluster",
        ],
    );
    assert!(html.matches("<svg").count() >= 3 && !html.contains("NaN"), "{html}");
    assert!(!html.contains("What happened"), "nothing did: {html}");
}

#[test]
fn a_page_is_written_however_cmd_ends() {
    if !can_manage() {
        return;
    }
    for (script, code, status) in [
        ("exit 7", Some(7), "status 7"),
        ("kill -9 $$", Some(137), "status 137"),
        (":", Some(0), "status 0"),
    ] {
        let page = File::new("end.html");
        let run = output(&["--memory-max", "64M", "--report", page.path()], &["sh", "-c", script]);
        assert_eq!(run.status.code(), code, "{}", stderr(&run));
        assert_page(&page.text(), &[status]);
    }
    // The launcher is told to end, and passes it on.
    let page = File::new("told.html");
    let child = uzswap_run()
        .args([
            "--memory-max",
            "64M",
            "--report",
            page.path(),
            "--",
            "sh",
            "-c",
            "echo; exec sleep 100",
        ])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("starting uzswap");
    let mut line = [0];
    let stdout = child.stdout.as_mut().expect("its stdout");
    std::io::Read::read_exact(stdout, &mut line).expect("a line");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
    let ended = child.wait().expect("its end");
    assert_eq!((ended.code(), ended.signal()), (None, Some(15)));
    assert_page(&page.text(), &["status 143"]);
}

#[test]
fn a_page_that_cannot_be_written_is_no_end_of_a_run_that_began() {
    if !can_manage() {
        return;
    }
    for path in ["/nonexistent/page.html", "/"] {
        let run = output(&["--report", path], &["echo", "began"]);
        assert_eq!((run.status.code(), &*run.stdout), (Some(125), &b""[..]));
        let said = stderr(&run);
        assert!(
            said.starts_with(&format!("uzswap: --report {path}: ")) && said.lines().count() == 1,
            "{said}"
        );
    }
    let run = output(&["--quiet", "--report", "/dev/full"], &["sh", "-c", "exit 3"]);
    assert_eq!(run.status.code(), Some(3));
    assert!(
        stderr(&run).contains("no report: --report /dev/full: No space left"),
        "{}",
        stderr(&run)
    );
}

/// Events of a text that has nothing else.
#[track_caller]
fn events(text: &str) -> Vec<Value> {
    let documented = documented();
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let name = event["event"].as_str().expect("a name");
        let fields = documented.iter().find(|(known, _)| known == name);
        let (_, fields) = fields.unwrap_or_else(|| panic!("{name} is not documented"));
        let found: BTreeSet<&str> = event
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        let expected = fields.iter().map(String::as_str).chain(COMMON);
        assert_eq!(found, expected.collect(), "{name}");
        let time = event["time"].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
        event
    };
    text.lines().map(event).collect()
}

/// Names of events and of their fields, as docs/log.md has them.
fn documented() -> Vec<(String, Vec<String>)> {
    let document = include_str!("../../../docs/log.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`').to_owned();
        let fields = cells.next()?.split('`').skip(1).step_by(2);
        Some((name, fields.map(str::to_owned).collect()))
    };
    document.lines().filter_map(row).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"].as_str()).collect()
}

#[test]
fn events_are_lines_of_json() {
    if !can_manage() {
        return;
    }
    let run = output(
        &["--log", "json", "--name", "logged", "--summary"],
        &["sh", "-c", "exit 7"],
    );
    assert_eq!(run.status.code(), Some(7));
    let found = events(&stderr(&run));
    assert_eq!(names(&found), ["no_limit", "started", "ended"]);
    assert!(found.iter().all(|event| event["group"] == "logged"), "{found:#?}");
    assert_eq!(found[1]["command"], serde_json::json!(["sh", "-c", "exit 7"]));
    assert_eq!(found[1]["settings"]["memory.max"], "auto");
    assert_eq!(
        (&found[2]["status"], &found[2]["signal"]),
        (&Value::from(7), &Value::Null)
    );
    assert_eq!(found[2]["counters"]["memory.max"], "auto");

    let run = output(&["--log", "json", "--memory-max", "1000T"], &["sh", "-c", "kill -9 $$"]);
    let found = events(&stderr(&run));
    assert_eq!(names(&found), ["useless_limit", "started", "ended"]);
    assert_eq!(found[0]["memory_max"], 1000u64 << 40);
    assert_eq!(
        (&found[2]["status"], &found[2]["signal"]),
        (&Value::from(137), &Value::from(9))
    );

    let run = output(&["--log=json", "--memory-max=64M"], &["/nonexistent"]);
    assert_eq!(run.status.code(), Some(127));
    let found = events(&stderr(&run));
    assert_eq!((names(&found), &found[0]["group"]), (vec!["error"], &Value::Null));
    assert_eq!(found[0]["message"], "/nonexistent: command not found");
}

/// Of programs that escape the limit, and of one that outgrows it; in a file of their own.
#[test]
fn trouble_is_told_in_a_file() {
    if !can_manage() {
        return;
    }
    let log = File::new("log.json");
    let to = format!("json:{}", log.path());
    let go = File::new("log.go");
    let filters = compile("without_userfaultfd");
    // It is there until it was seen. A filter of its own keeps it from asking for the agent.
    let script = format!(
        "{2} env -i {UZSWAP} demo-child 8 --hold {1} & until grep -q '\"event\":\"unmanaged\"' {0}; do sleep 0.05; done; \
         : > {1}; wait; {UZSWAP} demo-child 100; echo $?",
        log.path(),
        go.path(),
        filters.display()
    );
    let options = ["--memory-max", "20M", "--swap", "none", "--log", &to];
    let run = output(&options, &["sh", "-c", &script]);
    let _ = std::fs::remove_file(filters);
    assert!(run.status.success() && run.stdout.ends_with(b"137\n"), "{run:?}");
    assert!(!stderr(&run).contains("uzswap: "), "{}", stderr(&run));
    let of_trouble = || {
        // A busy machine takes long for it.
        let mut found = events(&log.text());
        found.retain(|event| event["event"] != "thrashing");
        found
    };
    let found = of_trouble();
    assert_eq!(names(&found), ["started", "unmanaged", "killed", "ended"], "{found:#?}");
    assert_eq!(
        (&found[1]["process"], &found[1]["reason"]),
        (&"uzswap".into(), &"started without uzswap's LD_PRELOAD".into())
    );
    assert_eq!(found[2]["memory_max"], 20 << 20);
    assert_eq!(found[3]["unmanaged"][0]["process"], "uzswap");
    assert!(found[3]["counters"]["oom_kill"].as_u64() > Some(0), "{found:#?}");
    // Another run appends, and a quiet one has nothing to say.
    let run = output(&["--memory-max=64M", "--quiet", "--log", &to], &["true"]);
    assert!(run.status.success());
    assert_eq!(of_trouble().len(), 4);
}

#[test]
fn nobody_needs_a_log() {
    if !can_manage() {
        return;
    }
    let run = output(&["--log", "json:/nonexistent/log"], &["echo", "began"]);
    assert_eq!((run.status.code(), &*run.stdout), (Some(125), &b""[..]));
    assert!(
        stderr(&run).starts_with("uzswap: --log json:/nonexistent/log: "),
        "{}",
        stderr(&run)
    );
    // What is for people goes to them then.
    let full = ["--log", "json:/dev/full", "--report", "/dev/full"];
    let run = output(&full, &["sh", "-c", "exit 3"]);
    let said = stderr(&run);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((run.status.code(), lines.len()), (Some(3), 2), "{said}");
    assert!(
        lines[0].contains("nothing is limited") && lines[1].contains("no report: --report /dev/full"),
        "{said}"
    );
    for word in ["xml", "json:", ""] {
        let run = output(&["--log", word], &["echo", "began"]);
        assert_eq!((run.status.code(), &*run.stdout), (Some(125), &b""[..]));
        assert!(
            stderr(&run).contains("must be text, json or json:FILE"),
            "{}",
            stderr(&run)
        );
    }
    let mut command = uzswap_run();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let child = command
        .args(["--log", "json", "--", "sh", "-c", "exit 5"])
        .stderr(writer)
        .status();
    assert_eq!(child.expect("its end").code(), Some(5));
}

#[test]
fn shared_memory_is_reported() {
    if !can_manage() {
        return;
    }
    let program = compile("shared");
    let run = run("shared", &["--memory-max", "64M"], &[program.to_str().expect("ours")]);
    let _ = std::fs::remove_file(program);
    let peak = run.count("shmem.peak") >> 20;
    assert!((24..32).contains(&peak), "{peak} MiB: {:#}", run.counters);
}
