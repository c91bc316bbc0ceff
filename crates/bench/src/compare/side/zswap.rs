//! The kernel's own zswap, switched on with parameters of ours and put back.

use std::path::{Path, PathBuf};

use super::super::procfs::read;
use super::super::undo::{self, Undo};
use crate::Failure;

const PARAMETERS: &str = "/sys/module/zswap/parameters";
/// Half of the machine's memory: the pool is never the limit.
const MAX_POOL_PERCENT: &str = "50";

/// Why it cannot be used.
pub(super) fn refusal() -> Option<String> {
    let enabled = Path::new(PARAMETERS).join("enabled");
    if !enabled.exists() {
        return Some("this kernel has no zswap".to_owned());
    }
    std::fs::OpenOptions::new()
        .write(true)
        .open(&enabled)
        .err()
        .map(|e| format!("{}: {e}", enabled.display()))
}

/// Enable it, with the first of `compressors` that the kernel has.
pub(super) fn switch_on(compressors: &[String]) -> Result<Vec<Undo>, Failure> {
    let mut undo = vec![put_back("compressor")];
    let has = |name: &&String| std::fs::write(parameter("compressor"), name).is_ok();
    if compressors.iter().find(has).is_none() {
        return Err(Failure::new(format!(
            "the kernel's zswap knows no compressor of '{}'",
            compressors.join(", ")
        )));
    }
    for (name, value) in [("max_pool_percent", MAX_POOL_PERCENT), ("enabled", "Y")] {
        undo.push(put_back(name));
        let path = parameter(name);
        std::fs::write(&path, value).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
    }
    Ok(undo)
}

fn parameter(name: &str) -> PathBuf {
    Path::new(PARAMETERS).join(name)
}

/// Its present value is owed.
fn put_back(name: &'static str) -> Undo {
    let path = parameter(name);
    let before = read(&path);
    undo::owe(format!("zswap {name}={}", before.trim()), move || {
        std::fs::write(&path, before.trim()).map_err(|e| e.to_string())
    })
}
