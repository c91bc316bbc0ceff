//! `uzswap try`: limits are tried, the knee is named, and nothing is left behind, whatever ends it.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{UZSWAP, can_manage, temp};
use serde_json::Value;

/// Files of our own, removed in the end.
struct Files(Vec<PathBuf>);

impl Files {
    fn named<const N: usize>(names: [&str; N]) -> Self {
        Self(names.map(|name| temp(&format!("try-{name}"))).to_vec())
    }

    fn path(&self, at: usize) -> &str {
        self.0[at].to_str().expect("a name that is text")
    }

    fn json(&self, at: usize) -> Value {
        let text = std::fs::read_to_string(&self.0[at]).expect("it was written");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn try_limits(options: &[&str], cmd: &[&str]) -> Output {
    let output = Command::new(UZSWAP)
        .arg("try")
        .args(options)
        .arg("--")
        .args(cmd)
        .output();
    output.expect("uzswap try")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn assert_status(output: &Output, status: i32) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{}{stderr}", said(output));
}

/// A script that counts its runs in a file, of which the first is 0, and does something in one. The
/// first two are without a limit, the third is at the first one.
fn in_run(run: u32, count: &str, action: &str) -> String {
    format!(
        "n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) >{count}; if [ $n = {run} ]; then {action}; fi; true"
    )
}

/// Whether a process lives that was started with this word.
fn lives(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let has_word = |cmdline: Vec<u8>| cmdline.split(|byte| *byte == 0).any(|found| found == word.as_bytes());
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(has_word)
}

/// Seconds to sleep that nobody else sleeps.
fn long(number: u32) -> String {
    format!("{number}{}", std::process::id())
}

#[test]
fn limits_are_tried_and_the_knee_is_named() {
    if !can_manage() {
        return;
    }
    let files = Files::named(["json", "markdown", "csv"]);
    let work = format!("{UZSWAP} demo-child 48 >/dev/null 2>&1 && echo done");
    let options = [
        "--at",
        "50,512M",
        "--slowdown",
        "1000",
        "--give-up",
        "1000",
        "--page-cluster",
        "2",
    ];
    let exports = [
        "--export-json",
        files.path(0),
        "--export-markdown",
        files.path(1),
        "--export-csv",
        files.path(2),
    ];
    let output = try_limits(&[&options[..], &exports].concat(), &["sh", "-c", &work]);
    assert_status(&output, 0);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));

    let json = files.json(0);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{json:#}"));
    let peak = number(&json["baseline"]["memory.peak"]);
    assert!((48 << 20..80 << 20).contains(&peak), "{json:#}");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{json:#}");
    assert_eq!(rows[0]["memory.max"], 512 << 20);
    let half = number(&rows[1]["memory.max"]);
    assert!(
        half.abs_diff(peak / 2) <= 1 << 20 && half.is_multiple_of(1 << 20),
        "{json:#}"
    );
    assert!(
        number(&rows[1]["memory.peak"]) < peak && number(&rows[1]["loaded_bytes"]) > 0,
        "{json:#}"
    );
    assert!(
        rows.iter().all(|row| row["outcome"] == "ok" && row["exit_status"] == 0),
        "{json:#}"
    );
    assert_eq!(json["knee"]["memory.max"], half);
    assert_eq!(json["command"][0], "sh");
    assert!(json["machine"]["kernel"].is_string() && json["baseline"]["median"].is_f64());

    let text = said(&output);
    let command = format!(
        ": uzswap run --memory-max {}M --page-cluster 2 -- sh -c '{work}'\n",
        half >> 20
    );
    assert!(text.ends_with(&command), "{text}");
    let markdown = std::fs::read_to_string(&files.0[1]).expect("Markdown");
    let columns: Vec<_> = markdown.lines().map(|line| line.matches('|').count()).collect();
    assert_eq!(columns, [10; 5], "{markdown}");
    assert_csv(&files.0[2], &json);
}

/// The same limits, peaks and times, the first row without a limit.
fn assert_csv(path: &Path, json: &Value) {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_path(path)
        .expect("CSV");
    let head = reader.headers().expect("a head").clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let of = |row: usize, column: &str| {
        let at = head.iter().position(|name| name == column).expect("a column");
        rows[row][at].to_owned()
    };
    assert_eq!(rows.len(), 3);
    for (row, object) in [&json["baseline"], &json["rows"][0], &json["rows"][1]]
        .into_iter()
        .enumerate()
    {
        for column in ["memory.peak", "median", "exit_status"] {
            // The parser may take a number for its neighbour: it reads both texts.
            let value: Value = serde_json::from_str(&of(row, column)).expect("a number");
            assert_eq!(value, object[column], "{column}");
        }
    }
    let limits = [0, 1, 2].map(|row| of(row, "memory.max"));
    let half = json["rows"][1]["memory.max"].to_string();
    assert_eq!(limits, [String::new(), (512 << 20).to_string(), half]);
    assert_eq!(of(1, "outcome"), "ok");
    let text = std::fs::read_to_string(path).expect("it was written");
    let uzswap = json["uzswap"].as_str().expect("a version");
    assert!(
        text.starts_with(&format!("# uzswap: {uzswap}\n# date: ")) && text.contains("\n# kernel: "),
        "{text}"
    );
}

#[test]
fn nothing_lower_is_tried_once_a_run_is_killed() {
    if !can_manage() {
        return;
    }
    // It holds what does not compress.
    let work = "head -c 40000000 /dev/urandom | tail -c 39000000 >/dev/null";
    let options = ["--at", "10M,8M", "--swap", "none", "--give-up", "1000"];
    let output = try_limits(&options, &["sh", "-c", work]);
    assert_status(&output, 0);
    let text = said(&output);
    assert!(
        text.contains("killed\n") && text.contains("at 10M it was killed for want of memory"),
        "{text}"
    );
    assert!(!text.contains("\n     8M "), "{text}");
    assert!(
        text.ends_with("no limit that was tried lets it take at most 1.1 times as long (--slowdown)\n"),
        "{text}"
    );
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_that_it_started() {
    if !can_manage() {
        return;
    }
    let (files, long) = (Files::named(["slow"]), long(7));
    let script = in_run(2, files.path(0), &format!("setsid sleep {long} & sleep {long}"));
    let output = try_limits(&["--at", "64M,32M"], &["sh", "-c", &script]);
    assert_status(&output, 0);
    let text = said(&output);
    assert!(
        text.contains("given up\n") && text.contains("at 64M it was ended after "),
        "{text}"
    );
    assert!(!text.contains("\n    32M "), "{text}");
    assert!(!lives(&long));
}

#[test]
fn an_interrupt_ends_the_run_and_shows_what_was_measured() {
    if !can_manage() {
        return;
    }
    let (files, long) = (Files::named(["interrupted", "began", "interrupted-json"]), long(8));
    let script = in_run(2, files.path(0), &format!("echo >{}; sleep {long}", files.path(1)));
    let child = Command::new(UZSWAP)
        .args([
            "try",
            "--at",
            "64M",
            "--give-up",
            "1000",
            "--export-json",
            files.path(2),
        ])
        .args(["--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("uzswap try");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !files.0[1].exists() {
        assert!(Instant::now() < deadline, "the third run did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("its end");
    assert_status(&output, 130);
    let text = said(&output);
    assert!(
        text.contains("\n   none ") && text.ends_with("no limit was tried to its end\n"),
        "{text}"
    );
    assert!(files.json(2)["rows"].as_array().is_some_and(Vec::is_empty));
    assert!(!lives(&long));
}

#[test]
fn what_differs_is_a_note() {
    if !can_manage() {
        return;
    }
    let files = Files::named(["differs"]);
    let script = in_run(2, files.path(0), "echo other");
    let output = try_limits(&["--at", "64M", "--slowdown", "1000"], &["sh", "-c", &script]);
    assert_status(&output, 0);
    let text = said(&output);
    assert!(text.contains("differs\nat 64M it printed something else"), "{text}");
    assert!(text.contains("uzswap run --memory-max 64M -- sh"), "{text}");
}

#[test]
fn runs_are_prepared_and_get_their_input() {
    if !can_manage() {
        return;
    }
    let files = Files::named(["prepared", "input"]);
    std::fs::write(&files.0[1], "from a file\n").expect("writing");
    let prepare = format!("echo x >>{}", files.path(0));
    let options = ["--at", "64M", "--warmup", "1", "--runs", "2", "--prepare", &prepare];
    let more = ["--show-output", "--input", files.path(1)];
    let output = try_limits(&[&options[..], &more].concat(), &["cat"]);
    assert_status(&output, 0);
    let prepared = std::fs::read_to_string(&files.0[0]).expect("it was prepared");
    assert_eq!(prepared.lines().count(), 7);
    assert_eq!(said(&output).matches("from a file\n").count(), 7);

    let output = try_limits(&["--prepare", "exit 3"], &["true"]);
    assert_status(&output, 125);
}

#[test]
fn a_program_that_fails_anyway_is_measured_only_on_request() {
    if !can_manage() {
        return;
    }
    let long = long(9);
    let script = format!("setsid sleep {long} & echo because >&2; exit 3");
    let output = try_limits(&["--at", "64M"], &["sh", "-c", &script]);
    assert_status(&output, 125);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("with status 3: because; --ignore-failure"), "{stderr}");
    assert!(!lives(&long), "what a run leaves behind is ended");

    let output = try_limits(&["--at", "64M", "--ignore-failure"], &["sh", "-c", &script]);
    assert_status(&output, 0);
    assert!(said(&output).contains(" ok\n"), "{}", said(&output));
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let files = Files::named(["ran"]);
    let touch = ["touch", files.path(0)];
    for (options, cmd, status, words) in [
        (&["--at", "101"][..], &touch[..], 2, "'101' must be at most 100"),
        (&["--at", "0"], &touch, 2, "'0' must be more than 0"),
        (&["--at", "50,x"], &touch, 2, "'x' is no limit to try"),
        (&["--runs", "0"], &touch, 2, "0 is not in 1..=1000"),
        (&["--memory-max", "1G"], &touch, 2, "--memory-max"),
        (&[], &[], 2, "<CMD>"),
        (
            &["--export-json", "/no-such-dir/x"],
            &touch,
            125,
            "--export-json /no-such-dir/x: No such",
        ),
        (
            &["--export-json", "/dev/null", "--export-csv", "/dev/null"],
            &touch,
            125,
            "--export-csv /dev/null: --export-json writes this file; name another",
        ),
        (
            &["--export-markdown", "/"],
            &touch,
            125,
            "--export-markdown /: Is a directory",
        ),
        (
            &["--input", "/no-such-file"],
            &touch,
            125,
            "--input /no-such-file: No such",
        ),
        (&[], &["no-such-command"], 127, "no-such-command: command not found"),
        (&[], &["/etc/passwd"], 126, "/etc/passwd: not an executable file"),
    ] {
        let output = try_limits(options, cmd);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{options:?} {cmd:?}: {stderr}");
        assert!(stderr.contains(words), "{options:?} {cmd:?}: {stderr}");
        assert!(!Path::new(files.path(0)).exists(), "{options:?}: it ran");
    }
}

#[test]
fn the_demo_shows_its_worst_case_and_a_real_program() {
    if !can_manage() {
        return;
    }
    let demo = |options: &[&str]| {
        Command::new(UZSWAP)
            .arg("demo")
            .args(options)
            .output()
            .expect("the demo")
    };
    let output = demo(&["--data", "24M", "--memory-max", "16M"]);
    assert_status(&output, 0);
    let text = said(&output);
    let tables: Vec<&str> = text.lines().filter(|line| line.ends_with(" ok")).collect();
    assert!(text.starts_with("The worst case: a program fills 24 MiB"), "{text}");
    assert!(
        tables.len() == 2 && tables[0].trim_start().starts_with("16M "),
        "{text}"
    );
    assert!(text.contains("\nA real program: sort, of"), "{text}");
    // A bar would be noise: nobody looks on.
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let refused = [
        (["--data", "100T"], "'100T' must be at most "),
        (["--data", "0"], "'0' must be at least 1M"),
        (["--memory-max", "3M"], "'3M' must be at least 4M"),
    ];
    for (options, rule) in refused {
        let output = demo(&options);
        assert_status(&output, 2);
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(line.contains(rule), "{options:?}: {line}");
    }
}

#[test]
fn percentages_of_next_to_nothing_are_a_failure() {
    if !can_manage() {
        return;
    }
    let output = try_limits(&["--at", "80"], &["true"]);
    assert_status(&output, 125);
    assert!(
        said(&output).contains("no limit was tried: the percentages"),
        "{}",
        said(&output)
    );
}
