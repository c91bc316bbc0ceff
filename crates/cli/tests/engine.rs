//! The engine's mechanisms on real processes, one test each: what it must do is seen in the data
//! and in the counters.

mod common;

use common::{ALONE, Held, TORTURE, UZSWAP, can_manage, run};
use uzswap_mm::Replacement;

/// Every order that a 64K folio can have.
const ORDERS: [&str; 4] = ["8", "16", "32", "64"];

fn folios(run: &common::Run, counter: &str) -> u64 {
    let key = |kib: &&str| format!("hugepages-{kib}kB/stats/{counter}");
    ORDERS.iter().map(|kib| run.count(&key(kib))).sum()
}

#[test]
fn folios_leave_and_come_back_whole() {
    if !can_manage() {
        return;
    }
    let run = run("whole", &["--memory-max", "24M"], &[UZSWAP, "demo-child", "64"]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(folios(&run, "zswpout") > 500, "{:#}", run.counters);
    assert!(folios(&run, "swpin") > 100, "{:#}", run.counters);
    assert_eq!(folios(&run, "swpout"), 0);
}

#[test]
fn two_megabyte_folios_do_too() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "128M", "--folio-max", "2M"];
    let run = run("huge", &options, &[UZSWAP, "demo-child", "160"]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.count("hugepages-2048kB/stats/zswpout") > 5, "{:#}", run.counters);
    assert!(run.count("hugepages-2048kB/stats/swpin") > 0, "{:#}", run.counters);
}

#[test]
fn split_means_that_no_folio_leaves_whole() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "24M", "--swapout", "split"];
    let run = run("split", &options, &[UZSWAP, "demo-child", "64"]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert_eq!(folios(&run, "zswpout"), 0);
    assert!(run.count("zswpout") > 1000);
}

#[test]
fn direct_means_without_zswap() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "24M", "--swapout", "direct"];
    let run = run("direct", &options, &[UZSWAP, "demo-child", "64"]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert_eq!(run.count("zswpout"), 0);
    assert!(
        folios(&run, "swpout") > 100 && run.count("pswpin") > 1000,
        "{:#}",
        run.counters
    );
}

#[test]
fn pages_come_back_in_whatever_order_they_leave() {
    if !can_manage() {
        return;
    }
    // A child has the policy of its group.
    let script = format!("{UZSWAP} workload usemem --mb 40 --passes write,seq; exit $?");
    for policy in Replacement::ALL.map(Replacement::name) {
        let options = ["--memory-max", "24M", "--policy", policy];
        let run = run(&format!("policy-{policy}"), &options, &["sh", "-c", &script]);
        assert_eq!(run.status(), 0, "{policy}: {}{}", run.stdout(), run.stderr());
        assert_eq!(run.counters["policy"], policy);
        assert!(run.count("zswpout") > 1000, "{policy}: {:#}", run.counters);
    }
}

/// Fills 64 MiB and reads it in order, twice; every byte is checked.
const READ_AGAIN: [&str; 7] = [UZSWAP, "workload", "usemem", "--mb", "64", "--passes", "write,seq,seq"];

#[test]
fn pages_that_were_not_written_leave_without_being_compressed() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "40M", "--max-pool-percent", "100"];
    let run = run("clean", &options, &READ_AGAIN);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    let [clean, dirty] = ["swpout_clean", "swpout_dirty"].map(|key| run.count(key));
    assert!(clean > 1000 && dirty * 10 < clean, "{:#}", run.counters);
}

#[test]
fn without_the_swap_cache_every_page_is_compressed_again() {
    if !can_manage() {
        return;
    }
    let options = [
        "--memory-max",
        "40M",
        "--max-pool-percent",
        "100",
        "--swap-cache",
        "off",
    ];
    let run = run("unclean", &options, &READ_AGAIN);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert_eq!(
        run.count("swpout_clean") + run.count("swapcached"),
        0,
        "{:#}",
        run.counters
    );
    assert!(run.count("zswpout") > 16384, "{:#}", run.counters);
}

#[test]
fn enabled_stops_stores_and_nothing_else() {
    if !can_manage() {
        return;
    }
    let held = Held::start("enabled", &["--memory-max", "256M"], 64);
    assert!(held.control("reclaim", &["16M"]));
    assert!(held.control("set", &["enabled=0"]));
    // What takes hold at the next look of the process.
    std::thread::sleep(std::time::Duration::from_millis(400));
    let stored = held.now("zswpout");
    assert!(stored > 0);
    assert!(held.control("reclaim", &["16M"]));
    assert_eq!(held.now("zswpout"), stored);
    assert!(held.now("pswpout") > 0, "it goes to the device");
    assert!(!held.control("set", &["enabled=perhaps"]));
    let run = held.finish();
    assert!(run.count("zswpin") > 0, "what is stored is loaded");
}

#[test]
fn pages_are_loaded_alone_from_when_page_cluster_is_0() {
    if !can_manage() {
        return;
    }
    for (cluster, is_alone) in [("page_cluster=0", true), ("page_cluster=5", false)] {
        let held = Held::start("page-cluster", &["--memory-max", "256M"], 64);
        assert!(held.control("set", &[cluster]));
        assert!(held.control("reclaim", &["48M"]));
        assert!(!held.control("set", &["page_cluster=6"]));
        let run = held.finish();
        assert!(run.count("zswpin") > 1000, "{:#}", run.counters);
        assert_eq!(run.count("swap_ra") == 0, is_alone, "{:#}", run.counters);
    }
}

#[test]
fn a_parallel_compressor_and_background_threads_lose_nothing() {
    if !can_manage() {
        return;
    }
    let options = [
        "--memory-max",
        "24M",
        "--compressor",
        "zstd-parallel:1",
        "--kcompressd",
        "2",
    ];
    let cmd = [TORTURE, "--seed", "77", "--rounds", "4", "--threads=2", ALONE];
    let run = run("parallel", &options, &cmd);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert_eq!(run.counters["compressor"], "zstd-parallel:1");
    assert!(run.count("zswpout") > 100, "{:#}", run.counters);
}

#[test]
fn faults_served_by_several_threads_lose_nothing() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "24M", "--faults", "thread", "--fault-threads", "4"];
    let cmd = [TORTURE, "--seed", "78", "--rounds", "2", "--threads=4", ALONE];
    let run = run("fault-threads", &options, &cmd);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.count("pgfault_helped") > 0, "{:#}", run.counters);
}

/// Contents that do not compress are tried once, not at every round of reclaim.
#[test]
fn what_does_not_compress_is_remembered() {
    if !can_manage() {
        return;
    }
    // Without a device such pages go back to their mapping, again and again.
    let hold = "(head -c 24M /dev/urandom; sleep 1) | tail -c 20M | wc -c";
    let options = ["--memory-max", "48M", "--memory-high", "12M", "--swap", "none"];
    let run = run("remembered", &options, &["sh", "-c", hold]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert_eq!(run.stdout().trim(), (20 << 20).to_string());
    let (known, poor) = (run.count("known_incompressible"), run.count("reject_compress_poor"));
    assert!(known > 0 && known <= poor, "{known} of {poor}");
}

/// Idle pages come to rest at the density of the stronger compressor.
#[test]
fn idle_pages_are_compressed_again() {
    if !can_manage() {
        return;
    }
    // What lz4 made: of these pages words leaves zstd little to save.
    let options = ["--memory-max", "128M", "--compressor", "lz4", "--recompress", "zstd:1"];
    let held = Held::start("recompress", &options, 48);
    assert!(held.control("reclaim", &["48M"]));
    held.wait_until("it is told", |held| held.now("stored_pages") > 9000);
    let before = held.now("pool_total_size");
    let pages = held.now("stored_pages");
    held.wait_until("all of it was compressed again", |held| {
        held.now("recompressed") > pages * 9 / 10
    });
    let after = held.now("pool_total_size");
    assert!(after * 10 < before * 9, "{before} bytes before, {after} after");
    let run = held.finish();
    assert!(run.count("zswpin") > 9000);
}

/// Blobs go out compressed; the device fills up, refuses, drains, and is filled again.
#[test]
fn a_swap_file_fills_up_and_drains() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "256M", "--zswap-max", "4M", "--swap-max", "8M"];
    let held = Held::start("fills", &options, 64);
    held.wait_until("the device is full", |held| {
        held.control("reclaim", &["16M"]);
        held.now("memcg_swap_fail") > 0
    });
    let (used, written) = (held.now("memory.swap.current"), held.now("swap_write_bytes"));
    assert!(used <= 8 << 20, "{used}");
    assert!(
        held.now("pswpout") * 4096 > written * 3 / 2,
        "pages go out as they are compressed"
    );
    assert!(held.control("set", &["memory.swap.max=16M"]));
    // More than it was made for is not to be had.
    let run = held.finish();
    assert!(run.count("pswpin") > 1000, "{:#}", run.counters);
}

#[test]
fn plain_pages_go_out_plain() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "24M", "--zswap-max", "4M", "--swap-format", "plain"];
    let run = run("plain", &options, &[UZSWAP, "demo-child", "64"]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    let (pages, bytes) = (run.count("pswpout"), run.count("swap_write_bytes"));
    assert!(pages > 1000 && bytes >= pages * 4096, "{pages} pages, {bytes} bytes");
}

/// Once the pool was full it takes nothing until it is down to the threshold.
#[test]
fn a_full_pool_is_drained_to_the_threshold() {
    if !can_manage() {
        return;
    }
    let options = [
        "--memory-max",
        "256M",
        "--zswap-max",
        "8M",
        "--accept-threshold-percent",
        "50",
    ];
    let held = Held::start("threshold", &options, 96);
    held.wait_until("the pool was full", |held| {
        held.control("reclaim", &["8M"]);
        held.now("pool_limit_hit") > 0
    });
    held.wait_until("it is drained", |held| {
        held.control("reclaim", &["2M"]);
        held.now("pool_total_size") < 5 << 20
    });
    assert!(held.now("zswpwb") > 0);
    held.finish();
}

/// Cold pages leave the pool before it is full.
#[test]
fn the_shrinker_writes_back_early() {
    if !can_manage() {
        return;
    }
    let options = ["--memory-max", "40M", "--max-pool-percent", "100", "--shrinker"];
    let run = run("shrinker", &options, &[UZSWAP, "demo-child", "64"]);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.count("zswpwb_shrinker") > 100, "{:#}", run.counters);
    assert_eq!(run.count("pool_limit_hit"), 0);
}

/// A sample of the program's own pages makes the dictionary; what was stored before and after is
/// read back, also by children.
#[test]
fn pages_are_compressed_with_a_dictionary_of_their_own() {
    if !can_manage() {
        return;
    }
    let held = Held::start("dictionary", &["--memory-max", "128M", "--recompress", "none"], 48);
    assert!(held.control("set", &["compressor=zstd-dict:1"]));
    held.wait_until("the compressor is another", |held| held.now("pool_switch") > 0);
    assert!(held.control("reclaim", &["12M"]));
    held.wait_until("there is a dictionary", |held| {
        held.now("dictionary_wins") > 0 && held.now("pool_switch") > 1
    });
    assert!(held.control("reclaim", &["32M"]));
    held.wait_until("all is stored", |held| held.now("stored_pages") > 9000);
    let run = held.finish();
    assert_eq!(run.counters["compressor"], "zstd-dict:1");
    assert!(run.count("zswpin") > 9000, "{:#}", run.counters);

    let options = [
        "--memory-max",
        "24M",
        "--zswap-max",
        "8M",
        "--compressor",
        "zstd-dict-parallel:1",
    ];
    let cmd = [TORTURE, "--seed", "78", "--rounds", "4", "--threads=2", ALONE];
    let forks = run_torture("dictionary-forks", &options, &cmd);
    assert!(forks.count("zswpout") > 100, "{:#}", forks.counters);
}

fn run_torture(name: &str, options: &[&str], cmd: &[&str]) -> common::Run {
    let run = run(name, options, cmd);
    assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
    run
}

/// What fails now and then is tried again, and is counted under its name.
#[test]
fn steps_that_fail_lose_nothing() {
    if !can_manage() {
        return;
    }
    let options = [
        "--memory-max",
        "16M",
        "--max-pool-percent",
        "5",
        "--fail-per-mille",
        "50",
    ];
    let cmd = [TORTURE, "--seed", "79", "--rounds", "3", "--threads=2", ALONE];
    let run = run_torture("harmless", &options, &cmd);
    for kind in ["map_eagain", "map_enomem", "write_eio"] {
        assert!(run.count(&format!("injected/{kind}")) > 0, "{kind}: {:#}", run.counters);
    }
    assert_eq!(run.count("injected/pool_flip"), 0, "that would lose pages");
}

/// A page that is damaged is lost with a signal and a line; its reader never sees other bytes.
#[test]
fn damaged_pages_raise_a_signal() {
    if !can_manage() {
        return;
    }
    let closes = match module_path!().starts_with("older_kernels") {
        true => &[][..],
        false => &["--backend", "mprotect"],
    };
    let ways = [&[][..], &["--faults", "thread"], closes];
    for (kind, way) in ["pool_flip", "read_torn"]
        .into_iter()
        .flat_map(|kind| ways.map(|way| (kind, way)))
    {
        let options = [
            "--memory-max",
            "16M",
            "--zswap-max",
            "4M",
            "--fail-per-mille",
            "50",
            "--fail-kinds",
        ];
        let options = [&options[..], &[kind], way].concat();
        let run = run(kind, &options, &[UZSWAP, "demo-child", "48"]);
        // Before Linux 6.6 no page can be poisoned: the process is stopped instead.
        let is_stopped = run.stderr().contains("is stopped: its page");
        let signal = if is_stopped { 9 } else { 7 };
        assert_eq!(run.status(), 128 + signal, "{}{}", run.stdout(), run.stderr());
        assert!(run.stderr().contains("is lost"), "{}", run.stderr());
        assert!(run.count("decompress_fail") > 0 && run.count(&format!("injected/{kind}")) > 0);
    }
}
