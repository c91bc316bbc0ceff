//! What the integration tests share: running `uzswap` and reading its report.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod place;

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The launcher under test.
pub const UZSWAP: &str = env!("CARGO_BIN_EXE_uzswap");
/// The torture program.
pub const TORTURE: &str = env!("CARGO_BIN_EXE_uzswap-torture");
/// To the torture machine: leave out what `torture.rs` is about, relatives that live on and
/// mappings by the thousand, which take memory and time beside that of one process.
pub const ALONE: &str = "--without=bequeath,islands,fork-and-forget,orphan,generations,storm,lodger,outlive";

/// Whether programs can be managed on this machine. A machine without userfaultfd can build and
/// test the rest.
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

/// The same, of this thread.
fn temp_of_thread(name: &str) -> PathBuf {
    temp(&format!("{name}-{:?}", std::thread::current().id()).replace(['(', ')'], ""))
}

/// The C program `programs/NAME.c`, compiled: an executable of our own, to be removed by the
/// caller.
pub fn compile(name: &str) -> PathBuf {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = temp_of_thread(name);
    let status = Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(status.expect("cc").success(), "compiling {name}.c");
    program
}

/// What a managed run came to.
pub struct Run {
    pub output: Output,
    pub counters: serde_json::Value,
}

impl Run {
    pub fn status(&self) -> i32 {
        let status = self.output.status;
        let signal = || status.signal().map(|signal| 128 + signal);
        status.code().or_else(signal).unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// It has said "right", and nothing else, and ended well.
    #[track_caller]
    pub fn is_right(&self) {
        let seen = (self.status(), self.stdout());
        assert_eq!(seen, (0, "right\n".into()), "{}", self.stderr());
    }

    pub fn count(&self, name: &str) -> u64 {
        self.counters[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name} in {:#}", self.counters))
    }
}

/// More options for every `uzswap run`, from whoever runs the tests another way: on a model of
/// accelerators, say.
const MORE_OPTIONS: &str = "UZSWAP_TEST_OPTIONS";

/// `uzswap run`, with pages copied instead of moved in `older_kernels`.
pub fn uzswap_run() -> Command {
    let mut command = Command::new(UZSWAP);
    command.args(["run", "--no-config"]);
    if module_path!().starts_with("older_kernels") {
        command.args(["--isolate", "copy"]);
    }
    command.args(std::env::var(MORE_OPTIONS).unwrap_or_default().split_whitespace());
    command
}

/// `uzswap run OPTIONS --stat-json FILE -- CMD`
pub fn run(name: &str, options: &[&str], cmd: &[&str]) -> Run {
    let json = temp_of_thread(&format!("{name}.json"));
    let output = uzswap_run()
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

/// A counter of a group now; what `uzswap stat` said if there is none.
pub fn counter(group: &str, name: &str) -> Result<u64, String> {
    let output = Command::new(UZSWAP).args(["stat", group, "--json"]).output();
    let output = output.expect("uzswap stat");
    let counters: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = || format!("{}, {}", output.status, String::from_utf8_lossy(&output.stderr));
    counters[name].as_u64().ok_or_else(said)
}

/// A managed program that has written its data and holds still until it is let go; then it checks
/// every byte.
pub struct Held {
    child: Option<Child>,
    pub group: String,
    json: PathBuf,
    go: PathBuf,
}

impl Held {
    /// `uzswap run --name GROUP OPTIONS -- demo-child MEGABYTES`, once all of it is written.
    pub fn start(name: &str, options: &[&str], megabytes: u64) -> Self {
        Self::start_several(name, options, megabytes, 1)
    }

    /// The same with so many processes, of MEGABYTES each.
    pub fn start_several(name: &str, options: &[&str], megabytes: u64, processes: usize) -> Self {
        let group = format!("{name}-{}", std::process::id());
        let (json, go) = (temp(&format!("{name}.json")), temp(&format!("{name}.go")));
        let start = format!(
            "{UZSWAP} demo-child {megabytes} --hold {} & all=\"$all $!\"; ",
            go.display()
        );
        let script = start.repeat(processes) + "for one in $all; do wait $one || exit; done";
        let child = uzswap_run()
            .args(["--name", &group])
            .args(options)
            .arg("--stat-json")
            .arg(&json)
            .args(["--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starting uzswap");
        let mut held = Self {
            child: Some(child),
            group,
            json,
            go,
        };
        held.read_until_written(processes);
        held
    }

    /// The line that each writes before it holds still.
    fn read_until_written(&mut self, processes: usize) {
        let stderr = self
            .child
            .as_mut()
            .and_then(|child| child.stderr.as_mut())
            .expect("its stderr");
        let mut seen = Vec::new();
        let mut byte = [0];
        let mut written = 0;
        while written < processes {
            match stderr.read(&mut byte) {
                Ok(1) => {
                    seen.extend(byte);
                    written += usize::from(seen.ends_with(b"written\n"));
                }
                _ => panic!("it ended early: {}", String::from_utf8_lossy(&seen)),
            }
        }
    }

    /// Whether `uzswap VERB GROUP ARGS` succeeds.
    pub fn control(&self, verb: &str, args: &[&str]) -> bool {
        let output = Command::new(UZSWAP).arg(verb).arg(&self.group).args(args).output();
        output.expect("uzswap").status.success()
    }

    /// A counter now.
    pub fn now(&self, name: &str) -> u64 {
        counter(&self.group, name).unwrap_or_else(|said| panic!("no counter {name}: {said}"))
    }

    /// Wait until `is_so`, or panic after a minute with what was waited for.
    pub fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "waited a minute until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Let it go on, and wait for its end, which is that of a program that has all its data.
    pub fn finish(self) -> Run {
        let run = self.end();
        assert_eq!(run.status(), 0, "{}{}", run.stdout(), run.stderr());
        run
    }

    /// Let it go on, and wait for its end.
    pub fn end(mut self) -> Run {
        std::fs::write(&self.go, "").expect("letting it go");
        let child = self.child.take().expect("finished once");
        let output = child.wait_with_output().expect("its end");
        let text = std::fs::read_to_string(&self.json).unwrap_or_default();
        Run {
            output,
            counters: serde_json::from_str(&text).unwrap_or_default(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = std::fs::write(&self.go, "");
            let ended = child.wait_with_output();
            if let (true, Ok(ended)) = (std::thread::panicking(), ended) {
                eprintln!(
                    "it ended with {}: {}",
                    ended.status,
                    String::from_utf8_lossy(&ended.stderr)
                );
            }
        }
        let _ = std::fs::remove_file(&self.go);
        let _ = std::fs::remove_file(&self.json);
    }
}
