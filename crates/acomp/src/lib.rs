//! Compressors behind one small contract: the pages of a folio in, for each a shorter block or an
//! error out, and back.
//!
//! A [`Compressor`] is what users name: an [`Algorithm`] with its level, and whether batches are
//! spread over the cores. A [`Context`] is the working memory of one worker for one algorithm, with
//! its way to a [`Device`] if there is one.
//!
//! # A request
//! A [`Request`] is a scatter list of pages, with a destination of so many bytes for each.
//! [`Context::submit`] returns at once, [`Batch::poll`] collects, for each page a length or an
//! error. It is the same for algorithms that take the pages one by one and for devices that take
//! many at once. One page that does not compress is no error of the others.
//!
//! ```text
//!            device: flying --Done, as it should be--> settled
//!  submit --<          |  |---Poor-------------------> settled, without a block
//!            \         |  '---Software, Done but wrong--.
//!             \        '------deadline: cancelled-------|
//!              '--no device---------------------------> software --> settled
//! ```
//! So every device has a software fallback, and every page is settled by the deadline and the time
//! that software takes. A device may lie about a page that it decompresses: who polls says whether
//! it is right.
//!
//! ```
//! use uzswap_acomp::{Algorithm, Context, Op, Request};
//!
//! let mut context = Context::new(Algorithm::Deflate { level: 1 });
//! let (page, mut blocks, mut lens) = ([7; 4096], [0; 2 * 512], [0; 2]);
//! let request = Request {
//!     op: Op::Compress,
//!     src: &[&page, &page],
//!     dst: &mut blocks,
//!     unit: 512,
//!     deadline_ns: 0,
//!     clock: &|| 0,
//! };
//! context.submit(request).wait(|i, _, len| {
//!     lens[i] = len.unwrap();
//!     true
//! });
//! let mut back = [0; 4096];
//! assert!(context.decompress(&blocks[512..][..lens[1]], &mut back));
//! assert_eq!(back, page);
//! ```
//!
//! Contexts are made once and reused, since clearing or allocating one costs as much as a page. All
//! of them take their memory from the Rust global allocator, which in the agent is the agent's own
//! heap.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
mod batch;
mod compressor;
mod context;
mod deflate;
mod device;
mod dictionary;
mod request;
mod software;
mod words;
#[cfg_attr(miri, path = "zstd_miri.rs")]
mod zstd;

pub use algorithm::{Algorithm, Codec, Codes, UnknownAlgorithm};
pub use batch::{Batch, Counts};
pub use compressor::Compressor;
pub use context::Context;
pub use device::{Device, NoDevice, Outcome};
pub use dictionary::{Dictionary, Training, Verdict};
pub use request::{Error, Op, Request, SCATTER_MAX};

/// The example of docs/accelerators.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/accelerators.md")]
struct Accelerators;

/// The example of docs/adding-a-compressor.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-compressor.md")]
struct AddingACompressor;

#[cfg(test)]
mod test;
