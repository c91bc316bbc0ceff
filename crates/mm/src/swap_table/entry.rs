//! The word of a page: where its contents are.
//!
//! ```text
//!            63     53 52 51       40 39                    4 3   0
//! NONE       0 . . . . . . . . . . . . . . . . . . . . . . .  |  0  never touched, or dropped: reads as zeros
//! RESIDENT   | .  .  .  .  .  .  .  | tag:20 @8 | order:4 @4  |  1  mapped; tag names its LRU entry
//! STAGED     | .  .  . | busy @36 | slot:32 @4                |  2  unmapped, its frame waits in the staging range
//! ZSWAP      | tag:11 @53 | wb @52 | len:12 @40 | handle:36 @4|  3  compressed in the pool (len 0: 4096 bytes, raw)
//! FILLED     0 . . . . . . . . . . . . . . |  word:32 @4      |  4  one word over and over (0: zeros): no pool byte
//! SWAP       | .  .  . | device:8 @36 | slot:32 @4            |  5  on the swap device
//! BAD        0 . . . . . . . . . . . . . . . . . . . . . . .  |  7  its contents are lost; never leaves this state
//! ```
//!
//! A page has exactly one word; every transition replaces the word as a whole under the engine's lock, after the
//! bytes it points to are in place and before what it no longer points to is given up.

use crate::zpool::Handle;

/// Bits of the LRU tag in a RESIDENT word.
pub const TAG_BITS: u32 = 20;
/// Bits of the LRU tag in a ZSWAP word.
pub const ZTAG_BITS: u32 = 11;

const KIND_BITS: u32 = 4;
const BUSY: u64 = 1 << 36;
const WRITEBACK: u64 = 1 << 52;
const _: () = assert!(KIND_BITS + Handle::BITS + 12 + 1 + ZTAG_BITS == 64);

/// A decoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing is kept for this page.
    None,
    /// The page is mapped.
    Resident { order: u32, tag: u32 },
    /// The frame is in staging slot `slot`. `busy`: it is being compressed, so it may be copied but not moved.
    Staged { slot: u32, busy: bool },
    /// In the pool. `len` in bytes, 1 to 4096; `writeback`: a copy is on its way to the swap device.
    Zswap {
        handle: Handle,
        len: u32,
        writeback: bool,
        tag: u32,
    },
    /// This word over and over.
    Filled { word: u32 },
    /// In slot `slot` of swap device `device`.
    Swap { device: u8, slot: u32 },
    /// Lost: decompression or the device failed.
    Bad,
}

/// An encoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Word(u64);

fn field(word: u64, shift: u32, bits: u32) -> u64 {
    (word >> shift) & ((1 << bits) - 1)
}

impl From<Slot> for Word {
    fn from(slot: Slot) -> Self {
        Self(match slot {
            Slot::None => 0,
            Slot::Resident { order, tag } => 1 | u64::from(order) << 4 | u64::from(tag) << 8,
            Slot::Staged { slot, busy } => 2 | u64::from(slot) << 4 | if busy { BUSY } else { 0 },
            Slot::Zswap {
                handle,
                len,
                writeback,
                tag,
            } => {
                let len = u64::from(len) & 0xfff;
                3 | handle.to_bits() << 4 | len << 40 | if writeback { WRITEBACK } else { 0 } | u64::from(tag) << 53
            }
            Slot::Filled { word } => 4 | u64::from(word) << 4,
            Slot::Swap { device, slot } => 5 | u64::from(slot) << 4 | u64::from(device) << 36,
            Slot::Bad => 7,
        })
    }
}

impl From<Word> for Slot {
    fn from(Word(word): Word) -> Self {
        match field(word, 0, KIND_BITS) {
            0 => Self::None,
            1 => Self::Resident {
                order: field(word, 4, 4) as u32,
                tag: field(word, 8, TAG_BITS) as u32,
            },
            2 => Self::Staged {
                slot: field(word, 4, 32) as u32,
                busy: word & BUSY != 0,
            },
            3 => Self::Zswap {
                handle: Handle::from_bits(field(word, 4, Handle::BITS)),
                len: match field(word, 40, 12) as u32 {
                    0 => 4096,
                    len => len,
                },
                writeback: word & WRITEBACK != 0,
                tag: field(word, 53, ZTAG_BITS) as u32,
            },
            4 => Self::Filled {
                word: field(word, 4, 32) as u32,
            },
            5 => Self::Swap {
                slot: field(word, 4, 32) as u32,
                device: field(word, 36, 8) as u8,
            },
            _ => Self::Bad,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn any_slot() -> impl Strategy<Value = Slot> {
        prop_oneof![
            Just(Slot::None),
            any::<u32>().prop_map(|word| Slot::Filled { word }),
            Just(Slot::Bad),
            (0..10u32, 0..1u32 << TAG_BITS).prop_map(|(order, tag)| Slot::Resident { order, tag }),
            (any::<u32>(), any::<bool>()).prop_map(|(slot, busy)| Slot::Staged { slot, busy }),
            (any::<u8>(), any::<u32>()).prop_map(|(device, slot)| Slot::Swap { device, slot }),
            (
                0..1u64 << Handle::BITS,
                1..=4096u32,
                any::<bool>(),
                0..1u32 << ZTAG_BITS
            )
                .prop_map(|(bits, len, writeback, tag)| Slot::Zswap {
                    handle: Handle::from_bits(bits),
                    len,
                    writeback,
                    tag
                }),
        ]
    }

    proptest! {
        #[test]
        fn a_word_decodes_to_what_was_encoded(slot in any_slot()) {
            prop_assert_eq!(Slot::from(Word::from(slot)), slot);
        }
    }
}
