//! What a pager lacks that cannot begin.

use core::fmt::{self, Display, Formatter};

use uzswap_sys::Errno;

/// A part that a pager cannot do without.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Thread,
    /// Of the group's file.
    ProcessSlot,
    /// Any other, as messages call it.
    Named(&'static str),
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "a thread",
            Self::ProcessSlot => "a process slot of the group",
            Self::Named(name) => name,
        })
    }
}

/// The part that a pager lacks, and what the system answered when it asked for that.
#[derive(Clone, Copy)]
pub(crate) struct Missing {
    pub(crate) part: Part,
    pub(crate) errno: Errno,
}

impl Missing {
    pub(crate) const fn new(part: Part, errno: Errno) -> Self {
        Self { part, errno }
    }

    pub(crate) const fn named(name: &'static str, errno: Errno) -> Self {
        Self::new(Part::Named(name), errno)
    }
}
