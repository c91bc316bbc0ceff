//! What /proc says of processes and of the machine. A process that has ended has nothing.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cpu_times::{self, CpuTimes};

/// The text of a file, or none of one that is not there.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// `Name:   123 kB` in bytes, 0 where there is no such line.
pub(crate) fn size(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// `name 123` lines.
pub(crate) fn counters(text: &str) -> BTreeMap<String, u64> {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    });
    pairs.collect()
}

/// `RssAnon` of a process, bytes.
pub(crate) fn rss_anon(pid: u32) -> u64 {
    size(&read(format!("/proc/{pid}/status")), "RssAnon")
}

/// A process and all its descendants. Those that a thread started are listed under that thread.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&member) = found.get(at) {
        found.extend(children(member));
        at += 1;
    }
    found
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let of_thread = |thread: std::fs::DirEntry| read(thread.path().join("children"));
    let lists: Vec<String> = threads.flatten().map(of_thread).collect();
    lists
        .iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// The ids of all threads of the kernel's that reclaim: kswapd, one for each node.
pub(crate) fn kswapds() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    entries
        .flatten()
        .filter_map(pid)
        .filter(|pid| read(format!("/proc/{pid}/comm")).starts_with("kswapd"))
        .collect()
}

/// What processes have used so far, seconds.
pub(crate) fn cpu_seconds(pids: &[u32]) -> f64 {
    let of_one = |pid: &u32| cpu_times::of_process(*pid).map_or(0.0, |CpuTimes { user, sys }| user + sys);
    pids.iter().map(of_one).sum()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sizes_are_in_bytes() {
        let text = "MemTotal:       24683912 kB\nZswap:              12 kB\nZswapped:           40 kB\n";
        assert_eq!((size(text, "Zswap"), size(text, "Zswapped")), (12 << 10, 40 << 10));
        assert_eq!((size(text, "Zswa"), size(text, "Swap")), (0, 0));
    }

    #[test]
    fn counters_are_read_by_name() {
        let counted = counters("pgfault 12\nzswpin 3\nodd line here\n");
        assert_eq!(counted.get("zswpin"), Some(&3));
        assert_eq!(counted.len(), 2);
    }

    #[test]
    fn this_process_is_in_its_family() {
        let own = std::process::id();
        assert_eq!(family(own).first(), Some(&own));
        assert!(rss_anon(own) > 0);
        assert_eq!(rss_anon(u32::MAX), 0);
    }
}
