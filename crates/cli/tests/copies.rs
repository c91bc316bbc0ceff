//! What forked relatives have of each other's memory. What they write to is copied by the kernel,
//! page by page: copies wait for room, whoever writes, and no system call fails for it.

mod common;

use common::{Run, can_manage, compile, run};

const WAYS: [&[&str]; 4] = [
    &["--guard", "off"],
    &["--guard", "on", "--faults", "inline"],
    &["--guard", "on", "--faults", "thread"],
    &["--backend", "mprotect"],
];

/// `programs/copies.c`, in each of the ways.
fn copies(name: &str, limit: &str, args: &[&str], check: impl Fn(&[&str], &Run)) {
    if !can_manage() {
        return;
    }
    let program = compile("copies");
    let path = program.to_str().expect("a name of ours");
    let cmd = [&["timeout", "--signal=KILL", "240", path], args].concat();
    for way in WAYS {
        let run = run(name, &[&["--memory-max", limit], way].concat(), &cmd);
        assert_eq!(
            (run.status(), run.stdout().as_str()),
            (0, "right\n"),
            "{way:?}: {}{:#}",
            run.stderr(),
            run.counters
        );
        check(way, &run);
    }
    let _ = std::fs::remove_file(&program);
}

#[test]
fn calls_that_write_to_shared_pages_are_made() {
    copies("copies-calls", "24M", &["32"], |_, _| {});
}

#[test]
fn who_writes_over_shared_pages_waits_for_room() {
    copies("copies-overwrite", "73M", &["overwrite", "100"], |way, run| {
        let peak = run.count("memory.peak");
        assert!(peak < 88 << 20, "{way:?}: {:#}", run.counters);
    });
}

/// Another process reads the memory of children that have just been forked. With fork events
/// somebody serves it at any moment, so that one finds what is there. No child finds anything else
/// later.
#[test]
fn who_reads_the_memory_of_a_new_child_leaves_it_as_it_is() {
    if !can_manage() {
        return;
    }
    let program = compile("read_by_parent");
    let path = program.to_str().expect("a name of ours");
    let cmd = ["timeout", "--signal=KILL", "240", path, "60", "12"];
    let ways = WAYS
        .into_iter()
        .chain([&["--guard", "off", "--isolate", "copy"] as &[&str]]);
    for way in ways {
        let run = run("read-by-parent", &[&["--memory-max", "24M"], way].concat(), &cmd);
        let said = run.stdout();
        let is_right = match way.contains(&"off") {
            true => said == "right\n",
            false => !said.contains("damaged"),
        };
        assert!(
            is_right && run.status() == 0,
            "{way:?}: {said}{}{:#}",
            run.stderr(),
            run.counters
        );
    }
    let _ = std::fs::remove_file(&program);
}

/// Of children that are forked at a time, some by raw calls, each has its own memory. A fork that
/// was prepared goes on where a raw child has ended, and which was filled is not filled anew.
#[test]
fn who_forks_beside_a_raw_fork_has_its_own_memory() {
    if !can_manage() {
        return;
    }
    let program = compile("raw_forks");
    let path = program.to_str().expect("a name of ours");
    let alone = ["100M", "20", "60", "0"];
    let among_many = ["40M", "48", "6", "3"];
    for (isolate, [limit, mib, rounds, quick]) in [
        ("auto", alone),
        ("copy", alone),
        ("auto", among_many),
        ("copy", among_many),
    ] {
        let cmd = ["timeout", "--signal=KILL", "120", path, mib, rounds, quick];
        let args = ["--memory-max", limit, "--guard", "off", "--isolate", isolate];
        let run = run("raw-forks", &args, &cmd);
        assert_eq!(
            (run.status(), run.stdout().as_str()),
            (0, "right\n"),
            "{isolate}: {}{:#}",
            run.stderr(),
            run.counters
        );
    }
    let _ = std::fs::remove_file(&program);
}
