//! How the decompress AECS holds the literal and length code.
//!
//! Arrays of five dwords have one field for each code length. Format 2 adds a CAM of 265 entries.

use super::put;
use crate::bits::BitWriter;
use crate::huffman;
use crate::symbols::EOB;

/// Symbols that the CAM, or format 1's sorted list, has places for.
const LISTED: usize = 265;
const CAM_PART_1: (usize, usize) = (832, 224);
const CAM_PART_2: (usize, usize) = (1088, 144);
const SORTED_AT: usize = 808;

/// The dword and the bit where the field of code length `length` stands: it has `length + 1` bits.
fn field(length: usize) -> (usize, u32) {
    const FIELDS: [(usize, u32); 15] = [
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
    FIELDS[length - 1]
}

fn put_array(bytes: &mut [u8], at: usize, value: impl Fn(usize) -> u32) {
    let mut dwords = [0u32; 5];
    for length in 1..=huffman::LENGTH_MAX {
        let (dword, bit) = field(length);
        dwords[dword] |= (value(length) & ((1 << (length + 1)) - 1)) << bit;
    }
    for (i, dword) in dwords.iter().enumerate() {
        put(bytes, at + 4 * i, &dword.to_le_bytes());
    }
}

/// Length and rank of a symbol's code among those of its length; 0 without a code.
fn entry(lengths: &[u8], codes: &[u16], first: &[u16], symbol: usize) -> u32 {
    let length = lengths[symbol];
    match length {
        0 => 0,
        _ => u32::from(length) | u32::from(codes[symbol] - first[usize::from(length)]) << 4,
    }
}

/// Write the documented parts of the tables for the code with these lengths.
pub(super) fn put_tables(bytes: &mut [u8], lengths: &[u8], format_2: bool) {
    let (codes, first) = (huffman::codes(lengths), huffman::first_codes(lengths));
    let counts = huffman::counts(lengths);
    let of_length = |length: usize| move |symbol: &usize| usize::from(lengths[*symbol]) == length;
    put_array(bytes, 480, |length| {
        counts[..length].iter().map(|count| u32::from(*count)).sum()
    });
    put_array(bytes, 500, |length| u32::from(counts[length]));
    put_array(bytes, 520, |length| u32::from(first[length]));
    let length_code = |length| {
        (EOB + 1..lengths.len())
            .find(of_length(length))
            .map(|symbol| u32::from(codes[symbol]))
    };
    put_array(bytes, 540, |length| length_code(length).unwrap_or(u32::MAX));
    let eob = entry(lengths, &codes, &first, EOB);
    put(bytes, 472, &eob.to_le_bytes());
    if format_2 {
        let cam = cam(lengths, &codes, &first);
        put(bytes, CAM_PART_1.0, &cam[..CAM_PART_1.1]);
        put(bytes, CAM_PART_2.0, &cam[CAM_PART_1.1..]);
    } else {
        let mut sorted: Vec<_> = (0..LISTED).filter(|symbol| lengths[*symbol] > 0).collect();
        sorted.sort_by_key(|symbol| lengths[*symbol]);
        let low: Vec<_> = sorted.iter().map(|symbol| *symbol as u8).collect();
        put(bytes, SORTED_AT, &low);
    }
}

/// 2934 bits in 46 quadwords: entry `i` has 4 bits and as many as `i` itself.
fn cam(lengths: &[u8], codes: &[u16], first: &[u16]) -> Vec<u8> {
    let mut bits = BitWriter::default();
    for symbol in 0..LISTED {
        let width = 4 + (usize::BITS - symbol.leading_zeros());
        bits.push(entry(lengths, codes, first, symbol), width);
    }
    debug_assert_eq!(bits.len(), 2934);
    bits.align();
    let (mut bytes, ..) = bits.finish();
    bytes.resize(CAM_PART_1.1 + CAM_PART_2.1, 0);
    bytes
}

/// Whether the documented parts of the tables are those of this code.
pub(super) fn has_tables(bytes: &[u8], lengths: &[u8], format_2: bool) -> bool {
    let mut expected = vec![0; bytes.len()];
    put_tables(&mut expected, lengths, format_2);
    let cam = [CAM_PART_1, CAM_PART_2].map(|(at, len)| at..at + len);
    let arrays = bytes[472..476] == expected[472..476] && bytes[480..560] == expected[480..560];
    arrays && (!format_2 || cam.into_iter().all(|part| bytes[part.clone()] == expected[part]))
}

#[cfg(test)]
mod test {
    use super::*;

    /// Data sheet A7: what first_len_code is when there are literals only.
    #[test]
    fn literals_only_fill_first_len_code() {
        let mut lengths = vec![0; 288];
        lengths[..256].fill(8);
        let mut bytes = vec![0; 1248];
        put_tables(&mut bytes, &lengths, true);
        let words: Vec<_> = bytes[540..560]
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words, [0x07ff_ffff, 0x07ff_ffff, 0x007f_ffff, 0x07ff_ffff, 0x7fff_ffff]);
    }

    #[test]
    fn a_changed_table_is_seen() {
        let (lengths, _) = crate::symbols::fixed_lengths();
        let mut bytes = vec![0; 1248];
        put_tables(&mut bytes, &lengths, true);
        assert!(has_tables(&bytes, &lengths, true));
        bytes[1088] ^= 1;
        assert!(!has_tables(&bytes, &lengths, true));
    }
}
