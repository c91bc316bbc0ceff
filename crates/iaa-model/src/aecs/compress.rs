//! The compress AECS: checksums, bits that are not written yet, and the code of each symbol.

use super::{COMPRESS_LEN, is_zero, put, u16_at, u32_at};
use crate::checksum::Checksums;
use crate::huffman;
use crate::status::ErrorCode;
use crate::symbols::{D, LL};

const ACCUMULATOR_LEN: usize = 256;
const LL_AT: usize = 288;
const D_AT: usize = 1440;

/// The fields of a compress AECS of 1568 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompressAecs {
    /// Seeds of the checksums.
    pub sums: Checksums,
    /// Bits that come before all output: a block header, or what the descriptor before left.
    pub accumulator: Vec<u8>,
    /// How many bits of the accumulator count.
    pub accumulated: usize,
    /// Symbol words of literals and lengths: code in 14:0, length in 18:15.
    pub ll: [u32; LL],
    /// Symbol words of distances.
    pub d: [u32; D],
}

impl Default for CompressAecs {
    /// No bits and no codes.
    fn default() -> Self {
        Self {
            sums: Checksums::default(),
            accumulator: Vec::new(),
            accumulated: 0,
            ll: [0; LL],
            d: [0; D],
        }
    }
}

fn words(lengths: &[u8]) -> impl Iterator<Item = u32> {
    let codes = huffman::codes(lengths).into_iter();
    codes
        .zip(lengths)
        .map(|(code, length)| u32::from(code) | u32::from(*length) << 15)
}

impl CompressAecs {
    /// Replace the tables by the canonical codes of these lengths.
    pub fn set_lengths(&mut self, ll: &[u8], d: &[u8]) {
        self.ll.iter_mut().zip(words(ll)).for_each(|(at, word)| *at = word);
        self.d.iter_mut().zip(words(d)).for_each(|(at, word)| *at = word);
    }

    /// Read an AECS. Dictionaries behind it are left out.
    pub fn decode(bytes: &[u8]) -> Result<Self, ErrorCode> {
        if bytes.len() < COMPRESS_LEN {
            return Err(ErrorCode::AecsInvalid);
        }
        let accumulated = u32_at(bytes, 28) as usize;
        let reserved = [&bytes[6..28], &bytes[1432..1440], &bytes[1560..1568]];
        let word = |at: usize| u32_at(bytes, at);
        let aecs = Self {
            sums: Checksums {
                crc: u32_at(bytes, 0),
                xor: u16_at(bytes, 4),
            },
            accumulator: bytes[32..32 + accumulated.div_ceil(8).min(ACCUMULATOR_LEN)].to_vec(),
            accumulated,
            ll: std::array::from_fn(|i| word(LL_AT + 4 * i)),
            d: std::array::from_fn(|i| word(D_AT + 4 * i)),
        };
        let is_code = |word: &u32| word >> 19 == 0 && (word & 0x7fff) >> (word >> 15) == 0;
        let valid = accumulated <= 8 * ACCUMULATOR_LEN
            && reserved.iter().all(|bytes| is_zero(bytes))
            && aecs.ll.iter().chain(&aecs.d).all(is_code);
        if valid { Ok(aecs) } else { Err(ErrorCode::AecsInvalid) }
    }

    /// Write an AECS over the `size` bytes that were asked for.
    pub fn encode(&self, size: usize) -> Result<Vec<u8>, ErrorCode> {
        if size < COMPRESS_LEN || self.accumulated > 8 * ACCUMULATOR_LEN {
            return Err(ErrorCode::AecsInvalid);
        }
        let mut bytes = vec![0; size];
        put(&mut bytes, 0, &self.sums.crc.to_le_bytes());
        put(&mut bytes, 4, &self.sums.xor.to_le_bytes());
        put(&mut bytes, 28, &(self.accumulated as u32).to_le_bytes());
        put(&mut bytes, 32, &self.accumulator);
        let tables = [(LL_AT, &self.ll[..]), (D_AT, &self.d[..])];
        for (at, table) in tables {
            for (i, word) in table.iter().enumerate() {
                put(&mut bytes, at + 4 * i, &word.to_le_bytes());
            }
        }
        Ok(bytes)
    }
}
