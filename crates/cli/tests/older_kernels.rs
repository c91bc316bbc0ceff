//! Everything on real processes once more, on the path for kernels that cannot move pages (Linux
//! 5.7 to 6.7).

#![allow(clippy::duplicate_mod, reason = "each file brings what it shares with the others")]

#[path = "conformance.rs"]
mod conformance;
#[path = "engine.rs"]
mod engine;
#[path = "paging.rs"]
mod paging;
