//! One worker's working memory for one algorithm that this processor runs, a page at a time.

use alloc::boxed::Box;

use crate::{Algorithm, Error, deflate, dictionary, words, zstd};

pub(crate) struct Software {
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

impl Software {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
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
            Algorithm::DeflateIaa { .. } => State::Deflate(deflate::State::new(deflate::LEVEL)),
            Algorithm::Words => State::Words(words::State::new()),
        };
        Self { algorithm, state }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Compress one page into `out` and return its length there.
    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        match (&mut self.state, self.algorithm) {
            (State::Lz4(state), Algorithm::Lz4 { acceleration }) => {
                state.compress(page, out, acceleration).ok_or(Error::Poor)
            }
            (State::Lz4(_), _) => Err(Error::Failed),
            (State::Zstd(state), _) => state.compress(page, out),
            (State::ZstdDict(state), _) => state.as_mut().ok_or(Error::Failed)?.compress(page, out),
            (State::Deflate(state), _) => state.compress(page, out),
            (State::Words(state), _) => state.compress(page, out).ok_or(Error::Poor),
        }
    }

    /// Decompress `block` so that it fills `page` exactly. False: the block is damaged, `page` is
    /// undefined.
    pub(crate) fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> bool {
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
