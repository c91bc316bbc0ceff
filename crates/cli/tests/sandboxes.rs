//! Programs that give something up: calls, files, root. They do as they do without uzswap, and are
//! managed as long as that can be.

mod common;

use std::process::Command;

use common::place::{Place, is_root};
use common::{Run, UZSWAP, can_manage, compile, run};

const GUARDS: [&str; 2] = ["auto", "on"];

/// `programs/sandboxed.c`, run under `options`, where each user finds it.
fn sandboxed(what: &str, options: &[&str]) -> Run {
    let place = Place::new(&format!("{what}-place"));
    run(what, options, &[&place.program("sandboxed"), what])
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
        run.is_right();
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
    run.is_right();
    assert!(run.stderr().contains("is read-only where it is"), "{}", run.stderr());
}

/// The agent is there for whoever its programs become, whatever root's mask is.
#[test]
fn a_mask_hides_nothing_from_who_drops_root() {
    if !can_manage() || !is_root() {
        return;
    }
    let temporary = common::temp("mask");
    std::fs::create_dir(&temporary).expect("a new directory");
    let script = format!(
        "umask 077; exec {UZSWAP} run --memory-max 64M -- setpriv --reuid 65534 --clear-groups /bin/echo right"
    );
    let mut command = std::process::Command::new("sh");
    let output = command
        .args(["-c", &script])
        .env("TMPDIR", &temporary)
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !said.contains("cannot be preloaded"),
        "{said}"
    );
    std::fs::remove_dir_all(temporary).expect("made above");
}

#[test]
fn a_daemon_that_drops_root_is_managed() {
    if !can_manage() || !is_root() {
        return;
    }
    for guard in GUARDS {
        let run = sandboxed("drops", &["--memory-max", "24M", "--guard", guard]);
        run.is_right();
        assert!(run.count("zswpout") > 8_000, "{guard}: {:#}", run.counters);
    }
}

/// As an ordinary user, whose own files of /proc may be root's, and who may be allowed few others.
#[test]
fn who_hides_or_restricts_itself_runs_as_without_us() {
    if !can_manage() {
        return;
    }
    let place = Place::new("hidden");
    let program = place.program("sandboxed");
    for backend in ["uffd", "mprotect"] {
        for (what, is_managed) in [
            ("hides", true),
            ("full", true),
            ("rules", false),
            ("masks", true),
            ("lends", true),
        ] {
            let script = format!(
                "ulimit -Sn 200; exec {} run --memory-max 24M --backend {backend} -- {} {what}",
                place.0.join("uzswap").display(),
                program
            );
            let output = place
                .unprivileged(std::path::Path::new("/bin/sh"))
                .args(["-c", &script])
                .output();
            let output = output.expect("starting it");
            let (said, why) = (
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            assert_eq!(
                (output.status.code(), &*said),
                (Some(0), "right\n"),
                "{what} {backend}: {why}"
            );
            let is_named = why.contains("is not managed");
            assert!(!(is_managed && is_named), "{what} {backend}: {why}");
        }
    }
}

/// Without its LD_PRELOAD, in a shell that has it unset, or sets its own.
#[test]
fn children_that_lost_the_preload_are_managed() {
    if !can_manage() {
        return;
    }
    let program = compile("read_only");
    for how in ["unset LD_PRELOAD", "export LD_PRELOAD=libm.so.6"] {
        let script = format!("{how}; {} 1; exit", program.display());
        let run = run("lost", &["--memory-max", "12M"], &["/bin/sh", "-c", &script]);
        assert_eq!(
            (run.status(), run.stdout().as_str()),
            (0, "right\n"),
            "{}",
            run.stderr()
        );
        assert!(run.count("zswpout") > 4_000, "{how}: {:#}", run.counters);
        assert_eq!(run.count("unmanaged_processes"), 0, "{how}: {:#}", run.counters);
    }
    let _ = std::fs::remove_file(program);
}

/// A static program, into which the agent would be put as its tracer.
#[test]
fn what_may_not_be_traced_runs_on_where_that_is_allowed() {
    let (place, forbids) = (Place::new("untraced"), compile("forbids"));
    let program = place.0.join("static");
    let source = format!("{}/tests/programs/shared.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("cc")
        .args(["-static", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    if !can_manage() || !built.is_ok_and(|status| status.success()) {
        return;
    }
    for (allowed, status, said) in [(&[][..], 125, ""), (&["--allow-unmanaged"], 0, "right\n")] {
        let mut command = Command::new(&forbids);
        command
            .args(["trace", UZSWAP, "run", "--memory-max", "24M"])
            .args(allowed)
            .arg(&program);
        let output = command.output().expect("starting it");
        let why = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*String::from_utf8_lossy(&output.stdout)),
            (Some(status), said),
            "{why}"
        );
        assert!(why.contains("it may not be traced"), "{why}");
        assert_eq!(why.contains("--allow-unmanaged"), allowed.is_empty(), "{why}");
    }
    std::fs::remove_file(forbids).expect("compiled above");
}

/// Nothing is known of a device that may not be opened.
#[test]
fn what_cannot_be_looked_at_is_not_called_missing() {
    let place = Place::new("doctor");
    let output = place.unprivileged(&place.0.join("uzswap")).arg("doctor").output();
    let output = output.expect("starting it");
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains("is not yours to open") {
        assert!(!said.contains("UFFDIO_MOVE") && !said.contains("Linux 6.8"), "{said}");
    }
}

/// Its children are to be in another namespace of processes.
#[test]
fn who_may_have_no_more_threads_runs_on_and_says_so() {
    const PYTHON: &str = "/usr/bin/python3";
    if !can_manage() || !std::path::Path::new(PYTHON).exists() {
        return;
    }
    let grow = "x = bytearray(50 << 20); print('right')";
    let cmd = ["unshare", "--user", "--map-root-user", "--pid", PYTHON, "-c", grow];
    for guard in GUARDS {
        let run = run("namespace", &["--memory-max", "100M", "--guard", guard], &cmd);
        run.is_right();
        assert!(run.stderr().contains("have it fork first"), "{}", run.stderr());
    }
}

/// What a pager would ask for is trapped, in whichever thread, so it asks for nothing.
#[test]
fn who_filters_all_threads_is_not_trapped() {
    if !can_manage() {
        return;
    }
    for guard in GUARDS {
        let place = Place::new("filters-all-place");
        let program = place.program("filters_all");
        for cmd in [&[program.as_str()][..], &[&program, "helper"]] {
            run("filters-all", &["--memory-max", "60M", "--guard", guard], cmd).is_right();
        }
    }
}

/// So is what one has set up by then: it ends, with all that was out, beside threads that go on.
#[test]
fn who_filters_a_pager_out_goes_on_without() {
    if !can_manage() {
        return;
    }
    let place = Place::new("filters-pager-place");
    let program = place.program("filters_pager");
    // Where a thread serves the faults of a program that loads libraries, its calls are not seen.
    let options = ["--memory-max", "60M", "--guard", "on", "--faults", "inline"];
    for cmd in [&[program.as_str()][..], &[&program, "added"]] {
        let filtered = run("filters-pager", &options, cmd);
        filtered.is_right();
        let says = "is not managed and counts as it is: it filters the system calls of all its threads";
        assert!(filtered.stderr().contains(says), "{}", filtered.stderr());
    }
    let vforked = run("filters-pager-vforked", &options, &[&program, "vforked"]);
    vforked.is_right();
    assert!(!vforked.stderr().contains("is not managed"), "{}", vforked.stderr());
    let refused = run("filters-pager-large", &options, &[&program, "large"]);
    assert!(
        refused.stdout().ends_with("Cannot allocate memory\n"),
        "{}",
        refused.stdout()
    );
    assert!(refused.stderr().contains("raise --memory-max"), "{}", refused.stderr());
}
