//! A driver for Intel's In-Memory Analytics Accelerator (IAA) in user space.
//!
//! It is of use without uzswap: it knows pages, streams and work queues, and nothing of swap. It
//! has no unsafe code and makes no system calls. Who embeds it implements the traits through which
//! it reaches files, portals and memory.
//!
//! | module | what |
//! |---|---|
//! | [`descriptor`] | the 64 bytes that ask for a job |
//! | [`completion`] | the 64 bytes that answer, and what they mean for a page |
//! | [`aecs`] | Huffman tables that go with a job, and the header that canned mode keeps aside |
//! | [`recipe`] | the jobs of a compressor, as descriptors |
//! | [`topology`] | devices, work queues and cores, from sysfs |
//! | [`portal`] | the door of a work queue, and the credits of a dedicated one |
//! | [`queue`] | a work queue in use |
//! | [`table`] | which queues a core submits to; swapped as a whole |
//!
//! # Sources
//! All layouts were read in public sources, never copied. "Data sheet" in these comments is
//! `reference/iaa.md` beside the repository; A1 to A14 are its sections. Nothing was tried on
//! hardware.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aecs;
mod bits;
pub mod completion;
pub mod descriptor;
pub mod portal;
pub mod queue;
pub mod recipe;
pub mod table;
pub mod topology;
