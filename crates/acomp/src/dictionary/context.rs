//! Blocks that refer to a dictionary.

use super::Dictionary;
use crate::{Error, zstd};

/// The contexts with one dictionary. The first byte of a block is its number: zstd cannot tell from
/// a frame which raw contents it refers to, and would make another page of it.
pub(crate) struct DictionaryState {
    number: u8,
    zstd: zstd::State,
}

impl DictionaryState {
    /// `None`: there is no such dictionary.
    pub(crate) fn new(level: i32, dictionary: Dictionary) -> Option<Self> {
        Some(Self {
            number: dictionary.number(),
            zstd: zstd::State::with_dictionary(level, dictionary.contents()?)?,
        })
    }

    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (number, frame) = out.split_first_mut().ok_or(Error::Poor)?;
        *number = self.number;
        Ok(self.zstd.compress(page, frame)? + 1)
    }

    pub(crate) fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> Option<usize> {
        let (number, frame) = block.split_first()?;
        (*number == self.number).then(|| self.zstd.decompress(frame, page))?
    }
}
