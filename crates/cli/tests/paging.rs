//! Real processes under a limit: what they hold must come back, and the limit must hold.

mod common;

use common::{ALONE, TORTURE, UZSWAP, can_manage, compile, run};

const MIB: u64 = 1 << 20;

/// The demo's child checks every byte itself and prints its own peak.
#[test]
fn a_program_runs_in_a_third_of_its_memory() {
    if !can_manage() {
        return;
    }
    for compressor in ["lz4", "words", "zstd:1", "deflate"] {
        let run = run(
            compressor,
            &["--memory-max", "40M", "--compressor", compressor],
            &[UZSWAP, "demo-child", "96"],
        );
        assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
        let peak: u64 = run
            .stdout()
            .trim()
            .strip_prefix("peak ")
            .and_then(|n| n.parse().ok())
            .expect("a peak");
        assert!(peak < 40 * MIB + 2 * MIB, "{compressor}: peak {peak}");
        assert!(run.count("zswpout") > 10_000, "{compressor}: {:#}", run.counters);
        assert!(run.count("zswpin") + run.count("pswpin") > 10_000);
        assert_eq!(run.counters["compressor"], compressor.replace("deflate", "deflate:1"));
    }
}

#[test]
fn every_allocator_keeps_what_it_is_given() {
    if !can_manage() {
        return;
    }
    for zpool in ["zsmalloc", "zbud", "z3fold"] {
        let run = run(
            zpool,
            &["--memory-max", "40M", "--zpool", zpool],
            &[UZSWAP, "demo-child", "96"],
        );
        assert_eq!(run.status(), 0, "{zpool}: {}{}", run.stdout(), run.stderr());
        assert_eq!(run.counters["zpool"], zpool);
        assert!(run.count("zswpin") > 1000, "{zpool}: {:#}", run.counters);
    }
}

/// Compressor and allocator are changed all the time; old pools live until their last page leaves.
#[test]
fn pools_change_under_load_and_lose_nothing() {
    if !can_manage() {
        return;
    }
    let name = format!("switch-{}", std::process::id());
    let options = ["--memory-max", "24M", "--name", &name];
    let cmd = [TORTURE, "--seed", "5", "--rounds", "6", "--threads=2", ALONE];
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run("switch", &options, &cmd));
        let settings = ["lz4", "zstd:1", "deflate:1", "words", "lz4:4", "zstd:3"]
            .iter()
            .cycle();
        for (compressor, zpool) in settings.zip(["zsmalloc", "zbud", "z3fold"].iter().cycle()) {
            if running.is_finished() {
                break;
            }
            let setting = [format!("compressor={compressor}"), format!("zpool={zpool}")];
            let set = std::process::Command::new(UZSWAP)
                .arg("set")
                .arg(&name)
                .args(setting)
                .output();
            assert!(set.is_ok());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let run = running.join().expect("the run");
        assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
        assert!(run.count("pool_switch") > 3, "{:#}", run.counters);
    });
}

#[test]
fn without_a_swap_file_the_pool_holds_everything() {
    if !can_manage() {
        return;
    }
    let run = run(
        "noswap",
        &["--memory-max", "72M", "--swap", "none"],
        &[UZSWAP, "demo-child", "96"],
    );
    assert_eq!(run.status(), 0, "{}", run.stderr());
    assert_eq!((run.count("pswpout"), run.count("zswpwb")), (0, 0));
    assert!(run.count("zswpin") > 1000);
}

#[test]
fn outgrowing_the_limit_kills_with_one_clear_line() {
    if !can_manage() {
        return;
    }
    let run = run(
        "oom",
        &["--memory-max", "16M", "--swap", "none"],
        &[UZSWAP, "demo-child", "128"],
    );
    assert_eq!(run.status(), 137, "{}", run.stderr());
    let lines: Vec<String> = run
        .stderr()
        .lines()
        // On a busy machine it may have waited for ten seconds before, which is said as well.
        .filter(|l| l.contains("uzswap: ") && !l.contains(" waited for pages "))
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("--memory-max 16M") && lines[0].contains("nothing left to reclaim"),
        "{lines:?}"
    );
}

/// The short form of the state machine; the long one is `uzswap-torture --seconds 600`.
#[test]
fn random_operations_see_what_they_wrote() {
    if !can_manage() {
        return;
    }
    for (seed, limit, rounds, more) in [("1", "12M", "4", "--no-fork"), ("2", "24M", "4", "--threads=2")] {
        let cmd = [TORTURE, "--seed", seed, "--rounds", rounds, more, ALONE];
        let run = run(&format!("torture-{seed}"), &["--memory-max", limit], &cmd);
        assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
        assert!(run.count("zswpout") > 100, "{:#}", run.counters);
        assert_eq!(run.count("forks") > 0, more != "--no-fork");
    }
}

#[test]
fn a_small_program_gets_no_pager() {
    if !can_manage() {
        return;
    }
    let run = run("true", &["--memory-max", "16M"], &["true"]);
    assert_eq!(run.status(), 0);
    assert_eq!(run.count("pgfault"), 0);
}

/// Nothing of the parent's is registered.
#[test]
fn what_is_left_alone_may_fork() {
    if !can_manage() {
        return;
    }
    let script = "v=$(head -c 5M /dev/zero | tr '\\0' x); (echo ${#v}); (w=$v$v; (echo ${#w}))";
    let run = run(
        "deferred-forks",
        &["--memory-max", "8G"],
        &["timeout", "60", "sh", "-c", script],
    );
    assert_eq!(
        (run.status(), run.stdout().as_str()),
        (0, "5242880\n10485760\n"),
        "{}",
        run.stderr()
    );
    assert!(run.count("forks") >= 2, "{:#}", run.counters);
}

/// Much memory in small mappings: charged in any case, under our care only where it does not fit.
#[test]
fn what_fits_is_left_alone() {
    if !can_manage() {
        return;
    }
    let cmd = [
        "sh",
        "-c",
        "yes no page is like another | nl | head -c 60M | tail -c 40M | cksum",
    ];
    let fits = run("fits", &["--memory-max", "8G"], &cmd);
    let does_not = run("does-not", &["--memory-max", "16M"], &cmd);
    assert_eq!(
        (fits.status(), does_not.status()),
        (0, 0),
        "{}{}",
        fits.stderr(),
        does_not.stderr()
    );
    assert_eq!(fits.stdout(), does_not.stdout());
    assert_eq!(fits.count("pgfault"), 0);
    assert!(fits.count("memory.peak") > 40 << 20, "{:#}", fits.counters);
    assert!(does_not.count("zswpout") > 5000, "{:#}", does_not.counters);
    assert!(does_not.count("memory.peak") <= 16 << 20, "{:#}", does_not.counters);
}

/// What counts is what a program may write to at a time, not all that it ever reserved or mapped.
#[test]
fn what_is_mapped_and_unmapped_is_left_alone() {
    // The guard does not go with copies, which that has all runs ask for.
    if !can_manage() || module_path!().starts_with("older_kernels") {
        return;
    }
    let program = compile("fits");
    let path = program.to_str().expect("a name of ours");
    for way in [&["--faults", "inline"], &["--backend", "mprotect"]] {
        let options = |limit| [&["--guard", "on", "--memory-max", limit], &way[..]].concat();
        let (fits, does_not) = (
            run("fits", &options("96M"), &[path]),
            run("fits", &options("20M"), &[path]),
        );
        for run in [&fits, &does_not] {
            let said = (run.status(), run.stdout());
            assert_eq!(said, (0, "right\n".to_owned()), "{way:?}: {}", run.stderr());
        }
        assert_eq!(fits.count("pgfault"), 0, "{way:?}: {:#}", fits.counters);
        assert!(does_not.count("zswpout") > 1000, "{way:?}: {:#}", does_not.counters);
        let most = 20 << 20;
        assert!(
            does_not.count("memory.peak") <= most,
            "{way:?}: {:#}",
            does_not.counters
        );
    }
    let _ = std::fs::remove_file(&program);
}

/// A limit far below what a program looks at is named, and how much would be enough.
#[test]
fn who_waits_for_pages_most_of_the_time_is_told_once() {
    if !can_manage() {
        return;
    }
    let program = compile("thrashes");
    let command = [program.to_str().expect("a name in UTF-8"), "60", "23"];
    let run = run("thrashes", &["--memory-max", "16M", "--summary"], &command);
    let errors = run.stderr();
    assert_eq!(run.status(), 0, "{errors}");
    let lines: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains("waited for pages"))
        .collect();
    assert_eq!(lines.len(), 1, "{errors}");
    assert!(lines[0].contains("more would end that (--memory-max 16M)"), "{errors}");
    // Half of each page compresses to nothing, so the rest of them needs half as much again.
    let more = lines[0]
        .split_once("about ")
        .and_then(|(_, rest)| rest.split_once("M more"));
    let more: f64 = more.expect("a size").0.parse().expect("MiB");
    assert!((15.0..60.0).contains(&more), "{errors}");
    assert!(errors.contains("lost: ") && errors.contains("saved: "), "{errors}");
    assert!(run.count("waited_ns") > 5_000_000_000 && run.count("memory.needed_peak") >= 60 * MIB);
    let _ = std::fs::remove_file(program);
}
