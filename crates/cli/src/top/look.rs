//! What there is to see of all groups at one moment.

use std::io::Read;

use uzswap_ctl::Field;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::{BUCKETS, Item};

use crate::group::OpenGroup;
use crate::memory_max;
use crate::recompress::Recompress;
use crate::stall::Stall;

/// What rates are of.
pub(super) const RATES: [Item; 5] = [Item::PgFault, Item::ZswpIn, Item::ZswpOut, Item::PswpIn, Item::PswpOut];
/// Of a command line more would not fit on any screen.
const COMMAND_MAX: u64 = 1024;

/// Bytes of a group or a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) charge: u64,
    pub(super) resident: u64,
    pub(super) staged: u64,
    pub(super) pool: u64,
    pub(super) stored: u64,
    pub(super) swapped: u64,
    pub(super) agent: u64,
    pub(super) shortfall: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SeenProcess {
    pub(super) pid: u64,
    pub(super) command: String,
    pub(super) sizes: Sizes,
    /// Nanoseconds so far.
    pub(super) waited: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SeenGroup {
    pub(super) name: String,
    /// `u64::MAX`: there is none.
    pub(super) max: u64,
    pub(super) sizes: Sizes,
    /// Bytes that it would have more without a pool and a swap file.
    pub(super) saved: u64,
    pub(super) counts: [u64; RATES.len()],
    /// Loads so far, by how long they took.
    pub(super) loads: [u64; BUCKETS],
    /// By what it stores pages.
    pub(super) means: String,
    pub(super) processes: Vec<SeenProcess>,
}

impl Sizes {
    fn of(charge: u64, field: impl Fn(Field) -> u64) -> Self {
        let pages = |of| field(of) * PAGE_SIZE as u64;
        Self {
            charge,
            resident: field(Field::Resident),
            staged: field(Field::Staged),
            pool: field(Field::Pool),
            stored: pages(Field::Stored),
            swapped: pages(Field::Swapped),
            agent: field(Field::Agent),
            shortfall: field(Field::Shortfall),
        }
    }
}

impl SeenGroup {
    pub(super) fn look(open: &OpenGroup) -> Self {
        let group = &open.group;
        Self {
            name: open.name.clone(),
            max: memory_max::word_of(*group),
            sizes: Sizes::of(group.current(), |field| group.sum(field)),
            saved: group.needed().saturating_sub(group.sum(Field::Charge)),
            counts: RATES.map(|item| group.vmstat().get(item)),
            loads: group.vmstat().histograms()[0],
            means: format!(
                "{}compressor {}, {}, recompress {}",
                Stall::of(*group).map_or_else(String::new, |stall| format!("stall {stall}, ")),
                group.pool().compressor,
                group.pool().zpool.name(),
                Recompress(group.recompress())
            ),
            processes: open.processes().map(|slot| SeenProcess::look(open, slot)).collect(),
        }
    }
}

impl SeenProcess {
    fn look(open: &OpenGroup, slot: usize) -> Self {
        let field = |field| open.group.field(slot, field);
        let pid = field(Field::Pid);
        Self {
            pid,
            command: command(pid),
            sizes: Sizes::of(field(Field::Charge), field),
            waited: field(Field::Waited),
        }
    }
}

/// The command line, without the directory of the program; of what has none, its name.
fn command(pid: u64) -> String {
    let read = |name: &str| {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(format!("/proc/{pid}/{name}"));
        let _ = file.and_then(|file| file.take(COMMAND_MAX).read_to_end(&mut bytes));
        plain(&bytes)
    };
    let line = read("cmdline");
    match line.split_once(' ') {
        _ if line.is_empty() => read("comm"),
        Some((program, arguments)) => format!("{} {arguments}", base_name(program)),
        None => base_name(&line).to_owned(),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// A line without anything in it that a terminal would obey: names are the programs' own choice.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace(char::is_control, " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_command_is_a_line_of_words() {
        assert_eq!(plain(b"python3\0-c\0import x\nx.y()\0"), "python3 -c import x x.y()");
        assert_eq!(plain(b"\x1b[2J\x1b]0;title\x07\xff"), "[2J ]0;title \u{fffd}");
        assert_eq!(
            (base_name("/usr/bin/cc"), base_name("cc"), base_name("a/")),
            ("cc", "cc", "")
        );
        let own = command(std::process::id().into());
        assert!(!own.is_empty() && !own.starts_with('/'), "{own}");
        assert_eq!(command(0), "");
    }
}
