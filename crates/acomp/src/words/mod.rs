//! `words`: the fastest for pages of heaps, which are words (`codec`). Pages that are not, such as
//! text, are lz4's: a page that does not come to [`GOOD`] bytes is tried with lz4 as well, and what
//! is shorter is kept. The first byte says which.

mod class;
mod codec;

use alloc::boxed::Box;

use uzswap_sys::lz4;

/// Bytes of a page that is good enough not to be tried otherwise.
const GOOD: usize = 2560;

const WORDS: u8 = 0;
const LZ4: u8 = 1;

pub(crate) struct State {
    lz4: Box<lz4::State>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self { lz4: lz4::State::new() }
    }

    /// Compress a page into `out`; `None`: it does not fit.
    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Option<usize> {
        let as_words = |out: &mut [u8], good| codec::compress(page.as_array()?, out.get_mut(1..)?, good);
        let words = as_words(out, GOOD);
        if words.is_none_or(|len| len > GOOD) {
            let lz4 = self.lz4.compress(page, out.get_mut(1..)?, 1);
            if let Some(len) = lz4.filter(|lz4| words.is_none_or(|words| *lz4 <= words)) {
                out[0] = LZ4;
                return Some(1 + len);
            }
        }
        // lz4 has overwritten it, or it was given up at first.
        let len = words.filter(|len| *len <= GOOD).or_else(|| as_words(out, usize::MAX))?;
        out[0] = WORDS;
        Some(1 + len)
    }

    /// Decompress a block into `page`; returns its length.
    pub(crate) fn decompress(block: &[u8], page: &mut [u8]) -> Option<usize> {
        let (kind, block) = block.split_first()?;
        match *kind {
            WORDS => {
                let page = page.as_mut_array()?;
                codec::decompress(block, page).then_some(page.len())
            }
            _ => lz4::decompress(block, page),
        }
    }
}

#[cfg(test)]
mod test;
