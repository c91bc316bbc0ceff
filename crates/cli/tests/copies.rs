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

/// As root, with forks by raw calls.
const RAW_WAYS: [&[&str]; 2] = [
    &["--guard", "off", "--isolate", "auto"],
    &["--guard", "off", "--isolate", "copy"],
];

/// Options of the run, and arguments of the program.
type Case = (Vec<&'static str>, Vec<&'static str>);

/// At 24M, with each of these arguments in each of the ways.
fn in_all_ways<const N: usize>(args: &[[&'static str; N]]) -> Vec<Case> {
    let of = |args: &[&'static str; N]| WAYS.map(|way| ([&["--memory-max", "24M"], way].concat(), args.to_vec()));
    args.iter().flat_map(of).collect()
}

/// `programs/NAME.c` says that all is right, and the run passes `check`.
fn says_right(name: &str, cases: &[Case], check: impl Fn(&Run)) {
    if !can_manage() {
        return;
    }
    let program = compile(name);
    let path = program.to_str().expect("a name of ours");
    for (options, args) in cases {
        let cmd = [&["timeout", "--signal=KILL", "120", path], &args[..]].concat();
        let run = run(name, options, &cmd);
        assert_eq!(
            (run.status(), run.stdout().as_str()),
            (0, "right\n"),
            "{options:?} {args:?}: {}{:#}",
            run.stderr(),
            run.counters
        );
        check(&run);
    }
    let _ = std::fs::remove_file(&program);
}

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
        // Without a userfaultfd nobody waits for room (docs/limits.md).
        let most = if way.contains(&"mprotect") { 128 } else { 88 };
        assert!(run.count("memory.peak") < most << 20, "{way:?}: {:#}", run.counters);
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

/// How often uzswap said that pages of another process did not come.
fn told(run: &Run) -> usize {
    run.stderr().matches("uzswap: process_vm_readv of process").count()
}

/// Where the kernel may not wait for another process's pager, that one brings what is read and
/// written.
#[test]
fn who_reads_and_writes_the_memory_of_another_finds_it() {
    let limit = |way: &[&str]| if way.contains(&"off") { "20M" } else { "16M" };
    let all = |what| WAYS.map(|way| ([&["--memory-max", limit(way)], way].concat(), vec![what]));
    for what in ["there", "executed", "absent", "killed", "own"] {
        says_right("reads_other", &all(what), |run| assert_eq!(told(run), 0));
    }
}

/// A stopped one brings nothing, and a line says so. As root without the guard who reads waits
/// until that one is continued. Each waits for many seconds: they wait together.
#[test]
fn who_reads_the_memory_of_a_stopped_one_is_told() {
    std::thread::scope(|scope| {
        for way in &WAYS[1..] {
            scope.spawn(move || {
                let case = ([&["--memory-max", "16M"], *way].concat(), vec!["stopped"]);
                says_right("reads_other", &[case], |run| {
                    assert!(told(run) <= 1, "{}", run.stderr())
                });
            });
        }
    });
}

/// A child finds memory that another thread moves in one of the places, all of it: also what the
/// agent moves in several turns. Who moves it maps over the place that it has left.
#[test]
fn a_fork_finds_none_or_all_of_a_move() {
    says_right("moves_beside_forks", &in_all_ways(&[["200"]]), |_| {});
}

/// A fork that fails returns, though raw children that came meanwhile live on: they have all.
#[test]
fn a_fork_that_fails_beside_raw_children_returns() {
    let ways = RAW_WAYS.map(|way| ([&["--memory-max", "160M"], way].concat(), vec!["8", "200", "12"]));
    says_right("fails_fork", &ways, |run| {
        assert!(run.count("zswpout") > 0, "{:#}", run.counters);
    });
}

/// A handler that comes in the middle of a fork may fork as well, or jump out of it, whether there
/// is a pager or not yet.
#[test]
fn a_handler_may_fork_in_the_middle_of_a_fork() {
    let small = ["fork", "_Fork", "jump"].map(|what| ["0", "200", what]);
    let large = ["fork", "_Fork"].map(|what| ["32", "10", what]);
    says_right("forks_in_handler", &in_all_ways(&[&small[..], &large].concat()), |_| {});
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
    let cases = [["0", "waitid"], ["32", "waitid"], ["0", "clone"]];
    says_right("filtered_fork", &in_all_ways(&cases), |_| {});
}

/// Of children that are forked at a time, some by raw calls, each has its own memory. A fork that
/// was prepared goes on where a raw child has ended, and which was filled is not filled anew.
#[test]
fn who_forks_beside_a_raw_fork_has_its_own_memory() {
    let alone = ("100M", ["20", "60", "0"]);
    let among_many = ("40M", ["48", "6", "3"]);
    let cases: Vec<Case> = [alone, among_many]
        .into_iter()
        .flat_map(|(limit, args)| RAW_WAYS.map(|way| ([&["--memory-max", limit], way].concat(), args.to_vec())))
        .collect();
    says_right("raw_forks", &cases, |_| {});
}
