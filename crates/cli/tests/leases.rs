//! Processes that outlive those that forked them: what a dead parent was charged is nobody's, and
//! its children live.

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{UZSWAP, can_manage, compile, uzswap_run};

const LIMIT: u64 = 24 << 20;

/// A number that `uzswap stat` tells of a group.
fn stat(group: &str, counter: &str) -> u64 {
    let output = Command::new(UZSWAP).args(["stat", group, "--json"]).output();
    let output = output.expect("uzswap stat");
    let counters: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    counters[counter]
        .as_u64()
        .unwrap_or_else(|| panic!("no {counter}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn rss_anon(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("its RssAnon") << 10
}

/// Run `orphans` under the limit: all that the last process reads is whole, and it alone is charged
/// in the end.
fn outlives(program: &PathBuf, mode: &str) {
    let group = format!("orphans-{mode}-{}", std::process::id());
    let mut child = uzswap_run()
        .args(["--memory-max", &LIMIT.to_string(), "--name", &group, "--"])
        .arg(program)
        .args(["60", mode])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting uzswap");
    let mut said = String::new();
    let stdout = child.stdout.take().expect("its stdout");
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut said).expect("what it says");
    let Some(pid) = said.strip_prefix("whole ").map(str::trim) else {
        let output = child.wait_with_output().expect("its end");
        panic!("{mode}: it said {said:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // For moments what brothers have copied counts twice; what their dead parent had does not.
    let peak = stat(&group, "memory.peak");
    assert!(peak <= LIMIT * 3 / 2, "{mode}: memory.peak {} KiB", peak >> 10);
    // What the dead were charged comes back by a look, which may take its time.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (current, own) = (stat(&group, "memory.current"), rss_anon(pid));
        if current.abs_diff(own) <= 1 << 20 {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{mode}: {} KiB are charged, the only process has {}",
            current >> 10,
            own >> 10
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("its end");
    assert!(
        output.status.success(),
        "{mode}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_child_whose_parent_is_gone_lives_and_is_charged_alone() {
    if !can_manage() {
        return;
    }
    let program = compile("orphans");
    for mode in ["once", "lingers", "daemon", "generations", "storm"] {
        outlives(&program, mode);
    }
    let _ = std::fs::remove_file(program);
}
