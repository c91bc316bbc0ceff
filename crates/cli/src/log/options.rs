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

impl LogTo {
    /// As the option takes it.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Json(None) => "json".to_owned(),
            Self::Json(Some(path)) => format!("json:{}", path.display()),
        }
    }
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
        for (text, to) in [
            ("text", LogTo::Text),
            ("json", LogTo::Json(None)),
            ("json:a:b", LogTo::Json(Some("a:b".into()))),
        ] {
            assert_eq!((to.to_text().as_str(), log_to(text)), (text, Ok(to)));
        }
        for text in ["", "JSON", "json:", "text:a", "a"] {
            assert_eq!(log_to(text), Err(format!("'{text}' must be text, json or json:FILE")));
        }
    }
}
