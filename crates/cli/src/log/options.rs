//! `--log`

use std::path::PathBuf;

/// How and where all is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogTo {
    /// Lines for people, on stderr.
    #[default]
    Text,
    /// Events, into this file or on stderr.
    Json(Option<PathBuf>),
}

/// # Errors
/// The value and the rule.
pub(crate) fn log_to(text: &str) -> Result<LogTo, String> {
    match (text, text.strip_prefix("json:")) {
        ("text", _) => Ok(LogTo::Text),
        ("json", _) => Ok(LogTo::Json(None)),
        (_, Some(path)) if !path.is_empty() => Ok(LogTo::Json(Some(path.into()))),
        _ => Err(format!("'{text}' must be text, json or json:FILE")),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_file_has_a_name() {
        assert_eq!(log_to("text"), Ok(LogTo::Text));
        assert_eq!(log_to("json"), Ok(LogTo::Json(None)));
        assert_eq!(log_to("json:a:b"), Ok(LogTo::Json(Some("a:b".into()))));
        for text in ["", "JSON", "json:", "text:a", "a"] {
            assert_eq!(log_to(text), Err(format!("'{text}' must be text, json or json:FILE")));
        }
    }
}
