//! Where every page is.

pub(crate) mod ages;
pub(crate) mod list_lru;
pub(crate) mod publish;
pub(crate) mod range_set;
pub(crate) mod resident;
pub(crate) mod staging;
pub(crate) mod swap_slots;
pub mod swap_table;
