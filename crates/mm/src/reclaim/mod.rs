//! A page leaves.

mod spent;
pub(crate) mod swap_out;
pub(crate) mod vmscan;
pub(crate) mod writeback;
pub(crate) mod zswap;
