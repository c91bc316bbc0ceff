//! CMD and its launcher as one job of a shell in a terminal, compared with CMD alone.

mod common;

use std::process::Command;

use common::{UZSWAP, can_manage, compile};

/// What `programs/terminal.c` sees: the same with a launcher.
fn seen(terminal: &str, key: &str, cmd: &[&str]) -> String {
    let launcher = [UZSWAP, "run", "--quiet", "--memory-max", "24M", "--"];
    let [alone, launched] = [&[][..], &launcher].map(|launcher| {
        let mut command = Command::new("env");
        command
            .args(["--default-signal", terminal, key])
            .args(launcher)
            .args(cmd);
        let output = command.output().expect("env");
        assert!(output.status.success(), "{cmd:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    assert_eq!(launched, alone, "{key} {cmd:?}");
    launched
}

#[test]
fn a_terminal_interrupts_and_stops_cmd_once() {
    if !can_manage() {
        return;
    }
    let program = compile("terminal");
    let terminal = program.to_str().expect("a name of ours");
    let sh = |key, script| seen(terminal, key, &["sh", "-c", script]);
    let stops = |said: String| said.matches("stopped").count();
    let interrupted = "n=0; trap 'n=$((n+1))' INT; echo ready; sleep 60; sleep 0.2; echo interrupts $n; exit 6";
    assert!(sh("interrupt", interrupted).contains("interrupts 1"));
    assert_eq!(stops(sh("stop", "echo ready; sleep 2; exit 6")), 1);
    // By itself, twice, and as it ignores what is typed.
    let itself = "echo ready; kill -TSTP $$; echo goes on; kill -TSTP $$; exit 6";
    assert_eq!(stops(sh("nothing", itself)), 2);
    assert_eq!(stops(sh("stop", "trap '' TSTP; echo ready; sleep 1; exit 6")), 0);
    // In a process group of its own.
    let apart = ["timeout", "30", "sh", "-c", "echo ready; sleep 20"];
    assert!(!seen(terminal, "interrupt", &apart).contains("status 0"));
    std::fs::remove_file(program).expect("compiled above");
}
