//! What is done now and then, so that what is stored stays small, and shared memory in bounds.

pub(crate) mod aside;
pub(crate) mod compaction;
pub(crate) mod dictionary;
mod gate;
pub(crate) mod recompress;
pub(crate) mod shared;
