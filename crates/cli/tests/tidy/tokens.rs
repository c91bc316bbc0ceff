//! Rust as words and signs: enough to tell code from comments, literals and tests.

/// A word, a number, a lifetime, a literal in its quotes, or one sign; and its line, from 1.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The length of the comment that `rest` begins with, 0: none.
fn comment(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    let (mut at, mut depth) = (0, 0);
    loop {
        match &rest[at..] {
            now if now.starts_with("/*") => (at, depth) = (at + 2, depth + 1),
            now if depth > 0 && now.starts_with("*/") => (at, depth) = (at + 2, depth - 1),
            now if depth > 0 && !now.is_empty() => at += now.chars().next().map_or(0, char::len_utf8),
            _ => return at,
        }
        if depth == 0 {
            return at;
        }
    }
}

/// The length of the literal in quotes that `rest` begins with, 0: none.
fn literal(rest: &str) -> usize {
    let prefix = rest.find(|c| !"rbc".contains(c)).unwrap_or(rest.len());
    let after = &rest[prefix..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    if rest[..prefix].contains('r') && after[hashes..].starts_with('"') {
        let end = format!("\"{}", &after[..hashes]);
        let body = prefix + hashes + 1;
        return rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len());
    }
    let quote = match after.chars().next() {
        Some(quote @ ('"' | '\'')) if prefix < 3 => quote,
        _ => return 0,
    };
    // A lifetime has no second quote behind one letter.
    let is_letter = after.starts_with("'\\") || after.chars().nth(2) == Some('\'');
    if quote == '\'' && !is_letter {
        return 0;
    }
    let mut is_escaped = false;
    for (at, c) in after.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return prefix + at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

/// The tokens of `text`, comments left out.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let skipped = comment(rest);
        let len = match literal(rest) {
            _ if skipped > 0 => skipped,
            0 if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            0 if c == '\'' => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
            0 => c.len_utf8(),
            len => len,
        };
        if skipped == 0 && !c.is_whitespace() {
            found.push(Token {
                text: &rest[..len],
                line,
            });
        }
        line += rest[..len].matches('\n').count();
        at += len;
    }
    found
}

/// The number of tokens of the item that `tokens` begin with: to its semicolon, or to the brace
/// that closes its body. The value of a constant or static may have braces of its own.
pub fn item(tokens: &[Token<'_>]) -> usize {
    let word = |i: usize| tokens.get(i).map_or("", |token| token.text);
    let has_value = (0..6).any(|i| word(i) == "static" || word(i) == "const" && word(i + 2) == ":");
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate() {
        depth += i32::from(["(", "[", "{"].contains(&token.text));
        depth -= i32::from([")", "]", "}"].contains(&token.text));
        if depth == 0 && (token.text == ";" || token.text == "}" && !has_value) {
            return i + 1;
        }
    }
    tokens.len()
}

fn attribute(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(1) {
        depth += i32::from(token.text == "[") - i32::from(token.text == "]");
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// Without the items that only tests have.
pub fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let rest = &tokens[at..];
        let is_cfg = rest.len() > 3 && [0, 1, 2].map(|i| rest[i].text) == ["#", "[", "cfg"];
        let condition = if is_cfg { &rest[..attribute(rest)] } else { &[] };
        let is_denied = |i: usize| i > 1 && condition[i - 2].text == "not";
        if (0..condition.len()).any(|i| condition[i].text == "test" && !is_denied(i)) {
            at += condition.len();
            while tokens[at..].len() > 1 && tokens[at].text == "#" {
                at += attribute(&tokens[at..]);
            }
            at += item(&tokens[at..]);
        } else {
            kept.push(rest[0]);
            at += 1;
        }
    }
    kept
}

#[test]
fn comments_literals_and_tests_are_told_from_code() {
    let text = r##"
        // one "
        fn a<'x>(b: &'x str) -> char { /* two /* three */ */ let _ = r#"four " "#; '"' }
        #[cfg(not(test))]
        static X: u8 = if y { 1 } else { 2 };
        #[cfg(all(test, not(loom)))]
        #[allow(five)]
        mod six { fn seven() { "}"; } }
        const C: &str = "\"eight";
    "##;
    let words: Vec<_> = without_tests(&tokens(text)).iter().map(|token| token.text).collect();
    let expected = "fn a < 'x > ( b : & 'x str ) - > char { let _ = R ; '\"' } # [ cfg ( not ( test ) ) ] static X : u8 = if y { 1 } else { 2 } ; const C : & str = \"\\\"eight\" ;";
    assert_eq!(words.join(" ").replace("r#\"four \" \"#", "R"), expected);
}
