//! Programs that bring functions of their own for what libc has, and run-time libraries that expect
//! to be the first.

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
    runs_within("16M", program);
}

fn runs_within(limit: &str, program: &Path) {
    let alone = Command::new(program).stdin(Stdio::null()).output().expect("it starts");
    let json = program.with_extension("json");
    // The launcher passes the signal on.
    let managed = Command::new("timeout")
        .args(["120", UZSWAP, "run", "--memory-max", limit, "--stat-json"])
        .arg(&json)
        .arg("--")
        .arg(program)
        .output()
        .expect("it starts");
    let what = |output: &Output| {
        // A busy machine makes it wait for pages, and that is told.
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let lines = text.lines().filter(|line| !line.contains(" waited for pages "));
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(what(&managed), what(&alone));
    let report = std::fs::read_to_string(&json).expect("its report");
    let counters: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(counters["zswpout"].as_u64() > Some(0), "it was not managed: {report}");
    let _ = std::fs::remove_file(json);
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

/// With the compiler's run-time library for `sanitizer`, linked as `how` says.
fn sanitized(sanitizer: &str, how: &[&str]) {
    sanitized_within("16M", sanitizer, how);
}

fn sanitized_within(limit: &str, sanitizer: &str, how: &[&str]) {
    if !can_manage() {
        return;
    }
    let flags = [&["-O1", sanitizer], how].concat();
    let name = flags[1..].join("").replace(['=', ' '], "");
    let Some(program) = compile("sanitized.c", &name, &flags) else {
        return;
    };
    runs_within(limit, &program);
}

#[test]
fn address_sanitizer_in_the_program() {
    sanitized("-fsanitize=address", &["-static-libasan"]);
}

#[test]
fn address_sanitizer_as_a_library() {
    sanitized("-fsanitize=address", &[]);
}

#[test]
fn leak_sanitizer_as_a_library() {
    sanitized("-fsanitize=leak", &[]);
}

#[test]
fn thread_sanitizer() {
    // Its shadow is four times what the program has: stored, it fills a pool of less.
    sanitized_within("32M", "-fsanitize=thread", &[]);
    sanitized_within("32M", "-fsanitize=thread", &["-static-libtsan"]);
}

#[test]
fn undefined_behaviour_sanitizer() {
    sanitized("-fsanitize=undefined", &[]);
}

#[test]
fn leaks_are_looked_for_without_the_rights_of_before() {
    sanitized("-fsanitize=leak", &["-DDROP"]);
}

/// It is told of its group by the launcher, and finds its environment as it was given.
#[test]
fn programs_find_a_bare_environment_bare() {
    if !can_manage() {
        return;
    }
    let changes: [&[&str]; 3] = [&[], &["-DUNSETS"], &["-DSETS"]];
    for (n, change) in changes.into_iter().enumerate() {
        let flags = [&["-shared", "-fPIC", "-DLIBRARY"], change].concat();
        let Some(library) = compile("bare.c", &format!("bare-{n}.so"), &flags) else {
            return;
        };
        let flags = ["-Wl,--no-as-needed", library.to_str().expect("a path")];
        if let Some(program) = compile("bare.c", &format!("bare-{n}"), &flags) {
            runs_as_alone(&program);
            let _ = std::fs::remove_file(program);
        }
        let _ = std::fs::remove_file(library);
    }
}
