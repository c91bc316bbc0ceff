//! What happens in a run that is worth telling.

use serde_json::{Map, Value, json};

macro_rules! kinds {
    ($($kind:ident $name:literal,)*) => {
        /// What happened; docs/log.md has the fields of each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind,)* }

        impl Kind {
            /// All of them.
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$kind,)*];

            /// As programs are told.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    Started "started",
    NoLimit "no_limit",
    UselessLimit "useless_limit",
    Unmanaged "unmanaged",
    Thrashing "thrashing",
    Killed "killed",
    WaitsForKilled "waits_for_killed",
    Message "message",
    Error "error",
    Ended "ended",
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(super) kind: Kind,
    /// For people, if they are told.
    pub(super) line: Option<String>,
    /// For programs.
    pub(super) fields: Map<String, Value>,
}

impl Event {
    /// `fields`: an object.
    pub(crate) fn of(kind: Kind, line: Option<String>, fields: Value) -> Self {
        let fields = fields.as_object().cloned().unwrap_or_default();
        Self { kind, line, fields }
    }

    /// Something for which there is no other kind.
    pub(crate) fn message(line: &str) -> Self {
        Self::of_line(Kind::Message, line)
    }

    /// uzswap itself failed.
    pub(crate) fn error(line: &str) -> Self {
        Self::of_line(Kind::Error, line)
    }

    fn of_line(kind: Kind, line: &str) -> Self {
        let message = line.strip_prefix(PREFIX).unwrap_or(line);
        Self::of(kind, Some(line.to_owned()), json!({ "message": message }))
    }
}

/// People are told who says it.
const PREFIX: &str = "uzswap: ";

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_kind_is_documented_once() {
        let document = include_str!("../../../../docs/log.md");
        let names: Vec<&str> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect();
        for kind in Kind::ALL {
            let rows = names.iter().filter(|name| **name == kind.name()).count();
            assert_eq!(rows, 1, "{}", kind.name());
        }
    }

    #[test]
    fn a_message_is_told_without_who_says_it() {
        let event = Event::error("uzswap: no");
        assert_eq!(event.fields["message"], "no");
        assert_eq!(event.line.as_deref(), Some("uzswap: no"));
    }
}
