//! The AECS of a compression: 1568 bytes (data sheet A7).

use super::code::Code;
use super::tables::{D_SYMBOLS, LL_SYMBOLS, Prefix, Tables};
use crate::bits::le;
use core::mem::offset_of;

/// Bytes of an AECS for compression without a dictionary.
pub const COMPRESS_AECS_BYTES: usize = 1568;

/// Where the fields are. Only offsets are taken from it.
#[repr(C)]
struct Layout {
    crc: u32,
    xor: u32,
    reserved_8: [u8; 20],
    num_output_accum_bits: u32,
    output_accum: [u8; 256],
    ll_sym: [u32; LL_SYMBOLS],
    reserved_1432: [u8; 8],
    d_sym: [u32; D_SYMBOLS],
    reserved_1560: [u8; 8],
}

const _: () = {
    assert!(size_of::<Layout>() == COMPRESS_AECS_BYTES && COMPRESS_AECS_BYTES == 0x620);
    assert!(COMPRESS_AECS_BYTES.is_multiple_of(32));
    assert!(offset_of!(Layout, crc) == 0 && offset_of!(Layout, xor) == 4);
    assert!(offset_of!(Layout, reserved_8) == 8 && offset_of!(Layout, num_output_accum_bits) == 28);
    assert!(offset_of!(Layout, output_accum) == 32 && offset_of!(Layout, ll_sym) == 288);
    assert!(offset_of!(Layout, reserved_1432) == 1432 && offset_of!(Layout, d_sym) == 1440);
    assert!(offset_of!(Layout, reserved_1560) == 1560);
};

/// What a compression starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressAecs {
    /// Seed of the CRC.
    pub crc: u32,
    /// Seed of the xor checksum.
    pub xor: u16,
    /// Bits before the first symbol.
    pub prefix: Prefix,
    /// The codes.
    pub tables: Tables,
}

impl CompressAecs {
    /// One final block with deflate's fixed codes.
    #[must_use]
    pub fn fixed() -> Self {
        Self {
            crc: 0,
            xor: 0,
            prefix: Prefix::FIXED_FINAL,
            tables: Tables::fixed(),
        }
    }

    /// Symbols of `tables` without a header, which is kept aside: [`Tables::header`].
    #[must_use]
    pub fn canned(tables: Tables) -> Self {
        Self {
            crc: 0,
            xor: 0,
            prefix: Prefix::NONE,
            tables,
        }
    }

    /// The bytes that the device reads.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; COMPRESS_AECS_BYTES] {
        let mut bytes = [0; COMPRESS_AECS_BYTES];
        le::put(&mut bytes, offset_of!(Layout, crc), self.crc.to_le_bytes());
        le::put(&mut bytes, offset_of!(Layout, xor), u32::from(self.xor).to_le_bytes());
        let bits = offset_of!(Layout, num_output_accum_bits);
        le::put(&mut bytes, bits, self.prefix.len.to_le_bytes());
        le::put(
            &mut bytes,
            offset_of!(Layout, output_accum),
            self.prefix.bits.to_le_bytes(),
        );
        put_codes(&mut bytes[offset_of!(Layout, ll_sym)..], &self.tables.ll);
        put_codes(&mut bytes[offset_of!(Layout, d_sym)..], &self.tables.d);
        bytes
    }
}

fn put_codes(words: &mut [u8], codes: &[Code]) {
    for (word, code) in words.chunks_exact_mut(4).zip(codes) {
        word.copy_from_slice(&code.0.to_le_bytes());
    }
}
