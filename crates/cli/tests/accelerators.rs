//! `deflate-iaa` in real processes: on a model of the devices, since no machine of ours has one.

mod common;

use std::process::Command;

use common::{Run, TORTURE, UZSWAP, can_manage, run};

/// Threads of a process that a request may be under way in when it ends, and pages of each.
const UNDER_WAY_MAX: u64 = 8 * 64;

fn said(args: &[&str]) -> (i32, String) {
    let output = Command::new(UZSWAP).args(args).output().expect("uzswap");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), text)
}

/// The counters as the documents say they add up, but for what was under way when processes ended.
fn assert_adds_up(run: &Run) {
    let of = |name: &str| run.count(&format!("iaa/{name}"));
    let sum = |names: &[&str]| names.iter().map(|name| of(name)).sum::<u64>();
    let left = of("under_way");
    assert!(left <= UNDER_WAY_MAX, "{left} pages under way: {:#}", run.counters);
    for (direction, more) in [("comp", &["comp_incompressible"][..]), ("decomp", &[])] {
        let name = |rest: &str| format!("{direction}_{rest}");
        let requests = of(&name("requests"));
        let causes = ["no_slot", "full", "no_queue", "unfit", "withdrawn"].map(|cause| of(&name(cause)));
        let submitted = of(&format!("total_{direction}_calls")) + causes.iter().sum::<u64>();
        let ended = sum(more) + of(&name("done")) + of(&name("cancelled")) + of(&format!("total_sw_{direction}_calls"));
        assert!(
            submitted <= requests && requests - submitted <= left,
            "{direction}: {:#}",
            run.counters
        );
        assert!(
            ended <= requests && requests - ended <= left,
            "{direction}: {:#}",
            run.counters
        );
    }
    let settled = ["done", "poor", "refused", "wrong", "late", "cancelled"].map(|fate| of(&format!("acomp_{fate}")));
    assert_eq!(of("acomp_pages"), settled.iter().sum::<u64>(), "{:#}", run.counters);
    // Each work queue's calls are among those of all.
    let calls = |calls: &str| -> u64 {
        let counters = run.counters.as_object().expect("an object");
        let of_queues = counters
            .iter()
            .filter(|(name, _)| name.starts_with("iaa/wq") && name.ends_with(calls));
        of_queues.filter_map(|(_, value)| value.as_u64()).sum()
    };
    // A process may end between the two.
    let differ =
        |direction: &str| of(&format!("total_{direction}_calls")).abs_diff(calls(&format!("/{direction}_calls")));
    assert!(differ("comp") + differ("decomp") <= 8, "{:#}", run.counters);
    // Nobody submits but drivers, and what is refused is tried again.
    let descriptors = of("total_comp_calls") + of("total_decomp_calls") + of("verify_calls") + of("fault_retries");
    assert!(of("model_accepted") + of("model_lost") > 0, "{:#}", run.counters);
    assert!(
        of("model_accepted") <= descriptors + 8 * of("device_suspect") + left,
        "{:#}",
        run.counters
    );
}

#[test]
fn without_a_device_the_cause_and_the_fix_are_named() {
    if !can_manage() || std::path::Path::new("/dev/iax").exists() {
        return;
    }
    let (status, text) = said(&["run", "--compressor", "deflate-iaa", "--", "true"]);
    assert_eq!((status, text.lines().count()), (125, 1), "{text}");
    for part in [
        "--compressor deflate-iaa: no IAA work queue can be used",
        "/sys/bus/dsa/devices has no iax device",
        "--iaa-model",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("--allow-unmanaged"), "{text}");
    let (status, text) = said(&["run", "--recompress", "deflate-iaa:dynamic", "--", "true"]);
    assert!(
        status == 125 && text.contains("--recompress deflate-iaa:dynamic: no IAA"),
        "{text}"
    );
}

#[test]
fn bad_values_are_refused_with_the_rule() {
    for (args, rule) in [
        (
            &["--compressor", "deflate-iaa:best"][..],
            "unknown compressor 'deflate-iaa:best': its codes must be fixed or dynamic",
        ),
        (&["--compressor", "deflate-iaa:canned"], "lack their header"),
        (&["--compressor", "deflate-iaa-parallel"], "the compressors are"),
        (
            &["--iaa-model", "devices=0"],
            "iaa-model: `devices=0`: it must be a number from 1 to 64",
        ),
        (
            &["--iaa-model", "wqs=9"],
            "iaa-model: `wqs=9`: it must be a number from 1 to 8",
        ),
        (
            &["--iaa-model", "faults=lots"],
            "iaa-model: `faults=lots`: it must be a number from 0 to 1000",
        ),
        (
            &["--iaa-model", "speed=9"],
            "iaa-model: `speed=9`: it must be KEY=VALUE with one of devices,",
        ),
        (&["--iaa-model", "clock=virtual"], "programs run in real time"),
        (&["--iaa-verify", "maybe"], "possible values: on, off"),
        (&["--iaa-sync-mode", "async_irq"], "possible values: sync, async"),
        (
            &[
                "--iaa-model=",
                "--compressor=deflate-iaa",
                "--recompress=deflate-iaa:dynamic",
            ],
            "the devices of a group have one kind of codes",
        ),
    ] {
        let mut all = vec!["run"];
        all.extend(args);
        all.extend(["--", "true"]);
        let (status, text) = said(&all);
        assert!(status == 125 && text.contains(rule), "{args:?}: {text}");
    }
    let mut command = Command::new(UZSWAP);
    let output = command
        .env("UZSWAP_IAA_MODEL", "late=0")
        .args(["run", "--", "true"])
        .output();
    let text = String::from_utf8_lossy(&output.expect("uzswap").stderr).into_owned();
    assert!(
        text.contains("iaa-model: `late=0`: it must be a number from 1 to 60000"),
        "{text}"
    );
    let (status, text) = said(&["zram", "--size=4M", "--socket=/none/s", "--compressor=deflate-iaa"]);
    assert!(
        status == 2 && text.contains("only `uzswap run` compresses with devices"),
        "{text}"
    );
}

#[test]
fn a_program_pages_through_the_model() {
    if !can_manage() {
        return;
    }
    for (name, compressor, sync_mode, model) in [
        ("iaa-fixed", "deflate-iaa", "async", "devices=4,engines=8,wqs=2,seed=1"),
        (
            "iaa-dynamic",
            "deflate-iaa:dynamic",
            "async",
            "devices=2,mode=dedicated,seed=2",
        ),
        ("iaa-sync", "deflate-iaa", "sync", "devices=1,seed=3"),
    ] {
        let options = [
            "--memory-max=16M",
            "--recompress=none",
            "--summary",
            "--compressor",
            compressor,
            "--iaa-sync-mode",
            sync_mode,
            "--iaa-model",
            model,
        ];
        let run = run(name, &options, &[UZSWAP, "demo-child", "30"]);
        assert_eq!(run.status(), 0, "{}", run.stderr());
        assert!(run.stderr().contains("iaa: a MODEL of devices"), "{}", run.stderr());
        assert_eq!(run.counters["iaa"], "MODEL");
        assert_eq!(run.counters["compressor"], compressor);
        assert_eq!(run.counters["iaa/sync_mode"], sync_mode);
        assert_eq!((run.count("iaa/model_injected"), run.count("iaa/acomp_wrong")), (0, 0));
        assert!(run.count("iaa/acomp_done") > 500, "{:#}", run.counters);
        assert_adds_up(&run);
    }
}

/// With forks, each of which opens its queues anew, devices that err, and some that come and go.
#[test]
fn the_torture_runs_on_devices_that_err() {
    if !can_manage() {
        return;
    }
    for (name, model) in [
        ("iaa-faults", "devices=4,wqs=2,faults=50,seed=3"),
        ("iaa-churn", "devices=2,faults=50,outage=20,churn=100,map=no,seed=4"),
    ] {
        let options = [
            "--memory-max=24M",
            "--compressor=deflate-iaa",
            "--recompress=none",
            "--iaa-model",
            model,
        ];
        let torture = [TORTURE, "--seconds", "4", "--seed", "9"];
        let run = run(name, &options, &torture);
        assert_eq!(run.status(), 0, "{}\n{}", run.stdout(), run.stderr());
        assert!(run.count("iaa/model_injected") > 0, "{:#}", run.counters);
        assert!(run.count("iaa/model_openings") > 1, "{:#}", run.counters);
        assert!(run.count("iaa/acomp_done") > 0, "{:#}", run.counters);
        assert_adds_up(&run);
    }
}

/// A group may begin to use its model while it runs.
#[test]
fn a_running_group_changes_to_the_model() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max=16M", "--recompress=none"];
    let without = common::Held::start("iaa-none", &options, 20);
    assert!(!without.control("set", &["compressor=deflate-iaa"]));
    without.finish();
    let options = [&options[..], &["--iaa-model=devices=1,seed=5"]].concat();
    let held = common::Held::start("iaa-set", &options, 30);
    assert_eq!(held.now("iaa/acomp_pages"), 0);
    assert!(!held.control("set", &["compressor=deflate-iaa:dynamic"]));
    assert!(held.control("set", &["compressor=deflate-iaa"]));
    let run = held.finish();
    assert!(run.count("iaa/acomp_done") > 0, "{:#}", run.counters);
    assert_adds_up(&run);
}
