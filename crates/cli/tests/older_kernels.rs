//! Everything on real processes once more, on the path for kernels that cannot move pages (Linux 5.7 to 6.7).

#[path = "conformance.rs"]
mod conformance;
#[path = "engine.rs"]
mod engine;
#[path = "paging.rs"]
mod paging;
