//! Pages that stand by themselves: HTML with plots as inline SVG, no script, nothing from
//! elsewhere.

#![forbid(unsafe_code)]

mod svg;

pub use svg::{Anchor, Svg, round_up};

/// What means something in HTML, written so that it does not.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// A whole page. `title` is text, `style` a style sheet and `main` HTML.
#[must_use]
pub fn document(title: &str, style: &str, main: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n{main}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// The first thing in a page that would be run, or fetched from elsewhere: for tests of pages.
#[must_use]
pub fn foreign(html: &str) -> Option<&'static str> {
    let foreign = ["http://", "https://", "<script", "<link", "@import", "url("];
    foreign.into_iter().find(|markup| html.contains(markup))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(
            escape("<b>\"x\" & 'y'</b>"),
            "&lt;b&gt;&quot;x&quot; &amp; &#39;y&#39;&lt;/b&gt;"
        );
        assert!(document("<a>", "", "<p>x</p>").contains("<title>&lt;a&gt;</title>"));
    }

    #[test]
    fn a_page_that_needs_others_is_found_out() {
        assert_eq!(foreign(&document("a", "p { color: red }", "<p>x</p>")), None);
        assert_eq!(foreign(&document("a", "", "<script>x</script>")), Some("<script"));
    }
}
