//! Memory contents to page, as a program's heap would hold them, and programs that page.
//!
//! A pager is only as good as the pages it was tried on: zeros and random bytes are its two easiest
//! cases. [`heap`] makes pages that look and compress like those of a running interpreter or cache,
//! from a seed, each computable on its own, so that a test, a demo or a benchmark can fill any
//! amount of memory and later check every byte of it without keeping a copy. [`contents`] takes
//! them from elsewhere too: a dump of a real heap, noise, zeros.
//!
//! [`program`] is what the binary of this crate, `uzswap-workload`, and `uzswap workload` run.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod contents;
pub mod heap;
mod idle;
pub mod latency;
mod options;
mod proc_stat;
pub mod program;
mod redis;
mod report;
mod usemem;
pub mod zipf;
