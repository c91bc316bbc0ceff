//! Documents: how long they are, and whether what they name exists.

use std::collections::BTreeSet;

const WIDTH: usize = 120;
const WORDS: usize = 25;
/// Of the map, and of a page of `docs/design/`.
const MAP_LINES: usize = 150;
const PAGE_LINES: usize = 120;
/// Of a path that is meant to be one of a file.
const ENDINGS: [&str; 12] = [
    "rs", "md", "sh", "py", "c", "h", "toml", "java", "mjs", "sql", "txt", "json",
];
/// Crates that paths are short for: `mm/pages/` is `crates/mm/src/pages/`.
const CRATES: [&str; 10] = [
    "mm", "agent", "backing", "region", "ctl", "sys", "acomp", "cli", "bench", "workload",
];

/// The lines of a document that are no drawings and no code, numbered from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced
    })
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Lines that are too long. Rows of tables cannot be broken, nor can links.
pub fn long_lines(path: &str, text: &str) -> Vec<String> {
    let is_long =
        |line: &str| line.chars().count() > WIDTH && !is_row(line) && !line.contains("](") && !line.contains("://");
    let lines = prose(text).filter(|(_, line)| is_long(line));
    let complaint = |(at, _)| format!("{path}:{at}: a line of more than {WIDTH} columns");
    lines.map(complaint).collect()
}

/// A document that is too long.
pub fn too_long(path: &str, text: &str) -> Option<String> {
    let most = if path == "ARCHITECTURE.md" {
        MAP_LINES
    } else {
        PAGE_LINES
    };
    let lines = text.lines().count();
    (lines > most).then(|| format!("{path} has {lines} lines: it may have {most}"))
}

/// Pages of `docs/design/` that the map does not lead to.
pub fn unlinked(map: &str, pages: impl Iterator<Item = String>) -> Vec<String> {
    let is_linked = |page: &String| page == "ARCHITECTURE.md" || map.contains(&format!("]({page})"));
    let unlinked = pages.filter(|page| !is_linked(page));
    unlinked
        .map(|page| format!("{page}: ARCHITECTURE.md does not link it"))
        .collect()
}

/// What stands between `open` and `close`, in each place of one line.
pub fn between<'a>(line: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = line.split(open).skip(1);
    parts
        .filter_map(|part| part.split_once(close).map(|(inner, _)| inner))
        .collect()
}

fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// `a/{b,c}.rs` is two paths.
fn expand(path: &str) -> Vec<String> {
    match path
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        Some((before, (choices, after))) => choices.split(',').map(|one| format!("{before}{one}{after}")).collect(),
        None => vec![path.to_owned()],
    }
}

fn is_source(path: &str) -> bool {
    let is_plain = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_-./{},*".contains(c));
    let first = path.split('/').next().unwrap_or_default();
    let ours = ["crates", "docs", "accept", "fuzz"];
    let is_file = path
        .rsplit_once('.')
        .is_some_and(|(stem, end)| ENDINGS.contains(&end) && !stem.is_empty());
    let is_folder = path.contains('/') && (CRATES.contains(&first) || ours.contains(&first));
    is_plain && !path.starts_with(['/', '.', '*']) && (is_file || is_folder)
}

/// Whether `path`, in which a star stands for anything but a slash, is there.
fn is_there(path: &str, tree: &[String]) -> bool {
    let path = path.trim_end_matches('/');
    let Some((before, after)) = path.split_once('*') else {
        return tree.iter().any(|known| known.trim_end_matches('/') == path);
    };
    let matches = |known: &String| {
        let inner = known.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        inner.is_some_and(|inner| !inner.contains('/'))
    };
    tree.iter().any(matches)
}

/// Whether a document in `folder` may call anything in `tree` by that path.
fn resolves(folder: &str, path: &str, tree: &[String]) -> bool {
    let below = |folder: &str| is_there(&format!("{folder}{path}"), tree);
    let in_crate = path
        .split_once('/')
        .filter(|(of, _)| CRATES.contains(of))
        .is_some_and(|(of, rest)| {
            is_there(&format!("crates/{of}/src/{rest}"), tree) || is_there(&format!("crates/{of}/{rest}"), tree)
        });
    let ending = format!("/{}", path.trim_end_matches('/'));
    let is_ending = || tree.iter().any(|known| known.trim_end_matches('/').ends_with(&ending));
    below("") || below(folder) || in_crate || is_ending()
}

/// Relative links, and paths of sources in backticks, that lead nowhere. `tree`: all that is there,
/// folders with a slash at their end.
pub fn dead_paths(path: &str, text: &str, tree: &[String]) -> Vec<String> {
    let folder = path.rfind('/').map_or("", |at| &path[..=at]);
    let mut complaints = Vec::new();
    for (at, line) in prose(text) {
        let links = between(line, "](", ")")
            .into_iter()
            .filter(|link| !link.contains("://") && !link.starts_with('#'));
        let dead = links.filter(|link| !is_there(&join(folder, link.split('#').next().unwrap_or(link)), tree));
        complaints.extend(dead.map(|link| format!("{path}:{at}: the link {link} leads nowhere")));
        let paths = in_backticks(line).filter(|path| is_source(path)).flat_map(expand);
        let dead = paths.filter(|path| !resolves(folder, path, tree));
        complaints.extend(dead.map(|dead| format!("{path}:{at}: `{dead}` is not there")));
    }
    complaints
}

/// `link` from `folder` on.
pub fn join(folder: &str, link: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Paragraphs, items of lists and cells of tables, each as one line, with the line it begins in.
fn passages(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    let mut last = 0;
    for (at, line) in prose(text) {
        let line = line.trim();
        let item = line.strip_prefix("- ").or_else(|| {
            line.split_once(". ")
                .filter(|(n, _)| n.parse::<u32>().is_ok())
                .map(|(_, item)| item)
        });
        let is_next = at == last + 1;
        last = at;
        if is_row(line) {
            found.extend(line.trim_matches('|').split(" | ").map(|cell| (at, cell.to_owned())));
            is_open = false;
        } else if line.is_empty() || line.starts_with('#') {
            is_open = false;
        } else if let (true, true, None, Some((_, passage))) = (is_open, is_next, item, found.last_mut()) {
            *passage += " ";
            *passage += line;
        } else {
            found.push((at, item.unwrap_or(line).to_owned()));
            is_open = true;
        }
    }
    found
}

/// Sentences of too many words. What is in backticks is one word.
pub fn long_sentences(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (at, passage) in passages(text) {
        let words: String = passage
            .split('`')
            .enumerate()
            .map(|(i, part)| if i % 2 == 0 { part } else { "code" })
            .collect();
        let mut words_of_one = 0;
        for word in words.split_whitespace() {
            words_of_one += 1;
            if words_of_one == WORDS + 1 {
                complaints.push(format!(
                    "{path}:{at}: a sentence of more than {WORDS} words: ... {word}"
                ));
            }
            if word.trim_end_matches([')', '*']).ends_with(['.', '?', '!']) {
                words_of_one = 0;
            }
        }
    }
    complaints
}

/// Experiments that `text` names: `E-` and three digits.
pub fn cited(text: &str) -> impl Iterator<Item = String> {
    let id = |part: &str| {
        let digits = part
            .get(..3)
            .filter(|digits| digits.chars().all(|c| c.is_ascii_digit()))?;
        Some(format!("E-{digits}"))
    };
    text.split("E-").skip(1).filter_map(id)
}

fn row_ids(table: &str) -> impl Iterator<Item = String> {
    table
        .lines()
        .filter_map(|line| cited(line.strip_prefix("| ")?.split(" | ").next()?).next())
}

/// Those that have a row.
pub fn experiments(table: &str) -> BTreeSet<String> {
    row_ids(table).collect()
}

/// Those that have two.
pub fn twice(table: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let twice = row_ids(table).filter(|id| !seen.insert(id.clone()));
    twice
        .map(|id| format!("docs/experiments.md: {id} has two rows"))
        .collect()
}

/// Experiments that are named and have no row.
pub fn unknown_experiments(path: &str, text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let unknown = (1..)
        .zip(text.lines())
        .flat_map(|(at, line)| cited(line).map(move |id| (at, id)));
    let unknown = unknown.filter(|(_, id)| !known.contains(id));
    unknown
        .map(|(at, id)| format!("{path}:{at}: {id} has no row in docs/experiments.md"))
        .collect()
}

#[test]
fn a_long_line_is_complained_of() {
    let long = "x".repeat(121);
    let text = format!("{long}\n| {long} |\n```\n{long}\n```\n[a](b) {long}\n");
    assert_eq!(long_lines("a.md", &text), ["a.md:1: a line of more than 120 columns"]);
}

#[test]
fn a_long_document_is_complained_of() {
    let lines = |n| "\n".repeat(n);
    assert!(too_long("ARCHITECTURE.md", &lines(150)).is_none() && too_long("ARCHITECTURE.md", &lines(151)).is_some());
    assert!(too_long("docs/design/a.md", &lines(120)).is_none() && too_long("docs/design/a.md", &lines(121)).is_some());
}

#[test]
fn a_page_that_is_not_linked_is_complained_of() {
    let pages = ["docs/design/a.md", "docs/design/b.md"].map(str::to_owned);
    let found = unlinked("see [a](docs/design/a.md) and docs/design/b.md", pages.into_iter());
    assert_eq!(found, ["docs/design/b.md: ARCHITECTURE.md does not link it"]);
}

#[test]
fn a_path_that_leads_nowhere_is_complained_of() {
    let tree = [
        "crates/mm/src/pages/",
        "crates/mm/src/pages/block.rs",
        "docs/a.md",
        "accept/x.sh",
    ]
    .map(str::to_owned);
    let text = "`mm/pages/{block,gone}.rs` and `block.rs`, `accept/*.sh`, `accept/*.py`\n\
                `mm/paged/` `pages/` `x = y.rs` `rest.rs` [a](a.md#top) [b](../README.md) [c](https://x.org/y.md)";
    let found = dead_paths("docs/b.md", text, &tree);
    let expected = [
        "docs/b.md:1: `mm/pages/gone.rs` is not there",
        "docs/b.md:1: `accept/*.py` is not there",
        "docs/b.md:2: the link ../README.md leads nowhere",
        "docs/b.md:2: `mm/paged/` is not there",
        "docs/b.md:2: `rest.rs` is not there",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_long_sentence_is_complained_of() {
    let words = |n| "word ".repeat(n);
    let text = format!(
        "{}\nend. {}\n\n- {}`one two three`\n- {}\n| {} | {} |\n",
        words(24),
        words(20),
        words(24),
        words(26),
        words(20),
        words(20)
    );
    let found = long_sentences("a.md", &text);
    assert_eq!(found, ["a.md:5: a sentence of more than 25 words: ... word"]);
}

#[test]
fn experiments_without_a_row_or_with_two_are_complained_of() {
    let table = "| id | E-009 |\n| E-001 | as E-002 |\n| E-003 | - |\n| E-001 | - |";
    assert_eq!(twice(table), ["docs/experiments.md: E-001 has two rows"]);
    let known = experiments(table);
    let found = unknown_experiments("a.rs", "// E-003\n// E-001 to E-004, PRE-x", &known);
    assert_eq!(found, ["a.rs:2: E-004 has no row in docs/experiments.md"]);
}
