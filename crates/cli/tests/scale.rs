//! Address space as few programs use it: many mappings, wide ones, threads by the ten thousand.
//! Each ends, and holds what was written, and what the pager keeps of it stays small.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod common;

use common::{Run, UZSWAP, can_manage, compile, run, temp, uzswap_run};

/// Seconds after which a program counts as one that does not end: many times what any of these
/// takes.
const ENDLESS: &str = "120";

/// `programs/mappings.c` with `args`, run under `options`: it must see what it would have seen
/// without a pager.
fn mappings(what: &str, count: &str, options: &[&str]) -> Run {
    let program = compile("mappings");
    let path = program.to_str().expect("a name of ours");
    let cmd = ["timeout", "--signal=KILL", ENDLESS, path, what, count];
    let run = run(&format!("{what}-{count}"), options, &cmd);
    let _ = std::fs::remove_file(&program);
    assert_eq!(
        (run.status(), run.stdout().as_str()),
        (0, "right\n"),
        "{what} {count} {options:?}: {}{:#}",
        run.stderr(),
        run.counters
    );
    run
}

#[test]
fn tens_of_thousands_of_mappings_end() {
    if can_manage() {
        mappings("apart", "40000", &["--memory-max", "100M"]);
    }
}

#[test]
fn mappings_that_the_kernel_joins_stay_joined() {
    if can_manage() {
        // More than a process may have (vm.max_map_count).
        mappings("joined", "70000", &["--memory-max", "300M"]);
    }
}

#[test]
fn mappings_change_and_go_piece_by_piece() {
    if can_manage() {
        mappings("storm", "10000", &["--memory-max", "64M"]);
        mappings("grow", "4000", &["--memory-max", "24M"]);
    }
}

#[test]
fn small_mappings_by_the_thousand_are_kept_within_the_limit() {
    if !can_manage() {
        return;
    }
    for (what, guard) in [("fenced", "off"), ("fenced", "on"), ("fenced-unseen", "off")] {
        // 125 MiB.
        let run = mappings(what, "4000", &["--memory-max", "40M", "--guard", guard]);
        assert!(run.count("zswpout") > 20_000, "{what}: {:#}", run.counters);
        // What nobody sees is looked for after it was written.
        let is_seen = what == "fenced";
        let peak = run.count("memory.peak");
        assert!(!is_seen || peak < 42 << 20, "{what}: {:#}", run.counters);
    }
}

#[test]
fn forks_beside_thousands_of_new_mappings_end() {
    if can_manage() {
        mappings("forked", "3000", &["--memory-max", "32M"]);
    }
}

#[test]
fn threads_come_and_go() {
    if can_manage() {
        mappings("threads", "10000", &["--memory-max", "24M"]);
    }
}

#[test]
fn hundreds_of_threads_change_mappings_at_a_time() {
    if !can_manage() {
        return;
    }
    let program = compile("crowd");
    let cmd = [
        "timeout",
        "--signal=KILL",
        ENDLESS,
        program.to_str().expect("a name of ours"),
    ];
    for options in [&["--memory-max", "48M"][..], &["--memory-max", "48M", "--guard", "on"]] {
        let run = run("crowd", options, &cmd);
        let seen = (run.status(), run.stdout());
        assert_eq!(seen, (0, "0 wrong\n".into()), "{options:?}: {}", run.stderr());
    }
    let _ = std::fs::remove_file(program);
}

/// Anonymous memory of a process that is neither the program's nor stored: what the pager keeps,
/// and the little that is not managed.
fn metadata(process: &str, group: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let anon = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = anon.and_then(|anon| anon.trim().strip_suffix(" kB"));
    let rss: u64 = kib.expect("RssAnon").parse().expect("a number");
    let output = Command::new(UZSWAP).args(["stat", group, "--json"]).output();
    let counters: serde_json::Value =
        serde_json::from_slice(&output.expect("uzswap stat").stdout).expect("counters of a group");
    let count = |name: &str| counters[name].as_u64().expect("a counter");
    (rss * 1024).saturating_sub(count("anon_resident") + count("anon_staged") + count("zswap"))
}

/// Wait until the pager keeps so little, or panic.
fn comes_to(most: u64, process: &str, group: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // The counters follow at kswapd's next tick.
        let bytes = metadata(process, group);
        if bytes <= most {
            eprintln!("{group}: {} KiB of {}", bytes >> 10, most >> 10);
            return;
        }
        assert!(Instant::now() < deadline, "{bytes} bytes, not {most}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// `programs/spread.c` under a limit: the pager keeps 2 % of what the pages are and a mebibyte at
/// most, as they are written and, if `leave` says how much, when they have left. The guard has
/// half of one besides: code that jumps to it, stacks for handlers, seats of threads that serve
/// their own faults.
fn spread(shape: &str, pages: u64, limit: &str, leave: Option<&str>) {
    let program = compile("spread");
    let (go, group) = (
        temp(&format!("{shape}.go")),
        format!("spread-{shape}-{}", std::process::id()),
    );
    let mut child = uzswap_run()
        .args(["--name", &group, "--memory-max", limit, "--"])
        .args(["timeout", "--signal=KILL", ENDLESS])
        .args([&program, &shape.into(), &pages.to_string().into(), &go])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting uzswap");
    let mut stdout = BufReader::new(child.stdout.take().expect("its stdout"));
    let mut process = String::new();
    stdout.read_line(&mut process).expect("its first line");
    let most = pages * 4096 / 50 + (1 << 20) + (512 << 10);
    comes_to(most, process.trim(), &group);
    if let Some(bytes) = leave {
        let reclaim = Command::new(UZSWAP).args(["reclaim", &group, bytes]).output();
        eprintln!("{:?}", reclaim.expect("uzswap reclaim"));
        comes_to(most, process.trim(), &group);
    }
    std::fs::write(&go, "").expect("letting it go");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("what it says");
    let output = child.wait_with_output().expect("its end");
    for file in [program, go] {
        let _ = std::fs::remove_file(file);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), rest.as_str()),
        (Some(0), "right\n"),
        "{shape}: {said}"
    );
}

#[test]
fn pages_apart_in_a_tebibyte_cost_little() {
    if can_manage() {
        spread("sparse", 3_000, "24M", Some("12M"));
    }
}

#[test]
fn chunks_at_random_addresses_cost_little() {
    if can_manage() {
        spread("chunks", 26_000, "32M", None);
    }
}

#[test]
fn a_million_pages_side_by_side_cost_little() {
    if can_manage() {
        spread("dense", 1_000_000, "512M", None);
    }
}
