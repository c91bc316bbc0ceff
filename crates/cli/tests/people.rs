//! What people and their tools are shown of running groups: `list`, `stat`, `get`, `metrics`; help,
//! versions and bad input.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use common::{Held, UZSWAP, can_manage, temp};
use serde_json::Value;

fn uzswap(args: &[&str]) -> Output {
    Command::new(UZSWAP).args(args).output().expect("uzswap")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn said(args: &[&str]) -> String {
    let output = uzswap(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn assert_narrow(text: &str) {
    let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

/// `uzswap metrics --listen` on a port of its own.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(UZSWAP)
            .args(["metrics", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("uzswap metrics");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("its stderr");
        BufReader::new(stderr).read_line(&mut line).expect("its first line");
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.strip_suffix("/metrics\n"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connecting");
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("asking");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("its answer");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one group is shown in each way")]
fn a_group_is_shown_to_people_and_programs() {
    if !can_manage() {
        return;
    }
    let held = Held::start(
        "people",
        &["--memory-max", "24.5M", "--page-cluster", "2", "--faults", "thread"],
        48,
    );
    // Its pager says so a moment later.
    held.wait_until("pages are stored", |held| held.now("zswapped") > 0);
    let group = &*held.group;

    let list = said(&["list", "--all"]);
    assert_narrow(&list);
    let mut lines = list.lines().skip_while(|line| !line.starts_with(group));
    let row: Vec<&str> = lines.next().expect("its row").split_whitespace().collect();
    assert_eq!(row[3], "24.5", "{list}");
    assert!(
        lines
            .next()
            .is_some_and(|line| line.contains(" uzswap ") || line.contains(" sh ")),
        "{list}"
    );
    let list: Value = serde_json::from_str(&said(&["list", "--json"])).expect("JSON");
    let found = list
        .as_array()
        .expect("an array")
        .iter()
        .find(|of| of["group"] == *group);
    let found = found.unwrap_or_else(|| panic!("{list:#}"));
    assert_eq!(found["memory.max"], 24 * 1024 * 1024 + 512 * 1024);
    assert!(
        found["processes"].as_u64() > Some(0) && found["zswapped"].as_u64() > Some(0),
        "{found:#}"
    );

    let csv = said(&["list", "--all", "--csv", "--count", "2"]);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
    let of_group = |line: &&Vec<&str>| line[1] == group && line[2].is_empty();
    let looks: Vec<_> = lines.iter().filter(of_group).collect();
    assert_eq!((looks.len(), looks[0][5]), (2, "25690112"), "{csv}");
    assert!(looks[0][0] < looks[1][0] && looks[0][3] != "0", "{csv}");
    let of_process = |line: &Vec<&str>| line[1] == group && line[2].parse::<u32>().is_ok() && line[3].is_empty();
    assert!(lines.iter().any(of_process), "{csv}");

    let page = said(&["stat", group]);
    assert_narrow(&page);
    for name in ["memory.current", "pool_total_size", "ratio", "pgfault", "load p99"] {
        assert!(page.contains(&format!("\n  {name} ")), "no {name}: {page}");
    }
    assert!(page.contains(", policy workingset\n"), "{page}");
    let all = said(&["stat", group, "--all"]);
    let json: Value = serde_json::from_str(&said(&["stat", group, "--json"])).expect("JSON");
    let names = |text: &str| {
        text.lines()
            .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&all),
        json.as_object().expect("an object").keys().cloned().collect::<Vec<_>>()
    );
    assert!(all.contains("\nmemory.max 25690112\n"), "{all}");
    let both: Value = serde_json::from_str(&said(&["stat", group, "--json", "--all"])).expect("JSON");
    assert_eq!(both["memory.max"], 25_690_112);
    assert_eq!(
        both.as_object().map(serde_json::Map::len),
        json.as_object().map(serde_json::Map::len)
    );

    assert_eq!(
        said(&["get", group, "memory.max", "page_cluster"]),
        "memory.max=25088K\npage_cluster=2\n"
    );
    for setting in [
        "memory.max=0.5G",
        "memory.high=300MiB",
        "compressor=zstd:2",
        "swapout=split",
        "balance=0",
    ] {
        assert!(held.control("set", &[setting]), "{setting}");
    }
    let settings = said(&["get", group]);
    for line in [
        "memory.max=512M",
        "memory.high=300M",
        "compressor=zstd:2",
        "swapout=split",
        "balance=0",
        "policy=workingset",
        "faults=thread",
    ] {
        assert!(settings.lines().any(|found| found == line), "no {line}: {settings}");
    }
    let settings: Value = serde_json::from_str(&said(&["get", group, "--json"])).expect("JSON");
    assert_eq!(settings["memory.max"], "512M");
    assert!(held.control("set", &["memory.max=100%"]));
    held.finish();
}

#[test]
fn looks_are_repeated_and_compared() {
    if !can_manage() {
        return;
    }
    let held = Held::start("again", &["--memory-max", "64M"], 16);
    let group = &*held.group;
    let lines = said(&["stat", group, "--json", "--watch", "0.1", "--count", "3"]);
    let looks: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(looks.len(), 3);
    assert!(looks.iter().all(|look| look["group"] == *group));
    let pages = said(&["stat", group, "--watch=0.1", "-n", "2"]);
    assert_eq!(pages.matches("memory, MiB").count(), 2, "{pages}");
    assert!(!pages.contains('\x1b'), "it is no terminal");

    // What changes is the limit, if nothing else.
    let mut child = Command::new(UZSWAP)
        .args(["stat", group, "--json", "--diff", "--watch", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("uzswap stat");
    let mut looks = BufReader::new(child.stdout.take().expect("its stdout")).lines();
    let mut next = || serde_json::from_str::<Value>(&looks.next().expect("a look").expect("a line")).expect("JSON");
    assert_eq!(next()["memory.max"], 64 << 20);
    assert!(held.control("set", &["memory.max=80M"]));
    assert!((0..600).any(|_| next().get("memory.max").is_some_and(|change| *change == 16 << 20)));
    // It ends with the group, and says so.
    held.finish();
    while looks.next().is_some_and(|line| line.is_ok()) {}
    assert!(child.wait().expect("its end").success());
}

#[test]
fn nobody_waits_for_a_reader_that_has_gone() {
    if !can_manage() {
        return;
    }
    let held = Held::start("gone", &["--memory-max", "64M"], 8);
    for args in [
        &["list", "--watch", "0.1"][..],
        &["top", "--interval", "0.1"],
        &["stat", &held.group, "--watch", "0.1"],
        &["stat", &held.group, "--all", "--watch", "0.1"],
        &["metrics"],
        &["get", &held.group],
        &["run", "--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(UZSWAP).args(args).stdout(writer).output().expect("uzswap");
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(0), String::new()),
            "{args:?}"
        );
    }
    held.finish();
}

#[test]
fn metrics_are_served() {
    let server = Server::start();
    let answer = server.ask("GET /metrics");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("# EOF\n"),
        "{answer}"
    );
    assert!(answer.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert!(server.ask("GET /").starts_with("HTTP/1.1 404 "));
    assert!(server.ask("POST /metrics").starts_with("HTTP/1.1 405 "));
    assert!(server.ask("HEAD /metrics").ends_with("\r\n\r\n"));
    let _idle = TcpStream::connect(&server.address).expect("connecting");
    assert!(server.ask("GET /metrics?name=x").starts_with("HTTP/1.1 200 "));

    let second = uzswap(&["metrics", "--listen", &server.address]);
    assert_eq!(second.status.code(), Some(125));
    assert!(
        stderr(&second).contains(&format!("--listen {}: Address", server.address)),
        "{}",
        stderr(&second)
    );

    if can_manage() {
        let held = Held::start("metrics", &["--memory-max", "24M"], 32);
        let label = format!("{{group=\"{}\"", held.group);
        let answer = server.ask("GET /metrics");
        for name in [
            "uzswap_memory_max_bytes",
            "uzswap_zswpout_pages_total",
            "uzswap_process_resident_bytes",
        ] {
            assert!(answer.contains(&format!("\n{name}{label}")), "no {name}: {answer}");
        }
        assert!(said(&["metrics"]).contains(&label));
        held.finish();
        assert!(!server.ask("GET /metrics").contains(&label), "the group has ended");
    }
}

#[test]
fn bad_input_is_named_and_ends_with_2() {
    for (args, words) in [
        (&["frobnicate"][..], &["frobnicate"][..]),
        (&[], &["Usage"]),
        (&["list", "--watch", "0"], &["'0'", "--watch", "0.1 to 3600"]),
        (&["top", "--interval", "0"], &["'0'", "--interval", "0.1 to 3600"]),
        (&["stat", "--watch", "web"], &["'web'", "number of seconds"]),
        (&["stat", "--count", "0"], &["0", "--count"]),
        (&["list", "--csv", "--json"], &["--csv", "--json"]),
        (&["get"], &["<GROUP>"]),
        (
            &["get", "g", "memory.mix"],
            &["memory.mix", "memory.max", "swap_format"],
        ),
        (
            &["set", "g", "memory.max=1Q"],
            &["memory.max", "'1Q'", "K, M, G or T", "50%"],
        ),
        (&["set", "g", "memory.max=101%"], &["'101%'", "at most 100%"]),
        (&["set", "g", "spim=1"], &["spim", "memory.max"]),
        (&["metrics", "--listen", "9184"], &["'9184'", "127.0.0.1:9184"]),
        (&["reclaim", "g", "1.5"], &["'1.5'", "parts of a byte"]),
    ] {
        let output = uzswap(args);
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        let text = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(text.contains(word), "{args:?}: no {word}: {stderr}");
        }
    }
    for args in [
        &["get", "no-such-group"][..],
        &["stat", "no-such-group"],
        &["set", "no-such-group", "balance=1"],
    ] {
        let output = uzswap(args);
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        assert!(
            stderr(&output).contains("no group named 'no-such-group'"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_limit_beyond_what_there_is_has_one_line() {
    if !can_manage() {
        return;
    }
    let lines = |options: &[&str]| {
        let output = uzswap(&[&["run"], options, &["--", "true"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let beyond = lines(&["--memory-max", "1000T"]);
    assert!(beyond.starts_with("uzswap: --memory-max 1000T: ") && beyond.ends_with(", which ends first\n"));
    assert_eq!(beyond.lines().count(), 1);
    assert_eq!(lines(&["--memory-max", "1000T", "--quiet"]), "");
    assert_eq!(lines(&["--memory-max", "50%"]), "");
}

#[test]
fn help_fits_the_terminal_and_needs_no_colour() {
    let help = |args: &[&str], env: &[(&str, &str)]| {
        let output = Command::new(UZSWAP)
            .args(args)
            .env_remove("NO_COLOR")
            .env("COLUMNS", "80")
            .envs(env.iter().copied())
            .output()
            .expect("uzswap");
        assert!(output.status.success());
        stdout(&output)
    };
    let long = help(&["run", "--help"], &[]);
    assert_narrow(&long);
    for heading in ["\nLimits:\n", "\nCompression:\n", "\nSwap file:\n", "\nExamples:\n"] {
        assert!(long.contains(heading), "no {heading}");
    }
    assert!(help(&["run", "-h"], &[]).lines().count() < long.lines().count());
    let forced = ("CLICOLOR_FORCE", "1");
    assert!(help(&["run", "--help"], &[forced]).contains('\x1b'));
    assert!(!help(&["run", "--help"], &[forced, ("NO_COLOR", "1")]).contains('\x1b'));
}

/// `uzswap 0.1.0`, of release builds with the commit behind.
#[test]
fn the_version_is_that_of_the_package() {
    let version = said(&["--version"]);
    let rest = version
        .strip_prefix(concat!("uzswap ", env!("CARGO_PKG_VERSION")))
        .expect("the version");
    let is_commit = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let commit = rest
        .trim_end()
        .strip_prefix(" (")
        .and_then(|rest| rest.strip_suffix(')'));
    assert!(rest == "\n" || commit.is_some_and(is_commit), "{version}");
    assert_eq!(said(&["-V"]), version);
}

/// LD_PRELOAD takes no path with a blank, so the group is in another directory then; the swap file
/// is not.
#[test]
fn a_group_is_set_as_it_is_where_paths_have_blanks() {
    if !can_manage() {
        return;
    }
    let dir = temp("a dir");
    std::fs::create_dir_all(&dir).expect("a directory");
    let name = format!("blanks-{}", std::process::id());
    let script = r#""$0" get "$1" | xargs -d '\n' "$0" set "$1" && "$0" get "$1" swap"#;
    let output = Command::new(UZSWAP)
        .args(["run", "--quiet", "--name", &name, "--swap"])
        .arg(&dir)
        .args(["--", "sh", "-c", script, UZSWAP, &name])
        .env("TMPDIR", &dir)
        .output()
        .expect("uzswap run");
    assert!(output.status.success(), "{}", stderr(&output));
    let swap = format!("swap={}", dir.display());
    assert!(stdout(&output).starts_with(&swap), "{}", stdout(&output));
    let _ = std::fs::remove_dir_all(dir);
}
