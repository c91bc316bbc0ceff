//! Files are short.

const MOST: usize = 500;
/// Files that are longer, and how long: they may only become shorter.
const LONGER: &[(&str, usize)] = &[
    ("crates/cli/tests/launcher.rs", 577),
    ("crates/cli/tests/lives.rs", 627),
];

/// Files that are longer than they may be, or that need their place in the list no more.
pub fn too_long(files: impl Iterator<Item = (String, usize)>) -> Vec<String> {
    let complaint = |(path, lines): (String, usize)| {
        let ceiling = LONGER
            .iter()
            .find(|(long, _)| *long == path)
            .map(|(_, ceiling)| *ceiling);
        match ceiling {
            None if lines > MOST => Some(format!("{path} has {lines} lines: a file has at most {MOST}")),
            Some(ceiling) if lines > ceiling => Some(format!(
                "{path} has {lines} lines, and had {ceiling}: it may only shrink"
            )),
            Some(_) if lines <= MOST => Some(format!("{path} has {lines} lines: take it off LONGER")),
            _ => None,
        }
    };
    files.filter_map(complaint).collect()
}

#[test]
fn a_long_file_is_complained_of() {
    let files = [
        ("a.rs", 500),
        ("b.rs", 501),
        (LONGER[0].0, LONGER[0].1 + 1),
        (LONGER[1].0, 400),
    ];
    let found = too_long(files.into_iter().map(|(path, lines)| (path.into(), lines)));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].starts_with("b.rs has 501") && found[1].ends_with("only shrink") && found[2].ends_with("off LONGER")
    );
}
