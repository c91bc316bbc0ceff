//! Address space as few programs use it: many mappings, wide ones, threads by the ten thousand.
//! Each ends, and holds what was written.

mod common;

use common::{Run, can_manage, compile, run};

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
fn threads_come_and_go() {
    if can_manage() {
        mappings("threads", "10000", &["--memory-max", "24M"]);
    }
}
