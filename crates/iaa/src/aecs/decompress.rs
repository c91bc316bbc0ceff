//! The AECS of a decompression (data sheet A7).
//!
//! The device writes it itself, when the set-up job of canned mode reads a header. The driver knows
//! only its sizes, its state, and how codes are packed.

use super::code::{counts, first_codes};
use crate::bits::le;
use core::mem::offset_of;

/// Where the fields are. Only offsets are taken from it.
#[repr(C)]
struct Layout {
    crc: u32,
    xor: u32,
    low: u32,
    high: u32,
    output_mod_idx: u32,
    drop_initial: u32,
    reserved_24: [u32; 36],
    output_accum: u64,
    valid_bits: u32,
    index_bit_offset: u32,
    input_accum: [u64; 32],
    input_accum_sizes: [u8; 32],
    eob: u32,
    drop_initial_bits: u8,
    aecs_format: u8,
    reserved_478: u16,
    first_tbl_idx: [u32; 5],
    num_codes: [u32; 5],
    first_code: [u32; 5],
    first_len_code: [u32; 5],
    cams: [u8; 248],
    symbols: [u8; 268],
    decompress_state: u16,
    reserved_1078: u16,
    reserved_1080: [u8; 172],
    history_offset: u32,
    history: [u8; 4096],
    reserved_5352: [u8; 24],
}

const _: () = {
    assert!(size_of::<Layout>() == DecompressAecs::WithHistory.bytes() as usize);
    assert!(offset_of!(Layout, output_mod_idx) == 16 && offset_of!(Layout, drop_initial) == 20);
    assert!(offset_of!(Layout, output_accum) == 168 && offset_of!(Layout, valid_bits) == 176);
    assert!(offset_of!(Layout, input_accum) == 184 && offset_of!(Layout, input_accum_sizes) == 440);
    assert!(offset_of!(Layout, eob) == 472 && offset_of!(Layout, drop_initial_bits) == 476);
    assert!(offset_of!(Layout, aecs_format) == 477 && offset_of!(Layout, first_tbl_idx) == 480);
    assert!(offset_of!(Layout, num_codes) == 500 && offset_of!(Layout, first_code) == 520);
    assert!(offset_of!(Layout, first_len_code) == 540 && offset_of!(Layout, cams) == 560);
    assert!(offset_of!(Layout, symbols) == 808 && offset_of!(Layout, decompress_state) == 1076);
    assert!(offset_of!(Layout, history_offset) == 1252 && offset_of!(Layout, history) == 1256);
    assert!(offset_of!(Layout, reserved_5352) == 5352);
    // What canned mode looks at is in the smallest AECS that it uses.
    assert!(offset_of!(Layout, decompress_state) + 2 <= DecompressAecs::Format1.bytes() as usize);
};

/// How much of an AECS a decompression uses, and in which format the device has its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecompressAecs {
    /// Seeds of the checksums only.
    Filter,
    /// Tables of generation 1, no history.
    Format1,
    /// Tables of generation 2 (`iaa_cap` bit 0), no history.
    Format2,
    /// All of it.
    WithHistory,
}

impl DecompressAecs {
    /// Its size in bytes, a multiple of 32.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Filter => 0x20,
            Self::Format1 => 1088,
            Self::Format2 => 1248,
            Self::WithHistory => 5376,
        }
    }
}

/// The most bytes that canned mode needs: two AECS back to back.
pub const CANNED_PAIR_BYTES: usize = 2 * DecompressAecs::Format2.bytes() as usize;

/// Where a decompression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecompressState {
    /// Before a block header.
    Header,
    /// At a symbol of a block.
    Symbol {
        /// The block is the last one.
        is_final: bool,
    },
    /// In a stored block.
    Stored {
        /// The block is the last one.
        is_final: bool,
    },
    /// Behind the end of a block.
    Stopped,
    /// A number that the data sheet does not name.
    Unknown(u16),
}

impl DecompressState {
    /// The state in the AECS whose first 1088 bytes are `aecs`.
    ///
    /// After the set-up of canned mode it must be at a symbol: the device has read the header.
    #[must_use]
    pub fn of(aecs: &[u8]) -> Self {
        match u16::from_le_bytes(le::get(aecs, offset_of!(Layout, decompress_state))) {
            1 => Self::Header,
            0 => Self::Symbol { is_final: false },
            4 => Self::Symbol { is_final: true },
            2 => Self::Stored { is_final: false },
            6 => Self::Stored { is_final: true },
            8 => Self::Stopped,
            number => Self::Unknown(number),
        }
    }
}

/// Of code length `length`: the dword that has its field, and the field's lowest bit there.
///
/// A field has one bit more than the length, and each dword takes the lengths that fit.
const PLACES: [(usize, u32); 15] = [
    (0, 0),
    (0, 2),
    (0, 5),
    (0, 9),
    (0, 14),
    (0, 20),
    (1, 0),
    (1, 8),
    (1, 17),
    (2, 0),
    (2, 11),
    (3, 0),
    (3, 13),
    (4, 0),
    (4, 15),
];

const _: () = {
    // Fields lie side by side, and none reaches over the end of its dword.
    let mut length = 1;
    while length < 15 {
        let ((dword, bit), (next_dword, next_bit)) = (PLACES[length - 1], PLACES[length]);
        let end = bit + length as u32 + 1;
        assert!(if dword == next_dword {
            next_bit == end
        } else {
            next_bit == 0 && end <= 32
        });
        length += 1;
    }
};

/// A number for each code length, 1 to 15, packed as `num_codes`, `first_code` and the like are.
///
/// # Panics
/// A number does not fit its field.
#[must_use]
pub fn pack(numbers: &[u32; 16]) -> [u32; 5] {
    let mut dwords = [0; 5];
    for (i, &(dword, bit)) in PLACES.iter().enumerate() {
        let number = numbers[i + 1];
        assert!(number >> (i + 2) == 0, "{number} does not fit {} bits", i + 2);
        dwords[dword] |= number << bit;
    }
    dwords
}

/// The numbers that [`pack`] has packed.
#[must_use]
pub fn unpack(dwords: &[u32; 5]) -> [u32; 16] {
    let mut numbers = [0; 16];
    for (i, &(dword, bit)) in PLACES.iter().enumerate() {
        numbers[i + 1] = dwords[dword] >> bit & ((1 << (i + 2)) - 1);
    }
    numbers
}

/// Of symbols with codes of these lengths: `num_codes`, `first_code` and `first_tbl_idx`, packed.
/// The table has the symbols in the order of their codes.
#[must_use]
pub fn packed_codes(lengths: &[u8]) -> [[u32; 5]; 3] {
    let counts = counts(lengths);
    let mut firsts = first_codes(&counts);
    let mut indexes = [0; 16];
    let mut index = 0;
    for length in 0..16 {
        indexes[length] = index;
        index += counts[length];
        if counts[length] == 0 {
            // No code has this length: the device never looks, and the number might not fit.
            (indexes[length], firsts[length]) = (0, 0);
        }
    }
    [counts, firsts, indexes].map(|numbers| pack(&numbers))
}
