//! Programs that are recorded: what a trace says of them, and what becomes of them where it cannot
//! be written.

mod common;

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::Parser;
use common::{UZSWAP, can_manage, compile, temp};
use uzswap_ctl::ENV_RECORD;
use uzswap_ctl::record::{Header, Place, Record, What, read};

/// What the program holds: 24 MiB.
const MEGABYTES: &str = "24";
const PAGES: u64 = 24 << 8;

/// A file of our own that goes with us.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Self {
        Self(temp(name))
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a name that is text")
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bench(args: &[&str]) -> Result<(), String> {
    let args = ["uzswap-bench", "policy"].iter().chain(args);
    let cli = uzswap_bench::Cli::try_parse_from(args).map_err(|e| e.to_string())?;
    uzswap_bench::run(&cli).map_err(|failure| failure.line().to_owned())
}

fn records(file: &Path) -> (Header, Vec<Record>) {
    let bytes = std::fs::read(file).expect("the trace");
    read(&bytes).unwrap_or_else(|damage| panic!("{}: {damage}", file.display()))
}

/// Pages of the program's memory that this process touched, those that `is_wanted`, counted from
/// its first page. One that left before the program was done with it is touched again, which is
/// the same here.
fn touched(records: &[Record], pid: u32, first: u64, is_wanted: impl Fn(Place, bool) -> bool) -> Vec<u64> {
    let touched = |record: &Record| match record.what {
        What::Touched { at, is_write } => record.pid == pid && is_wanted(at, is_write),
        What::Stored { .. } => false,
    };
    let pages = records.iter().filter(|record| touched(record));
    let pages = pages.filter_map(|record| record.page.checked_sub(first));
    let mut pages: Vec<u64> = pages.filter(|page| *page < PAGES).collect();
    pages.dedup();
    pages
}

fn is_rising(pages: &[u64]) -> bool {
    pages.is_sorted_by(|page, next| page < next)
}

#[test]
fn touches_are_recorded_in_their_order_of_parent_and_child() {
    if !can_manage() {
        return;
    }
    let (file, said) = (Temp::new("recorded.trace"), Temp::new("recorded.said"));
    let program = Temp(compile("recorded"));
    let bin_dir = Path::new(UZSWAP).parent().and_then(Path::to_str).expect("its folder");
    let options = ["--record", file.text(), "--bin-dir", bin_dir, "--record-sizes", "lz4"];
    let cmd = ["--", program.text(), MEGABYTES, said.text()];
    assert_eq!(bench(&[&options[..], &cmd[..]].concat()), Ok(()));

    let mode = std::fs::metadata(&file.0).expect("the trace").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (header, records) = records(&file.0);
    assert_eq!(
        (header.memory_max, &header.compressors[1..]),
        (8 << 20, &["lz4".to_owned()][..])
    );
    let said = std::fs::read_to_string(&said.0).expect("what it said");
    let said: Vec<u64> = said.lines().map(|line| line.parse().expect("a number")).collect();
    let (first, child) = (said[0], said[1] as u32);
    let parent = records.iter().map(|record| record.pid).find(|pid| *pid != child);
    let parent = parent.expect("a record of the parent");

    // The first pass: what is written before the mapping is under our care is not seen.
    let written = touched(&records, parent, first, |at, is_write| at == Place::Nowhere && is_write);
    assert!(
        is_rising(&written) && written.len() as u64 > PAGES / 2,
        "{}",
        written.len()
    );
    for pid in [parent, child] {
        let is_load = |at, is_write: bool| matches!(at, Place::Staged | Place::Pool | Place::Device) && !is_write;
        let read = touched(&records, pid, first, is_load);
        assert!(
            is_rising(&read) && read.len() as u64 > PAGES / 2,
            "{pid}: {}",
            read.len()
        );
    }
    let stored = |wanted: u8| {
        let is_it = |record: &&Record| matches!(record.what, What::Stored { compressor, bytes } if compressor == wanted && bytes > 0);
        records.iter().filter(is_it).count() as u64
    };
    // Each of the two processes may end between two records of one page.
    assert!(
        stored(0) > PAGES / 2 && stored(0).abs_diff(stored(1)) <= 2,
        "{} {}",
        stored(0),
        stored(1)
    );

    assert_eq!(bench(&["--trace", file.text(), "--percent", "50"]), Ok(()));
    let again = bench(&[&options[..], &cmd[..]].concat());
    assert!(
        again.is_err_and(|line| line.contains("File exists")),
        "it is not written over"
    );
}

/// `uzswap run -- sh -c SCRIPT`, recorded in `file`.
fn run_recorded(file: &Temp, script: &str) -> Output {
    let mut command = Command::new(UZSWAP);
    command.args(["run", "--memory-max", "8M", "--", "sh", "-c", script]);
    command.env(ENV_RECORD, &file.0).output().expect("starting uzswap")
}

/// As whoever records makes it.
fn create(file: &Temp, bytes: &[u8]) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file.0)
        .expect("a new file");
    file.write_all(bytes).expect("its header");
}

/// A limit of the program's own, which is as a full disk: the line is said once, and no page is
/// lost.
#[test]
fn a_file_that_cannot_grow_ends_the_recording_alone() {
    if !can_manage() {
        return;
    }
    let (file, said) = (Temp::new("full.trace"), Temp::new("full.said"));
    create(&file, &Header::default().to_bytes());
    let program = Temp(compile("recorded"));
    let script = format!("ulimit -f 64; exec {} {MEGABYTES} {}", program.text(), said.text());
    let output = run_recorded(&file, &script);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {stderr}", output.status);
    assert!(
        stderr.contains("recording ends") && stderr.contains(file.text()),
        "{stderr}"
    );
    let bytes = std::fs::read(&file.0).expect("the trace");
    let whole = bytes.len() / 512 * 512;
    assert!((1..=64 << 10).contains(&whole), "{}", bytes.len());
}

#[test]
fn what_is_no_trace_is_left_alone() {
    if !can_manage() {
        return;
    }
    let (file, said) = (Temp::new("foreign.trace"), Temp::new("foreign.said"));
    let contents = vec![b'x'; 1000];
    create(&file, &contents);
    let program = Temp(compile("recorded"));
    let output = run_recorded(&file, &format!("exec {} {MEGABYTES} {}", program.text(), said.text()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {stderr}", output.status);
    assert!(
        stderr.contains("nothing is recorded") && stderr.contains("no recorded trace"),
        "{stderr}"
    );
    assert_eq!(std::fs::read(&file.0).expect("the file"), contents);
}
