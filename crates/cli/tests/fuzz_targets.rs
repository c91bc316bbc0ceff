//! The fuzz targets are a workspace of their own, which needs nightly to run and nothing to
//! compile.

use std::path::Path;
use std::process::Command;

#[test]
fn fuzz_targets_compile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["check", "--locked", "--bins", "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target/fuzz"))
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
