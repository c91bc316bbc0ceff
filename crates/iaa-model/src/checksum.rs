//! CRC-32, CRC-32C, the XOR checksum and CRC64 (data sheet A5, A6).

use crate::descriptor::crc64;

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (polynomial * (crc & 1));
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

static CRC32: [u32; 256] = table(0xedb8_8320);
static CRC32C: [u32; 256] = table(0x82f6_3b78);

/// Checksums of uncompressed data, carried from descriptor to descriptor by the AECS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checksums {
    /// CRC-32, or CRC-32C where the descriptor says so. A seed goes on as zlib's `crc32(seed, ..)`.
    pub crc: u32,
    /// XOR of little-endian words of 16 bits, an odd last byte extended by zero.
    pub xor: u16,
}

impl Checksums {
    /// Go on with `data`. Words begin where `data` does: the AECS has no place for half a word.
    pub fn update(&mut self, data: &[u8], castagnoli: bool) {
        let table = if castagnoli { &CRC32C } else { &CRC32 };
        let step = |crc: u32, byte: &u8| (crc >> 8) ^ table[usize::from(crc as u8 ^ byte)];
        self.crc = !data.iter().fold(!self.crc, step);
        let word = |pair: &[u8]| u16::from(pair[0]) | u16::from(*pair.get(1).unwrap_or(&0)) << 8;
        self.xor = data.chunks(2).fold(self.xor, |xor, pair| xor ^ word(pair));
    }
}

/// CRC of 64 bits. `polynomial` is written most significant bit first whatever `flags` say: the
/// data sheet does not tell, and its test uses one polynomial with both orders.
pub fn crc_64(data: &[u8], polynomial: u64, flags: u16) -> u64 {
    let inverted = if flags & crc64::INVERT != 0 { u64::MAX } else { 0 };
    let msb_first = flags & crc64::MSB_FIRST != 0;
    let mut crc = inverted;
    for byte in data {
        crc ^= u64::from(if msb_first { *byte } else { byte.reverse_bits() }) << 56;
        for _ in 0..8 {
            crc = (crc << 1) ^ (polynomial & (crc >> 63).wrapping_neg());
        }
    }
    crc ^= inverted;
    if msb_first { crc } else { crc.reverse_bits() }
}

#[cfg(test)]
mod test {
    use super::*;

    const CHECK: &[u8] = b"123456789";

    #[test]
    fn published_check_values() {
        let of = |castagnoli| {
            let mut sums = Checksums::default();
            sums.update(CHECK, castagnoli);
            sums
        };
        assert_eq!(of(false).crc, 0xcbf4_3926);
        assert_eq!(of(true).crc, 0xe306_9283);
        let polynomial = 0x42f0_e1eb_a9ea_3693;
        assert_eq!(crc_64(CHECK, polynomial, 0x8000), 0x6c40_df5f_0b49_7347, "ECMA-182");
        assert_eq!(crc_64(CHECK, polynomial, 0xc000), 0x62ec_59e3_f1a4_f00a, "WE");
        assert_eq!(crc_64(CHECK, polynomial, 0x4000), 0x995d_c9bb_df19_39fa, "XZ");
    }

    #[test]
    fn a_seed_goes_on() {
        let (mut whole, mut parts) = (Checksums::default(), Checksums::default());
        whole.update(CHECK, false);
        parts.update(&CHECK[..4], false);
        parts.update(&CHECK[4..], false);
        assert_eq!(whole, parts);
    }
}
