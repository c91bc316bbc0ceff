//! Pages of many kinds, and what other implementations say of them.

use std::sync::OnceLock;

use uzswap_iaa::aecs::{D_SYMBOLS, Histogram, LL_SYMBOLS, Tables};
use uzswap_iaa_model::random::Random;

pub const PAGE: usize = 4096;

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Zeros,
    OneByte,
    Text,
    Structured,
    Halves,
    Noise,
}

pub const KINDS: [Kind; 6] = [
    Kind::Zeros,
    Kind::OneByte,
    Kind::Text,
    Kind::Structured,
    Kind::Halves,
    Kind::Noise,
];

const WORDS: [&str; 12] = [
    "kswapd ", "page ", "the ", "breaks ", "a ", "folio ", "of ", "swap", "\n", "reclaim ", "0x7f", ", ",
];

/// A page of this kind: another one for each seed.
pub fn page(kind: Kind, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut page = vec![0; PAGE];
    match kind {
        Kind::Zeros => {}
        Kind::OneByte => page[random.below(PAGE as u64) as usize] = 1 + random.below(255) as u8,
        Kind::Text => {
            let words = std::iter::repeat_with(|| WORDS[random.below(WORDS.len() as u64) as usize]);
            let text: Vec<u8> = words.flat_map(str::bytes).take(PAGE).collect();
            page = text;
        }
        Kind::Structured => {
            for (i, word) in page.chunks_mut(8).enumerate() {
                let pointer = 0x7f31_0000_0000 + (random.below(1 << 16) << 4);
                let value = [i as u64, pointer, 0, random.below(100)][i % 4];
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        Kind::Halves => noise(&mut random, &mut page[..PAGE / 4]),
        Kind::Noise => noise(&mut random, &mut page),
    }
    page
}

fn noise(random: &mut Random, bytes: &mut [u8]) {
    bytes.fill_with(|| (random.bits() >> 33) as u8);
}

/// CRC-32 of gzip.
pub fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: OnceLock<[u32; 256]> = OnceLock::new();
    let entry = |i: usize| (0..8).fold(i as u32, |crc, _| crc >> 1 ^ (0xedb8_8320 * (crc & 1)));
    let table = TABLE.get_or_init(|| std::array::from_fn(entry));
    let step = |crc: u32, &byte: &u8| table[(crc as u8 ^ byte) as usize] ^ crc >> 8;
    !bytes.iter().fold(!0, step)
}

/// XOR of the 16-bit words.
pub fn xor16(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    words.fold(0, |a, b| a ^ b)
}

/// What another implementation makes of a stream.
pub fn inflate(stream: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(stream).expect("miniz_oxide reads the stream")
}

/// Codes made for text and small numbers.
pub fn canned_tables() -> Tables {
    let mut histogram = Histogram {
        ll: [1; LL_SYMBOLS],
        d: [20; D_SYMBOLS],
    };
    for byte in [Kind::Text, Kind::Structured].iter().flat_map(|kind| page(*kind, 1)) {
        histogram.ll[usize::from(byte)] += 4;
    }
    histogram.ll[257..].fill(60);
    Tables::canned(&histogram)
}
