//! zram in user space: a block device whose pages lie compressed in memory, served over NBD.
//!
//! A [`Device`] is the pages: a table of one word a page, and a pool and a compressor as swap has
//! them. A [`Server`] gives it to NBD clients on a Unix socket, a thread for each connection.
//! [`Counters`] are those of the kernel's zram under its names.
//!
//! # Files, along the way of a request
//! ```text
//! server     the socket, and a thread for each connection
//! nbd        the protocol: what is said (wire), how it begins (handshake), requests (transmission)
//! device     byte ranges as pages; parts of pages by reading, changing and writing them
//! table      the word of each page, its locks
//! store      a page to its word and back: same-filled, compressed, or as it is
//! counters   what zram counts
//! ```
//!
//! # Locks
//! ```text
//! Table, writer of a page     compresses the page and changes the word; one lock for many pages
//!  '- Store::compacting       one compaction at a time; others wait for it
//!      '- Table, word         reads the word and the block it names, or changes it; for many pages
//!          '- size class      of the pool
//! ```
//! Whoever reads takes the lock of the word alone and decompresses without it.
//!
//! # Order
//! Bytes in the pool, then the word changed, then the old bytes freed. So a reader finds a page old
//! or new, and a refused write leaves it old.

#![forbid(unsafe_code)]

mod arena;
mod counters;
mod device;
mod nbd;
mod server;
mod slot;
mod store;
mod table;

#[cfg(test)]
mod test;

pub use counters::{Counter, Counters};
pub use device::{Device, IoError, Worker};
pub use server::{BindError, Server};
pub use store::{Config, LIMIT_MIN, MakeError};

/// The lock of the engine's own threads, with its guards.
type Mutex<T> = lock_api::Mutex<uzswap_sys::futex::RawLock, T>;
