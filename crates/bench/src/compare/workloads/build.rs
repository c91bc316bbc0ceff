//! Compiling a C library: many short processes, each with a heap of its own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{WITHOUT_ZRAM, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::process::{output, words};
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// Its Debian source package; the library alone is made.
const PACKAGE: &str = "libzstd";
/// Lists and sources are 12 MB.
const FETCH_TIMEOUT: Duration = Duration::from_secs(300);
/// Of what the build takes without a limit.
const TOTAL_PERCENT: u64 = 60;

/// `make -j2` of libzstd.
#[derive(Default)]
pub(super) struct Build {
    source: PathBuf,
    /// Bytes that the build takes without a limit.
    peak: u64,
    optimization: &'static str,
    is_quick: bool,
}

impl Build {
    /// A folder with nothing made in it.
    fn fresh_copy(&self) -> Result<PathBuf, Failure> {
        let copy = self.source.with_file_name("build");
        let _ = std::fs::remove_dir_all(&copy);
        let mut line = words(["cp", "-a"]);
        line.extend([self.source.clone().into(), copy.clone().into()]);
        output(&line, None, Duration::from_secs(60))?;
        Ok(copy.join("lib"))
    }

    fn make(&self, session: &Session) -> Result<Outcome, Failure> {
        let dir = self.fresh_copy()?;
        let flags = format!("CFLAGS={}", self.optimization);
        let line = words(["make", "-j2", "libzstd.a", &flags]);
        Ok(session.run(&line, Some(&dir))?.into())
    }
}

impl Workload for Build {
    fn name(&self) -> String {
        "build".to_owned()
    }

    fn title(&self) -> String {
        "Build of a C library".to_owned()
    }

    fn description(&self) -> String {
        format!(
            "`make -j2` of {PACKAGE}'s Debian source ({}), {TOTAL_PERCENT} % of the {} MiB of anonymous memory that it takes \
             without a limit.",
            self.optimization,
            self.peak >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::new("elapsed", "real time", "s", false).digits(2)]
    }

    fn sides(&self) -> Vec<Side> {
        WITHOUT_ZRAM.to_vec()
    }

    fn budget(&self) -> Budget {
        Budget::Total {
            bytes: self.peak * TOTAL_PERCENT / 100,
            working_set: self.peak,
            resident_least: self.peak / 5,
        }
    }

    fn pairs(&self, asked: u32) -> u32 {
        if self.is_quick { 1 } else { asked }
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        self.is_quick = context.is_quick;
        self.optimization = context.full_or("-O2", "-O0");
        self.source = fetch(&context.work)?;
        let prepared = Side::NoLimit.prepare(context, 0)?;
        let session = Session {
            context,
            prepared: &prepared,
            is_shared: false,
        };
        self.peak = self.make(&session)?.watched.memory.total_peak;
        Ok(())
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        self.make(session)
    }
}

/// The unpacked source, below `work`.
fn fetch(work: &Path) -> Result<PathBuf, Failure> {
    // The machine's own list of sources first, if it has one.
    if download(work, &[]).is_err() {
        let options = private_sources(work)?;
        // A repository without sources fails, and is not needed.
        let _ = apt_get(work, &options, &["update"]);
        download(work, &options)?;
    }
    unpack(work)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the source of {PACKAGE}, which apt-get fetches: {why}"))
}

fn apt_get(work: &Path, options: &[OsString], command: &[&str]) -> Result<(), Failure> {
    let mut line = words(["apt-get", "-q"]);
    line.extend_from_slice(options);
    line.extend(command.iter().map(OsString::from));
    output(&line, Some(work), FETCH_TIMEOUT)
        .map(drop)
        .map_err(|Failure { line, .. }| failed(line))
}

fn download(work: &Path, options: &[OsString]) -> Result<(), Failure> {
    apt_get(work, options, &["source", "--download-only", PACKAGE])
}

/// Options for apt-get, with which it knows the sources to the machine's packages: their list lies
/// below `work`, and so does all that is fetched for it. Nothing of the machine's changes.
fn private_sources(work: &Path) -> Result<Vec<OsString>, Failure> {
    let (parts, lists) = (work.join("apt-sources"), work.join("apt-lists"));
    std::fs::create_dir_all(&parts).map_err(failed)?;
    std::fs::create_dir_all(lists.join("partial")).map_err(failed)?;
    let listed = std::fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .flatten();
    let files = listed
        .map(|entry| entry.path())
        .chain([PathBuf::from("/etc/apt/sources.list")]);
    for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "list" || kind == "sources")) {
        if let (Ok(text), Some(name)) = (std::fs::read_to_string(&file), file.file_name()) {
            std::fs::write(parts.join(name), to_sources(&text)).map_err(failed)?;
        }
    }
    let option = |name: &str, value: &OsStr| {
        let mut option = OsString::from(format!("-oDir::{name}="));
        option.push(value);
        option
    };
    Ok(vec![
        option("Etc::sourcelist", "/dev/null".as_ref()),
        option("Etc::sourceparts", parts.as_os_str()),
        option("State::lists", lists.as_os_str()),
        option("Cache::pkgcache", "".as_ref()),
        option("Cache::srcpkgcache", "".as_ref()),
    ])
}

/// A list of repositories of packages, in either of apt's two formats, as one of their sources.
fn to_sources(list: &str) -> String {
    let line = |line: &str| match line.strip_prefix("deb ") {
        Some(rest) => format!("deb-src {rest}\n"),
        None if line.starts_with("deb-src") => "\n".to_owned(),
        None if line.starts_with("Types:") => "Types: deb-src\n".to_owned(),
        None => format!("{line}\n"),
    };
    list.lines().map(line).collect()
}

/// Unpack what was fetched; its folder.
fn unpack(work: &Path) -> Result<PathBuf, Failure> {
    let paths = |dir: &Path| {
        std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    let is_archive = |path: &PathBuf| {
        path.to_string_lossy().contains(".orig.tar.") && path.extension().is_some_and(|kind| kind != "asc")
    };
    let archive = paths(work).find(is_archive).ok_or_else(|| failed("no archive came"))?;
    let mut line = words(["tar", "xf"]);
    line.push(archive.into());
    output(&line, Some(work), FETCH_TIMEOUT)?;
    paths(work)
        .find(|path| path.join("lib/Makefile").is_file())
        .ok_or_else(|| failed("it has no lib/Makefile"))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lists_of_packages_become_lists_of_sources() {
        let old = "# a comment\ndeb http://deb.debian.org/debian bookworm main\ndeb-src http://deb.debian.org/debian bookworm main\n";
        assert_eq!(
            to_sources(old),
            "# a comment\ndeb-src http://deb.debian.org/debian bookworm main\n\n"
        );
        let new = "Types: deb deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm\n";
        assert_eq!(
            to_sources(new),
            "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm\n"
        );
    }
}
