//! Traces of real programs: made by the agents of a run, read back as touches and sizes
//! (docs/design/record.md).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::json;
use uzswap_acomp::{Algorithm, Compressor};
use uzswap_ctl::record::{COMPRESSORS, Damage, Header, Place, Record, What, read};
use uzswap_ctl::{ENV_RECORD, defaults};
use uzswap_mm::page::PAGE_SIZE;

use super::trace::Trace;
use crate::Failure;
use crate::export::Sheet;
use crate::table::{Table, grouped};
use crate::usemem::find_beside;

/// More pages than this between two that were touched are as good as any number: nobody takes one
/// along with the other.
const GAP: u64 = 64;

/// Record a program instead: run it under a tight limit, and note each touch that makes it wait.
#[derive(Args)]
pub(crate) struct Options {
    /// Run CMD under uzswap and record it in this file, which must not be there
    #[arg(long, value_name = "FILE", requires = "cmd", conflicts_with_all = ["trace", "json", "csv"])]
    pub(crate) record: Option<PathBuf>,
    /// Its limit, in MiB: what fits is touched unseen, so the tighter the more is recorded
    #[arg(long, value_name = "N", default_value_t = 8, requires = "record", value_parser = clap::value_parser!(u64).range(defaults::MEMORY_MAX_LEAST >> 20..=1 << 20))]
    pub(crate) record_mb: u64,
    /// What it stores pages with
    #[arg(long, value_name = "NAME[:LVL]", default_value_t = defaults::POOL.compressor, requires = "record", value_parser = compressor)]
    pub(crate) compressor: Compressor,
    /// Record also what each stored page would take with these: lz4, words, zstd or deflate
    #[arg(long, value_name = "NAME[:LVL],...", value_delimiter = ',', requires = "record", value_parser = measured)]
    pub(crate) record_sizes: Vec<String>,
    /// Where uzswap is [default: beside this program]
    #[arg(long, value_name = "DIR", requires = "record")]
    pub(crate) bin_dir: Option<PathBuf>,
    /// The program to record, and its arguments
    #[arg(last = true, value_name = "CMD", requires = "record")]
    pub(crate) cmd: Vec<OsString>,
}

#[cfg(test)]
impl Options {
    /// Nothing is to be recorded.
    pub(crate) fn none() -> Self {
        Self {
            record: None,
            record_mb: 8,
            compressor: defaults::POOL.compressor,
            record_sizes: Vec::new(),
            bin_dir: None,
            cmd: Vec::new(),
        }
    }
}

fn compressor(text: &str) -> Result<Compressor, String> {
    let compressor = Compressor::parse(text).map_err(|rule| format!("unknown compressor '{text}': {rule}"))?;
    match compressor.algorithm.codes() {
        None => Ok(compressor),
        Some(_) => Err(format!(
            "'{text}': traces are recorded by software: deflate is the same"
        )),
    }
}

/// The name is what the header says, so it is checked and kept.
fn measured(text: &str) -> Result<String, String> {
    match Algorithm::parse(text) {
        Ok(Algorithm::ZstdDict { .. }) => Err(format!(
            "'{text}' takes a dictionary, which pages are not measured with"
        )),
        Ok(_) => Ok(text.to_owned()),
        Err(rule) => Err(format!("unknown compressor '{text}': {rule}")),
    }
}

/// Run the program and say what was recorded of it.
pub(crate) fn make(options: &Options, file: &Path) -> Result<(), Failure> {
    let failure = |why: &dyn Display| Failure::new(format!("--record {}: {why}", file.display()));
    let header = header(options).map_err(|rule| failure(&rule))?;
    let uzswap = match &options.bin_dir {
        Some(dir) => dir.join("uzswap"),
        None => find_beside("uzswap")?,
    };
    // The agents append to it by name, wherever the program goes.
    let file = std::path::absolute(file).map_err(|e| failure(&e))?;
    create(&file, &header).map_err(|e| failure(&e))?;
    let status = command(options, &uzswap)
        .env(ENV_RECORD, &file)
        .status()
        .map_err(|e| Failure::new(format!("{}: {e}", uzswap.display())))?;
    let (_, summary) = open(&file)?;
    print!("{summary}");
    match status.success() {
        true => Ok(()),
        // What was recorded is there all the same.
        false => Err(Failure::new(format!("CMD: {status}"))),
    }
}

fn header(options: &Options) -> Result<Header, String> {
    let others = options.record_sizes.iter().cloned();
    let compressors: Vec<_> = std::iter::once(options.compressor.to_string()).chain(others).collect();
    match compressors.len() > COMPRESSORS {
        true => Err(format!(
            "--record-sizes names more than {} compressors",
            COMPRESSORS - 1
        )),
        false => Ok(Header {
            memory_max: options.record_mb << 20,
            compressors,
        }),
    }
}

/// Nobody else's, and nothing that somebody has put there.
fn create(file: &Path, header: &Header) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    // O_EXCL follows no symbolic link either.
    options.write(true).create_new(true).mode(0o600);
    options.open(file)?.write_all(&header.to_bytes())
}

/// One page a fault, as in the replay, so that none comes along unseen with another.
fn command(options: &Options, uzswap: &Path) -> Command {
    let mut command = Command::new(uzswap);
    command
        .args(["run", "--no-config"])
        .arg(format!("--memory-max={}M", options.record_mb));
    command.arg(format!("--compressor={}", options.compressor));
    command.args(["--folio-max=4K", "--page-cluster=0", "--recompress=none"]);
    command.arg("--").args(&options.cmd);
    command
}

/// Blocks of one compressor.
#[derive(Clone, Copy, Default)]
struct Sizes {
    pages: u64,
    bytes: u64,
    /// As they were.
    whole: u64,
}

/// What a recorded trace holds besides its touches.
pub(crate) struct Summary {
    header: Header,
    processes: usize,
    touches: BTreeMap<Place, u64>,
    writes: u64,
    /// Pages stored, and those of one word.
    stored: u64,
    filled: u64,
    /// By number in the header, of the pages that are not of one word.
    sizes: BTreeMap<u8, Sizes>,
    ns: u64,
}

/// Read a recorded trace.
fn open(file: &Path) -> Result<(Vec<Record>, Summary), Failure> {
    let failure = |why: &dyn Display| Failure::new(format!("{}: {why}", file.display()));
    let bytes = std::fs::read(file).map_err(|e| failure(&e))?;
    let (header, records) = read(&bytes).map_err(|damage| failure(&damage))?;
    let summary = Summary::of(header, &records);
    Ok((records, summary))
}

/// The trace in a file of these bytes.
pub(crate) fn parse(name: impl Into<String>, bytes: &[u8]) -> Result<(Trace, Summary), Damage> {
    let (header, records) = read(bytes)?;
    let numbers = numbers(&records);
    Ok((Trace::new(name, numbers), Summary::of(header, &records)))
}

/// A page that was touched: of the same process and since it was dropped as often, or of another
/// page.
type Key = (u32, u32, u64);

/// The number of the page of each touch: neighbours stay neighbours, gaps are closed, and what was
/// dropped is another page when it is touched again.
fn numbers(records: &[Record]) -> Vec<u64> {
    let mut lives: HashMap<(u32, u64), u32> = HashMap::new();
    let touched = records.iter().filter_map(|record| match record.what {
        What::Touched { at, .. } => Some((record.pid, record.page, at)),
        What::Stored { .. } => None,
    });
    let keys: Vec<Key> = touched
        .map(|(pid, page, at)| {
            let life = lives
                .entry((pid, page))
                .and_modify(|life| *life += u32::from(at == Place::Nowhere))
                .or_default();
            (pid, *life, page)
        })
        .collect();
    let places: BTreeSet<Key> = keys.iter().copied().collect();
    let (mut numbers, mut last) = (HashMap::new(), None::<(Key, u64)>);
    for key in places {
        let number = match last {
            None => 0,
            Some(((pid, life, page), number)) if (pid, life) == (key.0, key.1) => number + (key.2 - page).min(GAP),
            Some((_, number)) => number + GAP,
        };
        numbers.insert(key, number);
        last = Some((key, number));
    }
    keys.iter().map(|key| numbers[key]).collect()
}

impl Summary {
    fn of(header: Header, records: &[Record]) -> Self {
        let pids: BTreeSet<u32> = records.iter().map(|record| record.pid).collect();
        let times = || records.iter().map(|record| record.time_ns);
        let mut summary = Self {
            header,
            processes: pids.len(),
            touches: BTreeMap::new(),
            writes: 0,
            stored: 0,
            filled: 0,
            sizes: BTreeMap::new(),
            ns: times().max().unwrap_or(0) - times().min().unwrap_or(0),
        };
        records.iter().for_each(|record| summary.count(record.what));
        summary
    }

    fn count(&mut self, what: What) {
        match what {
            What::Touched { at, is_write } => {
                *self.touches.entry(at).or_default() += 1;
                self.writes += u64::from(is_write);
            }
            What::Stored { compressor, bytes } => {
                self.stored += u64::from(compressor == 0);
                if bytes == 0 {
                    self.filled += u64::from(compressor == 0);
                    return;
                }
                let sizes = self.sizes.entry(compressor).or_default();
                sizes.pages += 1;
                sizes.bytes += u64::from(bytes);
                sizes.whole += u64::from(usize::from(bytes) == PAGE_SIZE);
            }
        }
    }

    /// Whether so many pages are fewer than it was recorded with: touches that would hit them are
    /// missing.
    pub(crate) fn is_blind_at(&self, pages: usize) -> bool {
        ((pages * PAGE_SIZE) as u64) < self.header.memory_max
    }

    /// Of what pages take, for programs; no row yet.
    pub(crate) fn no_sizes() -> Sheet {
        Sheet::new("sizes", ["trace", "compressor", "pages", "bytes", "incompressible"])
    }

    /// What the pages of this trace took.
    pub(crate) fn add_sizes(&self, trace: &str, sheet: &mut Sheet) {
        for (number, sizes) in &self.sizes {
            let name = self.compressor(*number);
            sheet.row([
                json!(trace),
                json!(name),
                json!(sizes.pages),
                json!(sizes.bytes),
                json!(sizes.whole),
            ]);
        }
    }

    fn compressor(&self, number: u8) -> String {
        let name = self.header.compressors.get(usize::from(number));
        name.cloned().unwrap_or_else(|| format!("number {number}"))
    }

    fn sizes(&self) -> Table {
        let mut table = Table::default();
        table.rule();
        table.row(["compressor", "pages", "ratio", "mean bytes", "do not compress"]);
        table.rule();
        for (number, sizes) in &self.sizes {
            table.row([
                self.compressor(*number),
                grouped(sizes.pages),
                format!("{:.2}", (sizes.pages * PAGE_SIZE as u64) as f64 / sizes.bytes as f64),
                format!("{:.0}", sizes.bytes as f64 / sizes.pages as f64),
                grouped(sizes.whole),
            ]);
        }
        table.rule();
        table
    }
}

fn words(at: Place) -> &'static str {
    match at {
        Place::Nowhere => "first",
        Place::Staged => "staged",
        Place::Pool => "in the pool",
        Place::Device => "on the device",
        Place::Mapped => "mapped by then",
        Place::Protected => "protected",
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let touches: u64 = self.touches.values().sum();
        writeln!(
            f,
            "recorded at {} MiB: {} processes, {:.1} s, {} touches ({} to write), {} pages stored ({} of one word)",
            self.header.memory_max >> 20,
            self.processes,
            self.ns as f64 / 1e9,
            grouped(touches),
            grouped(self.writes),
            grouped(self.stored),
            grouped(self.filled),
        )?;
        let by_place = self
            .touches
            .iter()
            .map(|(at, touches)| format!("{} {}", grouped(*touches), words(*at)));
        writeln!(f, "touches: {}", by_place.collect::<Vec<_>>().join(", "))?;
        match self.sizes.is_empty() {
            true => Ok(()),
            false => write!(f, "{}", self.sizes()),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn touch(time_ns: u64, pid: u32, page: u64, at: Place) -> Record {
        Record {
            time_ns,
            pid,
            page,
            what: What::Touched { at, is_write: false },
        }
    }

    fn stored(compressor: u8, bytes: u16) -> Record {
        Record {
            time_ns: 9,
            pid: 1,
            page: 1,
            what: What::Stored { compressor, bytes },
        }
    }

    fn file(records: &[Record]) -> Vec<u8> {
        let header = Header {
            memory_max: 8 << 20,
            compressors: vec!["words".into(), "zstd:1".into()],
        };
        let records = records.iter().flat_map(Record::to_bytes);
        header.to_bytes().into_iter().chain(records).collect()
    }

    #[test]
    fn neighbours_stay_and_gaps_close() {
        let far = 1 << 34;
        let records = [
            touch(1, 1, far, Place::Nowhere),
            touch(2, 1, far + 1, Place::Nowhere),
            touch(3, 1, 7, Place::Pool),
            touch(4, 2, far, Place::Staged),
            touch(5, 1, far, Place::Pool),
        ];
        let (trace, _) = parse("", &file(&records)).unwrap();
        assert_eq!(trace.numbers(), [64, 65, 0, 129]);
        assert_eq!(trace.touches(), [0, 1, 2, 3, 0]);
    }

    /// No policy could have kept what was dropped.
    #[test]
    fn what_was_dropped_is_another_page() {
        let records = [Place::Nowhere, Place::Pool, Place::Nowhere, Place::Pool];
        let records: Vec<_> = (0..).zip(records).map(|(time, at)| touch(time, 1, 5, at)).collect();
        let (trace, _) = parse("", &file(&records)).unwrap();
        assert_eq!((trace.touches(), trace.repeats()), (&[0, 0, 1, 1][..], 2));
    }

    #[test]
    fn sizes_are_told_by_compressor() {
        let records = [
            stored(0, 2048),
            stored(1, 512),
            stored(0, 4096),
            stored(1, 1536),
            stored(0, 0),
        ];
        let (_, summary) = parse("", &file(&records)).unwrap();
        assert_eq!((summary.stored, summary.filled), (3, 1));
        let text = summary.to_string();
        let row = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).expect("its row");
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(row("words").contains("2 1.33 3072 1"), "{text}");
        assert!(row("zstd:1").contains("2 4.00 1024 0"), "{text}");
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let file = std::env::temp_dir().join(format!("uzswap-bench-record-{}", std::process::id()));
        let header = Header::default();
        create(&file, &header).unwrap();
        assert!(create(&file, &header).is_err());
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(mode & 0o777, 0o600);
    }
}
