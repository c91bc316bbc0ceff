//! The engine: where every page of a process is, and how it gets from one place to another.
//!
//! Safe Rust without system calls: it meets pages, disk and time through [`machine::Machine`]. The
//! agent joins it to userfaultfd; [`sim`] joins it to vectors, for tests and Miri. A fault and a
//! reclaimed page are followed step by step in ARCHITECTURE.md.
//!
//! # Folders, along the way of a page
//! ```text
//! pages      where every page is: words, lists, staging slots; publish.rs alone changes words
//! flight     what somebody does without the lock: brings, copies out, a fork's log
//! policy     what is worth it: numbers in, decisions out
//! swapin     a page comes: a fault, its window, a write to a protected page
//! reclaim    a page leaves: isolated, stored, swapped out, written back
//! upkeep     compaction, recompression, dictionaries, what relatives share
//! fork       the engine stands still; changes of the mappings
//! worker     the threads' buffers: lanes that compress, pieces that load
//! zpool      zsmalloc, zbud, z3fold behind one interface
//! sim        a machine of vectors, golden runs
//! ```
//! No folder imports one that imports it.
//!
//! # Locks
//! ```text
//! Mm::inner                 pages, `Policy`, `Flight`; `Held` is the type of who has it
//!  |- swap table            a lock for each 2 MiB, and inside it the tree's
//!  '- size class            of zsmalloc (a zbud or z3fold has one), and in it the spare spans'
//! ```
//! `Mm::inner` is held while frames are moved (microseconds), not while pages are compressed or the
//! device is used; a frozen engine is the exception. Stores, writeback and recompression therefore
//! come in halves: the first marks the words (`busy`, `writeback`), the last publishes only those
//! that still carry the mark. Nobody waits for a mark: a fault on a busy page copies the frame, a
//! fault on an entry under writeback loads it, and the second half finds the word changed.
//!
//! Several threads may serve faults at a time, each with a worker of its own: what one brings
//! without the lock is `underway`, and the others leave it alone (`bring`). Changes are applied
//! only while none of them serves a fault.
//!
//! The lock is also what keeps reclaim out while the agent reads and applies events
//! (`Changes::apply` under [`Mm::with_changes`]): a mapping that was replaced must not have its new
//! pages taken for the old ones.
//!
//! # Order
//! Bytes in the pool, then the word published, then the frame given up. On the way in: the page
//! mapped, then the word published, then the stored bytes freed. A crash or refusal between two
//! steps leaves the older state whole.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod checksum;
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

pub use config::{Config, PAGE_CLUSTER_MAX, SwapOut};
pub use flight::event::Change;
pub use flight::freeze_log::destination;
pub use flight::underway::SERVERS_MAX;
pub use fork::change::Changes;
pub use gauges::Gauges;
pub use mm::Mm;
pub use pages::devices::Devices;
pub use pages::staging::UNIT;
pub use pages::swap_slots::{PinId, SEGMENT};
pub use pages::swap_table;
pub use policy::portions::Portions;
pub use policy::replacement::Replacement;
pub use policy::tunables::{Refused, Tunable, Tunables};
pub use reclaim::vmscan::{Effort, Scan};
pub use swapin::fault::Fault;
pub use upkeep::aside::Look;
pub use upkeep::dictionary::DictionaryTraining;
pub use upkeep::recompress::Idle;
pub use worker::Worker;
pub use worker::measure::Measure;
pub use zpool::Arena;

pub(crate) use mm::{Held, Inner};
