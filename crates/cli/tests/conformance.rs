//! The kernel's zswap selftests (tools/testing/selftests/cgroup/test_zswap.c) on our limits and
//! counters, with real processes. Each test has the name of the kernel's. Left out:
//! test_no_kmem_bypass and test_swap_tiers, which are about things that a process has not; child
//! cgroups, which groups do not have.

mod common;

use std::process::Command;
use std::thread::ScopedJoinHandle;

use common::{Held, Run, UZSWAP, can_manage, run};

const PAGES_OF_MIB: u64 = 256;

/// A counter of a running group.
fn now(group: &str, counter: &str) -> u64 {
    let output = Command::new(UZSWAP)
        .args(["stat", group, "--json"])
        .output()
        .expect("uzswap stat");
    let counters: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    counters[counter].as_u64().unwrap_or(0)
}

/// Try until it succeeds or the run is over.
fn until(running: &ScopedJoinHandle<'_, Run>, mut attempt: impl FnMut() -> bool) -> bool {
    while !running.is_finished() {
        if attempt() {
            return true;
        }
    }
    false
}

fn group(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn assert_intact(run: &Run) {
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
}

#[test]
fn zswap_usage() {
    if !can_manage() {
        return;
    }
    let run = run("usage", &["--memory-max", "16M"], &[UZSWAP, "demo-child", "32"]);
    assert_intact(&run);
    assert!(run.count("zswpout") > 0);
}

#[test]
fn swapin_nozswap() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "24M", "--zswap-max", "0"];
    let run = run("nozswap", &options, &[UZSWAP, "demo-child", "32"]);
    assert_intact(&run);
    assert_eq!(run.count("zswpout"), 0);
    assert!(
        run.count("pswpout") >= 8 * PAGES_OF_MIB && run.count("pswpin") > 0,
        "{:#}",
        run.counters
    );
}

#[test]
fn zswapin() {
    if !can_manage() {
        return;
    }
    let run = run("zswapin", &["--memory-max", "24M"], &[UZSWAP, "demo-child", "64"]);
    assert_intact(&run);
    assert!(
        run.count("zswpin") + run.count("swpin_zero") >= 24 * PAGES_OF_MIB,
        "{:#}",
        run.counters
    );
}

/// Memory goes to zswap; then zswap may hold less, and reclaim writes back.
#[test]
fn zswap_writeback_enabled() {
    if !can_manage() {
        return;
    }
    let held = Held::start("writeback", &["--memory-max", "256M"], 64);
    assert!(held.control("reclaim", &["48M"]));
    held.wait_until("it is told", |held| held.now("stored_pages") > 0);
    assert_eq!(held.now("zswpwb"), 0);
    assert!(held.control("set", &["memory.zswap.max=2M"]));
    held.wait_until("it is written back", |held| {
        held.control("reclaim", &["4M"]) && held.now("zswpwb") > 0
    });
    held.finish();
}

/// The same with writeback forbidden: what zswap may hold is full, so reclaim fails, and nothing is
/// written.
#[test]
fn zswap_writeback_disabled() {
    if !can_manage() {
        return;
    }
    let held = Held::start("nowriteback", &["--memory-max", "256M"], 64);
    assert!(held.control("set", &["memory.zswap.writeback=0"]));
    assert!(held.control("reclaim", &["32M"]));
    assert!(held.control("set", &["memory.zswap.max=2M"]));
    held.wait_until("reclaim is refused", |held| !held.control("reclaim", &["16M"]));
    let run = held.finish();
    assert_eq!((run.count("zswpwb"), run.count("pswpout")), (0, 0));
}

/// The limits of pool and device are the group's, not each process's (there: of a control group
/// with several processes).
#[test]
fn limits_hold_for_all_processes_together() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "256M", "--zswap-max", "8M", "--swap-max", "16M"];
    let held = Held::start_several("together", &options, 32, 3);
    let mut most = (0, 0);
    held.wait_until("no more is reclaimed", |held| {
        let is_done = !held.control("reclaim", &["8M"]);
        most = (
            most.0.max(held.now("zswap")),
            most.1.max(held.now("memory.swap.current")),
        );
        is_done
    });
    let run = held.finish();
    assert!(run.count("pswpout") > 0 && run.count("zswpout") > 0);
    // Of the pool each process may be storing a batch when it fills.
    assert!(most.0 <= 10 << 20 && most.1 <= 16 << 20, "{most:?}");
}

/// One group over its zswap limit makes no other write back.
#[test]
fn no_invasive_cgroup_shrink() {
    if !can_manage() {
        return;
    }
    std::thread::scope(|scope| {
        let pressed = scope.spawn(|| {
            let options = ["--memory-max", "24M", "--zswap-max", "1M"];
            run("pressed", &options, &[UZSWAP, "demo-child", "64"])
        });
        // It would write back for its own sake too.
        let options = ["--memory-max", "64M", "--max-pool-percent", "100", "--balance", "off"];
        let other = run("other", &options, &[UZSWAP, "demo-child", "80"]);
        let pressed = pressed.join().expect("the run");
        assert_intact(&pressed);
        assert_intact(&other);
        assert!(pressed.count("zswpwb") > 0, "{:#}", pressed.counters);
        assert!(other.count("zswpout") > 0);
        assert_eq!(other.count("zswpwb"), 0);
    });
}

/// The gauge of incompressible pages rises while they are stored.
#[test]
fn zswap_incompressible() {
    if !can_manage() {
        return;
    }
    let name = group("incompressible");
    let options = ["--memory-max", "24M", "--name", &name];
    std::thread::scope(|scope| {
        // tail keeps what it may have to print; the sleep keeps it alive.
        let hold = "(head -c 48M /dev/urandom; sleep 1) | tail -c 40M | wc -c";
        let running = scope.spawn(|| run("incompressible", &options, &["sh", "-c", hold]));
        assert!(until(&running, || now(&name, "zswap_incomp") > 0));
        let run = running.join().expect("the run");
        assert_intact(&run);
        assert_eq!(run.stdout().trim(), (40 << 20).to_string());
    });
}

/// `uzswap reclaim --source zswap` writes back, and a malformed request is refused.
#[test]
fn zswap_proactive_writeback() {
    if !can_manage() {
        return;
    }
    let held = Held::start("proactive", &["--memory-max", "256M"], 64);
    assert!(held.control("reclaim", &["32M"]));
    assert!(!held.control("reclaim", &["--source", "zswap"]), "no size");
    assert!(!held.control("reclaim", &["1M", "--source", "swap"]), "no such source");
    assert!(held.control("reclaim", &["4M", "--source", "zswap"]));
    let run = held.finish();
    assert!(run.count("zswpwb") >= 4 * PAGES_OF_MIB, "{:#}", run.counters);
}
