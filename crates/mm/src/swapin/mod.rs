//! A page comes.

pub(crate) mod bring;
pub(crate) mod fault;
pub(crate) mod swap_cache;
