//! `--memory-max auto`: what it gives back, how it is told and set, and what it refuses.

mod common;

use std::process::{Command, Output};

use common::{Held, UZSWAP, can_manage, uzswap_run};

const MIB: u64 = 1 << 20;

fn uzswap(args: &[&str]) -> Output {
    Command::new(UZSWAP).args(args).output().expect("uzswap")
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// `uzswap get GROUP memory.max stall`
fn settings(group: &str) -> String {
    text(&uzswap(&["get", group, "memory.max", "stall"]).stdout)
}

#[test]
fn cold_memory_is_given_back_and_comes_back_as_it_was() {
    if !can_manage() {
        return;
    }
    // However slow the machine is, waiting is within the budget.
    let held = Held::start("auto", &["--memory-max", "auto", "--stall", "100%"], 128);
    let group = held.group.clone();
    held.wait_until("memory is taken out", |held| held.now("cold_taken") >= 2 * MIB);
    held.wait_until("some is stored", |held| held.now("stored_pages") > 0);
    assert_eq!(settings(&group), "memory.max=auto\nstall=100%\n");
    let page = text(&uzswap(&["stat", &group]).stdout);
    let line = page.lines().find(|line| line.contains("memory.max ")).expect("a limit");
    assert!(
        line.contains("auto  now ") && line.ends_with("M, as long as 100% is waited"),
        "{page}"
    );
    let list = text(&uzswap(&["list"]).stdout);
    assert!(
        list.lines()
            .any(|line| line.starts_with(&group) && line.contains(" auto ")),
        "{list}"
    );
    // Another limit ends it, and it can be had again.
    assert!(held.control("set", &["memory.max=4G"]));
    assert_eq!(settings(&group), "memory.max=4G\nstall=none\n");
    let refused = uzswap(&["set", &group, "stall=2%"]);
    let line = "uzswap: stall: '2%' goes with memory.max=auto, and memory.max is 4G\n";
    assert_eq!(
        (refused.status.code(), text(&refused.stderr)),
        (Some(125), line.to_owned())
    );
    assert!(held.control("set", &["stall=2%", "memory.max=auto"]));
    assert_eq!(settings(&group), "memory.max=auto\nstall=2%\n");
    let run = held.finish();
    assert_eq!(run.counters["memory.max"], "auto");
    assert_eq!(run.counters["stall"], "2%");
    assert_eq!(run.count("oom_kill"), 0);
    assert!(run.count("pgmajfault") > 0 && run.count("stalled_ns") > 0);
}

#[test]
fn without_a_limit_it_is_automatic_and_none_is_none() {
    if !can_manage() {
        return;
    }
    let max = |options: &[&str]| {
        let run = common::run("auto-default", options, &["true"]);
        assert_eq!(run.status(), 0, "{}", run.stderr());
        run.counters["memory.max"].as_str().map(str::to_owned)
    };
    assert_eq!(max(&["--quiet"]).as_deref(), Some("auto"));
    assert_eq!(max(&["--stall", "0.5%"]).as_deref(), Some("auto"));
    assert_eq!(max(&["--memory-max", "none"]).as_deref(), Some("max"));
    assert_eq!(max(&["--memory-max", "max"]).as_deref(), Some("max"));
    assert_eq!(max(&["--memory-max", "1G"]), None);
}

#[test]
fn what_makes_no_sense_names_the_value_and_the_rule() {
    for (options, words) in [
        (&["--stall", "0"][..], ["'0'", "above 0% and up to 100%"]),
        (&["--stall", "200%"], ["'200%'", "above 0% and up to 100%"]),
        (&["--stall", "1"], ["'1'", "as 1%"]),
        (&["--stall=-1%"], ["'-1%'", "as 1%"]),
        (
            &["--memory-max", "512M", "--stall", "2%"],
            ["--stall 2%: goes with --memory-max auto", "is 512M"],
        ),
        (&["--memory-max", "none", "--stall", "2%"], ["--stall 2%", "is none"]),
        (&["--memory-max", "Auto"], ["'Auto' is not a size", "or auto"]),
    ] {
        let run = uzswap_run()
            .args(options)
            .args(["--", "true"])
            .output()
            .expect("uzswap");
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(125), "{options:?}: {said}");
        assert!(words.iter().all(|words| said.contains(words)), "{options:?}: {said}");
    }
}
