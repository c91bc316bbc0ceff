//! Which bytes of a sample a dictionary is made of: those whose words are found on the most pages.
//!
//! In the manner of zstd's `fastCover`: each 8 bytes in a row are a *word*, counted once for each
//! page that it is on. The sample is gone through in as many pieces as the dictionary has segments,
//! and of each piece the segment is taken whose different words have the highest counts together;
//! these are then worth nothing any more.

use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a segment.
pub(super) const SEGMENT: usize = 1024;
const WORD: usize = 8;
/// Words of a segment.
const WORDS: usize = SEGMENT - WORD + 1;
/// Words are told apart by a hash of so many bits: two that share one are counted together, which
/// hardly matters.
const HASH_BITS: u32 = 15;
const HASHES: usize = 1 << HASH_BITS;

pub(super) struct Cover {
    /// Pages that each word is on, and the number behind that of the last of them.
    pages: Vec<u8>,
    last: Vec<u8>,
    /// How often each word is in the segment that is looked at.
    inside: Vec<u16>,
}

fn hash(word: &[u8]) -> usize {
    let (word, _) = word.split_first_chunk().expect("a word is 8 bytes");
    (u64::from_le_bytes(*word).wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - HASH_BITS)) as usize
}

impl Cover {
    pub(super) fn new() -> Self {
        Self {
            pages: vec![0; HASHES],
            last: vec![0; HASHES],
            inside: vec![0; HASHES],
        }
    }

    /// Count the words of a page. At most 255 pages, of numbers from 1 on.
    pub(super) fn count(&mut self, number: u8, page: &[u8]) {
        for word in page.windows(WORD).map(hash) {
            if self.last[word] != number {
                self.last[word] = number;
                self.pages[word] += 1;
            }
        }
    }

    /// What a word is worth: one that is on a single page is of no use to others.
    fn worth(&self, word: usize) -> u32 {
        match self.pages[word] {
            1 => 0,
            pages => pages.into(),
        }
    }

    /// The segment of `piece` that is worth most; its words are worth nothing from now on. `None`:
    /// none is worth anything.
    pub(super) fn take_best<'a>(&mut self, piece: &'a [u8]) -> Option<&'a [u8]> {
        self.inside.fill(0);
        let (mut worth, mut best, mut best_at) = (0, 0, 0);
        for (at, word) in piece.windows(WORD).map(hash).enumerate() {
            if self.inside[word] == 0 {
                worth += self.worth(word);
            }
            self.inside[word] += 1;
            if at >= WORDS {
                let gone = hash(&piece[at - WORDS..]);
                self.inside[gone] -= 1;
                if self.inside[gone] == 0 {
                    worth -= self.worth(gone);
                }
            }
            if at + 1 >= WORDS && worth > best {
                (best, best_at) = (worth, at + 1 - WORDS);
            }
        }
        let segment = (best > 0).then(|| &piece[best_at..best_at + SEGMENT])?;
        for word in segment.windows(WORD).map(hash) {
            self.pages[word] = 0;
        }
        Some(segment)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Bytes that are not found anywhere else.
    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut x = seed | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn what_pages_share_is_taken_and_taken_once() {
        let shared = noise(SEGMENT, 99);
        let mut cover = Cover::new();
        let page = |seed: u64| [noise(1500, seed), shared.clone(), noise(1000, seed + 50)].concat();
        for number in 1..=8 {
            cover.count(number, &page(number.into()));
        }
        let (one, another) = (page(3), page(4));
        assert_eq!(cover.take_best(&one), Some(&shared[..]));
        assert_ne!(cover.take_best(&another), Some(&shared[..]));
    }

    #[test]
    fn a_page_without_words_worth_taking_gives_nothing() {
        let mut cover = Cover::new();
        cover.count(1, &noise(300, 7));
        assert_eq!(cover.take_best(&[0; 4096]), None);
    }
}
