//! AECS: the analytics engine's configuration and state, in memory (data sheet A7).
//!
//! [`CompressAecs`] is read and written whole. Of [`DecompressAecs`] the model reads and writes
//! both formats, with or without history, for canned set-up and for resumption.
//!
//! Left out are filter state, an output accumulator and an initial drop of decompressed bytes. So
//! is state that the model did not write: its 248 private bytes hold the code lengths in a layout
//! of the model's own. What is left out is answered with error 22.

mod compress;
mod decompress;
mod tables;

pub use compress::CompressAecs;
pub use decompress::{DecompressAecs, Position};

/// AECS addresses and sizes are multiples of it.
pub const ALIGN: usize = 32;
/// Bytes of a compress AECS without a dictionary.
pub const COMPRESS_LEN: usize = 1568;
/// The smallest usable decompress AECS: its filter part.
pub const FILTER_LEN: usize = 32;
/// Format 1 without history.
pub const FORMAT_1_LEN: usize = 1088;
/// Format 2 without history; enough for format 1, too.
pub const FORMAT_2_LEN: usize = 1248;
/// With history.
pub const HISTORY_LEN: usize = 5376;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
