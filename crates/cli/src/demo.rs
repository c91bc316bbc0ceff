//! `uzswap demo`: what a limit does to its worst case, and to a real program beside it. Each is
//! run without a limit and at one, as `uzswap try` does it.
//!
//! ```text
//! worst case   a program of ours: nothing that it has is cold, and it checks every byte
//! real program sort, whose lines and pointers are not all in use at a time
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uzswap_ctl::defaults::MEMORY_MAX_LEAST;
use uzswap_ctl::size::Size;
use uzswap_workload::heap::{PAGE_SIZE, Rng, fill_page, page_matches, prepare};

use crate::elf::{self, Found};
use crate::options::{DemoChildOptions, DemoOptions};
use crate::output::{print_error, say};
use crate::trial::options::{self, At, TryOptions};
use crate::{Failure, agent, memory_max, trial};

const SEED: u64 = 42;
const MIB: u64 = 1 << 20;
/// Of a machine that is large enough.
const DATA: u64 = 1 << 30;
/// How long the child holds still at most.
const HOLD_MAX: Duration = Duration::from_secs(120);
/// Of the data, the lines that are sorted are one part in so many; and they are so many bytes.
const LINES_SHARE: u64 = 16;
const LINES_LEAST: u64 = 8 * MIB;
const LINES_MOST: u64 = 64 * MIB;
/// What sort is given, in percent of what it takes: as in the README's table.
const SORT_PERCENT: &str = "80";

/// Both programs, each without a limit and at one. 1: one of them did something else at its limit.
pub(crate) fn demo(options: &DemoOptions) -> Result<u8, Failure> {
    let data = options.data.unwrap_or_else(|| DATA.min(memory_max::data_most()));
    let megabytes = data / MIB;
    let limit = options
        .memory_max
        .unwrap_or((megabytes * MIB / 4).max(MEMORY_MAX_LEAST));
    say!("The worst case: a program fills {megabytes} MiB with heap-like data and reads it in order and at random,");
    say!("checking every byte. All of it is in use, so each page that it touches has to come back first.");
    let exe = std::env::current_exe().map_err(|e| Failure::new(format!("finding this executable: {e}")))?;
    let size = megabytes.to_string().into();
    let cmd = vec![exe.into(), "demo-child".into(), "--silent".into(), size];
    let worst = trial::show(&TryOptions::of(cmd, vec![At::Size(limit)]))?;
    if worst > 1 {
        return Ok(worst);
    }
    let real = match elf::inspect("sort".as_ref()) {
        Found::Missing | Found::NotExecutable(_) => {
            say!("\nA real program is left out: there is no `sort` here.");
            0
        }
        _ => sort((data / LINES_SHARE).clamp(LINES_LEAST, LINES_MOST))?,
    };
    if real <= 1 {
        say!("\nA program of yours: uzswap try -- CMD");
    }
    Ok(worst.max(real))
}

/// A real program.
fn sort(bytes: u64) -> Result<u8, Failure> {
    let lines = Lines::write(bytes)?;
    say!(
        "\nA real program: sort, of {} MiB of lines, at {SORT_PERCENT} % of what it takes. ok: it prints the same.",
        bytes / MIB
    );
    let mut cmd: Vec<OsString> = ["env", "LC_ALL=C", "sort"].map(OsString::from).to_vec();
    cmd.push(lines.0.clone().into());
    let at = options::at(SORT_PERCENT).map_err(Failure::new)?;
    trial::show(&TryOptions::of(cmd, vec![at]))
}

/// A file of lines in no order, which goes when this does.
struct Lines(PathBuf);

impl Lines {
    fn write(bytes: u64) -> Result<Self, Failure> {
        let lines = Self(agent::runtime_dir()?.join(format!("demo-{}.lines", std::process::id())));
        write_lines(&lines.0, bytes).map_err(|e| Failure::of(&lines.0, &e))?;
        Ok(lines)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write_lines(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let (mut random, mut written) = (Rng::new(SEED), 0);
    while written < bytes {
        let line = format!("{:016x} {}\n", random.next_u64(), random.below(1 << 40));
        written += line.len() as u64;
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

/// The child: fill, read in order, read at random. Status 1 and a line when a page is wrong.
pub(crate) fn child(options: &DemoChildOptions) -> Result<u8, Failure> {
    let pages = options.megabytes.saturating_mul(MIB) / PAGE_SIZE as u64;
    prepare();
    let mut memory = zeros(pages as usize * PAGE_SIZE)?;
    for (i, page) in memory.chunks_exact_mut(PAGE_SIZE).enumerate() {
        fill_page(SEED, i as u64, page);
    }
    if let Some(path) = &options.hold {
        hold(path);
    }
    let mut bad = 0;
    for (i, page) in memory.chunks_exact(PAGE_SIZE).enumerate() {
        bad += u64::from(!page_matches(SEED, i as u64, page));
    }
    let mut random = Rng::new(SEED);
    for _ in 0..pages / 4 {
        let at = random.below(pages);
        let page = &memory[at as usize * PAGE_SIZE..][..PAGE_SIZE];
        bad += u64::from(!page_matches(SEED, at, page));
    }
    if bad > 0 {
        say!("{bad} pages read back different");
        return Ok(1);
    }
    let peak = anonymous_peak().ok_or_else(|| Failure::new("reading VmHWM and RssFile in /proc/self/status"))?;
    if !options.silent {
        say!("peak {peak}");
    }
    Ok(0)
}

/// Memory of zeros, of which nothing is there until it is touched.
fn zeros(bytes: usize) -> Result<Vec<u8>, Failure> {
    let failed = |e| Failure::new(format!("{} of memory for the demo: {e}", Size(bytes as u64)));
    // `vec!` ends the process where there is not so much, and no other call has zeros untouched.
    let mut probe = Vec::<u8>::new();
    probe.try_reserve_exact(bytes).map_err(failed)?;
    drop(black_box(probe));
    Ok(vec![0; bytes])
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

/// Say so, and do nothing until `path` exists.
fn hold(path: &Path) {
    print_error("written");
    let until = Instant::now() + HOLD_MAX;
    while !path.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}
