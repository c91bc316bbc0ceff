//! Builds the agent and hands its path to the launcher, which embeds it: `uzswap` is one file.
//!
//! Cargo cannot yet depend on another crate's cdylib (artifact dependencies are unstable), so it is
//! called once more, for the same workspace and lock file, with a target directory of its own (the
//! outer cargo holds the lock of its).

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    tell_version(&workspace);
    for source in [
        "Cargo.toml",
        "Cargo.lock",
        "crates/acomp",
        "crates/acomp-iaa",
        "crates/agent",
        "crates/backing",
        "crates/ctl",
        "crates/guard",
        "crates/iaa",
        "crates/mm",
        "crates/sys",
    ] {
        println!("cargo:rerun-if-changed={}", workspace.join(source).display());
    }
    let target = target_dir().join("agent");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&workspace)
        .args([
            "build",
            "--package",
            "uzswap-agent",
            "--profile",
            "agent",
            "--target-dir",
        ])
        .arg(&target)
        // Flags meant for the launcher (coverage, sanitizers) do not belong into other people's
        // processes.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        // Clippy's, under which nothing is built.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("UZSWAP_IMAGE", "1")
        .status();
    let library = target.join("agent/libuzswap_agent.so");
    match status {
        Ok(status) if status.success() => {
            // A copy: another build may replace the library before this one embeds it.
            let image = std::fs::read(&library).expect("it was built");
            let copy = out_dir().join("libuzswap_agent.so");
            std::fs::write(&copy, &image).expect("OUT_DIR can be written");
            println!("cargo:rustc-env=UZSWAP_AGENT={}", copy.display());
            println!("cargo:rustc-env=UZSWAP_AGENT_FINGERPRINT={:016x}", fnv1a(&image));
        }
        other => panic!("building the agent failed: {other:?}"),
    }
}

/// `UZSWAP_VERSION`: with the commit, which git says, or UZSWAP_COMMIT where there is no git. Only
/// release builds ask git: each commit would have all tests compiled again.
fn tell_version(workspace: &Path) {
    println!("cargo:rerun-if-env-changed=UZSWAP_COMMIT");
    let given = std::env::var("UZSWAP_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(|| commit(workspace)).flatten());
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        Some(commit) => println!("cargo:rustc-env=UZSWAP_VERSION={version} ({commit})"),
        None => println!("cargo:rustc-env=UZSWAP_VERSION={version}"),
    }
}

/// The commit that is checked out. `None`: there is no git, or the sources are not its repository.
fn commit(workspace: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").current_dir(workspace).args(args).output().ok()?;
        let text = output
            .status
            .success()
            .then(|| String::from_utf8(output.stdout).ok())??;
        Some(text.trim().to_owned())
    };
    let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if root.canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    // It grows with each commit and checkout; a path that is not there would be looked at always.
    let log = workspace.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.is_file() {
        println!("cargo:rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn out_dir() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

/// The target directory: OUT_DIR is `target/<profile>/build/<package>/out`.
fn target_dir() -> PathBuf {
    out_dir()
        .ancestors()
        .nth(4)
        .expect("OUT_DIR lies four levels below the target directory")
        .to_path_buf()
}
