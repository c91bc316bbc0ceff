//! Whose threads the pager's are: the process ends with the program's, and none of them depends on another's life.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{can_manage, compile, uzswap_run};

/// What runs longer has hung.
const PATIENCE_S: &str = "120";

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
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
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
