//! Programs that do what few programs do: each says `right` if it saw what it would have seen without a pager.

mod common;

use common::{Run, can_manage, compile, run};

/// Seconds after which a program counts as one that hangs.
const HANGS: &str = "120";

/// `programs/NAME.c` with `args`, run under `options`.
fn run_program(name: &str, options: &[&str], args: &[&str]) -> Run {
    let program = compile(name);
    let path = program.to_str().expect("a name of ours");
    let cmd = [&["timeout", "--signal=KILL", HANGS, path], args].concat();
    let run = run(&format!("{name}-{}", args.join("-")), options, &cmd);
    let _ = std::fs::remove_file(&program);
    run
}

/// The same, which has to see what is right.
fn sees_what_is_right(name: &str, options: &[&str], args: &[&str]) -> Run {
    let run = run_program(name, options, args);
    assert_eq!(
        (run.status(), run.stdout().as_str()),
        (0, "right\n"),
        "{name} {args:?} {options:?}: {}",
        run.stderr()
    );
    run
}

#[test]
fn a_handler_may_leave_a_change_of_mappings() {
    if !can_manage() {
        return;
    }
    for isolate in [&[][..], &["--isolate", "copy"]] {
        let options = [&["--memory-max", "24M"], isolate].concat();
        sees_what_is_right("leaves_handler", &options, &[]);
    }
}

/// PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC: the kernel moves no such pages.
#[test]
fn memory_that_is_not_to_be_written_to_leaves_and_comes_back() {
    if !can_manage() {
        return;
    }
    for protection in ["1", "0", "5"] {
        let run = sees_what_is_right("read_only", &["--memory-max", "12M"], &[protection]);
        assert!(run.count("zswpout") > 5_000, "{:#}", run.counters);
    }
}

#[test]
fn no_write_is_lost_where_protection_changes() {
    if !can_manage() {
        return;
    }
    for isolate in [&[][..], &["--isolate", "copy"]] {
        let options = [&["--memory-max", "16M"], isolate].concat();
        sees_what_is_right("changes_protection", &options, &[]);
    }
}
