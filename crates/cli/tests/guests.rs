//! Programs that bring functions of their own for what libc has, and run-time libraries that expect to be the first.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{UZSWAP, can_manage};

/// A program of `tests/programs`, compiled with `flags`. `None`: the compiler cannot.
fn compile(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let output = Command::new("cc")
        .args(["-g", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags)
        .output()
        .expect("a C compiler");
    if !output.status.success() {
        eprintln!("left out, cc {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(program)
}

const OPAQUE: [&str; 4] = ["-O1", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-rdynamic"];

fn runs_as_alone(program: &Path) {
    let alone = Command::new(program).stdin(Stdio::null()).output().expect("it starts");
    // The launcher passes the signal on.
    let managed = Command::new("timeout")
        .args(["120", UZSWAP, "run", "--memory-max", "16M", "--"])
        .arg(program)
        .output()
        .expect("it starts");
    let what = |output: &Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(what(&managed), what(&alone));
    let _ = std::fs::remove_file(program);
}

#[test]
fn a_program_has_its_own_memory_functions() {
    if can_manage() {
        runs_as_alone(&compile("own_functions.c", "own-memory", &OPAQUE).expect("plain C"));
    }
}

#[test]
fn a_program_has_its_own_mapping_functions() {
    if can_manage() {
        let flags = [&OPAQUE[..], &["-DALL"]].concat();
        runs_as_alone(&compile("own_functions.c", "own-mapping", &flags).expect("plain C"));
    }
}
