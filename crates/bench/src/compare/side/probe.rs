//! Looking at a side's pool while a program runs.

use std::path::PathBuf;

use uzswap_ctl::{Field, Group};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use crate::compare::procfs::{counters, read, size};
use crate::usemem::open_group;

/// Where a side's pool can be seen.
#[derive(Clone, Debug)]
pub(crate) enum Probe {
    /// There is none.
    None,
    /// /proc/meminfo: no other swap is in use. And the control group's memory.stat.
    Zswap { memory_stat: PathBuf },
    /// The device's mm_stat, and the control group's memory.stat.
    Zram { mm_stat: PathBuf, memory_stat: PathBuf },
    /// The group file of that name.
    Group(String),
}

/// A pool at one time. Bytes, and pages counted since the boot or the start of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) bytes: u64,
    /// Of the pages that it holds.
    pub(crate) stored_bytes: u64,
    /// Of resident memory: not stored yet, stored as well; and the pager's own.
    pub(crate) staged_bytes: u64,
    pub(crate) kept_bytes: u64,
    pub(crate) agent_bytes: u64,
    /// On the swap device, behind the pool.
    pub(crate) disk_bytes: u64,
    /// The pool lies in the processes' own anonymous memory.
    pub(crate) is_inside: bool,
    /// Anonymous memory as it is accounted for, each page once; the pool with it if it is inside.
    pub(crate) charged_bytes: Option<u64>,
    pub(crate) major_faults: u64,
}

impl Probe {
    /// Look now.
    pub(crate) fn look(&self) -> Pool {
        match self {
            Self::None => Pool {
                major_faults: major_faults(),
                ..Pool::default()
            },
            Self::Zswap { memory_stat } => Pool {
                charged_bytes: anonymous(&read(memory_stat)),
                ..zswap(&read("/proc/meminfo"))
            },
            Self::Zram { mm_stat, memory_stat } => Pool {
                charged_bytes: anonymous(&read(memory_stat)),
                ..zram(&read(mm_stat))
            },
            Self::Group(name) => {
                let file = open_group(name);
                let group = file.as_ref().and_then(|file| Group::open(file.words()));
                group.map(of_group).unwrap_or_default()
            }
        }
    }
}

fn major_faults() -> u64 {
    counters(&read("/proc/vmstat")).get("pgmajfault").copied().unwrap_or(0)
}

/// Of a memory.stat: `rss` in v1, `anon` in v2.
fn anonymous(memory_stat: &str) -> Option<u64> {
    let counted = counters(memory_stat);
    counted.get("total_rss").or_else(|| counted.get("anon")).copied()
}

/// What is in swap but not in the pool has been written back (or never was in it).
fn zswap(meminfo: &str) -> Pool {
    let of = |name| size(meminfo, name);
    let swapped = of("SwapTotal").saturating_sub(of("SwapFree"));
    Pool {
        bytes: of("Zswap"),
        stored_bytes: of("Zswapped"),
        staged_bytes: 0,
        kept_bytes: 0,
        agent_bytes: 0,
        disk_bytes: swapped.saturating_sub(of("Zswapped")).saturating_sub(of("SwapCached")),
        is_inside: false,
        charged_bytes: None,
        major_faults: major_faults(),
    }
}

/// `orig_data_size compr_data_size mem_used_total ...`
fn zram(mm_stat: &str) -> Pool {
    let mut fields = mm_stat.split_whitespace().map(|field| field.parse().unwrap_or(0));
    let stored_bytes = fields.next().unwrap_or(0);
    Pool {
        bytes: fields.nth(1).unwrap_or(0),
        stored_bytes,
        staged_bytes: 0,
        kept_bytes: 0,
        agent_bytes: 0,
        disk_bytes: 0,
        is_inside: false,
        charged_bytes: None,
        major_faults: major_faults(),
    }
}

fn of_group(group: Group) -> Pool {
    let page_bytes = |field| group.sum(field) * PAGE_SIZE as u64;
    Pool {
        bytes: group.sum(Field::Pool),
        stored_bytes: page_bytes(Field::Stored),
        staged_bytes: group.sum(Field::Staged),
        kept_bytes: group.sum(Field::Cached),
        agent_bytes: group.sum(Field::Agent),
        disk_bytes: page_bytes(Field::Swapped),
        is_inside: true,
        charged_bytes: Some(group.current()),
        major_faults: group.vmstat().get(Item::PgMajFault),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_was_written_back_is_on_disk() {
        let meminfo = "SwapCached: 100 kB\nSwapTotal: 5000 kB\nSwapFree: 2000 kB\nZswap: 900 kB\nZswapped: 2400 kB\n";
        let pool = zswap(meminfo);
        assert_eq!((pool.bytes, pool.stored_bytes), (900 << 10, 2400 << 10));
        assert_eq!(pool.disk_bytes, 500 << 10);
    }

    #[test]
    fn anonymous_memory_is_read_from_either_version() {
        assert_eq!(anonymous("cache 5\nrss 7\ntotal_rss 9\n"), Some(9));
        assert_eq!(anonymous("anon 4096\nfile 8192\n"), Some(4096));
        assert_eq!(anonymous(""), None);
    }

    #[test]
    fn memory_that_zram_uses_is_its_pool() {
        let pool = zram("  409600  180000  200704        0   200704        4        0        0        0\n");
        assert_eq!((pool.stored_bytes, pool.bytes), (409_600, 200_704));
        assert_eq!(zram("").bytes, 0);
    }

    #[test]
    fn a_group_that_is_not_there_has_nothing() {
        assert_eq!(Probe::Group("no such group".to_owned()).look(), Pool::default());
    }
}
