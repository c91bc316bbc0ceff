//! Compressors behind one small contract: a page in, a shorter block or nothing out, and back.
//!
//! An [`Algorithm`] is a name and a level; a [`Context`] is the working memory of one worker for one algorithm.
//! Contexts are made once and reused, since clearing or allocating one costs as much as a page. All of them take
//! their memory from the Rust global allocator, which in the agent is the agent's own heap.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
mod deflate;
mod zstd;

pub use algorithm::{Algorithm, UnknownAlgorithm};

use alloc::boxed::Box;

/// One worker's working memory for one algorithm.
pub struct Context {
    algorithm: Algorithm,
    state: State,
}

enum State {
    Lz4(Box<uzswap_sys::lz4::State>),
    Zstd(zstd::State),
    Deflate(deflate::State),
}

impl Context {
    /// Working memory for `algorithm`.
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Lz4 { .. } => State::Lz4(uzswap_sys::lz4::State::new()),
            Algorithm::Zstd { level } => State::Zstd(zstd::State::new(level)),
            Algorithm::Deflate { level } => State::Deflate(deflate::State::new(level)),
        };
        Self { algorithm, state }
    }

    /// What this context compresses with.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Compress `page` into `out` and return the length. `None`: it does not become shorter than `out`.
    pub fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Option<usize> {
        match (&mut self.state, self.algorithm) {
            (State::Lz4(state), Algorithm::Lz4 { acceleration }) => state.compress(page, out, acceleration),
            (State::Zstd(state), _) => state.compress(page, out),
            (State::Deflate(state), _) => state.compress(page, out),
            (State::Lz4(state), _) => state.compress(page, out, 1),
        }
    }

    /// Decompress `block` so that it fills `page` exactly. False: the block is damaged, `page` is undefined.
    #[must_use]
    pub fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> bool {
        let len = match &mut self.state {
            State::Lz4(_) => uzswap_sys::lz4::decompress(block, page),
            State::Zstd(state) => state.decompress(block, page),
            State::Deflate(state) => state.decompress(block, page),
        };
        len == Some(page.len())
    }
}

#[cfg(test)]
mod test;
