//! What memory is held to a limit by: nothing, the kernel's zswap, the kernel's zram, uzswap.
//!
//! A side is prepared for each run and put back after it, so that no side meets another's swap.

mod cgroup;
mod probe;
mod swap;
mod zram;
mod zswap;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::undo::{self, Undo};
use crate::Failure;
use cgroup::Cgroup;
pub(crate) use probe::{Pool, Probe};

/// In the order in which they take turns and are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// Nothing holds it
    NoLimit,
    /// The kernel's zswap, a swap file and a control group
    Zswap,
    /// Swap on zram, and a control group
    Zram,
    /// `uzswap run`
    Uzswap,
}

impl Side {
    pub(crate) const ALL: [Self; 4] = [Self::NoLimit, Self::Zswap, Self::Zram, Self::Uzswap];

    /// As readers see it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoLimit => "no limit",
            Self::Zswap => "kernel zswap",
            Self::Zram => "kernel zram",
            Self::Uzswap => "uzswap",
        }
    }

    /// A control group holds the resident memory to a limit, and a swap device takes the rest.
    pub(crate) fn is_kernel(self) -> bool {
        matches!(self, Self::Zswap | Self::Zram)
    }

    /// Why it cannot be had on this machine, in one line.
    pub(crate) fn refusal(self) -> Option<String> {
        if !self.is_kernel() {
            return None;
        }
        let refusal = swap::refusal().or_else(cgroup::refusal).or_else(|| match self {
            Self::Zram => zram::refusal(),
            _ => zswap::refusal(),
        });
        refusal.map(|reason| format!("{} is left out: {reason}", self.name()))
    }

    /// Switch it on for one run, with `limit` bytes (0: none).
    pub(crate) fn prepare(self, context: &Context, limit: u64) -> Result<Prepared, Failure> {
        let _turn = undo::turn();
        let mut prepared = Prepared {
            side: self,
            probe: Probe::None,
            prefix: Vec::new(),
            cgroup: None,
            stat_json: None,
            undo: Vec::new(),
        };
        match self {
            Self::NoLimit => {}
            Self::Zswap => {
                prepared.undo.extend(zswap::switch_on(&context.zswap_compressor)?);
                prepared.undo.push(swap::file_on(&context.work.join("swap"))?);
                let memory_stat = prepared.enter_cgroup(limit)?;
                prepared.probe = Probe::Zswap { memory_stat };
            }
            Self::Zram => {
                let device = zram::switch_on()?;
                prepared.undo.extend(device.undo);
                prepared.probe = Probe::Zram {
                    mm_stat: device.mm_stat,
                    memory_stat: prepared.enter_cgroup(limit)?,
                };
            }
            Self::Uzswap => prepared.enter_uzswap(context, limit),
        }
        Ok(prepared)
    }
}

/// A side that is on, until this is dropped.
pub(crate) struct Prepared {
    pub(crate) side: Side,
    pub(crate) probe: Probe,
    /// What a program's command line begins with.
    prefix: Vec<OsString>,
    cgroup: Option<Cgroup>,
    /// Where uzswap's final counters will be.
    pub(crate) stat_json: Option<PathBuf>,
    undo: Vec<Undo>,
}

impl Drop for Prepared {
    /// The latest first.
    fn drop(&mut self) {
        while self.undo.pop().is_some() {}
    }
}

impl Prepared {
    /// The kernel reads no swap pages ahead.
    pub(crate) fn switch_readahead_off(&mut self) -> Result<(), Failure> {
        let _turn = undo::turn();
        self.undo.push(swap::readahead_off()?);
        Ok(())
    }

    /// Returns the path of its counters.
    fn enter_cgroup(&mut self, limit: u64) -> Result<PathBuf, Failure> {
        let (cgroup, undo) = Cgroup::create(limit)?;
        self.undo.push(undo);
        let enter = ["/bin/sh", "-c", "echo $$ >\"$0\" && exec \"$@\""];
        self.prefix = enter.map(OsString::from).to_vec();
        self.prefix.push(cgroup.procs().into());
        let memory_stat = cgroup.memory_stat();
        self.cgroup = Some(cgroup);
        Ok(memory_stat)
    }

    fn enter_uzswap(&mut self, context: &Context, limit: u64) {
        let name = context.next_group_name();
        let stat_json = context.work.join(format!("{name}.json"));
        let mut prefix: Vec<OsString> = vec![context.uzswap.clone().into()];
        prefix.extend(["run", "--no-config", "--quiet", "--name", &name, "--swap"].map(OsString::from));
        prefix.push(context.work.clone().into());
        if limit > 0 {
            prefix.extend(["--memory-max".into(), limit.to_string().into()]);
        }
        prefix.extend(["--stat-json".into(), stat_json.clone().into()]);
        prefix.extend(context.run_options.iter().map(OsString::from));
        prefix.push("--".into());
        self.probe = Probe::Group(name);
        self.prefix = prefix;
        self.undo.push(remove_file(&stat_json));
        self.stat_json = Some(stat_json);
    }

    /// Add an option of `uzswap run`; other sides have none.
    pub(crate) fn add_run_options(&mut self, options: &[&str]) {
        if self.side == Side::Uzswap {
            let before_program = self.prefix.len() - 1;
            let options = options.iter().map(OsString::from);
            self.prefix.splice(before_program..before_program, options);
        }
    }

    /// Programs find no control group, in a namespace of mounts of their own. Without root there is
    /// none that could limit them.
    pub(crate) fn hide_control_groups(&mut self) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let hide = "umount -R -l /sys/fs/cgroup; mount --bind /dev/null /proc/self/cgroup; \
                    mount --bind /dev/null /proc/cgroups; exec \"$0\" \"$@\"";
        let hide = ["unshare", "-m", "--", "/bin/sh", "-c", hide].map(OsString::from);
        // The control group is entered while it can be seen.
        let at = if self.cgroup.is_some() { self.prefix.len() } else { 0 };
        self.prefix.splice(at..at, hide);
    }

    /// `program` with its arguments, as it is to be started under this side.
    pub(crate) fn command_line(&self, program: &[OsString]) -> Vec<OsString> {
        self.prefix.iter().chain(program).cloned().collect()
    }

    /// Processes that the kernel killed for memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, Cgroup::oom_kills)
    }
}

fn remove_file(path: &Path) -> Undo {
    let path = path.to_owned();
    undo::owe(format!("rm {}", path.display()), move || {
        let _ = std::fs::remove_file(&path);
        Ok(())
    })
}
