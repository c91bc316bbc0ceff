//! Each test has a process of its own: there is one pager in a process, and its settings are chosen
//! once.

use std::process::{Command, Output};

/// Says what a child is to do.
const TASK: &str = "UZSWAP_REGION_TASK";

/// What this process is to do, if it is a child.
pub fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// A child that runs the test `name` with `task`.
pub fn child(name: &str, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test's file"));
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(TASK, task);
    command
}

/// That it ended well.
#[track_caller]
pub fn succeeds(mut command: Command) -> Output {
    let output = command.output().expect("a child");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Whether this machine has what regions need; says so if it has not.
pub fn has_userfaultfd() -> bool {
    match uzswap_region::Region::new(1) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("not tested: {error}");
            false
        }
    }
}
