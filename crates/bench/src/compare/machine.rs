//! What the machine is and how its kernel is set.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::procfs::{read, size};
use super::text::mib;

/// Facts that a reader needs to judge the figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -r`.
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    /// Bytes.
    pub(crate) memory: u64,
    /// Name and setting, as the kernel has them.
    pub(crate) settings: Vec<(String, String)>,
}

const SETTINGS: [(&str, &str); 12] = [
    ("zswap enabled", "/sys/module/zswap/parameters/enabled"),
    ("zswap compressor", "/sys/module/zswap/parameters/compressor"),
    (
        "zswap max_pool_percent",
        "/sys/module/zswap/parameters/max_pool_percent",
    ),
    (
        "zswap shrinker_enabled",
        "/sys/module/zswap/parameters/shrinker_enabled",
    ),
    ("THP", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("THP defrag", "/sys/kernel/mm/transparent_hugepage/defrag"),
    ("THP 64kB", "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"),
    ("KSM", "/sys/kernel/mm/ksm/run"),
    ("DAMON reclaim", "/sys/module/damon_reclaim/parameters/enabled"),
    ("swappiness", "/proc/sys/vm/swappiness"),
    ("page-cluster", "/proc/sys/vm/page-cluster"),
    ("MGLRU", "/sys/kernel/mm/lru_gen/enabled"),
];

impl Machine {
    /// As it is before anything is switched.
    #[must_use]
    pub fn look() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
        let mut settings: Vec<(String, String)> = SETTINGS
            .into_iter()
            .map(|(name, path)| (name.to_owned(), setting(path)))
            .collect();
        settings.push(("DAMON".to_owned(), damon()));
        settings.push(("swap".to_owned(), swap(&read("/proc/swaps"))));
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: model.unwrap_or("unknown").to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory: size(&read("/proc/meminfo"), "MemTotal"),
            settings,
        }
    }
}

impl Machine {
    /// Name and value of each.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let hardware = [
            ("kernel", self.kernel.clone()),
            ("processors", format!("{} × {}", self.cpus, self.cpu)),
            ("memory", mib(self.memory)),
        ];
        let hardware = hardware.into_iter().map(|(name, value)| (name.to_owned(), value));
        hardware.chain(self.settings.iter().cloned()).collect()
    }
}

fn setting(path: &str) -> String {
    if Path::new(path).exists() {
        chosen(read(path).trim()).to_owned()
    } else {
        "not there".to_owned()
    }
}

/// Of a list of choices the one in brackets, else the text.
fn chosen(text: &str) -> &str {
    let in_brackets = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    in_brackets.map_or(text, |(chosen, _)| chosen)
}

fn damon() -> String {
    match read("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds").trim() {
        "" => "not there".to_owned(),
        "0" => "off".to_owned(),
        count => format!("{count} kdamonds"),
    }
}

fn swap(swaps: &str) -> String {
    match swaps.lines().count().saturating_sub(1) {
        0 => "none".to_owned(),
        count => format!("{count} in use"),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn of_choices_the_chosen_one_is_shown() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("0x0007"), "0x0007");
        assert_eq!(chosen("[lzo-rle] lzo lz4"), "lzo-rle");
    }

    #[test]
    fn there_is_a_kernel() {
        let machine = Machine::look();
        assert!(!machine.kernel.is_empty() && machine.memory > 0 && machine.cpus > 0);
    }
}
