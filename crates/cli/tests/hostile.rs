//! Programs that do what few programs do: each says `right` if it saw what it would have seen
//! without a pager.

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

/// mremap makes shorter what need not be all of it memory: what it unmaps is nobody's to reclaim.
#[test]
fn a_mapping_with_a_hole_is_made_shorter() {
    if !can_manage() {
        return;
    }
    for backend in [&[][..], &["--backend", "mprotect"]] {
        let options = [&["--memory-max", "24M"], backend].concat();
        sees_what_is_right("shortened", &options, &[]);
    }
}

/// What a call held goes to the next one, and a handler's frame may be out as it returns.
#[test]
fn calls_may_be_left_and_handlers_return_late() {
    if !can_manage() {
        return;
    }
    for backend in ["uffd", "mprotect"] {
        for how in ["jumps", "cancelled", "late", "blocked"] {
            let options = ["--memory-max", "24M", "--guard", "on", "--backend", backend];
            sees_what_is_right("left_calls", &options, &[how]);
        }
    }
    sees_what_is_right("left_calls", &["--memory-max", "24M"], &["blocked"]);
}

/// What they reach stays, wherever it lies, and nothing else does.
#[test]
fn calls_may_go_on_for_long_and_reach_much() {
    if !can_manage() {
        return;
    }
    let ways = [
        &["--guard", "on"][..],
        &["--guard", "on", "--faults", "thread"],
        &["--backend", "mprotect"],
    ];
    for way in ways {
        // By mprotect such threads have up to 19 KiB of their stacks in use, which stay.
        let many = if way.contains(&"mprotect") { "80M" } else { "64M" };
        for (limit, what) in [
            ("24M", "coroutine"),
            ("24M", "jumps"),
            ("24M", "arguments"),
            ("24M", "reset"),
            (many, "threads"),
            ("40M", "waiting"),
        ] {
            let options = [&["--memory-max", limit], way].concat();
            sees_what_is_right("long_calls", &options, &[what]);
        }
    }
}

/// On a busy machine it would be seconds until whoever frees all memory has a core.
#[test]
fn no_thread_of_a_quiet_process_waits_for_an_idle_core() {
    if !can_manage() {
        return;
    }
    for guard in ["off", "on"] {
        sees_what_is_right("quiet_threads", &["--memory-max", "24M", "--guard", guard], &[]);
    }
}

/// It is killed if it lives on for so long. In any case somebody is told why.
#[test]
fn memory_that_may_be_executed_is_named_where_calls_are_not_guarded() {
    if !can_manage() {
        return;
    }
    let run = run_program("executable", &["--memory-max", "11M", "--guard", "off"], &["stands"]);
    let said = run.stderr();
    assert!(
        said.contains("may be executed, which is not managed; use --guard on"),
        "{said}"
    );
}

#[test]
fn memory_that_may_be_executed_leaves_and_comes_back() {
    if !can_manage() {
        return;
    }
    for backend in ["uffd", "mprotect"] {
        let options = ["--memory-max", "11M", "--guard", "on", "--backend", backend];
        let run = sees_what_is_right("executable", &options, &[]);
        assert!(run.count("zswpout") > 4_000, "{backend}: {:#}", run.counters);
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

#[test]
fn where_a_stack_was_is_memory_like_any() {
    if !can_manage() {
        return;
    }
    let run = sees_what_is_right("stack_pieces", &["--memory-max", "24M"], &[]);
    assert!(run.count("zswpout") > 5_000, "{:#}", run.counters);
}

/// What the records of stacks cover by mistake is no stack in a child either: it has the contents
/// of its parent's.
#[test]
fn a_child_inherits_what_lies_between_more_stacks_than_can_be_recorded() {
    if !can_manage() {
        return;
    }
    let run = sees_what_is_right("many_stacks", &["--memory-max", "24M"], &[]);
    assert!(run.count("zswpout") > 5_000, "{:#}", run.counters);
}

/// The kernel would fill it before anybody could register it.
#[test]
fn populated_mappings_keep_to_the_limit() {
    if !can_manage() {
        return;
    }
    let run = sees_what_is_right("populated", &["--memory-max", "24M"], &[]);
    let peak = run.count("memory.peak");
    assert!(peak < 26 << 20, "{:#}", run.counters);
}

/// The device is full: what it does not take goes to the pool, and when that is full too, the limit
/// holds.
#[test]
fn a_device_without_space_lifts_no_limit() {
    if !can_manage() {
        return;
    }
    let direct = ["--memory-max", "24M", "--swap-max", "4M", "--swapout", "direct"];
    let run = sees_what_is_right("fill", &direct, &["30"]);
    assert!(
        run.count("pswpout") > 0 && run.count("zswpout") > 0,
        "{:#}",
        run.counters
    );
    let mount = "mount -t tmpfs -o size=8M none /mnt && exec \"$@\"";
    let fill = compile("fill");
    for way in ["direct", "whole"] {
        let json = common::temp("full-device");
        let output = std::process::Command::new("unshare")
            .args([
                "-m",
                "sh",
                "-c",
                mount,
                "sh",
                common::UZSWAP,
                "run",
                "--memory-max",
                "24M",
            ])
            .args(["--swap", "/mnt", "--swapout", way, "--stat-json"])
            .arg(&json)
            .arg("--")
            .arg(&fill)
            .arg("64")
            .output()
            .expect("unshare");
        if output.status.code() == Some(1) {
            eprintln!("left out, no file system can be mounted: {output:?}");
            break;
        }
        let text = std::fs::read_to_string(&json).expect("its report");
        let _ = std::fs::remove_file(&json);
        let counters: serde_json::Value = serde_json::from_str(&text).expect("its report");
        let peak = counters["memory.peak"].as_u64().expect("a peak");
        assert_eq!(output.status.code(), Some(137), "{way}: {output:?}");
        assert!(peak < 27 << 20, "{way}: {peak}: {output:?}");
    }
    let _ = std::fs::remove_file(&fill);
}

#[test]
fn a_limit_of_file_sizes_is_not_about_the_swap_file() {
    if !can_manage() {
        return;
    }
    let run = sees_what_is_right("file_size_limit", &["--memory-max", "24M"], &["64"]);
    assert!(run.count("pswpout") > 5_000, "{:#}", run.counters);
    // The pool has what a file of 8 MiB, or of none, does not hold.
    for limit in ["8", "0"] {
        sees_what_is_right("file_size_limit", &["--memory-max", "24M"], &["26", limit]);
    }
}

#[test]
fn a_program_may_have_a_userfaultfd_of_its_own() {
    if !can_manage() {
        return;
    }
    for isolate in [&[][..], &["--isolate", "copy"]] {
        let options = [&["--memory-max", "48M"], isolate].concat();
        let run = sees_what_is_right("own_userfaultfd", &options, &[]);
        assert!(run.count("zswpout") > 1_000, "{:#}", run.counters);
    }
}
