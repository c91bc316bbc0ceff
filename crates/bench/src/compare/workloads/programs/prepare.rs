//! Getting a program and its input ready, in the folder of a run and in one that is kept.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::catalogue::{Needs, Program};
use crate::Failure;
use crate::compare::process::{output, words};

/// A package of Python's may have to be fetched.
const LONG: Duration = Duration::from_secs(600);
const LINES: u64 = 3_000_000;
const FUNCTIONS: u32 = 20_000;

const SCRIPTS: [(&str, &str); 15] = [
    ("maps.js", include_str!("scripts/maps.js")),
    ("names.js", include_str!("scripts/names.js")),
    ("Maps.java", include_str!("scripts/Maps.java")),
    ("dicts.py", include_str!("scripts/dicts.py")),
    ("numpy_sort.py", include_str!("scripts/numpy_sort.py")),
    ("pandas_merge.py", include_str!("scripts/pandas_merge.py")),
    ("sklearn_forest.py", include_str!("scripts/sklearn_forest.py")),
    ("duck.py", include_str!("scripts/duck.py")),
    ("memory.sql", include_str!("scripts/memory.sql")),
    ("text.awk", include_str!("scripts/text.awk")),
    ("regexes.cc", include_str!("scripts/regexes.cc")),
    ("maps.lua", include_str!("scripts/maps.lua")),
    ("lists.ml", include_str!("scripts/lists.ml")),
    ("arrays.php", include_str!("scripts/arrays.php")),
    ("words.pl", include_str!("scripts/words.pl")),
];

/// Write what the program reads, and find its interpreter: the path of Python, if it needs one.
pub(super) fn prepare(program: &Program, dir: &Path) -> Result<OsString, Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    for (name, text) in SCRIPTS {
        write(dir, name, text)?;
    }
    match program.needs {
        Needs::Executable { name: "python3", .. } => return python(&words(["python3"])),
        Needs::Executable { name, how } => has(name, how)?,
        Needs::Module(module) => return module_python(module),
        Needs::Class => {
            has("javac", "apt-get install default-jdk-headless")?;
            output(&words(["javac", "Maps.java"]), Some(dir), LONG)?;
        }
        Needs::Text => {
            has("sort", "apt-get install coreutils")?;
            write(dir, "lines.txt", &lines())?;
        }
        Needs::Source { compiler, how } => {
            has(compiler, how)?;
            write(dir, "many.rs", &functions())?;
        }
    }
    Ok(OsString::new())
}

fn write(dir: &Path, name: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(dir.join(name), text).map_err(|e| Failure::new(format!("{name}: {e}")))
}

fn has(name: &str, how: &str) -> Result<(), Failure> {
    let found = output(&words(["sh", "-c", &format!("command -v {name}")]), None, LONG);
    found
        .map(drop)
        .map_err(|_| Failure::new(format!("{name} is not there: {how}")))
}

/// The interpreter itself: `python3` may be a script that finds it.
fn python(command: &[OsString]) -> Result<OsString, Failure> {
    let mut line = command.to_vec();
    line.extend(words(["-c", "import os, sys; print(os.path.realpath(sys.executable))"]));
    let found = output(&line, None, LONG)?;
    Ok(String::from_utf8_lossy(&found.stdout).trim().into())
}

/// Of an environment that is kept for the next time, with `module` fetched if it is not there.
fn module_python(module: &str) -> Result<OsString, Failure> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or(home).unwrap_or_else(|| PathBuf::from("/var/tmp"));
    let venv = cache.join("uzswap-bench/venv");
    let python = venv.join("bin/python").into_os_string();
    if !Path::new(&python).exists() {
        let mut line = words(["python3", "-m", "venv"]);
        line.push(venv.into());
        output(&line, None, LONG)?;
    }
    let with = |args: [&str; 2]| std::iter::once(python.clone()).chain(words(args)).collect::<Vec<_>>();
    if output(&with(["-c", &format!("import {module}")]), None, LONG).is_err() {
        let package = if module == "sklearn" { "scikit-learn" } else { module };
        let mut line = with(["-m", "pip"]);
        line.extend(words(["install", "-q", package]));
        output(&line, None, LONG)
            .map_err(|Failure { line, .. }| Failure::new(format!("pip install {package}: {line}")))?;
    }
    Ok(python)
}

/// Numbers in no order, a line each.
fn lines() -> String {
    let (mut text, mut x) = (String::new(), 1_u64);
    for _ in 0..LINES {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = writeln!(text, "{:020} line {}", x >> 12, x % 1000);
    }
    text
}

/// A Rust source for its compiler.
fn functions() -> String {
    let mut text = String::new();
    for n in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "pub fn f{n}(x: &[u64]) -> u64 {{ x.iter().map(|y| y.wrapping_mul({n})).filter(|y| y % 3 == 0).sum() }}"
        );
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn inputs_are_the_same_each_time() {
        assert_eq!(lines().lines().count() as u64, LINES);
        assert_eq!(functions().lines().count(), FUNCTIONS as usize);
        assert!(functions().starts_with("pub fn f0("));
    }
}
