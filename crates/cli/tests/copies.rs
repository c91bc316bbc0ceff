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

/// A fork that fails returns, though raw children that came meanwhile live on: they have all.
#[test]
fn a_fork_that_fails_beside_raw_children_returns() {
    if !can_manage() {
        return;
    }
    let program = compile("fails_fork");
    let path = program.to_str().expect("a name of ours");
    for isolate in ["auto", "copy"] {
        let cmd = ["timeout", "--signal=KILL", "60", path, "8", "200", "12"];
        let args = ["--memory-max", "160M", "--guard", "off", "--isolate", isolate];
        let run = run("fails-fork", &args, &cmd);
        let swapped = run.count("zswpout");
        assert_eq!(
            (run.status(), run.stdout().as_str(), swapped > 0),
            (0, "right\n", true),
            "{isolate}: {}{:#}",
            run.stderr(),
            run.counters
        );
    }
    let _ = std::fs::remove_file(&program);
}

/// A handler that comes in the middle of a fork may fork as well, or jump out of it, whether there
/// is a pager or not yet.
#[test]
fn a_handler_may_fork_in_the_middle_of_a_fork() {
    if !can_manage() {
        return;
    }
    let program = compile("forks_in_handler");
    let path = program.to_str().expect("a name of ours");
    for (way, (what, mib, rounds)) in WAYS.into_iter().flat_map(|way| {
        let small = ["fork", "_Fork", "jump"].map(|what| (what, "0", "200"));
        let large = ["fork", "_Fork"].map(|what| (what, "32", "10"));
        [&small[..], &large].concat().into_iter().map(move |case| (way, case))
    }) {
        let cmd = ["timeout", "--signal=KILL", "120", path, mib, rounds, what];
        let run = run("forks-in-handler", &[&["--memory-max", "24M"], way].concat(), &cmd);
        assert_eq!(
            (run.status(), run.stdout().as_str()),
            (0, "right\n"),
            "{way:?} {what} {mib}: {}{:#}",
            run.stderr(),
            run.counters
        );
    }
    let _ = std::fs::remove_file(&program);
}

/// The same, as a pager starts.
#[test]
fn a_handler_may_fork_as_a_pager_starts() {
    if !can_manage() {
        return;
    }
    let program = compile("forks_in_handler");
    let rounds = format!(
        "for us in $(seq 1 4 400); do timeout --signal=KILL 60 {} 0 $us start || exit; done",
        program.display()
    );
    for way in WAYS {
        let run = run(
            "forks-at-start",
            &[&["--memory-max", "24M"], way].concat(),
            &["sh", "-c", &rounds],
        );
        assert_eq!(
            (run.status(), run.stdout().as_str()),
            (0, "right\n".repeat(100).as_str()),
            "{way:?}: {}{:#}",
            run.stderr(),
            run.counters
        );
    }
    let _ = std::fs::remove_file(&program);
}

/// A filter of the program's ends who waits, or raises a signal in the middle of a fork.
#[test]
fn a_fork_makes_no_call_that_a_filter_ends_it_for() {
    if !can_manage() {
        return;
    }
    let program = compile("filtered_fork");
    let path = program.to_str().expect("a name of ours");
    for (mib, call) in [("0", "waitid"), ("32", "waitid"), ("0", "clone")] {
        for way in WAYS {
            let cmd = ["timeout", "--signal=KILL", "60", path, mib, call];
            let run = run("filtered-fork", &[&["--memory-max", "24M"], way].concat(), &cmd);
            assert_eq!(
                (run.status(), run.stdout().as_str()),
                (0, "right\n"),
                "{way:?} {mib} {call}: {}{:#}",
                run.stderr(),
                run.counters
            );
        }
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
