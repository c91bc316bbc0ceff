//! Who imports whom, and that nobody comes round to himself.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, tokens, without_tests};

/// Who imports whom, and where that is seen.
pub type Edges = BTreeMap<(String, String), String>;

/// The modules that a file is: those above it, and its own.
fn modules(path: &str) -> Vec<&str> {
    let parts = path.trim_end_matches(".rs").split('/');
    parts.filter(|part| !["lib", "mod"].contains(part)).collect()
}

fn is_path(rest: &[Token<'_>]) -> bool {
    rest.len() > 2 && rest[1].text == ":" && rest[2].text == ":"
}

/// The first names of the paths that `rest` begins with: one, or those of a group in braces.
fn heads<'a>(rest: &[Token<'a>]) -> Vec<&'a str> {
    let mut depth = 0;
    let mut is_first = true;
    let mut found = Vec::new();
    for token in rest {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => is_first = true,
            name if is_first => {
                found.push(name);
                is_first = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// What the file at `path` names of its crate's root: the first name of each path, and its line.
fn named<'a>(path: &str, text: &'a str) -> Vec<(&'a str, usize)> {
    let code = without_tests(&tokens(text));
    let depth = modules(path).len();
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let (mut rest, mut supers) = (&code[at..], 0);
        at += 1;
        let is_continued = at > 1 && code[at - 2].text == ":";
        while !is_continued && is_path(rest) && rest[0].text == "super" {
            (rest, supers) = (&rest[3..], supers + 1);
        }
        let is_root = supers > 0 && supers == depth;
        if !is_continued && is_path(rest) && rest[0].text == "crate" {
            rest = &rest[3..];
        } else if !is_root {
            continue;
        }
        found.extend(heads(rest).into_iter().map(|name| (name, rest[0].line)));
    }
    found
}

/// What a file names that is beyond `allowed`: modules of its crate, other crates of ours, std.
pub fn beyond(allowed: &[&str], path: &str, text: &str) -> Vec<String> {
    let code = without_tests(&tokens(text));
    let foreign = (0..code.len())
        .filter(|i| is_path(&code[*i..]))
        .map(|i| (code[i].text, code[i].line));
    let foreign = foreign.filter(|(name, _)| name.starts_with("uzswap_") || *name == "std");
    let inner = named(path, text)
        .into_iter()
        .filter(|(name, _)| !allowed.contains(name));
    let complaint = |(name, line)| format!("{path}:{line}: names {name}: only {allowed:?} may be");
    inner.chain(foreign).map(complaint).collect()
}

/// What the crate's root says of others' names: in which module each is.
fn exports(root: &str) -> BTreeMap<String, String> {
    let code = tokens(root);
    let mut found = BTreeMap::new();
    for i in (0..code.len()).filter(|i| code[*i].text == "use") {
        let path = code[i + 1..]
            .iter()
            .map(|token| token.text)
            .take_while(|text| *text != ";");
        let mut names = path.filter(|text| text.starts_with(char::is_alphabetic) && *text != "crate");
        let Some(module) = names.next() else { continue };
        found.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    found
}

/// Which modules right below a crate's root name which others. `files`: by their paths from there.
/// The root itself, which names all, is left out, but for what it exports.
pub fn between_modules(files: &[(String, String)]) -> Edges {
    let known: BTreeSet<_> = files
        .iter()
        .filter_map(|(path, _)| modules(path).first().copied())
        .collect();
    let root = files
        .iter()
        .find(|(path, _)| path == "lib.rs")
        .map_or("", |(_, text)| text.as_str());
    let exports = exports(root);
    let mut edges = Edges::new();
    for (path, text) in files {
        let Some(from) = modules(path).first().copied() else {
            continue;
        };
        for (name, line) in named(path, text) {
            let to = if known.contains(name) {
                Some(name)
            } else {
                exports.get(name).map(String::as_str)
            };
            if let Some(to) = to.filter(|to| *to != from) {
                edges
                    .entry((from.into(), to.into()))
                    .or_insert_with(|| format!("{path}:{line}"));
            }
        }
    }
    edges
}

/// Which crates the one at `path` depends on, tests included.
pub fn between_crates(path: &str, manifest: &str) -> Edges {
    let of = path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or(path);
    let names = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("uzswap-")?.split(['.', ' ', '=']).next());
    names.map(|name| ((of.into(), name.into()), path.into())).collect()
}

fn reachable<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(at) = left.pop() {
        let next = edges.keys().filter(|(from, _)| from == at).map(|(_, to)| to.as_str());
        left.extend(next.filter(|to| seen.insert(*to)));
    }
    seen
}

/// Edges from which there is a way back.
pub fn circles(edges: &Edges) -> Vec<String> {
    let has_way_back = |((from, to), _): &(&(String, String), &String)| reachable(edges, to).contains(from.as_str());
    let complaint =
        |((from, to), at): (&(String, String), &String)| format!("{at}: {from} -> {to} is part of a circle");
    edges.iter().filter(has_way_back).map(complaint).collect()
}

#[test]
fn a_circle_of_modules_is_complained_of() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file(
            "lib.rs",
            "mod a; mod b; mod c; pub(crate) use c::deep::{Thing as Other, More};",
        ),
        file(
            "a/mod.rs",
            "// crate::c\nuse super::b; #[cfg(test)] mod test { use crate::c; }",
        ),
        file("b.rs", "fn f() -> crate::More { \"crate::a\" }"),
        file(
            "c/deep.rs",
            "use crate::{page::Page, b::X}; use super::super::d::{a, c};",
        ),
        file("d.rs", "use core::mem;"),
    ];
    let found = circles(&between_modules(&files));
    assert_eq!(
        found,
        [
            "b.rs:1: b -> c is part of a circle",
            "c/deep.rs:1: c -> b is part of a circle"
        ]
    );
}

#[test]
fn a_circle_of_crates_is_complained_of() {
    let mut edges = between_crates(
        "crates/a/Cargo.toml",
        "[dependencies]\nuzswap-b = { workspace = true }\nring = \"1\"",
    );
    assert!(circles(&edges).is_empty() && edges.len() == 1);
    edges.extend(between_crates(
        "crates/b/Cargo.toml",
        "[dev-dependencies]\nuzswap-a.workspace = true",
    ));
    assert_eq!(circles(&edges).len(), 2);
}

#[test]
fn what_policy_may_not_name_is_complained_of() {
    let text = "use crate::page::Vpn;\nuse crate::{policy::worth, mm::Mm};\nuse super::keep;\nuse super::super::zpool;\nfn f() { uzswap_acomp::go() }";
    let found = beyond(&["page", "policy"], "policy/keep.rs", text);
    let names: Vec<_> = found.iter().map(|text| text.split(' ').nth(2).unwrap()).collect();
    assert_eq!(names, ["mm:", "zpool:", "uzswap_acomp:"], "{found:?}");
}
