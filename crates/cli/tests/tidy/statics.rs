//! The list of globals in `agent/src/statics.rs` is that of the source.

use std::collections::BTreeSet;

use crate::tokens::{item, tokens, without_tests};

/// Parts of `sys` and `mm` that the agent is built without.
const NOT_IN_AGENT: [&str; 4] = [
    "crates/sys/src/cut_short.rs",
    "crates/sys/src/launch.rs",
    "crates/sys/src/testing/",
    "crates/mm/src/sim/",
];
const FATES: [&str; 3] = ["reset", "kept", "replaced"];

/// The path of a file as modules: those of the agent by themselves, others below their crate.
fn module(of: &str, path: &str) -> String {
    let inner = path.strip_prefix(&format!("crates/{of}/src/")).unwrap_or(path);
    let parts = inner
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| !["lib", "mod"].contains(part));
    let crate_name = Some(of).filter(|of| *of != "agent");
    crate_name
        .into_iter()
        .chain(parts)
        .map(|part| format!("{part}::"))
        .collect()
}

/// The globals in a file of the crate `of`. One that is declared and lies elsewhere is none.
pub fn found(of: &str, path: &str, text: &str) -> Vec<String> {
    if NOT_IN_AGENT.iter().any(|part| path.starts_with(part)) || path.ends_with("test.rs") {
        return Vec::new();
    }
    let code = without_tests(&tokens(text));
    let items = (0..code.len()).filter(|i| code[*i].text == "static");
    let name = |at: usize| {
        let item: Vec<_> = code[at..][..item(&code[at..])].iter().map(|token| token.text).collect();
        let name = item.iter().skip(1).find(|text| **text != "mut")?;
        item.contains(&"=").then(|| format!("{}{name}", module(of, path)))
    };
    items.filter_map(name).collect()
}

/// The rows of the list: which static, and what becomes of it.
fn rows(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = list.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        Some((name, rest.split(" | ").next()?))
    })
}

/// What the list lacks, what it has that is no more, and rows that say nothing.
pub fn differences(list: &str, found: BTreeSet<String>) -> Vec<String> {
    let listed: BTreeSet<_> = rows(list).map(|(name, _)| name.to_owned()).collect();
    let lacking = found
        .difference(&listed)
        .map(|name| format!("static {name}: not in the list of statics.rs"));
    let gone = listed
        .difference(&found)
        .map(|name| format!("static {name}: in the list of statics.rs and not there"));
    let vague = rows(list).filter(|(_, fate)| !FATES.contains(fate));
    let vague = vague.map(|(name, fate)| format!("static {name}: {fate:?} is none of {FATES:?}"));
    let doubled = rows(list).count() - listed.len();
    let doubled = (doubled > 0).then(|| format!("{doubled} rows of statics.rs are there twice"));
    lacking.chain(gone).chain(vague).chain(doubled).collect()
}

#[test]
fn a_static_without_a_row_is_complained_of() {
    let text = "
        extern \"C\" { static _end: u8; }
        static A: [u8; 4] = [0; 4];
        fn f(x: &'static str) { static mut B: u8 = 0; }
        #[cfg(test)]
        mod test { static C: u8 = 0; }
    ";
    let found = found("sys", "crates/sys/src/robust/mod.rs", text);
    assert_eq!(found, ["sys::robust::A", "sys::robust::B"]);
    let list = "//! | `sys::robust::A` | perhaps | why |\n//! | `gone::D` | kept | why |";
    let complaints = differences(list, found.into_iter().collect());
    assert_eq!(complaints.len(), 3, "{complaints:?}");
    assert!(complaints[0].starts_with("static sys::robust::B: not in the list"));
    assert!(complaints[1].starts_with("static gone::D: in the list"));
    assert!(complaints[2].starts_with("static sys::robust::A: \"perhaps\""));
}
