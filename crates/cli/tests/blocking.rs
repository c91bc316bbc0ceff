//! Where the kernel may wait for pages: what is not seen that reaches memory, and what is better
//! off unguarded.

mod common;

use common::place::{Place, can_guard};
use common::{can_manage, run};

const DONE: &str = "io_uring_setup: done\nio_setup: done\n";
const REFUSED: &str = "io_uring_setup: Function not implemented\nio_setup: Function not implemented\n";

#[test]
fn the_kernel_reaches_memory_when_nobody_knows() {
    if !can_manage() {
        return;
    }
    let place = Place::new("kernel-reaches-place");
    let program = place.program("kernel_reaches");
    let unmanaged = std::process::Command::new(&program).output().expect("starting it");
    if unmanaged.stdout != DONE.as_bytes() {
        eprintln!("left out, the system has no io_uring or no AIO");
        return;
    }
    for options in [
        &[][..],
        &["--guard", "on"],
        &["--faults", "thread"],
        &["--guard", "on", "--faults", "thread"],
    ] {
        for (limit, cmd) in [("36M", &[program.as_str()][..]), ("84M", &[&program, "late"])] {
            let reached = run("kernel-reaches", &[&["--memory-max", limit], options].concat(), cmd);
            assert_eq!(
                (reached.status(), reached.stdout()),
                (0, DONE.into()),
                "{options:?} {cmd:?}: {}",
                reached.stderr()
            );
            assert!(reached.count("zswpout") > 1_000, "{:#}", reached.counters);
        }
    }
    // bpf(2) may be forbidden.
    let known = run("kernel-reaches-bpf", &["--memory-max", "36M"], &[&program, "bpf"]);
    let answer = (known.status(), known.stdout());
    assert!(
        answer == (0, "bpf: done\n".into()) || answer.0 == 77,
        "{answer:?} {}",
        known.stderr()
    );
    let fails = [
        "--memory-max",
        "32M",
        "--fail-per-mille",
        "5",
        "--fail-kinds",
        "pool_flip",
    ];
    let lost = run("kernel-reaches-lost", &fails, &[&program, "lost"]);
    assert_eq!(
        (lost.status(), lost.stdout()),
        (0, "whole or lost\n".into()),
        "{}",
        lost.stderr()
    );
    assert!(lost.stderr().contains("is lost"), "{}", lost.stderr());
    let refused = run("kernel-reaches-large", &["--memory-max", "48M"], &[&program, "large"]);
    assert_eq!(
        (refused.status(), refused.stdout()),
        (0, REFUSED.into()),
        "{}",
        refused.stderr()
    );
    assert_eq!(
        refused.stderr().matches("raise --memory-max").count(),
        1,
        "{}",
        refused.stderr()
    );
}

/// The kernel waits for no page of an ordinary user's.
#[test]
fn who_cannot_have_it_wait_is_refused() {
    if !can_guard() {
        return;
    }
    let place = Place::new("kernel-refused-place");
    let program = place.program("kernel_reaches");
    let refused = place.run(&["--memory-max", "36M"], &[&program]);
    let (said, error) = (
        String::from_utf8_lossy(&refused.stdout),
        String::from_utf8_lossy(&refused.stderr),
    );
    assert_eq!(said, REFUSED, "{error}");
    assert!(refused.status.success(), "{error}");
}

/// A debugger does not stop at our signals, and what may not be changed is left as it is.
#[test]
fn what_the_guard_would_disturb_does_without() {
    if !can_manage() {
        return;
    }
    let place = Place::new("traced-place");
    let program = place.program("traced");
    let traced = run("traced", &["--memory-max", "24M"], &[&program]);
    let right = (0, "stopped 0 times, then 6\n".into());
    assert_eq!((traced.status(), traced.stdout()), right, "{}", traced.stderr());
    assert!(traced.count("zswpout") > 1_000, "{:#}", traced.counters);
    let fixed = run("fixed", &["--memory-max", "24M"], &[&program, "fixed"]);
    assert_eq!(fixed.status(), 6, "{}{}", fixed.stdout(), fixed.stderr());
    assert!(fixed.count("zswpout") > 1_000, "{:#}", fixed.counters);
}
