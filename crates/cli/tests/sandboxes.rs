//! Programs that give something up: calls, files, root. They do as they do without uzswap, and are
//! managed as long as that can be.

mod common;

use common::place::{Place, is_root};
use common::{Run, can_manage, compile, run};

const GUARDS: [&str; 2] = ["auto", "on"];

/// `programs/sandboxed.c`, run under `options`, where each user finds it.
fn sandboxed(what: &str, options: &[&str]) -> Run {
    let place = Place::new(&format!("{what}-place"));
    let (compiled, program) = (compile("sandboxed"), place.0.join("sandboxed"));
    std::fs::copy(&compiled, &program).expect("copying it");
    std::fs::remove_file(compiled).expect("compiled above");
    run(what, options, &[program.to_str().expect("a path of ASCII"), what])
}

#[track_caller]
fn is_right(run: &Run) {
    let seen = (run.status(), run.stdout());
    assert_eq!(seen, (0, "right\n".into()), "{}", run.stderr());
}

#[test]
fn who_may_only_exit_does() {
    if !can_manage() {
        return;
    }
    for guard in GUARDS {
        let run = sandboxed("exits", &["--memory-max", "40M", "--guard", guard]);
        assert_eq!((run.status(), run.stdout().as_str()), (7, "ends\n"), "{}", run.stderr());
    }
}

#[test]
fn who_may_not_have_a_pager_runs_on() {
    if !can_manage() {
        return;
    }
    for guard in GUARDS {
        let run = sandboxed("helper", &["--memory-max", "40M", "--guard", guard]);
        is_right(&run);
    }
}

#[test]
fn where_nothing_can_be_written_it_runs_on_and_says_so() {
    if !can_manage() || !is_root() {
        return;
    }
    let script = "mount --make-rprivate / && mount --bind -o ro /tmp /tmp && /bin/echo right";
    let run = run(
        "read-only",
        &["--memory-max", "40M"],
        &["unshare", "--mount", "sh", "-c", script],
    );
    is_right(&run);
    assert!(run.stderr().contains("is read-only where it is"), "{}", run.stderr());
}

#[test]
fn a_daemon_that_drops_root_is_managed() {
    if !can_manage() || !is_root() {
        return;
    }
    for guard in GUARDS {
        let run = sandboxed("drops", &["--memory-max", "24M", "--guard", guard]);
        is_right(&run);
        assert!(run.count("zswpout") > 8_000, "{guard}: {:#}", run.counters);
    }
}
