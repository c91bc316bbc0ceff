//! Values of options that are one of a few words, or of a few kinds.

use std::path::PathBuf;

use clap::ValueEnum;
use uzswap_ctl::defaults;

// The variants have no comments: clap would show them as help.

/// How pages leave the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolate {
    Auto,
    Copy,
}

/// Whether threads keep cores awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spin {
    Auto,
    On,
    Off,
}

/// Who serves faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Faults {
    Auto,
    Inline,
    Thread,
}

/// What tells that a page is touched which is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Auto,
    Uffd,
    Mprotect,
}

/// Whether the program's system calls are seen before the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guard {
    Auto,
    On,
    Off,
}

/// A flag that is on unless it is turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}

impl OnOff {
    pub(crate) fn is_on(self) -> bool {
        self == Self::On
    }
}

impl From<bool> for OnOff {
    fn from(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}

/// What the swap file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwapFormat {
    Compressed,
    Plain,
}

impl SwapFormat {
    pub(crate) const DEFAULT: Self = if defaults::SWAP_PLAIN {
        Self::Plain
    } else {
        Self::Compressed
    };
}

/// What alone is reclaimed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReclaimSource {
    Zswap,
}

/// Whose completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Where the swap file is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SwapPath {
    None,
    At(PathBuf),
    /// Its cold part goes to where this URL leads.
    Remote(String),
}

impl From<PathBuf> for SwapPath {
    fn from(path: PathBuf) -> Self {
        match path.to_str() {
            Some("none") => Self::None,
            Some(url) if url.contains("://") => Self::Remote(url.to_owned()),
            _ => Self::At(path),
        }
    }
}
