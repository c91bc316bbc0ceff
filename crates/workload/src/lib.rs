//! Memory contents to page, as a program's heap would hold them.
//!
//! A pager is only as good as the pages it was tried on: zeros and random bytes are its two easiest cases. [`heap`]
//! makes pages that look and compress like those of a running interpreter or cache, from a seed, each computable
//! on its own, so that a test, a demo or a benchmark can fill any amount of memory and later check every byte of it
//! without keeping a copy. The binary of this crate, `uzswap-workload`, is such a program.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod heap;
