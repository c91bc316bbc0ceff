//! The header, the shared library and the example, as a C program sees them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the shared library lies, beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test's file");
    test.parent().expect("a folder").to_owned()
}

fn compile(source: &Path, name: &str) -> PathBuf {
    let (here, libraries) = (Path::new(env!("CARGO_MANIFEST_DIR")), libraries());
    // As ldconfig would.
    let linked = std::env::temp_dir().join(format!("uzswap-c-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&linked).unwrap();
    std::fs::copy(libraries.join("libuzswap.so"), linked.join("libuzswap.so.0")).unwrap();
    let program = linked.join(name);
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .arg(format!("-I{}", here.join("include").display()))
        .arg(linked.join("libuzswap.so.0"))
        .arg(format!("-Wl,-rpath,{}", linked.display()))
        .status();
    assert!(status.expect("cc").success(), "compiling {name}");
    program
}

fn run(program: &Path, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output().unwrap();
    let _ = std::fs::remove_dir_all(program.parent().unwrap());
    output
}

fn has_userfaultfd() -> bool {
    uzswap_region::Region::new(1)
        .inspect_err(|error| eprintln!("not tested: {error}"))
        .is_ok()
}

#[test]
fn the_example_sorts_four_times_its_limit() {
    if !has_userfaultfd() {
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sort.c");
    let swap = std::env::temp_dir();
    let args = ["4", swap.to_str().expect("a name of UTF-8")];
    let output = run(&compile(&example, "sort"), &args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(
        said.starts_with("16 MiB sorted in ") && said.contains(" MiB: limit 4 MiB, exceeded 0 "),
        "{said}"
    );
}

#[test]
fn mistakes_have_a_line_each() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes.c");
    let output = run(&compile(&source, "mistakes"), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "limit of 5 bytes: must be at least 4M");
    assert!(lines[1].starts_with("compressor 'gzip': "), "{said}");
    assert!(lines[2].starts_with("swap_max without swap: "), "{said}");
    assert!(lines[3].starts_with("region of 0 bytes: "), "{said}");
    assert!(lines[4].starts_with("figure 'speed': "), "{said}");
}
