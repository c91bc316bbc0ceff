//! The documentation site: whether docs/SUMMARY.md, its contents, has every document, and whether
//! links lead to headings that are there.

use super::documents::{between, join, prose};
use super::source::Source;

/// The contents.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// Where the links of a document lead, with their lines: paths from the root, and headings.
fn links(document: &Source) -> Vec<(usize, String, String)> {
    let folder = document.path.rfind('/').map_or("", |at| &document.path[..=at]);
    let link = |at: usize, link: &str| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = match path {
            "" => document.path.clone(),
            path => join(folder, path),
        };
        (at, path, heading.to_owned())
    };
    let of_line = |(at, line)| {
        let links = between(line, "](", ")").into_iter();
        let inner = links.filter(|link| !link.contains("://"));
        inner.map(|inner| link(at, inner)).collect::<Vec<_>>()
    };
    prose(&document.text).flat_map(of_line).collect()
}

/// Documents that the contents do not link, or twice.
pub fn not_once(documents: &[Source]) -> Vec<String> {
    let linked: Vec<String> = documents
        .iter()
        .filter(|document| document.path == SUMMARY)
        .flat_map(links)
        .map(|(_, path, _)| path)
        .collect();
    let times = |document: &Source| linked.iter().filter(|path| **path == document.path).count();
    documents
        .iter()
        .filter(|document| document.path != SUMMARY && times(document) != 1)
        .map(|document| format!("{SUMMARY}: links {} {} times, not once", document.path, times(document)))
        .collect()
}

/// What a heading is called in links.
fn slug(heading: &str) -> String {
    let word = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || "-_".contains(c) => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(word)
        .collect()
}

/// Links to headings that are not there.
pub fn dead_headings(documents: &[Source]) -> Vec<String> {
    let has = |path: &str, heading: &str| {
        let target = documents.iter().find(|document| document.path == path);
        let mut headings = target.iter().flat_map(|target| prose(&target.text));
        headings.any(|(_, line)| line.starts_with('#') && slug(line) == heading)
    };
    let mut complaints = Vec::new();
    for document in documents {
        let dead = links(document).into_iter();
        let dead = dead.filter(|(_, path, heading)| !heading.is_empty() && !has(path, heading));
        complaints.extend(
            dead.map(|(at, path, heading)| format!("{}:{at}: {path} has no heading #{heading}", document.path)),
        );
    }
    complaints
}

fn documents(texts: &[(&str, &str)]) -> Vec<Source> {
    let document = |(path, text): &(&str, &str)| Source {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    texts.iter().map(document).collect()
}

#[test]
fn a_document_that_the_site_has_not_once_is_complained_of() {
    let documents = documents(&[
        (
            SUMMARY,
            "[a](a.md)\n[b](../b.md)\n[again](../b.md)\n[x](https://x.org/c.md)",
        ),
        ("docs/a.md", ""),
        ("b.md", ""),
        ("c.md", ""),
    ]);
    let expected = [
        "docs/SUMMARY.md: links b.md 2 times, not once",
        "docs/SUMMARY.md: links c.md 0 times, not once",
    ];
    assert_eq!(not_once(&documents), expected);
}

#[test]
fn a_heading_that_is_not_there_is_complained_of() {
    let documents = documents(&[
        (
            "docs/a.md",
            "# One: `two`, three\n[b](../b.md#here)\n[b](../b.md#gone)\n[self](#one-two-three) [self](#two)",
        ),
        ("b.md", "text\n## Here\n```\n# gone\n```"),
    ]);
    let expected = [
        "docs/a.md:3: b.md has no heading #gone",
        "docs/a.md:4: docs/a.md has no heading #two",
    ];
    assert_eq!(dead_headings(&documents), expected);
}
