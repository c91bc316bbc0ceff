//! How the program changes its mappings.

use crate::page::{PageRange, Vpn};

/// A change of the program's mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The contents of a range are dropped (or, with MADV_FREE, may be): missing pages read as
    /// zeros.
    Remove(PageRange),
    /// A range is unmapped.
    Unmap(PageRange),
    /// A range has other addresses now.
    Remap { from: PageRange, to: Vpn },
}
