//! Processes that are too small for a pager: they are charged, and killed where nothing else helps.

mod common;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{can_manage, compile, temp, uzswap_run};

const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon with small children.
struct Daemon {
    program: PathBuf,
    go: PathBuf,
    group: String,
    child: Child,
}

impl Daemon {
    fn start(name: &str, limit: &str, retitles: u32, children: u32, kib: u32) -> Self {
        let (program, go) = (compile("small"), temp(&format!("{name}.go")));
        let group = format!("{name}-{}", std::process::id());
        let path = go.display();
        let script = format!(
            "{} {retitles} {children} {kib} {path}; while [ ! -e {path} ]; do sleep 0.05; done",
            program.display()
        );
        let mut run = uzswap_run();
        let run = run.args(["--name", &group, "--memory-max", limit, "--quiet", "--"]);
        let run = run.args(["sh", "-c", &script]).stdin(Stdio::null());
        let child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self {
            program,
            go,
            group,
            child: child.expect("starting uzswap"),
        }
    }

    fn counter(&self, name: &str) -> u64 {
        // 0 before the group is there.
        common::counter(&self.group, name).unwrap_or(0)
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            let current = self.counter("memory.current");
            assert!(began.elapsed() < PATIENCE, "waited until {what}; charged are {current}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.go, "");
        // All of them have it, so they have seen the file when it ends.
        let stdout = self.child.stdout.take();
        let _ = stdout.map(|mut stdout| stdout.read_to_end(&mut Vec::new()));
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.go);
        let _ = std::fs::remove_file(&self.program);
    }
}

#[test]
fn a_daemon_that_writes_over_its_environment_is_charged() {
    if can_manage() {
        let daemon = Daemon::start("small-retitled", "256M", 1, 8, 1500);
        daemon.wait_until("its children are charged", |daemon| {
            daemon.counter("memory.current") > (8 * 1500) << 10
        });
    }
}

#[test]
fn many_small_processes_are_killed_until_the_limit_holds() {
    if can_manage() {
        let daemon = Daemon::start("small-many", "24M", 0, 30, 1500);
        // What is left fits.
        let kills = |daemon: &Daemon| daemon.counter("oom_kill");
        daemon.wait_until("the limit holds", |daemon| {
            kills(daemon) >= 12 && daemon.counter("memory.current") <= 24 << 20
        });
        assert!(kills(&daemon) < 20, "{} were killed", kills(&daemon));
    }
}
