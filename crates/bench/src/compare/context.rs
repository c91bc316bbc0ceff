//! What all runs of one benchmark share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::undo::{self, Undo};
use crate::Failure;

/// Paths and settings.
pub(crate) struct Context {
    /// The executable under test, which is also `uzswap workload`.
    pub(crate) uzswap: PathBuf,
    /// A folder of ours on a disk.
    pub(crate) work: PathBuf,
    /// For the kernel's zswap, in the order of preference.
    pub(crate) zswap_compressor: Vec<String>,
    /// More options for every `uzswap run`.
    pub(crate) run_options: Vec<String>,
    /// Shares of what programs take, percent; none: the usual ones.
    pub(crate) percents: Vec<u64>,
    /// That were asked for.
    pub(crate) pairs: Option<u32>,
    pub(crate) is_quick: bool,
    /// How long a run may take before it is ended.
    pub(crate) timeout: Duration,
    groups: AtomicU32,
    _undo: Undo,
}

impl Context {
    /// Make the folder, in `disk`.
    pub(crate) fn new(uzswap: PathBuf, disk: &Path, is_quick: bool) -> Result<Self, Failure> {
        let _turn = undo::turn();
        let work = disk.join(format!("uzswap-bench.{}", std::process::id()));
        std::fs::create_dir_all(&work).map_err(|e| Failure::new(format!("{}: {e}", work.display())))?;
        let undo = undo::owe(format!("rm -r {}", work.display()), {
            let work = work.clone();
            move || std::fs::remove_dir_all(&work).map_err(|e| e.to_string())
        });
        Ok(Self {
            uzswap,
            work,
            zswap_compressor: ["lz4", "lzo"].map(str::to_owned).to_vec(),
            run_options: Vec::new(),
            percents: Vec::new(),
            pairs: None,
            is_quick,
            timeout: Duration::from_secs(if is_quick { 60 } else { 300 }),
            groups: AtomicU32::new(0),
            _undo: undo,
        })
    }

    /// A name that no run had before.
    pub(crate) fn next_group_name(&self) -> String {
        let number = self.groups.fetch_add(1, Ordering::Relaxed);
        format!("bench-{}-{number}", std::process::id())
    }

    /// `full`, or a quick run's `quick`.
    pub(crate) fn full_or<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }
}
