//! System calls whose arguments are out, and that do as they do where all is there.

mod common;

use common::{can_manage, compile, run};

/// What `programs/cold_calls.c` can be asked for.
const CALLS: [&str; 17] = [
    "wiped",
    "guarded",
    "populated",
    "moved",
    "zerocopy",
    "random",
    "locked",
    "file",
    "upper-half",
    "own-memory",
    "epoll",
    "policy",
    "child",
    "mounted",
    "appended",
    "own-thread",
    "advised",
];

#[test]
fn calls_whose_arguments_are_out_do_as_they_do() {
    if !can_manage() {
        return;
    }
    let compiled = compile("cold_calls");
    let program = compiled.to_str().expect("a name of ours");
    for call in CALLS {
        let options = ["--memory-max", "24M", "--guard", "on"];
        let run = run(&format!("cold-{call}"), &options, &[program, call]);
        let seen = (run.status(), run.stdout());
        assert_eq!(
            seen,
            (0, "right\n".into()),
            "{call}: {}{:#}",
            run.stderr(),
            run.counters
        );
    }
    std::fs::remove_file(compiled).expect("compiled above");
}
