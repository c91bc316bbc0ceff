//! Values of options that are one of a few words.

use clap::ValueEnum;

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
    Userfaultfd,
    Mprotect,
}

/// Whether the program's system calls are seen before the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guard {
    Auto,
    On,
    Off,
}
