//! Who says so: a line of a file, or a variable of the environment.

use std::fmt::{Display, Formatter, Result};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// From 1 on.
    Line(PathBuf, usize),
    Variable(String),
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "{name} of the environment"),
        }
    }
}
