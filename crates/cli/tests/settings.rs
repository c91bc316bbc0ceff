//! Settings of `uzswap run` beside its command line: files and the environment.

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::{UZSWAP, can_manage, temp};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A user with a file of settings.
struct User(PathBuf);

impl User {
    fn new(name: &str, settings: &str) -> Self {
        let home = temp(name);
        std::fs::create_dir_all(home.join(".config")).expect("a home");
        let user = Self(home);
        std::fs::write(user.file(), settings).expect("its settings");
        user
    }

    fn file(&self) -> PathBuf {
        self.0.join(".config/uzswap.toml")
    }

    /// `uzswap run OPTIONS -- true`
    fn run(&self, variables: &[(&str, &str)], options: &[&str]) -> Output {
        let mut command = Command::new(UZSWAP);
        command.env_remove("XDG_CONFIG_HOME").env("HOME", &self.0);
        command.envs(variables.iter().copied()).arg("run").args(options);
        command.args(["--", "true"]).output().expect("uzswap")
    }

    /// A counter of such a run.
    fn counter(&self, name: &str, variables: &[(&str, &str)], options: &[&str]) -> Value {
        let json = self.0.join("counters.json");
        let options = [options, &["--stat-json", json.to_str().expect("a plain path")]].concat();
        let output = self.run(variables, &options);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = std::fs::read_to_string(&json).expect("its counters");
        serde_json::from_str::<Value>(&text).expect("JSON")[name].clone()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_command_line_is_over_the_environment_over_the_file() {
    if !can_manage() {
        return;
    }
    let user = User::new("layers", "[run]\nmemory-max = \"64M\"\n");
    let variable = ("UZSWAP_MEMORY_MAX", "80M");
    let memory_max = |variables: &[_], options: &[_]| user.counter("memory.max", variables, options);
    assert_eq!(memory_max(&[], &[]), 64 * MIB);
    assert_eq!(memory_max(&[variable], &[]), 80 * MIB);
    assert_eq!(memory_max(&[variable], &["--memory-max", "96M"]), 96 * MIB);
    assert_eq!(memory_max(&[variable], &["--no-config"]), 80 * MIB);
    assert_ne!(memory_max(&[], &["--no-config"]), 64 * MIB);
    std::fs::write(user.file(), "[run]\nmemory-max = \"64M\"\npolicy = \"fifo\"\n").expect("its settings");
    let policy = |variables: &[_], options: &[_]| user.counter("policy", variables, options);
    assert_eq!(policy(&[], &[]), "fifo");
    assert_eq!(policy(&[("UZSWAP_POLICY", "clock")], &[]), "clock");
    assert_eq!(
        policy(&[("UZSWAP_POLICY", "clock")], &["--policy", "s3-fifo"]),
        "s3-fifo"
    );
    let elsewhere = user.0.join(".config");
    let elsewhere = elsewhere.to_str().expect("a plain path");
    assert_eq!(
        memory_max(&[("HOME", "/"), ("XDG_CONFIG_HOME", elsewhere)], &[]),
        64 * MIB
    );
    // It leads nowhere.
    assert_ne!(memory_max(&[("HOME", ".")], &[]), 64 * MIB);
}

/// A limit of a later place leaves out what goes with none, or is more.
#[test]
fn a_limit_overrules_what_it_leaves_no_room_for() {
    if !can_manage() {
        return;
    }
    let user = User::new("limits", "[run]\nstall = \"2%\"\nmemory-high = \"256M\"\n");
    let of = |name: &str, variables: &[_], options: &[_]| user.counter(name, variables, options);
    assert_eq!(of("memory.max", &[], &["--memory-max", "64M"]), 64 * MIB);
    assert_eq!(of("memory.max", &[("UZSWAP_MEMORY_MAX", "64M")], &[]), 64 * MIB);
}

#[test]
fn a_bad_setting_starts_nothing_and_is_named() {
    let user = User::new("bad", "# mine\n[run]\nmemory-max = \"12Q\"\n");
    let output = user.run(&[], &[]);
    let line = stderr(&output);
    assert_eq!((output.status.code(), line.lines().count()), (Some(125), 1), "{line}");
    for word in [".config/uzswap.toml:3: memory-max:", "'12Q' is not a size"] {
        assert!(line.contains(word), "{line}");
    }
    let output = user.run(&[("UZSWAP_SPIN", "no")], &["--no-config"]);
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(125));
    assert!(line.contains("UZSWAP_SPIN of the environment: spin: 'no'"), "{line}");
    let line = stderr(&user.run(&[("UZSWAP_POLICY", "lru")], &["--no-config"]));
    assert!(
        line.contains("policy: unknown policy 'lru': the policies are workingset, "),
        "{line}"
    );
    // What only the run itself finds out.
    std::fs::write(user.file(), "run.memory-max = \"64M\"\nrun.memory-high = \"0.5G\"\n").expect("its settings");
    let line = stderr(&user.run(&[], &[]));
    assert!(
        line.contains("--memory-high 0.5G: must not be above --memory-max 64M") && line.contains("uzswap.toml:1)"),
        "{line}"
    );
}

#[test]
fn a_file_that_anybody_may_write_is_not_read() {
    if !can_manage() {
        return;
    }
    let user = User::new("anybody", "[run]\nmemory-max = \"64M\"\n");
    std::fs::set_permissions(user.file(), Permissions::from_mode(0o666)).expect("its mode");
    let output = user.run(&[], &["--memory-max", "80M"]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("uzswap.toml is not read: anybody may write it"),
        "{}",
        stderr(&output)
    );
    assert_ne!(user.counter("memory.max", &[], &["--quiet"]), 64 * MIB);
    assert_eq!(stderr(&user.run(&[], &["--quiet"])), "");
}
