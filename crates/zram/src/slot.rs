//! The word of a page: where its contents are.
//!
//! ```text
//! 63   61              49 48          36 35                    0
//! +----+-----------------+--------------+----------------------+
//! | 00 | 0                                                     |  nothing was written: zeros
//! | 01 | 0                              | the word, 32 bits    |  one word over and over
//! | 10 | 0               | length       | handle               |  a block in the pool
//! +----+-----------------+--------------+----------------------+
//! ```

use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::Handle;

const KIND_SHIFT: u32 = 62;
const SAME: u64 = 1;
const STORED: u64 = 2;
const LEN_BITS: u32 = 13;
const _: () = assert!(PAGE_SIZE < 1 << LEN_BITS && Handle::BITS + LEN_BITS <= KIND_SHIFT);

/// Where the contents of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nowhere: never written, or trimmed. Reads as zeros.
    Empty,
    /// This word over and over.
    Same(u32),
    /// In the pool.
    Stored(Stored),
}

/// A block in the pool: compressed, or a whole page as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) handle: Handle,
    pub(crate) len: usize,
}

impl Stored {
    /// Stored as it is, since it does not compress.
    pub(crate) fn is_huge(self) -> bool {
        self.len == PAGE_SIZE
    }
}

impl Slot {
    /// The word.
    pub(crate) fn to_bits(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Same(word) => SAME << KIND_SHIFT | u64::from(word),
            Self::Stored(Stored { handle, len }) => {
                STORED << KIND_SHIFT | (len as u64) << Handle::BITS | handle.to_bits()
            }
        }
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    pub(crate) fn from_bits(bits: u64) -> Self {
        match bits >> KIND_SHIFT {
            0 => Self::Empty,
            SAME => Self::Same(bits as u32),
            _ => Self::Stored(Stored {
                handle: Handle::from_bits(bits & ((1 << Handle::BITS) - 1)),
                len: (bits >> Handle::BITS) as usize & ((1 << LEN_BITS) - 1),
            }),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_word_says_what_went_in() {
        let stored = |bits, len| {
            Slot::Stored(Stored {
                handle: Handle::from_bits(bits),
                len,
            })
        };
        let last = (1 << Handle::BITS) - 1;
        for slot in [
            Slot::Empty,
            Slot::Same(0),
            Slot::Same(u32::MAX),
            stored(0, 1),
            stored(last, PAGE_SIZE),
            stored(last, 3600),
        ] {
            assert_eq!(Slot::from_bits(slot.to_bits()), slot);
        }
        assert_eq!(Slot::Empty.to_bits(), 0, "a table begins as zeros");
    }
}
