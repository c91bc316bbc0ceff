//! The figures of a group: what each counts, in which unit, and its value now.

use uzswap_ctl::{Field, Group, Limit, Notice, Statistic};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Pages,
    Nanoseconds,
    /// Faults, processes, and other things that happen.
    Times,
}

/// Whether a figure may fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    Counter,
}

/// One figure of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) kind: Kind,
    /// Of `memory.max`, `u64::MAX` is that there is none.
    pub(crate) value: u64,
    /// For people.
    pub(crate) help: &'static str,
}

impl Unit {
    /// Bytes, if it is memory that is counted.
    pub(crate) fn bytes(self, value: u64) -> Option<u64> {
        match self {
            Self::Bytes => Some(value),
            Self::Pages => Some(value.saturating_mul(PAGE_SIZE as u64)),
            Self::Nanoseconds | Self::Times => None,
        }
    }
}

/// All of a group but its histograms and what is counted for each size of folios.
#[expect(clippy::too_many_lines, reason = "a row for each figure")]
pub(crate) fn of(group: &Group) -> Vec<Figure> {
    let gauge = |name, unit, value, help| Figure {
        name,
        unit,
        kind: Kind::Gauge,
        value,
        help,
    };
    let bytes = |name, value, help| gauge(name, Unit::Bytes, value, help);
    let sum = |name, field, help| bytes(name, group.sum(field), help);
    let pages = |name, field, help| gauge(name, Unit::Pages, group.sum(field), help);
    let of_pages = |name, field, help| bytes(name, group.sum(field) * PAGE_SIZE as u64, help);
    let noted = |name, statistic, help| bytes(name, group.get(statistic), help);
    let stat = group.vmstat();
    let counter = |name, unit, value, help| Figure {
        kind: Kind::Counter,
        ..gauge(name, unit, value, help)
    };
    let mut figures = vec![
        bytes("memory.max", group.get(Limit::MemoryMax), "the limit"),
        bytes("memory.current", group.current(), "charged now, of all processes"),
        noted("memory.peak", Statistic::MemoryPeak, "the most that was ever charged"),
        noted(
            "memory.needed_peak",
            Statistic::NeededPeak,
            "the most that would have been resident without a pool and a swap file",
        ),
        sum(
            "shortfall",
            Field::Shortfall,
            "memory more with which processes would hardly wait",
        ),
        counter(
            "cold_taken",
            Unit::Bytes,
            group.get(Notice::ColdTaken),
            "memory that an automatic limit had taken out",
        ),
        counter(
            "unmanaged_processes",
            Unit::Times,
            group.get(Statistic::UnmanagedProcesses),
            "processes without an agent that were seen",
        ),
        noted(
            "unmanaged.current",
            Statistic::Unmanaged,
            "memory of processes without an agent",
        ),
        noted(
            "unmanaged.peak",
            Statistic::UnmanagedPeak,
            "the most memory of processes without an agent",
        ),
        noted("shmem", Statistic::Shmem, "shared memory, which is not charged"),
        noted("shmem.peak", Statistic::ShmemPeak, "the most shared memory"),
        noted(
            "remote_bytes",
            Statistic::RemoteBytes,
            "what of swap files the remote has",
        ),
        counter(
            "remote_sent",
            Unit::Bytes,
            group.get(Statistic::RemoteSent),
            "bytes of swap files that were sent to the remote",
        ),
        counter(
            "remote_fetched",
            Unit::Bytes,
            group.get(Statistic::RemoteFetched),
            "bytes that were brought back from it",
        ),
        counter(
            "remote_lost",
            Unit::Times,
            group.get(Statistic::RemoteLost),
            "segments that could not be brought back",
        ),
        sum("pool_total_size", Field::Pool, "the pool"),
        pages("stored_pages", Field::Stored, "pages stored in the pool"),
        pages(
            "stored_incompressible_pages",
            Field::Incompressible,
            "pages stored in the pool as they are",
        ),
        sum("zswap", Field::Pool, "the pool, as meminfo names it"),
        of_pages("zswapped", Field::Stored, "what the pool holds, before compression"),
        of_pages(
            "zswap_incomp",
            Field::Incompressible,
            "what the pool holds of pages stored as they are",
        ),
        counter(
            "written_back_pages",
            Unit::Pages,
            stat.get(Item::ZswpWb),
            "pages written back from zswap, as debugfs names them",
        ),
        sum("anon_resident", Field::Resident, "resident memory that is managed"),
        sum(
            "active_anon",
            Field::Active,
            "resident memory that is known to be wanted",
        ),
        sum("swapcached", Field::Cached, "resident memory whose stored copy is kept"),
        sum("anon_staged", Field::Staged, "memory taken out and not yet stored"),
        of_pages("memory.swap.current", Field::Swapped, "what is in the swap file"),
        sum("agent", Field::Agent, "the agent's own memory"),
    ];
    let counted = |item: &Item| counter(item.name(), unit(*item), stat.get(*item), item.help());
    figures.extend(Item::ALL.iter().map(counted));
    figures
}

/// What a counter counts.
fn unit(item: Item) -> Unit {
    match item {
        Item::SwapWriteBytes | Item::SwapReadBytes => Unit::Bytes,
        Item::WaitedNs | Item::StalledNs => Unit::Nanoseconds,
        Item::PgFault
        | Item::PgMajFault
        | Item::PgFaultHelped
        | Item::PgFaultInline
        | Item::ActivateAnon
        | Item::AllocStall
        | Item::PoolLimitHit
        | Item::RejectReclaimFail
        | Item::RejectAllocFail
        | Item::SwapFull
        | Item::DictionaryWins
        | Item::DictionaryLoses
        | Item::PoolSwitch
        | Item::Forks
        | Item::OomKill => Unit::Times,
        _ => Unit::Pages,
    }
}

/// A group that nobody else has.
#[cfg(test)]
pub(crate) fn test_group() -> Group {
    let words = (0..uzswap_ctl::WORDS).map(|_| std::sync::atomic::AtomicU64::new(0));
    Group::create(words.collect::<Vec<_>>().leak())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_has_one_name_and_says_what_it_is() {
        let figures = of(&test_group());
        let mut names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), figures.len());
        assert!(figures.iter().all(|figure| !figure.help.is_empty()));
    }

    #[test]
    fn what_is_said_to_be_pages_is_told_in_pages() {
        for item in Item::ALL {
            let says = |words: &[&str]| words.iter().any(|word| item.help().starts_with(word));
            match unit(*item) {
                Unit::Pages => assert!(
                    says(&[
                        "pages",
                        "of them, pages",
                        "zero pages",
                        "staged pages",
                        "stored pages",
                        "pool pages"
                    ]) || says(&["entries", "lost pages"]),
                    "{}",
                    item.name()
                ),
                Unit::Bytes => assert!(says(&["bytes"]), "{}", item.name()),
                Unit::Nanoseconds => assert!(says(&["nanoseconds"]), "{}", item.name()),
                Unit::Times => assert!(!says(&["pages", "bytes", "nanoseconds"]), "{}", item.name()),
            }
        }
        assert_eq!(Unit::Pages.bytes(3), Some(3 * 4096));
        assert_eq!(Unit::Times.bytes(3), None);
    }
}
