//! Compressors behind one small contract: the pages of a folio in, for each a shorter block or an
//! error out, and back.
//!
//! A [`Compressor`] is what users name: an [`Algorithm`] with its level, and whether batches are
//! spread over the cores. A [`Context`] is the working memory of one worker for one algorithm. A
//! request is a scatter list of pages, whose results stand next to each other, each in its unit of
//! the output: the same for algorithms that take the pages one by one and for those that take many
//! at once. One page that does not compress is no error of the others.
//!
//! Contexts are made once and reused, since clearing or allocating one costs as much as a page. All
//! of them take their memory from the Rust global allocator, which in the agent is the agent's own
//! heap.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
mod compressor;
mod deflate;
mod dictionary;
mod words;
#[cfg_attr(miri, path = "zstd_miri.rs")]
mod zstd;

pub use algorithm::{Algorithm, Codec, UnknownAlgorithm};
pub use compressor::Compressor;
pub use dictionary::{Dictionary, Training, Verdict};

use alloc::boxed::Box;

/// Why a page has no compressed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressError {
    /// It does not become shorter than the room given.
    Poor,
    /// The compressor failed.
    Failed,
}

/// One worker's working memory for one algorithm.
pub struct Context {
    algorithm: Algorithm,
    state: State,
}

enum State {
    Lz4(Box<uzswap_sys::lz4::State>),
    Zstd(zstd::State),
    /// `None`: its dictionary does not exist, as a damaged word may say.
    ZstdDict(Option<dictionary::DictionaryState>),
    Deflate(deflate::State),
    Words(words::State),
}

impl Context {
    /// Working memory for `algorithm`.
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Lz4 { .. } => State::Lz4(uzswap_sys::lz4::State::new()),
            Algorithm::Zstd { level }
            | Algorithm::ZstdDict {
                level,
                dictionary: None,
            } => State::Zstd(zstd::State::new(level)),
            Algorithm::ZstdDict {
                level,
                dictionary: Some(dictionary),
            } => State::ZstdDict(dictionary::DictionaryState::new(level, dictionary)),
            Algorithm::Deflate { level } => State::Deflate(deflate::State::new(level)),
            Algorithm::Words => State::Words(words::State::new()),
        };
        Self { algorithm, state }
    }

    /// What this context compresses with.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Compress each page of `src`, page `i` to the start of the `i`th `unit` bytes of `dst`, and
    /// call `done` with its number and its length there, or why it has none.
    pub fn compress(
        &mut self,
        src: &[&[u8]],
        dst: &mut [u8],
        unit: usize,
        mut done: impl FnMut(usize, Result<usize, CompressError>),
    ) {
        for (i, (page, out)) in src.iter().zip(dst.chunks_exact_mut(unit)).enumerate() {
            done(i, self.compress_page(page, out));
        }
    }

    /// Compress one page into `out` and return its length there.
    ///
    /// # Errors
    /// Why it has no compressed form.
    pub fn compress_page(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, CompressError> {
        match (&mut self.state, self.algorithm) {
            (State::Lz4(state), Algorithm::Lz4 { acceleration }) => {
                state.compress(page, out, acceleration).ok_or(CompressError::Poor)
            }
            (State::Lz4(_), _) => Err(CompressError::Failed),
            (State::Zstd(state), _) => state.compress(page, out),
            (State::ZstdDict(state), _) => state.as_mut().ok_or(CompressError::Failed)?.compress(page, out),
            (State::Deflate(state), _) => state.compress(page, out),
            (State::Words(state), _) => state.compress(page, out).ok_or(CompressError::Poor),
        }
    }

    /// Decompress `block` so that it fills `page` exactly. False: the block is damaged, `page` is
    /// undefined.
    #[must_use]
    pub fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> bool {
        let len = match &mut self.state {
            State::Lz4(_) => uzswap_sys::lz4::decompress(block, page),
            State::Zstd(state) => state.decompress(block, page),
            State::ZstdDict(state) => state.as_mut().and_then(|state| state.decompress(block, page)),
            State::Deflate(state) => state.decompress(block, page),
            State::Words(_) => words::State::decompress(block, page),
        };
        len == Some(page.len())
    }
}

#[cfg(test)]
mod test;
