//! The two Huffman tables of a compression: deflate's fixed ones, or ones made for the data.

use super::code::{Code, LENGTH_MAX, canonical, limited_lengths};
use super::header::Header;
use crate::bits::{BitWriter, le};
use alloc::vec::Vec;
use core::array::from_fn;

/// Literals, end of block and lengths that have a code.
pub const LL_SYMBOLS: usize = 286;
/// Distances that have a code.
pub const D_SYMBOLS: usize = 30;
/// The symbol that ends a block.
pub const END_OF_BLOCK: usize = 256;
/// Bytes of the histogram that a COMPRESS with STATS writes.
pub const HISTOGRAM_BYTES: usize = 1280;

/// Entries that the histogram has for literals and lengths: two more than there are symbols.
const HISTOGRAM_LL: usize = LL_SYMBOLS + 2;
const _: () = assert!((HISTOGRAM_LL + D_SYMBOLS + 2) * 4 == HISTOGRAM_BYTES);

/// How often each symbol occurs in data that is like the data to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Of literals, end of block and lengths.
    pub ll: [u32; LL_SYMBOLS],
    /// Of distances.
    pub d: [u32; D_SYMBOLS],
}

impl Histogram {
    /// The histogram that a COMPRESS with STATS has written (data sheet A5).
    #[must_use]
    pub fn from_bytes(bytes: &[u8; HISTOGRAM_BYTES]) -> Self {
        let word = |i: usize| u32::from_le_bytes(le::get(bytes, i * 4));
        Self {
            ll: from_fn(word),
            d: from_fn(|i| word(HISTOGRAM_LL + i)),
        }
    }

    /// Add the counts of another one; they stop at the greatest number.
    pub fn add(&mut self, other: &Self) {
        let sum = |mine: &mut [u32], others: &[u32]| {
            mine.iter_mut().zip(others).for_each(|(a, &b)| *a = a.saturating_add(b));
        };
        sum(&mut self.ll, &other.ll);
        sum(&mut self.d, &other.d);
    }
}

/// A code for each symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Of literals, end of block and lengths.
    pub ll: [Code; LL_SYMBOLS],
    /// Of distances.
    pub d: [Code; D_SYMBOLS],
}

impl Tables {
    /// Deflate's fixed codes (RFC 1951 3.2.6).
    #[must_use]
    pub fn fixed() -> Self {
        // Two more lengths than there are symbols: codes 286 and 287 exist but are never used.
        let lengths: [u8; LL_SYMBOLS + 2] = from_fn(|symbol| match symbol {
            0..=143 => 8,
            144..=255 => 9,
            256..=279 => 7,
            _ => 8,
        });
        let codes = canonical(&lengths);
        Self {
            ll: from_fn(|symbol| codes[symbol]),
            d: from_fn(|symbol| Code::new(symbol as u32, 5)),
        }
    }

    /// Codes for data like that of `histogram`. All symbols get one: what did not occur there may
    /// occur later, and a compressor that meets a symbol without a code fails.
    #[must_use]
    pub fn canned(histogram: &Histogram) -> Self {
        let ll = histogram.ll.map(|count| count.max(1));
        let d = histogram.d.map(|count| count.max(1));
        Self {
            ll: canonical(&limited_lengths(&ll, LENGTH_MAX)),
            d: canonical(&limited_lengths(&d, LENGTH_MAX)),
        }
    }

    /// Lengths of the codes of literals, end of block and lengths, in bits.
    #[must_use]
    pub fn ll_lengths(&self) -> [u8; LL_SYMBOLS] {
        self.ll.map(Code::length)
    }

    /// Lengths of the codes of distances, in bits.
    #[must_use]
    pub fn d_lengths(&self) -> [u8; D_SYMBOLS] {
        self.d.map(Code::length)
    }

    /// The header of a dynamic block with these codes, which canned mode keeps aside.
    #[must_use]
    pub fn header(&self) -> Header {
        Header::new(&self.ll_lengths(), &self.d_lengths())
    }

    /// `input` as literals and an end of block behind the bits of `prefix`, as the device writes
    /// it with GEN_LITS, FLUSH_OUTPUT and END_EOB.
    ///
    /// The result does not depend on a match finder, so it tests a device byte for byte.
    #[must_use]
    pub fn encode_literals(&self, prefix: Prefix, input: &[u8]) -> Vec<u8> {
        let mut bits = BitWriter::default();
        bits.put(prefix.bits, prefix.len);
        let symbols = input.iter().map(|&byte| usize::from(byte)).chain([END_OF_BLOCK]);
        for code in symbols.map(|symbol| self.ll[symbol]) {
            bits.put_code(code.code(), code.length().into());
        }
        bits.into_bytes()
    }
}

/// Bits that are in the output accumulator before the first symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// Their values, the first one lowest.
    pub bits: u32,
    /// How many: at most 32.
    pub len: u32,
}

impl Prefix {
    /// None: canned mode emits no header.
    pub const NONE: Self = Self { bits: 0, len: 0 };
    /// BFINAL = 1 and BTYPE = 01: a final block with fixed codes.
    pub const FIXED_FINAL: Self = Self { bits: 0b011, len: 3 };
}
