//! A zram device of our own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::procfs::read;
use super::super::undo::{self, Undo};
use super::swap;
use crate::Failure;

const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
const HOT_REMOVE: &str = "/sys/class/zram-control/hot_remove";
/// As large as the swap file of the other side.
const DISK_SIZE: &str = "4G";
/// The compressor that uzswap has, where the kernel has it; else the kernel's choice stays.
const COMPRESSOR: &str = "lz4";

/// A device that is swapped to.
pub(super) struct Zram {
    pub(super) mm_stat: PathBuf,
    pub(super) undo: Vec<Undo>,
}

/// Why there is none.
pub(super) fn refusal() -> Option<String> {
    (!Path::new(HOT_ADD).exists()).then(|| "this kernel has no zram (modprobe zram, if it is a module)".to_owned())
}

/// A new device, with swap on it.
pub(super) fn switch_on() -> Result<Zram, Failure> {
    // Reading makes one, and says its number.
    let id = read(HOT_ADD).trim().to_owned();
    let dir = PathBuf::from(format!("/sys/block/zram{id}"));
    let mut undo = vec![undo::owe(format!("zram{id}"), {
        let (dir, id) = (dir.clone(), id.clone());
        move || remove(&dir, &id)
    })];
    // A kernel without it keeps its default.
    let _ = std::fs::write(dir.join("comp_algorithm"), COMPRESSOR);
    std::fs::write(dir.join("disksize"), DISK_SIZE)
        .map_err(|e| Failure::new(format!("{}/disksize: {e}", dir.display())))?;
    let device = PathBuf::from(format!("/dev/zram{id}"));
    swap::run(Command::new("mkswap").arg(&device))?;
    undo.push(swap::device_on(&device)?);
    Ok(Zram {
        mm_stat: dir.join("mm_stat"),
        undo,
    })
}

fn remove(dir: &Path, id: &str) -> Result<(), String> {
    std::fs::write(dir.join("reset"), "1").map_err(|e| e.to_string())?;
    std::fs::write(HOT_REMOVE, id).map_err(|e| e.to_string())
}
