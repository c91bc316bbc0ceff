//! Rows of the table: of each group and its processes, with what happened since the look before.

use super::look::{RATES, SeenGroup, SeenProcess, Sizes};
use crate::memory_max;
use crate::report::latencies;

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) group: String,
    /// `None`: the group itself.
    pub(super) pid: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) label: String,
    pub(super) sizes: Sizes,
    /// Of a group, as its setting has it.
    pub(super) max: Option<u64>,
    /// In a second; of a group that was there at the look before.
    pub(super) rates: Option<[f64; RATES.len()]>,
    /// Share of the time in which a thread waited for a page, percent. Of a group: that of the
    /// process that waited most.
    pub(super) wait: Option<f64>,
    /// Nanoseconds that half of the loads, and all but a hundredth, took less than.
    pub(super) latencies: Option<[u64; 2]>,
}

impl Row {
    /// Bytes that the group can never exceed, if there are any.
    pub(super) fn limit(&self) -> Option<u64> {
        self.max.filter(|max| ![memory_max::AUTO_WORD, u64::MAX].contains(max))
    }
}

/// A group with its processes.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) heading: Row,
    pub(super) processes: Vec<Row>,
    pub(super) saved: u64,
    pub(super) means: String,
}

/// All groups. Rates are of the time since the look before, which was `seconds` ago.
pub(super) fn branches(before: &[SeenGroup], now: &[SeenGroup], seconds: f64) -> Vec<Branch> {
    let branch = |group: &SeenGroup| {
        let before = before.iter().find(|old| old.name == group.name);
        branch(before, group, seconds)
    };
    now.iter().map(branch).collect()
}

fn branch(before: Option<&SeenGroup>, now: &SeenGroup, seconds: f64) -> Branch {
    let process = |process: &SeenProcess| {
        let is_it = |old: &&SeenProcess| old.pid == process.pid;
        let before = before.and_then(|group| group.processes.iter().find(is_it));
        of_process(&now.name, before, process, seconds)
    };
    let processes: Vec<Row> = now.processes.iter().map(process).collect();
    let waits = processes.iter().filter_map(|process| process.wait);
    let heading = Row {
        key: Key {
            group: now.name.clone(),
            pid: None,
        },
        label: format!("{} ({})", now.name, processes.len()),
        sizes: now.sizes,
        max: Some(now.max),
        rates: before
            .map(|before| std::array::from_fn(|i| now.counts[i].saturating_sub(before.counts[i]) as f64 / seconds)),
        wait: waits.reduce(f64::max),
        latencies: before.and_then(|before| latencies(&before.loads, &now.loads)),
    };
    Branch {
        heading,
        processes,
        saved: now.saved,
        means: now.means.clone(),
    }
}

fn of_process(group: &str, before: Option<&SeenProcess>, now: &SeenProcess, seconds: f64) -> Row {
    Row {
        key: Key {
            group: group.to_owned(),
            pid: Some(now.pid),
        },
        label: now.command.clone(),
        sizes: now.sizes,
        max: None,
        rates: None,
        wait: before.map(|before| now.waited.saturating_sub(before.waited) as f64 / 1e7 / seconds),
        latencies: None,
    }
}

#[cfg(test)]
pub(super) mod test {
    use super::*;

    pub(in super::super) fn process(pid: u64, command: &str, mib: u64) -> SeenProcess {
        SeenProcess {
            pid,
            command: command.to_owned(),
            sizes: sizes(mib),
            waited: 0,
        }
    }

    fn sizes(mib: u64) -> Sizes {
        let bytes = mib << 20;
        Sizes {
            charge: bytes,
            resident: bytes * 3 / 4,
            pool: bytes / 5,
            stored: bytes / 2,
            swapped: bytes / 8,
            ..Sizes::default()
        }
    }

    pub(in super::super) fn group(name: &str, mib: u64, processes: &[SeenProcess]) -> SeenGroup {
        SeenGroup {
            name: name.to_owned(),
            max: mib << 21,
            sizes: sizes(mib),
            saved: mib << 19,
            means: "compressor words, zsmalloc, recompress zstd:1".to_owned(),
            processes: processes.to_vec(),
            ..SeenGroup::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let before = group("web", 64, &[process(7, "a", 3), process(8, "b", 1)]);
        let mut now = before.clone();
        now.counts[0] = 500;
        now.loads[5] = 99;
        now.loads[9] = 1;
        now.processes[1].waited = 500_000_000;
        now.processes.push(process(9, "c", 1));
        let web = branches(&[before], &[now], 2.0).remove(0);
        assert_eq!(web.heading.rates, Some([250.0, 0.0, 0.0, 0.0, 0.0]));
        assert_eq!(web.heading.latencies, Some([1 << 11, 1 << 11]));
        let waits: Vec<_> = web.processes.iter().map(|row| row.wait).collect();
        assert_eq!(waits, [Some(0.0), Some(25.0), None]);
        assert_eq!(web.heading.wait, Some(25.0));
        assert_eq!(web.heading.label, "web (3)");
    }

    #[test]
    fn a_group_that_was_not_there_has_no_rates() {
        let new = branches(&[], &[group("web", 64, &[process(7, "a", 3)])], 1.0).remove(0);
        assert_eq!((new.heading.rates, new.heading.wait), (None, None));
        assert_eq!(new.heading.latencies, None);
    }

    /// One of the same name, begun anew.
    #[test]
    fn counters_that_fell_are_no_rates_below_zero() {
        let mut before = group("web", 64, &[]);
        before.counts[0] = 1000;
        let now = group("web", 64, &[]);
        let web = branches(&[before], &[now], 1.0).remove(0);
        assert_eq!(web.heading.rates.unwrap()[0], 0.0);
    }
}
