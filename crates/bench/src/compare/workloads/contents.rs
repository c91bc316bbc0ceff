//! usemem with pages that real programs have had: how a side does depends on what it has to
//! compress.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Workload;
use super::usemem::{Usemem, Variant};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::heap_dump;
use crate::compare::process::{Process, output, words};
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// The most that is taken of a heap or a file. Bytes.
const CORPUS_BYTES: usize = 16 << 20;

/// Where pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Zero,
    Random,
    Library,
    CPython,
    Redis,
    Jvm,
}

struct Contents {
    source: Source,
    usemem: Usemem,
}

/// One for each source.
pub(super) fn all(context: &Context) -> Vec<Box<dyn Workload>> {
    use Source::{CPython, Jvm, Library, Random, Redis, Zero};
    let sources = [Redis, CPython, Jvm, Library, Random, Zero];
    let make = |source| Box::new(Contents::new(source, context)) as Box<dyn Workload>;
    sources.map(make).into()
}

impl Contents {
    fn new(source: Source, context: &Context) -> Self {
        let (name, what) = source.names();
        let mib = context.full_or(192, 128);
        Self {
            source,
            usemem: Usemem {
                mib,
                resident_mib: mib / 4,
                rand_touches: 20_000,
                sides: vec![Side::Zswap, Side::Uzswap],
                ..Usemem::new(
                    &format!("contents-{name}"),
                    &format!("Contents: {what}"),
                    &format!("One process fills its memory with pages of {what} and reads them back"),
                    &["write", "seq", "rand"],
                )
            },
        }
    }
}

impl Variant for Contents {
    fn usemem(&self) -> &Usemem {
        &self.usemem
    }

    fn metric(&self) -> Metric {
        Metric::new("ratio", "compression ratio of the pool", "", true).digits(2)
    }

    fn pairs(&self, asked: u32) -> u32 {
        asked.min(3)
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        self.usemem.contents = self.source.contents(context)?;
        Ok(())
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        self.usemem.run(session)
    }
}

impl Source {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Zero => ("zero", "zeros"),
            Self::Random => ("random", "random bytes"),
            Self::Library => ("library", "a shared library"),
            Self::CPython => ("cpython", "a CPython heap"),
            Self::Redis => ("redis", "a Redis heap"),
            Self::Jvm => ("jvm", "a Java heap"),
        }
    }

    /// What `usemem --contents` takes.
    fn contents(self, context: &Context) -> Result<String, Failure> {
        match self {
            Self::Zero => return Ok("zero".to_owned()),
            Self::Random => return Ok("random".to_owned()),
            _ => {}
        }
        let path = context.work.join(format!("{}.pages", self.names().0));
        let bytes = match self {
            Self::Library => library(),
            Self::CPython => of_program(&words(["python3", "-c", CPYTHON])),
            Self::Jvm => {
                let source = context.work.join("Heap.java");
                write(&source, JAVA.as_bytes())?;
                let mut line = words(["java", "-Xmx256m"]);
                line.push(source.into());
                of_program(&line)
            }
            _ => redis(context),
        }?;
        write(&path, &bytes)?;
        Ok(path.display().to_string())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

/// Records as a data job holds them, and syntax trees; then a line, and a wait.
const CPYTHON: &str = "
import ast, json, os, random, sys, time
r = random.Random(1)
trees = [ast.parse(open(m.__file__).read()) for m in (ast, json, random, os)]
rows = [{'id': i, 'name': 'user%d' % r.randrange(10**6), 'score': r.random(), 'tags': [str(r.randrange(99)) for _ in range(3)]}
        for i in range(60000)]
texts = [json.dumps(row) for row in rows[::2]]
print('ready', flush=True)
time.sleep(60)
";

/// The same in Java.
const JAVA: &str = "
import java.util.*;
public class Heap {
    record Row(int id, String name, double score, List<String> tags) {}
    public static void main(String[] args) throws Exception {
        Random r = new Random(1);
        Map<String, Row> rows = new HashMap<>();
        for (int i = 0; i < 150000; i++) {
            String name = \"user\" + r.nextInt(1000000);
            rows.put(name, new Row(i, name, r.nextDouble(), List.of(\"t\" + r.nextInt(99), \"t\" + r.nextInt(99))));
        }
        System.out.println(\"ready \" + rows.size());
        Thread.sleep(60000);
    }
}
";

/// The heap of a program that prints a line when it has one.
fn of_program(line: &[OsString]) -> Result<Vec<u8>, Failure> {
    let mut process = Process::start(line, None)?;
    process.wait_for_line()?;
    // A launcher may have put the program into a child.
    let dump = heap_dump::largest_of_family(process.pid(), CORPUS_BYTES);
    process.terminate();
    dump
}

/// A server filled with the lines of C headers, which are there wherever something is compiled.
fn redis(context: &Context) -> Result<Vec<u8>, Failure> {
    let port = super::redis::free_port()?;
    let process = Process::start(&super::redis::server(context, port), None)?;
    super::redis::wait_until_ready(port)?;
    let commands = context.work.join("redis.commands");
    write(&commands, set_commands(&headers()).as_bytes())?;
    let pipe = format!("redis-cli -p {port} --pipe <'{}'", commands.display());
    output(&words(["sh", "-c", &pipe]), None, context.timeout)?;
    let dump = heap_dump::largest_of_family(process.pid(), CORPUS_BYTES);
    process.terminate();
    dump
}

/// Up to 24 MiB of text.
fn headers() -> String {
    let mut text = String::new();
    let mut dirs = vec![PathBuf::from("/usr/include")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(path),
                Ok(kind) if kind.is_file() => text.push_str(&std::fs::read_to_string(path).unwrap_or_default()),
                _ => {}
            }
            if text.len() > 24 << 20 {
                return text;
            }
        }
    }
    text
}

/// Values of 3 to 40 lines.
fn set_commands(text: &str) -> String {
    let mut commands = String::new();
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut number) = (0, 0);
    while at < lines.len() {
        let count = 3 + number * 7 % 38;
        let value = lines[at..(at + count).min(lines.len())].join("\n");
        let key = format!("header:{number:08}");
        let _ = write!(
            commands,
            "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n",
            key.len(),
            value.len()
        );
        at += count;
        number += 1;
    }
    commands
}

/// The largest of the usual folder's.
fn library() -> Result<Vec<u8>, Failure> {
    const DIR: &str = "/usr/lib/x86_64-linux-gnu";
    let entries = std::fs::read_dir(DIR).map_err(|e| Failure::new(format!("{DIR}: {e}")))?;
    let libraries = entries.flatten().filter(|entry| {
        let is_library = entry.file_name().to_string_lossy().contains(".so");
        is_library && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    let size = |entry: &std::fs::DirEntry| entry.metadata().map_or(0, |metadata| metadata.len());
    let largest = libraries.max_by_key(size).map(|entry| entry.path());
    let path = largest.ok_or_else(|| Failure::new(format!("{DIR}: no shared library")))?;
    let mut bytes = std::fs::read(&path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
    bytes.truncate(CORPUS_BYTES);
    Ok(bytes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn commands_carry_every_line() {
        let text = (0..100).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n");
        let commands = set_commands(&text);
        assert!(commands.starts_with("*3\r\n$3\r\nSET\r\n$15\r\nheader:00000000\r\n$20\r\nline 0\nline 1\nline 2\r\n"));
        assert!(commands.ends_with("line 99\r\n"));
    }

    #[test]
    fn some_library_is_there() {
        assert!(library().is_ok_and(|bytes| bytes.len() > 1 << 16));
    }
}
