//! The engine: where every page of a process is, and how it gets from one place to another.
//!
//! Safe Rust without system calls: it meets pages, disk and time through [`machine::Machine`]. The agent joins it to
//! userfaultfd; [`sim`] joins it to vectors, for tests and Miri.
//!
//! # The chains
//! ```text
//! fault      Mm::fault -> begin_fault: SwapTable::lookup -> staged: Machine::move_in | zswap, device: take_along | nothing: zeros, UNDERWAY
//!              -> bring: (Machine::read_swap, open_swap,) Worker::bring_loads, Machine::copy_in -> publish_brought: SwapTable::publish
//! reclaim    Mm::shrink -> isolate (LruList, Machine::move_out, publish STAGED) -> store_oldest (Worker::compress_batch,
//!              Pools::store, publish ZSWAP, give_up_spent, Machine::drop_staged)
//! swap-out   Mm::shrink, zswap shut -> swap_out_oldest -> SwapSlots::alloc, Machine::write_swap -> publish SWAP
//! writeback  Mm::writeback -> oldest entries, as they are -> SwapSlots::alloc, Machine::write_swap -> publish SWAP
//! recompress Mm::recompress -> oldest idle entries -> decompress, compress again -> Pools::store_as -> publish ZSWAP
//! dictionary Mm::train_dictionary -> blocks of stored pages -> decompress -> acomp::Training
//! compaction Mm::compact -> Pools::begin_compaction -> SwapTable::for_each -> Pools::relocate, publish ZSWAP
//! events     Mm::change -> the words of the range are dropped or moved
//! fork       Mm::freeze -> faults are served without a change, all changes are logged -> Mm::thaw | the child starts
//! ```
//!
//! # Locking
//! One lock, [`Mm`]'s, protects all of it (the swap table has locks of its own for whoever comes without it). It is held
//! while frames are moved (microseconds), never while pages are compressed or decompressed or the device is used. Stores,
//! writeback and recompression therefore come in halves: the first marks the words (`busy`, `writeback`), the last
//! publishes only those that still carry the mark. Nobody waits for a mark: a fault on a busy page copies
//! the frame, a fault on an entry under writeback loads it, and the second half finds the word changed.
//!
//! Several threads may serve faults at a time, each with a worker of its own: what one brings without the lock is `underway`, and
//! the others leave it alone (`bring`). Changes are applied only while none of them serves a fault.
//!
//! The lock is also what keeps reclaim out while the agent reads and applies events (`Mm::change` under
//! [`Mm::with_changes`]): a mapping that was replaced must not have its new pages taken for the old ones.
//!
//! # Order
//! Bytes in the pool, then the word published, then the frame given up. On the way in: the page mapped, then the
//! word published, then the stored bytes freed. A crash or refusal between two steps leaves the older state whole.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod checksum;
mod config;
mod flight;
mod fork;
mod gauges;
mod lock;
pub mod machine;
mod mm;
pub mod page;
mod pages;
mod policy;
mod reclaim;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod swapin;
mod upkeep;
pub mod vmstat;
mod worker;
pub mod zpool;

#[cfg(test)]
mod test;

pub use config::{Config, SwapOut};
pub use flight::event::Change;
pub use flight::underway::SERVERS_MAX;
pub use fork::change::Changes;
pub use gauges::Gauges;
pub use mm::Mm;
pub use pages::staging::UNIT;
pub use pages::swap_slots::PinId;
pub use pages::swap_table;
pub use policy::portions::Portions;
pub use reclaim::vmscan::{Effort, Scan};
pub use swapin::fault::Fault;
pub use upkeep::dictionary::DictionaryTraining;
pub use upkeep::recompress::Idle;
pub use worker::Worker;
pub use zpool::Arena;

pub(crate) use mm::{Held, Inner};
