//! Whose threads the pager's are: the process ends with the program's, and none of them depends on
//! another's life.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::place::Place;
use common::{can_manage, compile, uzswap_run};

/// What runs longer has hung.
const PATIENCE_S: &str = "120";

fn can_manage_as_root() -> bool {
    can_manage() && rustix::process::geteuid().is_root()
}

fn run(command: &mut Command) -> Output {
    command.output().expect("starting it")
}

/// `uzswap run OPTIONS -- PROGRAM ARGS`, killed when it hangs.
fn managed(program: &Path, args: &[&str], options: &[&str]) -> Output {
    let uzswap = uzswap_run();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PATIENCE_S]).arg(uzswap.get_program());
    command.args(uzswap.get_args()).args(options).arg("--");
    run(command.arg(program).args(args))
}

/// Its output and status are those of an unmanaged run.
fn is_as_unmanaged(program: &Path, args: &[&str], options: &[&str]) {
    let (twin, managed) = (run(Command::new(program).args(args)), managed(program, args, options));
    let name = program.display();
    assert_eq!(
        managed.status,
        twin.status,
        "{name} {args:?}: {}",
        text(&managed.stderr)
    );
    assert_eq!(text(&managed.stdout), text(&twin.stdout), "{name} {args:?}");
    assert_eq!(text(&managed.stderr), text(&twin.stderr), "{name} {args:?}");
}

#[test]
fn the_process_ends_with_its_only_thread() {
    if !can_manage() {
        return;
    }
    let program = compile("lone_exit");
    for status in ["0", "7", "255"] {
        is_as_unmanaged(&program, &[status], &["--memory-max", "24M", "--quiet"]);
    }
    let _ = std::fs::remove_file(program);
}

#[test]
fn the_first_thread_may_end_before_the_others() {
    if !can_manage() {
        return;
    }
    let program = compile("leaderless");
    for how in ["p", "r", "pl", "rl"] {
        is_as_unmanaged(&program, &[how], &["--memory-max", "24M", "--quiet"]);
    }
    let _ = std::fs::remove_file(program);
}

#[test]
fn a_program_counts_its_own_threads() {
    if !can_manage() {
        return;
    }
    let program = compile("links");
    is_as_unmanaged(&program, &[], &["--memory-max", "24M", "--quiet"]);
    is_as_unmanaged(&program, &[], &["--memory-max", "24M", "--quiet", "--guard", "on"]);
    let _ = std::fs::remove_file(program);
}

#[test]
fn calls_that_want_one_thread_are_made() {
    if !can_manage() {
        return;
    }
    let place = Place::new("one-thread");
    let program = place.program("one_thread");
    for how in ["users", "raw", "mounts"] {
        place.is_as_unmanaged(&["--memory-max", "32M"], &[&program, how]);
    }
    is_as_unmanaged(Path::new(&program), &["mounts"], &["--memory-max", "32M", "--quiet"]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn who_outlives_the_maker_of_its_memory_has_all_of_it() {
    if !can_manage() {
        return;
    }
    let program = compile("outlived");
    for how in ["exit", "raw"] {
        is_as_unmanaged(&program, &[how], &["--memory-max", "16M", "--quiet"]);
    }
    // Nobody can bring it back: it is stopped, and never reads zeros.
    for (faults, says) in [("inline", "is stopped that shares"), ("thread", "gets SIGBUS")] {
        let options = ["--memory-max", "16M", "--quiet", "--faults", faults];
        let output = managed(&program, &["kill"], &options);
        let said = text(&output.stderr);
        assert_eq!(text(&output.stdout), "-1 9 n\n", "{said}");
        assert!(said.lines().any(|line| line.contains(says)), "{faults}: {said}");
    }
    let _ = std::fs::remove_file(program);
}

#[test]
fn no_thread_holds_more_than_the_program() {
    if !can_manage_as_root() {
        return;
    }
    let program = compile("dropped");
    let runs: [&[&str]; 8] = [
        &["libc"],
        &["libc", "thread"],
        &["libc1"],
        &["libc1", "thread"],
        &["eff"],
        &["eff", "thread"],
        &["raw"],
        &["caps"],
    ];
    for args in runs {
        let output = managed(&program, args, &["--memory-max", "16M", "--quiet"]);
        assert_eq!(text(&output.stdout), "whole\n", "{args:?}: {}", text(&output.stderr));
    }
    let _ = std::fs::remove_file(program);
}

/// Nobody could fetch one any more that waits for an idle core, and the process ends with its last
/// thread.
#[test]
fn no_thread_gives_way_to_all_once_root_is_given_up() {
    says_right("drops_root", "16M", &["--spin", "on"]);
}

/// A filter that comes later decides over the pager's threads as well (TSYNC).
#[test]
fn no_thread_asks_what_it_holds_under_a_filter() {
    says_right("filtered_capget", "8M", &["--spin", "on", "--faults", "thread"]);
}

/// What a fork takes of the pager's memory is locked with the program's (MCL_FUTURE).
#[test]
fn who_may_lock_little_forks() {
    says_right("locked_forks", "24M", &[]);
}

/// `programs/NAME.c` without the guard, as root.
fn says_right(name: &str, limit: &str, options: &[&str]) {
    if !can_manage_as_root() {
        return;
    }
    let program = compile(name);
    let options = [&["--memory-max", limit, "--quiet", "--guard", "off"], options].concat();
    let output = managed(&program, &[], &options);
    assert_eq!(text(&output.stdout), "right\n", "{name}: {}", text(&output.stderr));
    let _ = std::fs::remove_file(program);
}

/// Its pager is neither the parent's, which is another process's, nor one of its own.
#[test]
fn a_child_of_a_vfork_child_waits_for_no_pager() {
    if !can_manage() {
        return;
    }
    let program = compile("vforked");
    // Where calls are guarded such a fork is refused.
    let options = [
        "--memory-max",
        "128M",
        "--quiet",
        "--allow-unmanaged",
        "--faults",
        "thread",
    ];
    is_as_unmanaged(&program, &[], &options);
    let _ = std::fs::remove_file(program);
}

/// Nothing comes under the pager's care that a call is about to change, which began before it.
#[test]
fn changes_that_begin_before_the_pager_are_waited_for() {
    if !can_manage() {
        return;
    }
    let program = compile("begun_early");
    for backend in ["uffd", "mprotect"] {
        for how in ["protect", "drop", "move", "replace"] {
            let options = ["--memory-max", "24M", "--quiet", "--guard", "on", "--backend", backend];
            is_as_unmanaged(&program, &[how], &options);
        }
    }
    let _ = std::fs::remove_file(program);
}

/// What the pager has reserved is none of the program's data.
#[test]
fn a_limit_of_data_is_as_without_a_pager() {
    if !can_manage() {
        return;
    }
    let program = compile("limits");
    is_as_unmanaged(&program, &[], &["--memory-max", "16M", "--quiet"]);
    let limited = format!("ulimit -d {}; exec \"$0\" -", 160 << 10);
    let shell = ["-c", &limited, program.to_str().expect("a name in UTF-8")];
    is_as_unmanaged(Path::new("/bin/sh"), &shell, &["--memory-max", "16M", "--quiet"]);
    let _ = std::fs::remove_file(program);
}

/// The kernel tells whoever waits, if it finds what the owner had locked.
#[test]
fn the_death_of_who_has_a_robust_mutex_is_told() {
    if !can_manage() {
        return;
    }
    let program = compile("robust");
    for how in ["thread", "process"] {
        for (count, limit) in [("1", "16M"), ("10", "24M"), ("500", "32M")] {
            is_as_unmanaged(&program, &[how, count], &["--memory-max", limit, "--quiet"]);
        }
        let copies = ["--memory-max", "32M", "--quiet", "--isolate", "copy"];
        is_as_unmanaged(&program, &[how, "500"], &copies);
    }
    for isolate in ["auto", "copy"] {
        let options = ["--memory-max", "20M", "--quiet", "--isolate", isolate];
        let output = managed(&program, &["many", "5"], &options);
        assert_eq!(
            text(&output.stdout),
            "all are told\n",
            "{isolate}: {}",
            text(&output.stderr)
        );
    }
    let _ = std::fs::remove_file(program);
}

/// The kernel writes to their words, and does not wait for a page.
#[test]
fn mutexes_that_inherit_priority_are_there_for_the_kernel() {
    if !can_manage() {
        return;
    }
    let program = compile("inherits");
    const ALONE: &str = "each was alone\n";
    for (how, seconds, answer) in [
        ("late", "1", "0 calls fail\n"),
        ("plain", "3", ALONE),
        ("robust", "3", ALONE),
    ] {
        for isolate in ["auto", "copy"] {
            let options = ["--memory-max", "20M", "--quiet", "--isolate", isolate];
            let output = managed(&program, &[how, seconds], &options);
            let (printed, errors) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(printed, answer, "{how}, {isolate}: {errors}");
        }
    }
    let _ = std::fs::remove_file(program);
}

/// Locked or not, wherever they lie, and no longer than they are mutexes.
#[test]
fn pages_stay_in_which_the_kernel_writes_to_mutexes() {
    if !can_manage() {
        return;
    }
    let program = compile("mutexes");
    const ALL: &str = "64 of 64 pages are there\n";
    for (how, answer) in [
        ("live", ALL),
        ("packed", ALL),
        ("churned", ALL),
        ("freed", "they leave\n"),
    ] {
        for isolate in ["auto", "copy"].into_iter().take(if how == "churned" { 1 } else { 2 }) {
            let options = ["--memory-max", "16M", "--quiet", "--isolate", isolate];
            let output = managed(&program, &[how], &options);
            let (printed, errors) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(printed, answer, "{how}, {isolate}: {errors}");
        }
    }
    let _ = std::fs::remove_file(program);
}

/// They name threads, too, but are in nobody's list.
#[test]
fn copies_of_robust_mutexes_are_left_alone() {
    if !can_manage() {
        return;
    }
    let program = compile("robust_copies");
    for how in ["thread", "child"] {
        is_as_unmanaged(&program, &[how], &["--memory-max", "16M", "--quiet"]);
    }
    let _ = std::fs::remove_file(program);
}

/// Its list begins in memory that has gone cold.
#[test]
fn the_death_of_a_process_that_slept_is_told() {
    if !can_manage() {
        return;
    }
    let program = compile("robust_shared");
    is_as_unmanaged(&program, &[], &["--memory-max", "16M", "--quiet"]);
    let _ = std::fs::remove_file(program);
}

/// A lock of malloc, under which memory is given back, and which a fork wants.
#[test]
fn a_fork_beside_a_thread_that_gives_memory_back_ends() {
    if !can_manage() {
        return;
    }
    let program = compile("gives_back");
    for guard in ["off", "on"] {
        is_as_unmanaged(&program, &["20"], &["--memory-max", "12M", "--quiet", "--guard", guard]);
    }
    let _ = std::fs::remove_file(program);
}
