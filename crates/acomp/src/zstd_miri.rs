//! What stands for zstd under Miri, which runs no C: repeated words are left out, in a few steps a
//! page.
//!
//! A block is a bit for each word, then the words that are not the one before the last again.

use crate::Error;

/// Bytes of a word: many, since Miri counts steps and not bytes.
const WORD: usize = 256;

pub(crate) struct State;

fn is_again(words: &[[u8; WORD]], i: usize) -> bool {
    match i {
        0 | 1 => words[i] == [0; WORD],
        _ => words[i] == words[i - 2],
    }
}

impl State {
    pub(crate) fn new(_: i32) -> Self {
        Self
    }

    pub(crate) fn with_dictionary(level: i32, _: &[u8]) -> Option<Self> {
        Some(Self::new(level))
    }

    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (words, []) = page.as_chunks::<WORD>() else {
            return Err(Error::Failed);
        };
        let (bits, rest) = out.split_at_mut_checked(words.len().div_ceil(8)).ok_or(Error::Poor)?;
        bits.fill(0);
        let mut room = rest.as_chunks_mut::<WORD>().0.iter_mut();
        let mut len = bits.len();
        for (i, word) in words.iter().enumerate() {
            if is_again(words, i) {
                bits[i / 8] |= 1 << (i % 8);
            } else {
                *room.next().ok_or(Error::Poor)? = *word;
                len += WORD;
            }
        }
        Ok(len)
    }

    pub(crate) fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> Option<usize> {
        let words = page.as_chunks_mut::<WORD>().0;
        let (bits, rest) = block.split_at_checked(words.len().div_ceil(8))?;
        let (stored, []) = rest.as_chunks::<WORD>() else {
            return None;
        };
        let mut stored = stored.iter();
        for i in 0..words.len() {
            let again = if i < 2 { [0; WORD] } else { words[i - 2] };
            words[i] = if bits[i / 8] & 1 << (i % 8) != 0 {
                again
            } else {
                *stored.next()?
            };
        }
        stored.next().is_none().then_some(page.len())
    }
}
