//! The decompress AECS: where a stream stands, so that another descriptor can go on with it.

use super::tables::{has_tables, put_tables};
use super::{FILTER_LEN, FORMAT_1_LEN, FORMAT_2_LEN, HISTORY_LEN, is_zero, put, u16_at, u32_at};
use crate::checksum::Checksums;
use crate::device::caps::{Caps, iaa};
use crate::huffman::is_over_subscribed;
use crate::status::ErrorCode;
use crate::symbols::HISTORY;

const ACCUMULATOR_AT: usize = 184;
const SIZES_AT: usize = 440;
const ENTRIES: usize = 32;
const STATE_AT: usize = 1076;
const HISTORY_AT: usize = 1256;
/// The model's own layout of the 248 private bytes. First come 320 lengths of 4 bits. Then what is
/// left of a stored block, and a word that says who wrote it.
const PRIVATE_AT: usize = 560;
const PRIVATE_LEN: usize = 248;
const STORED_LEFT_AT: usize = PRIVATE_AT + 160;
const MARK_AT: usize = PRIVATE_AT + 164;
const MARK: u32 = 0x6c64_6f6d;

/// What comes next in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// A block header.
    Header,
    /// A literal, a length or the end of a block.
    Token {
        /// Whether the block is the last one.
        is_final: bool,
    },
    /// Bytes of a stored block.
    Stored {
        /// Whether the block is the last one.
        is_final: bool,
        /// How many bytes.
        left: u16,
    },
    /// Nothing: the descriptor before stopped at an end of block.
    Stopped,
}

/// The fields of a decompress AECS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecompressAecs {
    /// Seeds of the checksums.
    pub sums: Checksums,
    /// Bits that were read and not used, lowest first in each byte.
    pub input: Vec<u8>,
    /// How many bits of `input` count.
    pub input_bits: usize,
    /// Bits to drop before anything else.
    pub drop_bits: u8,
    /// What comes next.
    pub position: Position,
    /// Code lengths of the block, if it is neither stored nor to come.
    pub lengths: Option<Box<([u8; 288], [u8; 32])>>,
    /// The last bytes of output, at most 4096.
    pub history: Vec<u8>,
}

impl Default for DecompressAecs {
    /// The start of a stream.
    fn default() -> Self {
        Self {
            sums: Checksums::default(),
            input: Vec::new(),
            input_bits: 0,
            drop_bits: 0,
            position: Position::Header,
            lengths: None,
            history: Vec::new(),
        }
    }
}

fn demand(valid: bool) -> Result<(), ErrorCode> {
    if valid { Ok(()) } else { Err(ErrorCode::AecsInvalid) }
}

impl DecompressAecs {
    /// Bits of input that fit.
    pub const INPUT_BITS_MAX: usize = 64 * ENTRIES;

    /// Read an AECS of any usable size: what it has no room for is as at the start of a stream.
    pub fn decode(bytes: &[u8], caps: &Caps) -> Result<Self, ErrorCode> {
        demand(bytes.len() >= FILTER_LEN && is_zero(&bytes[6..FILTER_LEN]))?;
        let mut aecs = Self {
            sums: Checksums {
                crc: u32_at(bytes, 0),
                xor: u16_at(bytes, 4),
            },
            ..Self::default()
        };
        if bytes.len() < FORMAT_1_LEN {
            return Ok(aecs);
        }
        let format_2 = bytes[477] == 1;
        demand(bytes[477] == u8::from(caps.has(iaa::GEN_2)))?;
        demand(!format_2 || bytes.len() >= FORMAT_2_LEN)?;
        // Bit 0 of the valid bits marks format 2; the accumulator itself is left out.
        demand(is_zero(&bytes[32..176]) && u32_at(bytes, 176) == u32::from(format_2) && is_zero(&bytes[180..184]))?;
        aecs.drop_bits = bytes[476];
        demand(aecs.drop_bits == 0 || caps.has(iaa::DROP_BITS))?;
        aecs.read_input(bytes)?;
        aecs.read_position(bytes, format_2)?;
        if bytes.len() >= HISTORY_LEN {
            aecs.read_history(bytes);
        }
        Ok(aecs)
    }

    fn read_input(&mut self, bytes: &[u8]) -> Result<(), ErrorCode> {
        let mut bits = crate::bits::BitWriter::default();
        for i in 0..ENTRIES {
            let at = ACCUMULATOR_AT + 8 * i;
            let size = u32::from(bytes[SIZES_AT + i]);
            demand(size <= 64)?;
            bits.push(low_bits(u32_at(bytes, at), size.min(32)), size.min(32));
            bits.push(
                low_bits(u32_at(bytes, at + 4), size.saturating_sub(32)),
                size.saturating_sub(32),
            );
        }
        self.input_bits = bits.len();
        bits.align();
        (self.input, ..) = bits.finish();
        Ok(())
    }

    fn read_position(&mut self, bytes: &[u8], format_2: bool) -> Result<(), ErrorCode> {
        let left = u16_at(bytes, STORED_LEFT_AT);
        self.position = match u16_at(bytes, STATE_AT) {
            1 => Position::Header,
            0 => Position::Token { is_final: false },
            4 => Position::Token { is_final: true },
            2 => Position::Stored { is_final: false, left },
            6 => Position::Stored { is_final: true, left },
            8 => Position::Stopped,
            _ => return Err(ErrorCode::AecsInvalid),
        };
        if matches!(self.position, Position::Header | Position::Stopped) {
            return Ok(());
        }
        demand(u32_at(bytes, MARK_AT) == MARK)?;
        if matches!(self.position, Position::Token { .. }) {
            let length = |i: usize| bytes[PRIVATE_AT + i / 2] >> (4 * (i % 2)) & 15;
            let ll: [u8; 288] = std::array::from_fn(length);
            let d: [u8; 32] = std::array::from_fn(|i| length(288 + i));
            demand(!is_over_subscribed(&ll) && !is_over_subscribed(&d))?;
            demand(has_tables(bytes, &ll, format_2))?;
            self.lengths = Some(Box::new((ll, d)));
        }
        Ok(())
    }

    fn read_history(&mut self, bytes: &[u8]) {
        let word = u16_at(bytes, 1252);
        let (at, overflowed) = (usize::from(word & 0x7fff) % HISTORY, word >> 15 == 1);
        let history = &bytes[HISTORY_AT..HISTORY_AT + HISTORY];
        self.history.clear();
        if overflowed {
            self.history.extend_from_slice(&history[at..]);
        }
        self.history.extend_from_slice(&history[..at]);
    }

    /// Write an AECS of `size` bytes: parts that it has no room for are lost.
    pub fn encode(&self, size: usize, caps: &Caps) -> Result<Vec<u8>, ErrorCode> {
        let format_2 = caps.has(iaa::GEN_2);
        demand(size >= FILTER_LEN && self.input_bits <= Self::INPUT_BITS_MAX)?;
        let mut bytes = vec![0; size];
        put(&mut bytes, 0, &self.sums.crc.to_le_bytes());
        put(&mut bytes, 4, &self.sums.xor.to_le_bytes());
        if size < FORMAT_1_LEN {
            return Ok(bytes);
        }
        demand(!format_2 || size >= FORMAT_2_LEN)?;
        bytes[176] = u8::from(format_2);
        bytes[477] = u8::from(format_2);
        put(&mut bytes, ACCUMULATOR_AT, &self.input);
        for i in 0..ENTRIES {
            bytes[SIZES_AT + i] = self.input_bits.saturating_sub(64 * i).min(64) as u8;
        }
        self.put_position(&mut bytes, format_2);
        if size >= HISTORY_LEN {
            let full = self.history.len() == HISTORY;
            let word = (self.history.len() % HISTORY) as u16 | u16::from(full) << 15;
            put(&mut bytes, 1252, &word.to_le_bytes());
            put(&mut bytes, HISTORY_AT, &self.history);
        }
        Ok(bytes)
    }

    fn put_position(&self, bytes: &mut [u8], format_2: bool) {
        let (state, left) = match self.position {
            Position::Header => (1u16, 0),
            Position::Token { is_final } => (u16::from(is_final) * 4, 0),
            Position::Stored { is_final, left } => (2 + u16::from(is_final) * 4, left),
            Position::Stopped => (8, 0),
        };
        put(bytes, STATE_AT, &state.to_le_bytes());
        put(bytes, STORED_LEFT_AT, &left.to_le_bytes());
        put(bytes, MARK_AT, &MARK.to_le_bytes());
        if let Some(lengths) = &self.lengths {
            let (ll, d) = &**lengths;
            for (i, length) in ll.iter().chain(d).enumerate() {
                bytes[PRIVATE_AT + i / 2] |= length << (4 * (i % 2));
            }
            put_tables(bytes, ll, format_2);
        }
    }
}

fn low_bits(word: u32, count: u32) -> u32 {
    if count < 32 { word & ((1 << count) - 1) } else { word }
}

const _: () = assert!(MARK_AT + 4 <= PRIVATE_AT + PRIVATE_LEN);
const _: () = assert!(HISTORY_AT + HISTORY + 24 == HISTORY_LEN);

#[cfg(test)]
mod test {
    use super::*;

    fn example(position: Position, lengths: bool) -> DecompressAecs {
        DecompressAecs {
            sums: Checksums {
                crc: 0x1234_5678,
                xor: 0xabcd,
            },
            input: vec![0xff; 9],
            input_bits: 72,
            drop_bits: 0,
            position,
            lengths: lengths.then(|| Box::new(crate::symbols::fixed_lengths())),
            history: (0..4096).map(|i| i as u8).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read_in_both_formats() {
        let positions = [
            (Position::Header, false),
            (Position::Token { is_final: true }, true),
            (
                Position::Stored {
                    is_final: false,
                    left: 77,
                },
                false,
            ),
            (Position::Stopped, false),
        ];
        for caps in [Caps::generation_1(), Caps::generation_2()] {
            for (position, lengths) in positions {
                let aecs = example(position, lengths);
                let bytes = aecs.encode(HISTORY_LEN, &caps).unwrap();
                assert_eq!(DecompressAecs::decode(&bytes, &caps).unwrap(), aecs);
            }
        }
    }

    #[test]
    fn tables_that_were_tampered_with_are_refused() {
        let caps = Caps::generation_2();
        let good = example(Position::Token { is_final: false }, true)
            .encode(FORMAT_2_LEN, &caps)
            .unwrap();
        for at in [832, 480, 500, 520, 540, 472, PRIVATE_AT, 477, STATE_AT] {
            let mut bytes = good.clone();
            bytes[at] ^= 0x11;
            assert_eq!(
                DecompressAecs::decode(&bytes, &caps),
                Err(ErrorCode::AecsInvalid),
                "byte {at}"
            );
        }
        assert_eq!(
            DecompressAecs::decode(&good, &Caps::generation_1()),
            Err(ErrorCode::AecsInvalid)
        );
    }
}
