//! Cold segments of the swap file go to another machine, and what happens when that is gone. Only
//! of an uzswap that has services (`--features remote`).

#![cfg(feature = "remote")]

mod common;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Held, UZSWAP, can_manage, run, temp, uzswap_run};

const DATA_MB: u64 = 64;
/// All that is out lies in the swap file; what of it stays there is the reserve and what is hot.
const SMALL: [&str; 4] = ["--memory-max", "16M", "--zswap-max", "0"];
/// Of 48 MiB that are out.
const MUCH: u64 = 24 << 20;

/// What a command prints, in all.
fn all_output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn start(name: &str, url: &str) -> Held {
    let held = Held::start(name, &[&SMALL[..], &["--swap", url]].concat(), DATA_MB);
    held.wait_until("most of it is elsewhere", |held| held.now("remote_bytes") > MUCH);
    held
}

#[test]
fn what_is_cold_lies_in_a_directory_and_comes_back_and_nothing_is_left() {
    if !can_manage() {
        return;
    }
    let dir = temp("remote-fs");
    std::fs::create_dir(&dir).unwrap();
    let held = start("remote-fs", &format!("fs://{}", dir.display()));
    let run = held.finish();
    assert!(run.count("remote_fetched") > 0 && run.count("remote_sent") > MUCH);
    assert_eq!((run.count("remote_lost"), run.count("poisoned")), (0, 0));
    // Nor that of the run.
    std::fs::remove_dir(&dir).unwrap();
}

/// What a file of /proc of a process has: words that end with zeros are lines.
fn proc_file(pid: &str, name: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', "\n")
}

/// The mover of a group, whose launcher started it.
fn mover_of(held: &Held) -> String {
    let processes = std::fs::read_dir("/proc").unwrap();
    let mut pids = processes.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_mover = |pid: &String| {
        let status = proc_file(pid, "status");
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
        let is_ours = |parent| proc_file(parent, "cmdline").contains(&format!("--name\n{}\n", held.group));
        proc_file(pid, "cmdline").ends_with("\nmover\n") && parent.is_some_and(is_ours)
    };
    pids.find(is_mover).expect("its mover")
}

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().unwrap().success());
}

#[test]
fn no_signal_but_the_last_ends_the_mover() {
    if !can_manage() {
        return;
    }
    let held = start("remote-signals", "memory:///");
    let mover = mover_of(&held);
    for name in [
        "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU", "VTALRM", "PWR", "IO",
    ] {
        signal(&format!("-{name}"), &mover);
    }
    let run = held.finish();
    assert!(run.count("remote_fetched") > 0);
    assert_eq!(run.count("remote_lost"), 0, "{}", run.stderr());
}

#[test]
fn a_remote_that_cannot_be_used_is_refused_before_the_program_starts() {
    if !can_manage() {
        return;
    }
    for (url, parts) in [
        (
            "gopher://host/",
            &["gopher://host/", "unknown scheme 'gopher'", "redis, rediss, s3"][..],
        ),
        (
            "redis://127.0.0.1:1/",
            &["redis://127.0.0.1:1/", "must take an object"][..],
        ),
        ("redis://host/?x=y", &["unknown word 'x'", "patience"][..]),
        ("fs:///proc/none/at/all", &["fs:///proc/none/at/all: ", "os error"][..]),
        ("memory:///?patience=0", &["patience=0", "from 1 to 3600"][..]),
    ] {
        let run = run("remote-refused", &["--swap", url], &["touch", "/never"]);
        let line = run.stderr();
        assert_eq!((run.status(), line.lines().count()), (125, 1), "{url}: {line}");
        assert!(parts.iter().all(|part| line.contains(part)), "{url}: {line}");
    }
    let clear = run("remote-clear", &["--swap", "memory:///", "--encrypt", "off"], &["true"]);
    assert_eq!(clear.status(), 125);
    assert!(clear.stderr().contains("--encrypt off"), "{}", clear.stderr());
}

/// A server of our own.
struct Redis {
    server: Child,
    port: u16,
}

const PASSWORD: &str = "a b@c";
const ENCODED: &str = "a%20b%40c";

impl Redis {
    /// `None`: there is none on this machine.
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string(), "--requirepass", PASSWORD])
            .stdout(Stdio::null())
            .spawn();
        let Ok(server) = server else {
            eprintln!("left out: no redis-server in PATH");
            return None;
        };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "redis-server does not listen"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { server, port })
    }

    fn url(&self, password: &str, words: &str) -> String {
        format!("redis://:{password}@127.0.0.1:{}/3{words}", self.port)
    }

    fn signal(&self, name: &str) {
        signal(name, &self.server.id().to_string());
    }

    /// Keys of all databases.
    fn keys(&self) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string(), "-a", PASSWORD, "--no-auth-warning"])
            .args(["info", "keyspace"])
            .output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

const SHOW_ARGUMENTS: &str = "cat /proc/$PPID/cmdline";

#[test]
fn a_password_is_shown_to_nobody() {
    let Some(redis) = can_manage().then(Redis::start).flatten() else {
        return;
    };
    let refused = run("remote-password", &["--swap", &redis.url("wrong", "")], &["true"]);
    let line = refused.stderr();
    assert_eq!((refused.status(), line.lines().count()), (125, 1), "{line}");
    assert!(line.contains(":***@127.0.0.1") && !line.contains("wrong@"), "{line}");
    let url = redis.url(ENCODED, "");
    let see = format!("{SHOW_ARGUMENTS} /proc/$PPID/environ /proc/self/environ");
    let seen = all_output(uzswap_run().env("UZSWAP_SWAP", &url).args(["--", "sh", "-c", &see]));
    assert!(
        seen.contains("UZSWAP_SWAP=redis://***") && !seen.contains(ENCODED),
        "{seen}"
    );
    let seen = all_output(uzswap_run().args(["--swap", &url, "--", "sh", "-c", SHOW_ARGUMENTS]));
    assert!(seen.contains("redis://***") && !seen.contains(ENCODED), "{seen}");
    // Neither is used.
    let mut given = uzswap_run();
    given.env("UZSWAP_SWAP", &url).args(["--no-writeback", "--swap", &url]);
    let seen = all_output(given.args(["--", "sh", "-c", &see]));
    assert!(
        seen.matches("redis://***").count() == 2 && !seen.contains(ENCODED),
        "{seen}"
    );
    let mut tries = Command::new(env!("CARGO_BIN_EXE_uzswap"));
    tries.args(["try", "--at", "64M", "--show-output", "--export-json", "/dev/stdout"]);
    let tried = all_output(tries.args(["--swap", &url, "--", "sh", "-c", SHOW_ARGUMENTS]));
    // Its own arguments, those of `uzswap run`, the line for people and the file.
    assert!(
        tried.matches("redis://").count() >= 4 && !tried.contains(ENCODED),
        "{tried}"
    );
}

#[test]
fn a_redis_server_may_be_stopped_for_a_while() {
    let Some(redis) = can_manage().then(Redis::start).flatten() else {
        return;
    };
    let url = redis.url(ENCODED, "");
    let held = start("remote-redis", &url);
    assert!(redis.keys().contains("db3:keys="));
    redis.signal("-STOP");
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| held.finish());
        std::thread::sleep(Duration::from_secs(1));
        redis.signal("-CONT");
        run.join().unwrap()
    });
    assert!(run.count("remote_fetched") > 0, "{:#}", run.counters);
    assert_eq!(run.count("remote_lost"), 0, "{}", run.stderr());
    assert!(!redis.keys().contains("db3"), "{}", redis.keys());
}

#[test]
fn a_redis_server_that_is_killed_costs_one_process_with_a_line_that_says_so() {
    let Some(redis) = can_manage().then(Redis::start).flatten() else {
        return;
    };
    let held = start("remote-killed", &redis.url(ENCODED, "?patience=1"));
    redis.signal("-KILL");
    let run = held.end();
    const SIGBUS: i32 = 7;
    assert_eq!(run.status(), 128 + SIGBUS, "{}", run.stderr());
    let lost: Vec<_> = run
        .stderr()
        .lines()
        .filter(|line| line.contains("has lost"))
        .map(str::to_owned)
        .collect();
    assert!(
        !lost.is_empty() && lost[0].contains("did not bring it back within 1s"),
        "{}",
        run.stderr()
    );
    assert!(run.count("remote_lost") > 0);
    let said = run.stderr();
    let left = said.matches("objects of this run are left at redis://");
    assert_eq!(left.count(), 1, "{said}");
}

#[test]
fn a_mover_that_is_killed_is_missed_at_the_end() {
    if !can_manage() {
        return;
    }
    // It was started before CMD. The process that comes after its end cannot reach it.
    let script = format!(
        "set -- $(cat /proc/$PPID/task/$PPID/children); kill -KILL $1
        until grep -qs '^State:.Z' /proc/$1/status || [ ! -e /proc/$1 ]; do :; done
        {UZSWAP} demo-child 32"
    );
    let run = run("remote-mover", &["--swap", "memory:///"], &["sh", "-c", &script]);
    for line in [
        "the mover has ended: objects of this run may be left at memory:///, under uzswap-",
        "a process of the group did not reach the mover, and left all of its swap file on this machine: Connection refused",
    ] {
        assert_eq!(run.stderr().matches(line).count(), 1, "{}", run.stderr());
    }
}

/// A file system of a few MiB.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`: this user cannot have one here.
    fn mount(name: &str) -> Option<Self> {
        let (image, dir) = (temp(&format!("{name}.image")), temp(name));
        std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        std::fs::create_dir(&dir).unwrap();
        let succeeds = |program: &str, args: &[&Path]| {
            let output = Command::new(program).args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        let is_mounted = succeeds("mkfs.ext4", &["-q".as_ref(), "-m0".as_ref(), &image])
            && succeeds("mount", &["-o".as_ref(), "loop".as_ref(), &image, &dir]);
        std::fs::remove_file(&image).unwrap();
        if !is_mounted {
            std::fs::remove_dir(&dir).unwrap();
            eprintln!("left out: no file system can be made and mounted here");
        }
        is_mounted.then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_program_whose_local_disk_is_full_waits_for_the_remote() {
    let Some(redis) = can_manage().then(Redis::start).flatten() else {
        return;
    };
    let Some(disk) = SmallDisk::mount("remote-disk") else {
        return;
    };
    let mut filling = uzswap_run();
    filling
        .env("TMPDIR", &disk.0)
        .args(SMALL)
        .args(["--swap", &redis.url(ENCODED, "")])
        .args([
            "--",
            "dd",
            "if=/dev/urandom",
            "of=/dev/null",
            "iflag=fullblock",
            "bs=96M",
            "count=1",
        ]);
    let (status, text) = std::thread::scope(|scope| {
        let filling = scope.spawn(|| filling.output().unwrap());
        while !redis.keys().contains("db3:keys=") && !filling.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Longer than a group without room lives.
        redis.signal("-STOP");
        std::thread::sleep(Duration::from_secs(8));
        redis.signal("-CONT");
        let output = filling.join().unwrap();
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    });
    assert!(status.success(), "{text}");
}
