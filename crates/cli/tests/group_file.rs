//! A group file that somebody truncates while its group runs.

mod common;

use std::fs::{File, read_dir};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::can_manage;
use common::place::Place;

/// The group files in this directory for temporary files.
fn group_files(dir: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_users = entries(dir).filter(|path| path.is_dir());
    let files = of_users.flat_map(|dir| entries(&dir).collect::<Vec<_>>());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "group"))
        .collect()
}

/// `cmd` says its process id, and goes on for long. It is killed, a line says why, and nothing is
/// left of it.
fn ends_with_a_line(name: &str, cmd: &[&str]) {
    let place = Place::new(name);
    let mut command = place.unprivileged(&place.0.join("uzswap"));
    command.args(["run", "--quiet", "--memory-max", "32M", "--"]).args(cmd);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starting uzswap");
    let mut said = String::new();
    let stdout = child.stdout.take().expect("its stdout");
    BufReader::new(stdout).read_line(&mut said).expect("what it says");
    let files = group_files(&place.0);
    for file in &files {
        File::create(file).expect("truncating it");
    }
    let status = child.wait().expect("its end");
    let mut stderr = String::new();
    let mut pipe = child.stderr.take().expect("its stderr");
    pipe.read_to_string(&mut stderr).expect("what it says");
    assert_eq!(files.len(), 1, "{name}: {stderr}");
    assert_eq!(status.code(), Some(125), "{name}: {stderr}");
    let cut = format!("uzswap: {} was cut short by another program: ", files[0].display());
    assert!(stderr.contains(&cut), "{name}: {stderr}");
    assert!(group_files(&place.0).is_empty(), "{name}");
    let pid = said.trim();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{name}: {pid} lives: {stat}");
}

/// As after an upgrade.
#[test]
fn a_group_of_another_version_is_named() {
    if !can_manage() {
        return;
    }
    const VERSION: u64 = 8;
    let place = Place::new("version");
    let uzswap = |args: &[&str]| {
        let mut command = place.unprivileged(&place.0.join("uzswap"));
        command.args(args);
        command
    };
    let mut run = uzswap(&["run", "--quiet", "--name", "old", "--memory-max", "32M", "--", "cat"]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starting uzswap");
    let (mut stdin, stdout) = (run.stdin.take().expect("ours"), run.stdout.take().expect("ours"));
    stdin.write_all(b"began\n").expect("cat reads");
    BufReader::new(stdout).read_line(&mut String::new()).expect("cat began");
    let files = group_files(&place.0);
    let file = File::options().write(true).open(&files[0]).expect("the group's");
    file.write_at(&1u64.to_ne_bytes(), VERSION).expect("writing to it");
    for args in [&["list"][..], &["stat", "old"]] {
        let output = uzswap(args).output().expect("uzswap");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("group 'old' is run by another version of uzswap"),
            "{args:?}: {said}"
        );
    }
    drop(stdin);
    assert!(run.wait().expect("its end").success());
}

#[test]
fn the_program_of_a_truncated_group_file_is_ended_with_a_line() {
    if !can_manage() {
        return;
    }
    ends_with_a_line("cut-idle", &["sh", "-c", "echo $$; exec sleep 60"]);
    let fills = "import os, time\nx = [os.urandom(16) * 256 for _ in range(20_000)]\nprint(os.getpid(), flush=True)\n\
        while True:\n    sum(page[9] for page in x)\n    time.sleep(0.01)";
    ends_with_a_line("cut-full", &["python3", "-c", fills]);
}
