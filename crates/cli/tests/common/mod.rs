//! What the integration tests share: running `uzswap` and reading its report.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::PathBuf;
use std::process::{Command, Output};

/// The launcher under test.
pub const UZSWAP: &str = env!("CARGO_BIN_EXE_uzswap");
/// The torture program.
pub const TORTURE: &str = env!("CARGO_BIN_EXE_uzswap-torture");

/// Whether programs can be managed on this machine. A machine without userfaultfd can build and test the rest.
pub fn can_manage() -> bool {
    let output = Command::new(UZSWAP).arg("doctor").output().expect("uzswap doctor");
    let is_ready = output.status.success();
    if !is_ready {
        eprintln!(
            "left out, this machine cannot manage programs:\n{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    is_ready
}

/// A file name of our own.
pub fn temp(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("uzswap-test-{}-{name}", std::process::id()))
}

/// What a managed run came to.
pub struct Run {
    pub output: Output,
    pub counters: serde_json::Value,
}

impl Run {
    pub fn status(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub fn count(&self, name: &str) -> u64 {
        self.counters[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name} in {:#}", self.counters))
    }
}

/// `uzswap run OPTIONS --stat-json FILE -- CMD`
pub fn run(name: &str, options: &[&str], cmd: &[&str]) -> Run {
    let json = temp(name);
    let output = Command::new(UZSWAP)
        .arg("run")
        .args(options)
        .arg("--stat-json")
        .arg(&json)
        .arg("--")
        .args(cmd)
        .output()
        .expect("starting uzswap");
    let text = std::fs::read_to_string(&json).unwrap_or_default();
    let _ = std::fs::remove_file(&json);
    Run {
        output,
        counters: serde_json::from_str(&text).unwrap_or_default(),
    }
}
