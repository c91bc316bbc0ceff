//! The torture program itself: what it does, and that it tells of every failure.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{TORTURE, UZSWAP, can_manage, run};

/// What runs longer has hung.
const PATIENCE_S: &str = "300";

fn torture(args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PATIENCE_S, TORTURE]).args(args);
    command.output().expect("starting it")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How often each move was made, by the line that says so.
fn counts(said: &str) -> Vec<(String, u64)> {
    let line = said.lines().rev().nth(1).expect("a line of counts");
    line.split(", ")
        .map(|one| one.split_once(' ').expect("a name and a number"))
        .map(|(name, count)| (name.to_owned(), count.parse().expect("a number")))
        .collect()
}

#[test]
fn a_short_run_makes_every_move() {
    let output = torture(&["--seconds", "20", "--seed", "9"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let counts = counts(&said);
    assert!(counts.len() > 30, "{said}");
    for (name, count) in counts {
        assert!(count > 0, "no {name} in {said}");
    }
}

/// With relatives that live on, and mappings by the thousand.
#[test]
fn every_move_may_be_made_under_a_limit() {
    if !can_manage() {
        return;
    }
    for guard in ["off", "on"] {
        let run = run(
            &format!("moves-{guard}"),
            &["--memory-max", "64M", "--guard", guard],
            &[
                "timeout",
                "-s",
                "KILL",
                PATIENCE_S,
                TORTURE,
                "--seconds",
                "4",
                "--seed",
                "9",
            ],
        );
        assert_eq!(run.status(), 0, "{guard}: {}{}", run.stdout(), run.stderr());
        assert!(run.count("zswpout") > 0, "{guard}: {:#}", run.counters);
    }
}

#[test]
fn a_round_is_played_again_as_it_was() {
    let steps = |_| {
        let output = torture(&["--round", "4711", "--steps", "1500", "--no-fork", "--verbose"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        // Without process ids and addresses.
        let line = |line: &str| Some(line.split_once(' ')?.1.split(" at ").next()?.to_owned());
        said.lines().filter_map(line).collect::<Vec<_>>()
    };
    let [first, again] = [0, 1].map(steps);
    assert!(first.len() > 1500);
    assert!(first == again, "{first:#?}");
}

#[test]
fn the_failure_of_a_child_that_nobody_waits_for_is_told() {
    let output = torture(&["--rounds", "20", "--spoil"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("that nobody waits for, ended with status 42"), "{said}");
}

/// `tests/programs/own_memory.c` as a library.
fn own_memory() -> PathBuf {
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("own-memory-{}.so", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/own_memory.c");
    let status = Command::new("cc")
        .args([
            "-O1",
            "-fno-builtin",
            "-fno-tree-loop-distribute-patterns",
            "-shared",
            "-fPIC",
            "-o",
        ])
        .arg(&library)
        .arg(source)
        .status();
    assert!(status.expect("cc").success(), "compiling own_memory.c");
    library
}

#[test]
fn the_memory_functions_may_be_the_programs_own() {
    if !can_manage() {
        return;
    }
    let library = own_memory();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PATIENCE_S, UZSWAP, "run", "--memory-max", "64M", "--"]);
    command.args([TORTURE, "--rounds", "1", "--processes", "1", "--islands", "2000"]);
    let output = command.env("LD_PRELOAD", &library).output().expect("starting it");
    let _ = std::fs::remove_file(library);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}{said}", text(&output));
}
