//! The contract of the command line: exit statuses, and errors that name the value and the rule.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{UZSWAP, can_manage, run, temp};

#[test]
fn the_exit_status_is_that_of_the_command() {
    if !can_manage() {
        return;
    }
    for (script, status) in [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(run("status", &[], &["sh", "-c", script]).status(), status, "{script}");
    }
    // Whoever waits for it sees what has ended it, as of any program that is told to end.
    for signal in [1, 2, 3, 13, 15] {
        let mut command = Command::new("env");
        command.args(["--default-signal", UZSWAP, "run", "--quiet", "--", "sh", "-c"]);
        let status = command.arg(format!("kill -{signal} $$")).status().expect("env");
        assert_eq!(status.signal(), Some(signal));
    }
    assert_eq!(run("missing", &[], &["no-such-program"]).status(), 127);
    assert_eq!(run("passwd", &[], &["/etc/passwd"]).status(), 126);
}

/// What the environment says of one run is not for those inside it.
#[test]
fn a_name_is_not_handed_on() {
    if !can_manage() {
        return;
    }
    let name = format!("inherits-{}", std::process::id());
    let mut command = Command::new(UZSWAP);
    command
        .env("UZSWAP_NAME", name)
        .args(["run", "--quiet", "--", UZSWAP, "run", "--quiet", "--", "true"]);
    let output = command.output().expect("uzswap");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nothing_is_printed_into_the_output_of_the_command() {
    if !can_manage() {
        return;
    }
    let run = run("echo", &["--summary"], &["printf", "%s|", "a b", "--memory-max", ""]);
    assert_eq!(run.stdout(), "a b|--memory-max||");
}

/// Until its launcher has its lease a group looks like one that has ended, and whoever lists groups
/// removes those.
#[test]
fn a_group_that_begins_is_not_taken_for_one_that_has_ended() {
    if !can_manage() {
        return;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                Command::new(UZSWAP).arg("list").output().expect("uzswap list");
            }
        });
        let statuses: Vec<i32> = (0..24)
            .map(|n| {
                let name = format!("begins-{n}-{}", std::process::id());
                let seen = format!("{UZSWAP} list | grep -q {name}");
                run("begins", &["--name", &name], &["sh", "-c", &seen]).status()
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(statuses, [0; 24]);
    });
}

#[cfg(not(feature = "remote"))]
#[test]
fn an_url_is_refused_where_nothing_was_built_for_it() {
    let run = run("services", &["--swap", "redis://host/0"], &["true"]);
    assert_eq!(run.status(), 125, "{}", run.stderr());
    assert!(run.stderr().contains("--swap redis: ") && run.stderr().contains("--features remote"));
}

#[test]
fn bad_values_are_refused_by_name_and_rule() {
    let missing = temp("missing").join("swap");
    let missing = missing.to_str().expect("a plain path");
    let cases: [(&[&str], &[&str]); 12] = [
        (&["--compressor", "lzo"], &["lzo", "lz4"]),
        (&["--compressor", "zstd:99"], &["zstd:99", "-7 to 19"]),
        (&["--zpool", "zsmallocs"], &["zsmallocs", "zsmalloc"]),
        (&["--memory-max", "12Q"], &["12Q", "memory-max", "K, M, G"]),
        (&["--memory-max", "64K"], &["64K", "memory-max", "least"]),
        (
            &["--memory-max", "64M", "--memory-high", "65M"],
            &["65M", "memory-high"],
        ),
        (&["--max-pool-percent", "101"], &["101", "max-pool-percent", "100"]),
        (&["--folio-max", "3M"], &["3M", "folio-max", "4K to 2M"]),
        (&["--swap", missing], &[missing, "No such file"]),
        (
            &["--swap", "/dev/null"],
            &["--swap /dev/null", "no directory", "not there yet"],
        ),
        (&["--page-cluster", "-1"], &["'-1'", "page-cluster", "from 0 to 5"]),
        (&["--frobnicate"], &["--frobnicate"]),
    ];
    for (options, words) in cases {
        let output = Command::new(UZSWAP)
            .arg("run")
            .args(options)
            .args(["--", "echo", "started"])
            .output()
            .expect("uzswap");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{options:?} started the command");
        assert!(!stderr.contains("tip: to pass"), "{options:?}: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{options:?}: no '{word}' in: {stderr}");
        }
    }
    for args in [
        &["run"][..],
        &["run", "--memory-max", "64M", "--"],
        &["stat", "no-such-group"],
    ] {
        assert_eq!(
            Command::new(UZSWAP).args(args).output().expect("uzswap").status.code(),
            Some(125),
            "{args:?}"
        );
    }
}

#[test]
fn a_workload_that_is_none_is_misuse_of_the_command_line() {
    let output = Command::new(UZSWAP)
        .args(["bench", "--only", "nosuch"])
        .output()
        .expect("uzswap bench");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("uzswap: --only nosuch: no workload has that in its name; they are ")
            && output.stdout.is_empty(),
        "{stderr}"
    );
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["run", "-h"]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let output = Command::new(UZSWAP).args(args).stdout(full).output().expect("uzswap");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {stderr}");
        assert!(
            stderr.starts_with("uzswap: standard output: No space left"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn a_name_that_is_taken_is_named_with_what_to_do() {
    if !can_manage() {
        return;
    }
    let name = format!("taken-{}", std::process::id());
    let within = [UZSWAP, "run", "--name", &name, "--", "echo", "started"];
    let run = run("taken", &["--quiet", "--name", &name], &within);
    assert_eq!((run.status(), &*run.output.stdout), (125, &b""[..]));
    let line = format!("uzswap: --name {name}: a group of that name is running: choose another; `uzswap list` shows");
    assert!(
        run.stderr().starts_with(&line) && !run.stderr().contains("--allow-unmanaged"),
        "{}",
        run.stderr()
    );
}

/// Whoever comes second may have looked before the first had the name.
#[test]
fn of_runs_that_begin_at_once_one_has_the_name() {
    if !can_manage() {
        return;
    }
    let name = format!("at-once-{}", std::process::id());
    let go = temp("at-once");
    // Not for ever: this test may fail first.
    let wait = format!(
        "for n in $(seq 3000); do [ -e {} ] && break; sleep 0.02; done; echo ran",
        go.display()
    );
    let begin = |_| {
        let mut command = Command::new(UZSWAP);
        command.args(["run", "--quiet", "--name", &name, "--", "sh", "-c", &wait]);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().expect("uzswap run")
    };
    let mut running: Vec<Child> = (0..8).map(begin).collect();
    while running.len() > 1 {
        let has_ended = |child: &mut Child| child.try_wait().expect("waiting").is_some();
        match running.iter_mut().position(has_ended) {
            Some(at) => {
                let output = running.swap_remove(at).wait_with_output().expect("its words");
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert_eq!(
                    (output.status.code(), &*output.stdout),
                    (Some(125), &b""[..]),
                    "{stderr}"
                );
                let line = format!("uzswap: --name {name}: a group of that name is running: choose another");
                assert!(
                    stderr.starts_with(&line) && !stderr.contains("--allow-unmanaged"),
                    "{stderr}"
                );
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    // Those that were refused took nothing of it with them.
    let get = Command::new(UZSWAP).args(["get", &name, "swap"]).output();
    assert!(get.expect("uzswap get").status.success());
    std::fs::write(&go, "").expect("a file");
    let last = running.swap_remove(0).wait_with_output().expect("its end");
    assert_eq!((last.status.code(), &*last.stdout), (Some(0), &b"ran\n"[..]));
    let _ = std::fs::remove_file(go);
}
