//! The word of a page: where its contents are.
//!
//! ```text
//!            63                       32 31          12 11      4 3   0
//! NONE       0 . . . . . . . . . . . . . . . . . . . . . . . . . | 0 never touched: zeros
//! RESIDENT   |         note:32 @32      | tag:20 @8 | order:4 @4 | 1 mapped; tag: its LRU entry
//! STAGED     |         note:32 @32      | busy @28  | slot:24 @4 | 2 unmapped, its frame waits
//! ZSWAP      tag:10 @54|ref @53|wb @52|len:12 @40 |  handle:36 @4| 3 in the pool (len 0: raw)
//! FILLED     0 . . . . . . . . . . . . . |           word:32 @4  | 4 one word over and over
//! SWAP       codec:4 @60|len:12 @48|  at:36 @12   |  device:8 @4 | 5 on the device, at: 16 bytes
//! CACHED     |     tag:12 @52 | len:12 @40 | handle:36 @4    | 6 mapped, its block in the pool
//! BAD        0 . . . . . . . . . . . . . . . . . . . . . . . . . | 7 lost, until it is dropped
//! ```
//!
//! A page has exactly one word. Every transition replaces the word as a whole under the engine's
//! lock: after the bytes it points to are in place, and before what it no longer points to is given
//! up. A `note` is the fingerprint of contents that did not compress when they were last tried; 0:
//! nothing is known.

use uzswap_acomp::Codec;

use crate::page::PAGE_SIZE;
use crate::zpool::Handle;

/// Bits of the LRU tag in a RESIDENT word.
pub const TAG_BITS: u32 = 20;
/// Bits of the LRU tag in a ZSWAP word.
pub const ZTAG_BITS: u32 = 10;
/// Bits of the LRU tag in a CACHED word.
pub const CTAG_BITS: u32 = 12;
/// Bits of a staging slot's number.
const STAGING_BITS: u32 = 24;

const KIND_BITS: u32 = 4;
const BUSY: u64 = 1 << 28;
const WRITEBACK: u64 = 1 << 52;
const REFERENCED: u64 = 1 << 53;
const _: () = assert!(KIND_BITS + Handle::BITS + 12 + 2 + ZTAG_BITS == 64);
const _: () = assert!(KIND_BITS + Handle::BITS + 12 + CTAG_BITS == 64);
const _: () = assert!(KIND_BITS + 8 + Blob::AT_BITS + 12 + Codec::BITS <= 64);

/// A page in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZswapEntry {
    /// Where.
    pub handle: Handle,
    /// Bytes, 1 to 4096; 4096: as they are.
    pub len: u32,
    /// A copy is on its way to the swap device.
    pub writeback: bool,
    /// A neighbour was loaded since it was stored: writeback passes it over once.
    pub referenced: bool,
    /// Of its LRU entry.
    pub tag: u32,
}

/// A page that is mapped and whose block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedEntry {
    /// Where.
    pub handle: Handle,
    /// Bytes, 1 to 4096.
    pub len: u32,
    /// Of its LRU entry.
    pub tag: u32,
}

/// A page on a swap device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// 0: our own; others: those of the processes that we were forked from.
    pub device: u8,
    /// Its first byte, in units of [`UNIT`](Self::UNIT).
    pub at: u64,
    /// Bytes, 1 to 4096.
    pub len: u32,
    /// How they are read.
    pub codec: Codec,
}

impl Blob {
    /// Bytes that the start of a blob is a multiple of.
    pub const UNIT: usize = 16;
    /// Bits of its place: a device of 1 TiB.
    pub const AT_BITS: u32 = 36;

    /// A page as it is, in device slot `slot` of our own device.
    pub fn page(slot: u32) -> Self {
        Self {
            device: 0,
            at: u64::from(slot) * (PAGE_SIZE / Self::UNIT) as u64,
            len: PAGE_SIZE as u32,
            codec: Codec::Raw,
        }
    }

    /// The slots (pages of the device) that it lies in: first and last.
    pub fn slots(&self) -> (u32, u32) {
        let first = self.at * Self::UNIT as u64;
        let last = first + u64::from(self.len) - 1;
        let slot = |byte: u64| (byte / PAGE_SIZE as u64) as u32;
        (slot(first), slot(last))
    }
}

/// A decoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing is kept for this page.
    None,
    /// The page is mapped.
    Resident { order: u32, tag: u32, note: u32 },
    /// The page is mapped, and the block that it was loaded from is kept.
    Cached(CachedEntry),
    /// The frame is in staging slot `slot`. `busy`: it is being compressed, so it may be copied but
    /// not moved.
    Staged { slot: u32, busy: bool, note: u32 },
    /// In the pool.
    Zswap(ZswapEntry),
    /// This word over and over.
    Filled { word: u32 },
    /// On a swap device.
    Swap(Blob),
    /// Lost: decompression or the device failed.
    Bad,
}

impl Slot {
    /// Whether the page is mapped under the LRU entry of this order and tag.
    pub fn is_resident_as(self, order: u32, tag: u32) -> bool {
        matches!(self, Self::Resident { order: o, tag: t, .. } if o == order && t == tag)
    }

    /// Whether the page is mapped, with its block kept, under the LRU entry of this tag.
    pub fn is_cached_as(self, tag: u32) -> bool {
        matches!(self, Self::Cached(entry) if entry.tag == tag)
    }

    /// Whether its frame waits in staging slot `slot`, with or without the mark.
    pub fn is_staged_at(self, slot: u32, busy: bool) -> bool {
        matches!(self, Self::Staged { slot: s, busy: b, .. } if s == slot && b == busy)
    }

    /// What is known of contents that have a frame.
    pub fn note(self) -> u32 {
        match self {
            Self::Resident { note, .. } | Self::Staged { note, .. } => note,
            Self::None | Self::Cached(_) | Self::Zswap(_) | Self::Filled { .. } | Self::Swap(_) | Self::Bad => 0,
        }
    }
}

/// An encoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Word(u64);

impl Word {
    /// The bits, as they are kept.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

fn field(word: u64, shift: u32, bits: u32) -> u64 {
    (word >> shift) & ((1 << bits) - 1)
}

/// 4096 as 0: a length in 12 bits.
fn length(bits: u64) -> u32 {
    match bits as u32 {
        0 => 4096,
        len => len,
    }
}

impl From<Slot> for Word {
    fn from(slot: Slot) -> Self {
        Self(match slot {
            Slot::None => 0,
            Slot::Resident { order, tag, note } => {
                1 | u64::from(order) << 4 | u64::from(tag) << 8 | u64::from(note) << 32
            }
            Slot::Staged { slot, busy, note } => {
                debug_assert!(slot < 1 << STAGING_BITS);
                2 | u64::from(slot) << 4 | if busy { BUSY } else { 0 } | u64::from(note) << 32
            }
            Slot::Zswap(entry) => {
                let writeback = if entry.writeback { WRITEBACK } else { 0 };
                let referenced = if entry.referenced { REFERENCED } else { 0 };
                let len = u64::from(entry.len) & 0xfff;
                3 | entry.handle.to_bits() << 4 | len << 40 | writeback | referenced | u64::from(entry.tag) << 54
            }
            Slot::Filled { word } => 4 | u64::from(word) << 4,
            Slot::Swap(blob) => {
                debug_assert!(blob.at < 1 << Blob::AT_BITS);
                let len = u64::from(blob.len) & 0xfff;
                5 | u64::from(blob.device) << 4 | blob.at << 12 | len << 48 | blob.codec.to_bits() << 60
            }
            Slot::Cached(entry) => {
                let len = u64::from(entry.len) & 0xfff;
                6 | entry.handle.to_bits() << 4 | len << 40 | u64::from(entry.tag) << 52
            }
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
                note: field(word, 32, 32) as u32,
            },
            2 => Self::Staged {
                slot: field(word, 4, STAGING_BITS) as u32,
                busy: word & BUSY != 0,
                note: field(word, 32, 32) as u32,
            },
            3 => Self::Zswap(ZswapEntry {
                handle: Handle::from_bits(field(word, 4, Handle::BITS)),
                len: length(field(word, 40, 12)),
                writeback: word & WRITEBACK != 0,
                referenced: word & REFERENCED != 0,
                tag: field(word, 54, ZTAG_BITS) as u32,
            }),
            4 => Self::Filled {
                word: field(word, 4, 32) as u32,
            },
            5 => Self::Swap(Blob {
                device: field(word, 4, 8) as u8,
                at: field(word, 12, Blob::AT_BITS),
                len: length(field(word, 48, 12)),
                codec: Codec::from_bits(word >> 60),
            }),
            6 => Self::Cached(CachedEntry {
                handle: Handle::from_bits(field(word, 4, Handle::BITS)),
                len: length(field(word, 40, 12)),
                tag: field(word, 52, CTAG_BITS) as u32,
            }),
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
            (0..10u32, 0..1u32 << TAG_BITS, any::<u32>()).prop_map(|(order, tag, note)| Slot::Resident {
                order,
                tag,
                note
            }),
            (0..1u32 << STAGING_BITS, any::<bool>(), any::<u32>()).prop_map(|(slot, busy, note)| Slot::Staged {
                slot,
                busy,
                note
            }),
            (0..1u64 << Handle::BITS, 1..=4096u32, 0..1u32 << CTAG_BITS).prop_map(|(bits, len, tag)| {
                let handle = Handle::from_bits(bits);
                Slot::Cached(CachedEntry { handle, len, tag })
            }),
            (any::<u8>(), 0..1u64 << Blob::AT_BITS, 1..=4096u32, 0..16u64).prop_map(|(device, at, len, codec)| {
                let codec = Codec::from_bits(codec);
                Slot::Swap(Blob { device, at, len, codec })
            }),
            (
                0..1u64 << Handle::BITS,
                1..=4096u32,
                any::<bool>(),
                any::<bool>(),
                0..1u32 << ZTAG_BITS
            )
                .prop_map(|(bits, len, writeback, referenced, tag)| Slot::Zswap(ZswapEntry {
                    handle: Handle::from_bits(bits),
                    len,
                    writeback,
                    referenced,
                    tag
                })),
        ]
    }

    proptest! {
        #![proptest_config(crate::test::config(256, 20))]
        #[test]
        fn a_word_decodes_to_what_was_encoded(slot in any_slot()) {
            prop_assert_eq!(Slot::from(Word::from(slot)), slot);
        }
    }
}
