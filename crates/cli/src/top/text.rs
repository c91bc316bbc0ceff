//! What of a text fits into so many columns of a terminal.

use ratatui::text::Span;

/// Stands for what does not fit.
const CUT: char = '…';

pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// As much as fits.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = text.to_owned();
    while !cut.is_empty() && width(&cut) + 1 > columns {
        cut.pop();
    }
    if columns > 0 {
        cut.push(CUT);
    }
    cut
}

/// As many of the first words as fit; one is cut only if it is the first.
pub(super) fn words(text: &str, columns: usize) -> String {
    let pieces: Vec<&str> = text.split(' ').collect();
    match fitting(&pieces, " ", columns) {
        line if line.is_empty() => cut(text, columns),
        line => line,
    }
}

/// As many of the first pieces as fit, with `between` between them.
pub(super) fn fitting(pieces: &[impl AsRef<str>], between: &str, columns: usize) -> String {
    let shown = &pieces[..count_fitting(pieces, between, columns)];
    shown.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(between)
}

/// How many those are.
pub(super) fn count_fitting(pieces: &[impl AsRef<str>], between: &str, columns: usize) -> usize {
    let mut used = 0;
    let fits = |piece: &&_| {
        used += width(AsRef::as_ref(*piece)) + if used > 0 { width(between) } else { 0 };
        used <= columns
    };
    pieces.iter().take_while(fits).count()
}

/// Lines of whole words, as long as they fit at all.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && columns > 0 {
        let line = words(rest, columns);
        let taken = match rest.starts_with(&line) {
            true => line.len(),
            // A word that is longer than a line.
            false => rest.find(' ').unwrap_or(rest.len()),
        };
        rest = rest[taken..].trim_start();
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_columns() {
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
        assert_eq!(
            (cut("", 0), cut("abc", 0), cut("abc", 1)),
            (String::new(), String::new(), "…".to_owned())
        );
        // Two columns each.
        assert_eq!(cut("日本語", 5), "日本…");
        assert!((0..9).all(|columns| width(&cut("日本e\u{301}語", columns)) <= columns));
    }

    #[test]
    fn whole_words_are_kept() {
        assert_eq!(words("python3 job.py --fast", 14), "python3 job.py");
        assert_eq!(words("python3 job.py --fast", 13), "python3");
        assert_eq!(words("python3 job.py", 5), "pyth…");
        assert_eq!(fitting(&["q quit", "h help"], "  ", 13), "q quit");
        assert_eq!(fitting(&["q quit", "h help"], "  ", 14), "q quit  h help");
    }

    #[test]
    fn lines_are_of_whole_words() {
        let text = "memory.max: '5Q' is not a size";
        assert_eq!(wrapped(text, 16), ["memory.max: '5Q'", "is not a size"]);
        assert_eq!(wrapped("a-long-word and more", 6), ["a-lon…", "and", "more"]);
        assert_eq!(wrapped("", 5), Vec::<String>::new());
        assert_eq!(wrapped("a", 0), Vec::<String>::new());
    }
}
