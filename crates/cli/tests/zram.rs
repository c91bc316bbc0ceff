//! `uzswap zram` with real clients, where they are installed: libnbd's nbdcopy and nbdinfo,
//! qemu-img and qemu-io, fio.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{UZSWAP, temp};

/// A server, until it is told to end.
struct Zram {
    child: Option<Child>,
    socket: PathBuf,
    json: PathBuf,
}

/// How a server ended.
struct Ended {
    output: Output,
    counters: serde_json::Value,
}

impl Ended {
    fn count(&self, name: &str) -> u64 {
        self.counters[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name} in {:#}", self.counters))
    }
}

impl Zram {
    /// `uzswap zram OPTIONS`, once clients find it.
    fn start(name: &str, options: &[&str]) -> Self {
        let (socket, json) = (temp(&format!("{name}.sock")), temp(&format!("{name}.json")));
        let child = Command::new(UZSWAP)
            .args(["zram", "--socket"])
            .arg(&socket)
            .arg("--stat-json")
            .arg(&json)
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starting uzswap");
        let zram = Self {
            child: Some(child),
            socket,
            json,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&zram.socket).is_err() {
            assert!(Instant::now() < deadline, "nobody listens at {}", zram.socket.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        zram
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// A client that is past the handshake.
    fn client(&self) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).expect("connecting");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        let said = *b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
        stream.write_all(&said).expect("asking for the export");
        stream.read_exact(&mut greeting[..10]).expect("size and flags");
        stream
    }

    fn end(mut self, signal: &str) -> Ended {
        let child = self.child.take().expect("it ends once");
        kill(signal, child.id());
        let output = child.wait_with_output().expect("its end");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&self.json).expect("--stat-json");
        let _ = std::fs::remove_file(&self.json);
        assert!(!self.socket.exists(), "the socket is still there");
        Ended {
            output,
            counters: serde_json::from_str(&text).expect("one object"),
        }
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            let _ = std::fs::remove_file(&self.socket);
            let _ = std::fs::remove_file(&self.json);
        }
    }
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// Whether these programs are installed; a line says which is not.
fn have(programs: &[&str]) -> bool {
    let is_missing = |program: &&&str| {
        let started = Command::new(program).arg("--version").output();
        started.is_err_and(|e| e.kind() == ErrorKind::NotFound)
    };
    let missing = programs.iter().find(is_missing);
    if let Some(missing) = missing {
        eprintln!("left out: {missing} is not installed (apt-get install libnbd-bin qemu-utils fio)");
    }
    missing.is_none()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("starting it");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{command:?}: {}{}", said[0], said[1]);
    said.concat()
}

/// A file of text, noise and zeros.
fn image(name: &str, pages: u64) -> PathBuf {
    let path = temp(name);
    let mut bytes = Vec::new();
    for page in 0..pages {
        let mut state = page << 32 | 0x9e37_79b9;
        for at in 0..512u64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = [0, page << 8 | at & 7, state][(page % 3) as usize];
            bytes.extend(word.to_le_bytes());
        }
    }
    std::fs::write(&path, bytes).expect("the image");
    path
}

fn is_same(a: &Path, b: &Path) -> bool {
    std::fs::read(a).expect("a file") == std::fs::read(b).expect("a file")
}

#[test]
fn an_image_goes_in_and_out_with_nbdcopy() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let zram = Zram::start("nbdcopy", &["--size", "24M", "--compressor", "zstd"]);
    let said = succeed(Command::new("nbdinfo").arg(zram.uri()));
    for fact in [
        "export-size: 25165824",
        "can_multi_conn: true",
        "can_trim: true",
        "block_size_preferred: 4096",
    ] {
        assert!(said.contains(fact), "no '{fact}' in: {said}");
    }
    assert!(succeed(Command::new("nbdinfo").arg("--list").arg(zram.uri())).contains("export=\"\""));
    let (image, copy) = (image("nbdcopy.in", 6144), temp("nbdcopy.out"));
    succeed(Command::new("nbdcopy").arg(&image).arg(zram.uri()));
    succeed(Command::new("nbdcopy").arg(zram.uri()).arg(&copy));
    assert!(is_same(&image, &copy));
    let ended = zram.end("TERM");
    assert_eq!(ended.count("huge_pages"), 2048);
    assert!((8 << 20..9 << 20).contains(&ended.count("compr_data_size")));
    assert_eq!((ended.count("failed_reads"), ended.count("failed_writes")), (0, 0));
    for file in [image, copy] {
        let _ = std::fs::remove_file(file);
    }
}

#[test]
fn qemu_reads_what_it_wrote() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let zram = Zram::start("qemu", &["--size", "12M", "--zpool", "z3fold", "--compressor", "lz4"]);
    let image = image("qemu.in", 3072);
    succeed(
        Command::new("qemu-img")
            .args(["convert", "-n", "-f", "raw", "-O", "raw"])
            .arg(&image)
            .arg(zram.uri()),
    );
    let compare = ["compare", "-f", "raw", "-F", "raw"];
    succeed(Command::new("qemu-img").args(compare).arg(&image).arg(zram.uri()));
    let steps = [
        "write -P 0x5a 1000 70000",
        "read -P 0x5a 1000 70000",
        "write -z 2000 50000",
        "read -P 0 2000 50000",
        "read -P 0x5a 52000 19000",
        "discard 0 12M",
        "read -P 0 0 12M",
        "flush",
    ];
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]);
    command.args(steps.iter().flat_map(|step| ["-c", step]));
    let said = succeed(command.arg(zram.uri()));
    assert!(!said.contains("failed"), "{said}");
    let ended = zram.end("INT");
    assert_eq!((ended.count("orig_data_size"), ended.count("invalid_io")), (0, 0));
    let _ = std::fs::remove_file(image);
}

/// Several jobs, each with a connection of its own, in blocks that are no pages too.
#[test]
fn fio_verifies_what_it_wrote() {
    if !have(&["fio"]) || !succeed(Command::new("fio").arg("--enghelp")).contains("nbd") {
        eprintln!("left out: this fio has no nbd engine");
        return;
    }
    let zram = Zram::start("fio", &["--size", "32M"]);
    let said = succeed(
        Command::new("fio")
            .current_dir(std::env::temp_dir())
            .args(["--name=verify", "--ioengine=nbd", "--rw=randrw", "--verify=crc32c"])
            .args(["--bsrange=512-64k", "--blockalign=512", "--iodepth=8", "--numjobs=2"])
            .args([
                "--size=16m",
                "--offset_increment=16m",
                "--buffer_compress_percentage=60",
            ])
            .args(["--verify_backlog=64", "--verify_fatal=1", "--verify_state_save=0"])
            .arg(format!("--uri={}", zram.uri())),
    );
    assert!(said.contains("err= 0"), "{said}");
    let ended = zram.end("HUP");
    assert!(ended.count("num_writes") > 100 && ended.count("failed_writes") == 0);
}

/// Clients that are there when it ends do not keep it; those that have asked are answered.
#[test]
fn a_signal_ends_it_with_a_summary() {
    let zram = Zram::start("signal", &["--size", "1M"]);
    let (mut client, _silent) = (zram.client(), UnixStream::connect(&zram.socket));
    // READ of one byte at 4096, with cookie 7.
    let read = *b"\x25\x60\x95\x13\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\x10\0\0\0\0\x01";
    client.write_all(&read).expect("a request");
    let mut reply = [9; 17];
    client.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply, *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x07\0");
    let begun = Instant::now();
    let ended = zram.end("TERM");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(client.read(&mut reply).unwrap_or(0), 0);
    assert_eq!((ended.count("disksize"), ended.count("num_reads")), (1 << 20, 1));
    let said = String::from_utf8_lossy(&ended.output.stderr).into_owned();
    for name in ["orig_data_size", "mem_used_total", "huge_pages", "notify_free"] {
        assert!(said.contains(name), "no {name} in: {said}");
    }
}

#[test]
fn a_socket_has_one_server_and_a_dead_ones_is_taken_over() {
    let mut zram = Zram::start("takeover", &["--size", "1M"]);
    let second = |socket: &Path| {
        let mut command = Command::new(UZSWAP);
        command.args(["zram", "--size", "1M", "--socket"]).arg(socket);
        command.output().expect("uzswap")
    };
    let refused = second(&zram.socket);
    assert_eq!(refused.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("somebody listens there"));
    let child = zram.child.as_mut().expect("it runs");
    child.kill().expect("killing it");
    child.wait().expect("its end");
    assert!(zram.socket.exists());
    Zram::start("takeover", &["--size", "1M"]).end("QUIT");
}

#[test]
fn bad_values_are_refused_by_name_and_rule() {
    let file = temp("no-socket");
    std::fs::write(&file, "kept").expect("a file");
    let (taken, long) = (
        file.to_str().expect("a plain path"),
        format!("/tmp/{}", "x".repeat(120)),
    );
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--size", "5000"], &["--size", "'5000'", "multiple of 4096"]),
        (&["--size", "0"], &["--size", "'0'", "not 0"]),
        (&["--size", "1Q"], &["1Q", "K, M, G"]),
        (&["--mem-limit", "4K"], &["--mem-limit 4K: must be at least 1M"]),
        (
            &["--mem-limit", "1048575"],
            &["--mem-limit 1048575: must be at least 1M"],
        ),
        (
            &["--compressor", "lz4-parallel"],
            &["lz4-parallel", "without -parallel"],
        ),
        (&["--compressor", "lzo"], &["lzo", "lz4"]),
        (&["--zpool", "zb"], &["zb", "zbud"]),
        (&["--socket", taken], &[taken, "no socket"]),
        (&["--socket", &long], &[&long, "at most 107"]),
    ];
    for (options, words) in cases {
        let mut command = Command::new(UZSWAP);
        command.arg("zram").args(options);
        for (option, value) in [("--size", "1M"), ("--socket", "/nowhere/socket")] {
            if options[0] != option {
                command.args([option, value]);
            }
        }
        let output = command.output().expect("uzswap");
        let stderr = String::from_utf8_lossy(&output.stderr);
        // Either the words are wrong, or what they ask for cannot be had.
        assert!(matches!(output.status.code(), Some(2 | 125)), "{options:?}: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{options:?}: no '{word}' in: {stderr}");
        }
    }
    assert_eq!(std::fs::read(&file).expect("it is still there"), b"kept");
    let _ = std::fs::remove_file(file);
}
