//! Comments wrap.

const WIDTH: usize = 100;

/// Lines of comments that are too long.
pub fn too_long(path: &str, text: &str) -> Vec<String> {
    let is_long = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > WIDTH;
    let lines = text.lines().enumerate().filter(|(_, line)| is_long(line));
    let complaint = |(i, line): (usize, &str)| {
        let n = line.chars().count();
        format!("{path}:{}: a comment of {n} columns: they wrap at {WIDTH}", i + 1)
    };
    lines.map(complaint).collect()
}

#[test]
fn a_long_comment_is_complained_of() {
    let (comment, code) = (format!("    //! {}", "x".repeat(93)), "x".repeat(101));
    let found = too_long("a.rs", &format!("{code}\n{comment}\n    /// short"));
    assert_eq!(found, ["a.rs:2: a comment of 101 columns: they wrap at 100"]);
}
