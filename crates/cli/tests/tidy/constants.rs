//! What could be another number stands in `mm/policy/tunables.rs`, each with its experiment.

use std::collections::BTreeSet;

use crate::documents::cited;
use crate::tokens::{Token, item, tokens, without_tests};

/// Said of a number that nobody has measured.
const NONE: &str = "Experiment: none.";
const NUMBERS: [&str; 13] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64",
];
/// Numbers of the engine that stand elsewhere, since another one would be another format or
/// structure and not another decision.
const STRUCTURAL: &[(&str, &[&str], &str)] = &[
    ("checksum.rs", &["LEN"], "a checksum's bytes"),
    (
        "flight/freeze_log.rs",
        &["EVENTS_AT_ONCE"],
        "what one read of events may bring (`sys::uffd`)",
    ),
    ("config.rs", &["PAGE_CLUSTER_MAX"], "the kernel's (`vm.page-cluster`)"),
    ("flight/underway.rs", &["SERVERS_MAX"], "places in an array"),
    ("machine.rs", &["RUNS"], "places in an array"),
    (
        "machine.rs",
        &["PIECE_MIN"],
        "each machine has its own: that of the simulation is smaller",
    ),
    ("policy/costs.rs", &["PARTS"], "fraction of a logarithm"),
    ("policy/shortfall.rs", &["STEPS", "BUCKETS"], "places of a histogram"),
    ("page.rs", &["PAGE_SIZE", "MAX_ORDER", "VPN_BITS"], "the processor's"),
    ("pages/block.rs", &["LEN_BITS"], "a field of a word"),
    (
        "pages/list_lru.rs",
        &["SEGMENT_PAGES"],
        "what a tag of a word stands for",
    ),
    ("pages/staging.rs", &["UNIT"], "bits of a word of the bitmap"),
    ("pages/swap_slots.rs", &["CLUSTER", "BITMAP"], "bits of a bitmap"),
    (
        "pages/swap_table/entry.rs",
        &["TAG_BITS", "ZTAG_BITS", "CTAG_BITS", "STAGING_BITS", "KIND_BITS"],
        "fields of a word",
    ),
    (
        "pages/swap_table/entry.rs",
        &["BUSY", "WRITEBACK", "REFERENCED"],
        "bits of a word",
    ),
    (
        "pages/swap_table/entry.rs",
        &["UNIT", "AT_BITS"],
        "fields of a word, and what they count in",
    ),
    (
        "pages/swap_table/mod.rs",
        &["LOCK_ORDER", "LOCKS_BITS"],
        "the table of locks",
    ),
    (
        "pages/swap_table/tree.rs",
        &["LEVEL_BITS", "UNIT_BITS"],
        "fields of a key",
    ),
    (
        "pages/swap_table/units.rs",
        &["UNIT_ORDER", "SLAB_UNITS"],
        "bits of a bitmap, and what each stands for",
    ),
    ("vmstat.rs", &["BUCKETS", "ORDERS"], "the layout of the group's words"),
    ("zpool/arena.rs", &["SPAN_PAGES"], "the longest chain fits into a span"),
    ("zpool/buddies.rs", &["CHUNK", "BUDDIES"], "fields of a place"),
    ("zpool/mod.rs", &["PLACE_BITS", "POOL_BITS"], "fields of a word"),
    ("zpool/zsmalloc/class.rs", &["GROUPS"], "places in an array"),
    ("zpool/zsmalloc/mod.rs", &["INDEX_BITS"], "a field of a place"),
    (
        "zpool/zsmalloc/size_class.rs",
        &["STEP", "MIN", "MAX", "CHAIN_MAX", "LONG_ENOUGH"],
        "the compiler makes the classes of them",
    ),
];

/// A constant's name, line and value.
type Constant<'a> = (&'a str, usize, Vec<&'a str>);

fn numeric<'a>(code: &[Token<'a>]) -> Vec<Constant<'a>> {
    let constant = |at: usize| {
        let [name, colon, of, equals] = [1, 2, 3, 4].map(|i| code.get(at + i).map_or("", |token| token.text));
        let is_one = code[at].text == "const" && colon == ":" && NUMBERS.contains(&of) && equals == "=";
        let value = || {
            code[at + 5..]
                .iter()
                .map(|token| token.text)
                .take(item(&code[at..]) - 6)
        };
        is_one.then(|| (name, code[at].line, value().collect()))
    };
    (0..code.len()).filter_map(constant).collect()
}

/// Whether a value has a number of its own: one that has none follows from other constants.
fn is_chosen(value: &[&str]) -> bool {
    let is_number = |text: &&&str| text.starts_with(|c: char| c.is_ascii_digit());
    value.iter().filter(is_number).any(|text| !["0", "1"].contains(text))
}

/// Numbers that stand neither in tunables.rs nor in [`STRUCTURAL`], and those in there that are no
/// more. `files`: their paths in the engine, and what is in them.
pub fn stray(files: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let code = without_tests(&tokens(&text));
        let chosen: Vec<_> = numeric(&code)
            .into_iter()
            .filter(|(.., value)| is_chosen(value))
            .collect();
        let excepted: Vec<_> = STRUCTURAL
            .iter()
            .filter(|(file, ..)| *file == path)
            .flat_map(|(_, names, _)| *names)
            .collect();
        let stray = chosen.iter().filter(|(name, ..)| !excepted.contains(&name));
        complaints.extend(stray.map(|(name, line, _)| {
            format!("mm/{path}:{line}: {name}: it belongs into policy/tunables.rs, or with a reason into STRUCTURAL")
        }));
        let gone = excepted
            .iter()
            .filter(|name| !chosen.iter().any(|(found, ..)| found == **name));
        complaints.extend(gone.map(|name| format!("mm/{path}: {name} is no number there: take it off STRUCTURAL")));
    }
    complaints
}

/// Constants of tunables.rs that name no experiment that is `known`, and do not say that there was
/// none. What is said of a group of them counts for each.
pub fn without_experiment(text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let (mut comment, mut group) = (String::new(), String::new());
    for (at, line) in (1..).zip(text.lines().map(str::trim)) {
        if let Some(more) = line.strip_prefix("///") {
            comment += more;
            continue;
        }
        let said = core::mem::take(&mut comment);
        let says = |what: &str| cited(what).any(|id| known.contains(&id));
        if line.ends_with('{') {
            group = said;
        } else if let Some(name) = tunable(line)
            && !says(&said)
            && !says(&group)
            && !said.contains(NONE)
        {
            complaints.push(format!(
                "tunables.rs:{at}: {name} names no experiment, nor says {NONE:?}"
            ));
        }
    }
    complaints
}

/// The name, where a line is `name: type = value, "unit";`.
fn tunable(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(": ")?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && rest.contains(" = ") && rest.ends_with("\";")).then_some(name)
}

#[test]
fn a_stray_number_is_complained_of() {
    let text = "
        const A: usize = 48;
        pub(crate) const B: usize = 1 << A;
        const C: &str = \"7\";
        impl X { const D: f32 = 0.5; }
        #[cfg(test)]
        mod test { const E: u32 = 9; }
    ";
    let found = stray([("a.rs".into(), text.into())].into_iter());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("mm/a.rs:2: A:") && found[1].starts_with("mm/a.rs:5: D:"));
    let (file, names, _) = STRUCTURAL[0];
    let found = stray([(file.into(), String::new())].into_iter());
    let gone = found
        .iter()
        .filter(|text| text.ends_with("take it off STRUCTURAL"))
        .count();
    assert!(gone == found.len() && gone >= names.len(), "{found:?}");
}

#[test]
fn a_tunable_without_an_experiment_is_complained_of() {
    let known = ["E-001".to_owned()].into();
    let text = "
        /// Of a group. E-001.
        first: First {
            /// Measured with the others.
            a: u32 = 1, \"pages\";
        }
        /// Of a group. Experiment: none.
        second: Second {
            /// Measured
            /// well. E-001.
            b: u32 = 2, \"pages\";
            /// Experiment: none.
            c: f32 = 0.5, \"pages\";
            /// E-002.
            d: u32 = 1 << 4, \"pages\";
            E: u32 = 5, \"second.e\", \"pages\";
        }
    ";
    let found = without_experiment(text, &known);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains(": d names") && found[1].contains(": E names"));
}
