//! The metrics of all groups: those of a group have its name as a label, those of a process its
//! process id as well.

use uzswap_ctl::{Field, Group};
use uzswap_mm::page::MAX_ORDER;
use uzswap_mm::vmstat::{BUCKETS, OrderItem};

use super::text::{Family, Label, Text, Type};
use crate::figures::{self, Figure, Kind, Unit};
use crate::group::OpenGroup;
use crate::help;

/// A group as it was seen.
pub(super) struct Seen {
    name: String,
    group: Group,
    figures: Vec<Figure>,
    /// Slots of its processes.
    processes: Vec<usize>,
}

impl Seen {
    pub(super) fn of(open: &OpenGroup) -> Self {
        Self::new(&open.name, open.group, open.processes().collect())
    }

    fn new(name: &str, group: Group, processes: Vec<usize>) -> Self {
        Self {
            name: name.to_owned(),
            group,
            figures: figures::of(&group),
            processes,
        }
    }
}

/// Of each process; pages are told as bytes.
const OF_PROCESS: [(&str, Field, Unit, &str); 6] = [
    ("charge", Field::Charge, Unit::Bytes, "charged to the group"),
    (
        "resident",
        Field::Resident,
        Unit::Bytes,
        "resident memory that is managed",
    ),
    ("pool", Field::Pool, Unit::Bytes, "its part of the pool"),
    (
        "stored",
        Field::Stored,
        Unit::Pages,
        "what it has in the pool, before compression",
    ),
    ("swap", Field::Swapped, Unit::Pages, "what it has in the swap file"),
    (
        "shortfall",
        Field::Shortfall,
        Unit::Bytes,
        "memory more with which it would hardly wait",
    ),
];

/// All of them as text.
pub(super) fn of(groups: &[Seen]) -> String {
    let mut text = Text::default();
    general(&mut text, groups);
    figures(&mut text, groups);
    folios(&mut text, groups);
    histograms(&mut text, groups);
    processes(&mut text, groups);
    text.end()
}

fn family<'a>(name: &str, of_type: Type, unit: &'a str, help: &'a str) -> Family<'a> {
    let name = match unit {
        "" => format!("uzswap_{name}"),
        unit => format!("uzswap_{name}_{unit}"),
    };
    Family {
        name,
        of_type,
        unit,
        help,
    }
}

fn general(text: &mut Text, groups: &[Seen]) {
    let build = family("build", Type::Info, "", "the uzswap that tells this");
    text.family(&build);
    text.sample(&build, &[("version", help::VERSION)], 1);
    let running = family("groups", Type::Gauge, "", "groups that run");
    text.family(&running);
    text.sample(&running, &[], groups.len());
    let info = family("group", Type::Info, "", "how a group stores pages");
    text.family(&info);
    for seen in groups {
        let pool = seen.group.pool();
        let compressor = pool.compressor.to_string();
        let labels = [
            ("group", &*seen.name),
            ("compressor", &compressor),
            ("zpool", pool.zpool.name()),
        ];
        text.sample(&info, &labels, 1);
    }
    let count = family("processes", Type::Gauge, "", "processes that have the agent");
    text.family(&count);
    for seen in groups {
        text.sample(&count, &[("group", &seen.name)], seen.processes.len());
    }
}

/// The figures' own names, with the unit at the end: `waited_ns` is `uzswap_waited_seconds`.
fn figures(text: &mut Text, groups: &[Seen]) {
    // The same list as each group has: a family has its samples together.
    let Some(first) = groups.first() else { return };
    for (i, figure) in first.figures.iter().enumerate() {
        let (unit, tail) = match figure.unit {
            Unit::Bytes => ("bytes", "_bytes"),
            Unit::Pages => ("pages", "_pages"),
            Unit::Nanoseconds => ("seconds", "_ns"),
            Unit::Times => ("", "_total"),
        };
        let of_type = match figure.kind {
            Kind::Gauge => Type::Gauge,
            Kind::Counter => Type::Counter,
        };
        let name = figure.name.strip_suffix(tail).unwrap_or(figure.name).replace('.', "_");
        let family = family(&name, of_type, unit, figure.help);
        text.family(&family);
        for seen in groups {
            let (labels, value) = ([("group", &*seen.name)], seen.figures[i].value);
            match figure.unit {
                // There is no limit.
                _ if figure.name == "memory.max" && value == u64::MAX => {}
                Unit::Nanoseconds => text.sample(&family, &labels, value as f64 / 1e9),
                _ => text.sample(&family, &labels, value),
            }
        }
    }
}

fn folios(text: &mut Text, groups: &[Seen]) {
    for item in OrderItem::ALL {
        let name = format!("hugepages_{}", item.name());
        let help = match item {
            OrderItem::ZswpOut => "folios stored in zswap whole",
            OrderItem::SwpOut => "folios written straight to the swap file whole",
            OrderItem::SwpOutFallback => "folios that could not be stored whole and were split",
            OrderItem::SwpIn => "folios loaded whole",
            OrderItem::SwpInFallback => "folios of which not all pages could be loaded together",
        };
        let family = family(&name, Type::Counter, "", help);
        text.family(&family);
        for seen in groups {
            for order in 1..=MAX_ORDER {
                let size = format!("{}kB", 4 << order);
                let labels = [("group", &*seen.name), ("size", &size)];
                text.sample(&family, &labels, seen.group.vmstat().folios(item, order));
            }
        }
    }
}

fn histograms(text: &mut Text, groups: &[Seen]) {
    let kinds = [
        ("load", "time in which a page was loaded"),
        ("store", "time in which a page was stored"),
    ];
    for (i, (name, help)) in kinds.into_iter().enumerate() {
        let family = family(name, Type::Histogram, "seconds", help);
        text.family(&family);
        for seen in groups {
            let mut total = 0;
            for (bucket, count) in seen.group.vmstat().histograms()[i].iter().enumerate() {
                total += count;
                // What is longer than all bounds is in the last.
                let bound = match bucket {
                    _ if bucket == BUCKETS - 1 => "+Inf".to_owned(),
                    bucket => format!("{:e}", (1u64 << (bucket + 6)) as f64 / 1e9),
                };
                text.sample(&family, &[("group", &seen.name), ("le", &bound)], total);
            }
        }
    }
}

fn processes(text: &mut Text, groups: &[Seen]) {
    for (name, field, unit, help) in OF_PROCESS {
        let family = family(&format!("process_{name}"), Type::Gauge, "bytes", help);
        text.family(&family);
        each_process(groups, |labels, group, slot| {
            let value = group.field(slot, field);
            text.sample(&family, labels, unit.bytes(value).unwrap_or(value));
        });
    }
    let help = "time in which a thread of it waited for a page";
    let waited = family("process_waited", Type::Counter, "seconds", help);
    text.family(&waited);
    each_process(groups, |labels, group, slot| {
        text.sample(&waited, labels, group.field(slot, Field::Waited) as f64 / 1e9);
    });
}

fn each_process(groups: &[Seen], mut look: impl FnMut(&[Label<'_>], &Group, usize)) {
    for seen in groups {
        for slot in &seen.processes {
            let pid = seen.group.field(*slot, Field::Pid).to_string();
            look(&[("group", &seen.name), ("pid", &pid)], &seen.group, *slot);
        }
    }
}

#[cfg(test)]
mod test {
    use std::collections::HashSet;

    use uzswap_ctl::Limit;
    use uzswap_mm::vmstat::Item;

    use super::*;
    use crate::figures::test_group;

    /// Two groups, of which one has a limit and a process.
    fn text() -> String {
        let [limited, free] = [test_group(), test_group()];
        limited.set(Limit::MemoryMax, 64 << 20);
        free.set(Limit::MemoryMax, u64::MAX);
        limited.take_slot(0, 77);
        limited.set_field(0, Field::Swapped, 3);
        limited.vmstat().add(Item::WaitedNs, 1_500_000_000);
        limited.vmstat().record_load(100);
        limited.vmstat().record_load(u64::MAX);
        of(&[Seen::new("web", limited, vec![0]), Seen::new("job", free, Vec::new())])
    }

    fn samples(text: &str) -> impl Iterator<Item = (&str, &str)> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap())
    }

    #[test]
    fn values_have_their_groups_and_processes() {
        let text = text();
        for line in [
            "uzswap_groups 2",
            "uzswap_memory_max_bytes{group=\"web\"} 67108864",
            "uzswap_waited_seconds_total{group=\"web\"} 1.5",
            "uzswap_load_seconds_bucket{group=\"web\",le=\"6.4e-8\"} 0",
            "uzswap_load_seconds_bucket{group=\"web\",le=\"1.28e-7\"} 1",
            "uzswap_load_seconds_bucket{group=\"web\",le=\"+Inf\"} 2",
            "uzswap_process_swap_bytes{group=\"web\",pid=\"77\"} 12288",
            "uzswap_hugepages_zswpout_total{group=\"job\",size=\"2048kB\"} 0",
            "# TYPE uzswap_zswpin_pages counter",
            "# UNIT uzswap_swap_write_bytes bytes",
            "# TYPE uzswap_memory_current_bytes gauge",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
        assert!(!text.contains("uzswap_memory_max_bytes{group=\"job\"}"));
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    }

    /// A family is described once, before its samples, which stand together and differ in labels.
    #[test]
    fn the_text_is_well_formed() {
        let text = text();
        let (mut families, mut series) = (HashSet::new(), HashSet::new());
        let mut family = String::new();
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap().to_owned();
                assert!(families.insert(family.clone()), "{family} comes twice");
                continue;
            }
            if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').unwrap();
                assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
                continue;
            }
            let name = line.strip_prefix("# HELP ").unwrap_or(line);
            let name = name.split([' ', '{']).next().unwrap();
            let tails = ["", "_total", "_bucket", "_info"];
            assert!(
                tails.iter().any(|tail| name.strip_suffix(tail) == Some(&family)),
                "{line}"
            );
            if !line.starts_with('#') {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                assert!(series.insert(sample.to_owned()), "{sample} comes twice");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{line}");
            }
        }
        assert!(families.len() > 80, "{}", families.len());
    }

    #[test]
    fn without_groups_there_is_that() {
        let text = of(&[]);
        assert!(text.contains("\nuzswap_groups 0\n") && text.ends_with("# EOF\n"));
    }

    /// Names that queries of the dashboard mention.
    fn queried(dashboard: &serde_json::Value) -> HashSet<String> {
        let mut found = HashSet::new();
        let mut left = vec![dashboard];
        while let Some(value) = left.pop() {
            match value {
                serde_json::Value::Object(map) => left.extend(map.values()),
                serde_json::Value::Array(list) => left.extend(list),
                serde_json::Value::String(text) => {
                    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    found.extend(words.filter(|word| word.starts_with("uzswap_")).map(str::to_owned));
                }
                _ => {}
            }
        }
        found
    }

    #[test]
    fn the_dashboard_asks_for_what_there_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/uzswap.json");
        let dashboard = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let text = text();
        let known: HashSet<&str> = samples(&text)
            .map(|(name, _)| name.split('{').next().unwrap())
            .collect();
        let queried = queried(&dashboard);
        assert!(queried.len() > 10, "{queried:?}");
        let unknown: Vec<_> = queried.iter().filter(|name| !known.contains(name.as_str())).collect();
        assert!(unknown.is_empty(), "{path}: nobody exports {unknown:?}");
    }
}
