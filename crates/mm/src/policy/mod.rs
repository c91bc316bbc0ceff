//! What is worth it.

pub(crate) mod locality;
pub(crate) mod portions;
pub(crate) mod readahead;
pub(crate) mod shrinker;
pub(crate) mod workingset;
