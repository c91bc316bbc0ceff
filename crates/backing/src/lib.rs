//! Where an engine keeps what has left, in the agent as in the library: memory of the compressed
//! pool and of the swap table, a swap file whose slots are sealed; and what the kernel says of
//! pages that move.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arena;
mod cipher;
mod moves;
mod refusals;
mod seal;
mod staging;
mod swap_file;
mod table;

pub use arena::{PoolArena, Unwatched, Watch};
pub use moves::{done, filled_in, in_truth, stop};
pub use refusals::Refusals;
pub use seal::Seal;
pub use staging::with_staged;
pub use swap_file::{SwapBuffer, SwapFile, place};
pub use table::table_memory;
