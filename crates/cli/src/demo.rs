//! `uzswap demo`: a real child process with a gigabyte of data in a quarter of that, every byte
//! checked.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use uzswap_workload::heap::{PAGE_SIZE, Rng, fill_page, page_matches, prepare};

use crate::Failure;
use crate::options::{DemoChildOptions, DemoOptions};
use crate::output::say;
use uzswap_ctl::size::Size;

const SEED: u64 = 42;
const MIB: u64 = 1 << 20;
/// How long the child holds still at most.
const HOLD_MAX: Duration = Duration::from_secs(120);

/// What a run of the child came to.
struct Outcome {
    seconds: f64,
    /// Of anonymous memory, which the limit is about. Bytes.
    peak: u64,
}

/// Run the child without and with uzswap and print both.
pub(crate) fn demo(options: &DemoOptions) -> Result<u8, Failure> {
    let data = (options.data.0 / MIB).max(1);
    let limit = options.memory_max.unwrap_or(Size(data * MIB / 4));
    let exe = std::env::current_exe().map_err(|e| Failure::new(format!("finding this executable: {e}")))?;
    let json = std::env::temp_dir().join(format!("uzswap-demo-{}.json", std::process::id()));

    say!("A program that fills {data} MiB with heap-like data, reads it in order and at random, checking every byte.");
    say!("\nwithout uzswap:");
    let plain = child_of(Command::new(&exe).args(["demo-child", &data.to_string()]))?;
    say!("\nuzswap run --memory-max {limit}:");
    let mut command = Command::new(&exe);
    command
        .args(["run", "--no-config", "--memory-max"])
        .arg(limit.0.to_string())
        .arg("--stat-json")
        .arg(&json);
    command.arg("--").arg(&exe).args(["demo-child", &data.to_string()]);
    let managed = child_of(&mut command)?;

    let text = std::fs::read_to_string(&json).unwrap_or_default();
    let _ = std::fs::remove_file(&json);
    print_result(
        &plain,
        &managed,
        limit,
        &serde_json::from_str(&text).unwrap_or(Value::Null),
    )?;
    Ok(u8::from(managed.peak > limit.0 + limit.0 / 20))
}

fn print_result(plain: &Outcome, managed: &Outcome, limit: Size, counters: &Value) -> Result<(), Failure> {
    let mib = |bytes: u64| format!("{} MiB", bytes / MIB);
    let count = |key: &str| counters[key].as_u64().unwrap_or(0);
    let (stored, pool) = (count("zswapped"), count("pool_total_size").max(1));
    say!("\n{:<28}{:>14}{:>14}", "", "without", "with uzswap");
    say!(
        "{:<28}{:>14}{:>14}",
        "peak anonymous memory",
        mib(plain.peak),
        mib(managed.peak)
    );
    say!("{:<28}{:>14}{:>14}", "limit", "none", limit.to_string());
    say!("{:<28}{:>13.1}s{:>13.1}s", "time", plain.seconds, managed.seconds);
    say!("{:<28}{:>14}{:>14}", "faults served", "", count("pgfault"));
    say!(
        "{:<28}{:>14}{:>14.2}",
        "compression ratio at the end",
        "",
        stored as f64 / pool as f64
    );
    say!(
        "{:<28}{:>14}{:>14}",
        "pages stored / loaded",
        "",
        format!("{}/{}", count("zswpout"), count("zswpin"))
    );
    say!("{:<28}{:>14}{:>14}", "every byte", "right", "right");
    Ok(())
}

/// Run a child that reports one line on stdout; its progress goes to our stderr.
fn child_of(command: &mut Command) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| Failure::new(format!("starting the demo's child: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let peak = text.trim().strip_prefix("peak ").and_then(|n| n.parse().ok());
    match (output.status.success(), peak) {
        (true, Some(peak)) => Ok(Outcome {
            seconds: started.elapsed().as_secs_f64(),
            peak,
        }),
        _ => Err(Failure::new(format!(
            "the demo's child failed ({}): {}",
            output.status,
            text.trim()
        ))),
    }
}

/// The child: fill, read in order, read at random. Status 1 and a line when a page is wrong.
pub(crate) fn child(options: &DemoChildOptions) -> Result<u8, Failure> {
    let pages = options.megabytes * MIB / PAGE_SIZE as u64;
    prepare();
    let mut memory = vec![0u8; pages as usize * PAGE_SIZE];
    for (i, page) in memory.chunks_exact_mut(PAGE_SIZE).enumerate() {
        fill_page(SEED, i as u64, page);
        progress("writing", i as u64, pages);
    }
    if let Some(path) = &options.hold {
        hold(path);
    }
    let mut bad = 0;
    for (i, page) in memory.chunks_exact(PAGE_SIZE).enumerate() {
        bad += u64::from(!page_matches(SEED, i as u64, page));
        progress("reading in order", i as u64, pages);
    }
    let mut random = Rng::new(SEED);
    let touches = pages / 4;
    for i in 0..touches {
        let at = random.below(pages);
        let page = &memory[at as usize * PAGE_SIZE..][..PAGE_SIZE];
        bad += u64::from(!page_matches(SEED, at, page));
        progress("reading at random", i, touches);
    }
    if bad > 0 {
        say!("{bad} pages read back different");
        return Ok(1);
    }
    let peak = anonymous_peak().ok_or_else(|| Failure::new("reading VmHWM and RssFile in /proc/self/status"))?;
    say!("peak {peak}");
    Ok(0)
}

/// The most anonymous memory that this process had. The kernel keeps the peak of all that is
/// resident; of that, mapped files are our own code, of which more and more is resident. Bytes.
fn anonymous_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = |name| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    Some((kib("VmHWM:")? - kib("RssFile:")?) * 1024)
}

/// Do nothing until `path` exists.
fn hold(path: &Path) {
    let until = Instant::now() + HOLD_MAX;
    while !path.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A line that overwrites itself, 20 times a pass.
fn progress(what: &str, done: u64, of: u64) {
    let step = (of / 20).max(1);
    if (done + 1).is_multiple_of(step) || done + 1 == of {
        let end = if done + 1 == of { "\n" } else { "\r" };
        // In one write: several processes share a pipe.
        let line = format!("  {what:<18} {:>3} %{end}", (done + 1) * 100 / of);
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
