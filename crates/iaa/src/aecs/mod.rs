//! The analytics engine's configuration and state: Huffman tables in, state out (data sheet A7).

mod code;
mod compress;
mod decompress;
mod header;
mod tables;

pub use code::{Code, LENGTH_MAX, canonical, kraft, limited_lengths};
pub use compress::{COMPRESS_AECS_BYTES, CompressAecs};
pub use decompress::{CANNED_PAIR_BYTES, DecompressAecs, DecompressState, pack, packed_codes, unpack};
pub use header::Header;
pub use tables::{D_SYMBOLS, END_OF_BLOCK, HISTOGRAM_BYTES, Histogram, LL_SYMBOLS, Prefix, Tables};

#[cfg(test)]
mod test;
