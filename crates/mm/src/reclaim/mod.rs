//! A page leaves.

mod copy_out;
mod give_way;
mod round;
mod shrink_zswap;
mod spent;
pub(crate) mod swap_out;
mod victims;
pub(crate) mod vmscan;
pub(crate) mod writeback;
pub(crate) mod zswap;
