//! What forked relatives write to is copied by the kernel, page by page: copies wait for room,
//! whoever writes, and no system call fails for it.

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
