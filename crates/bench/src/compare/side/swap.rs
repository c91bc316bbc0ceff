//! Swap on and off.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::procfs::{read, size};
use super::super::undo::{self, Undo};
use crate::Failure;

/// More than any workload has.
const FILE_MIB: u64 = 4096;

/// Why no swap of ours can be used: counters of the kernel's are for all swap there is.
pub(super) fn refusal() -> Option<String> {
    let swaps = read("/proc/swaps");
    if let Some(used) = swaps.lines().nth(1).and_then(|line| line.split_whitespace().next()) {
        return Some(format!("swap is in use already ({used}); run swapoff first"));
    }
    (!is_root()).then(|| "a control group and swapon need root".to_owned())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A swap file at `path`, made once and left there for the next run, until the folder goes.
pub(super) fn file_on(path: &Path) -> Result<Undo, Failure> {
    if !path.exists() {
        run(Command::new("fallocate")
            .args(["-l", &format!("{FILE_MIB}M")])
            .arg(path))?;
        run(Command::new("chmod").arg("600").arg(path))?;
        run(Command::new("mkswap").arg(path))?;
    }
    device_on(path)
}

/// Swap to `path`, which mkswap has prepared.
pub(super) fn device_on(path: &Path) -> Result<Undo, Failure> {
    wait_for_empty_pool();
    run(Command::new("swapon").arg(path))?;
    let path: PathBuf = path.to_owned();
    Ok(undo::owe(format!("swapoff {}", path.display()), move || {
        run(Command::new("swapoff").arg(&path)).map_err(|Failure { line, .. }| line)
    }))
}

/// vm.page-cluster 0, until it is put back.
pub(super) fn readahead_off() -> Result<Undo, Failure> {
    const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
    let before = read(PAGE_CLUSTER).trim().to_owned();
    let undo = undo::owe(format!("vm.page-cluster={before}"), move || {
        std::fs::write(PAGE_CLUSTER, before).map_err(|e| e.to_string())
    });
    std::fs::write(PAGE_CLUSTER, "0").map_err(|e| Failure::new(format!("{PAGE_CLUSTER}: {e}")))?;
    Ok(undo)
}

/// What the program before left in the pool goes soon after its end.
fn wait_for_empty_pool() {
    for _ in 0..100 {
        if size(&read("/proc/meminfo"), "Zswap") < 1 << 20 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Run it to its end, without its output.
pub(super) fn run(command: &mut Command) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| Failure::new(format!("{name}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("{name}: {}", stderr.trim())))
}
