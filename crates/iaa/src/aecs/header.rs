//! The header of a dynamic block, which canned mode keeps aside (RFC 1951 3.2.7).

use super::code::{Code, canonical, limited_lengths};
use super::tables::{D_SYMBOLS, LL_SYMBOLS};
use crate::bits::BitWriter;
use alloc::vec::Vec;

/// Symbols of the code in which code lengths are written.
const CL_SYMBOLS: usize = 19;
/// The order in which their own lengths stand in the header.
const CL_ORDER: [usize; CL_SYMBOLS] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// The longest of those codes, in bits.
const CL_LENGTH_MAX: u8 = 7;
/// The symbol for: the last length again, three to six times.
const REPEAT: usize = 16;
const REPEAT_MIN: usize = 3;
const REPEAT_MAX: usize = 6;

/// The header of a final dynamic block: its bits, the last byte padded with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: Vec<u8>,
    bits: usize,
}

/// A length, or how often it is repeated.
#[derive(Clone, Copy)]
enum Token {
    Length(u8),
    Repeat(usize),
}

impl Token {
    fn symbol(self) -> usize {
        match self {
            Self::Length(length) => length.into(),
            Self::Repeat(_) => REPEAT,
        }
    }
}

impl Header {
    /// The header of a final block with codes of these lengths.
    ///
    /// # Panics
    /// A symbol has no code.
    #[must_use]
    pub fn new(ll: &[u8; LL_SYMBOLS], d: &[u8; D_SYMBOLS]) -> Self {
        assert!(ll.iter().chain(d).all(|&length| length != 0), "all symbols have a code");
        let mut tokens = Vec::new();
        // Each table starts with a length of its own. Deflate allows a repetition across the two.
        // The device may refuse one, as the first length of a table (error 4) or as too many
        // lengths of the one before (error 6).
        tokenize(ll, &mut tokens);
        tokenize(d, &mut tokens);
        let mut frequencies = [0; CL_SYMBOLS];
        tokens.iter().for_each(|token| frequencies[token.symbol()] += 1);
        let cl = canonical(&limited_lengths(&frequencies, CL_LENGTH_MAX));
        let mut bits = BitWriter::default();
        put_prologue(&mut bits, &cl);
        for token in tokens {
            let code = cl[token.symbol()];
            bits.put_code(code.code(), code.length().into());
            if let Token::Repeat(times) = token {
                bits.put((times - REPEAT_MIN) as u32, 2);
            }
        }
        Self {
            bits: bits.len(),
            bytes: bits.into_bytes(),
        }
    }

    /// The bytes; the last one may hold [`Self::padding`] bits that are no header.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bits of the header.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Bits of the last byte that the device must ignore: 0 to 7.
    #[must_use]
    pub fn padding(&self) -> u32 {
        (8 * self.bytes.len() - self.bits) as u32
    }

    /// Header and `body` as one deflate stream, which any software reads.
    #[must_use]
    pub fn stream(&self, body: &[u8]) -> Vec<u8> {
        let mut bits = BitWriter::default();
        let whole = self.bits / 8;
        self.bytes[..whole].iter().for_each(|&byte| bits.put(byte.into(), 8));
        if let Some(&last) = self.bytes.get(whole) {
            bits.put(last.into(), 8 - self.padding());
        }
        body.iter().for_each(|&byte| bits.put(byte.into(), 8));
        bits.into_bytes()
    }
}

/// BFINAL, BTYPE = 10, the numbers of codes, and the lengths of the code for lengths.
fn put_prologue(bits: &mut BitWriter, cl: &[Code; CL_SYMBOLS]) {
    let written = CL_ORDER.iter().rposition(|&symbol| cl[symbol].length() != 0);
    let written = written.map_or(0, |last| last + 1).max(4);
    bits.put(0b101, 3);
    bits.put((LL_SYMBOLS - 257) as u32, 5);
    bits.put((D_SYMBOLS - 1) as u32, 5);
    bits.put((written - 4) as u32, 4);
    for &symbol in &CL_ORDER[..written] {
        bits.put(cl[symbol].length().into(), 3);
    }
}

/// Runs of equal lengths become a length and repetitions of it.
fn tokenize(lengths: &[u8], tokens: &mut Vec<Token>) {
    for run in lengths.chunk_by(|a, b| a == b) {
        tokens.push(Token::Length(run[0]));
        let mut left = run.len() - 1;
        while left >= REPEAT_MIN {
            let times = left.min(REPEAT_MAX);
            tokens.push(Token::Repeat(times));
            left -= times;
        }
        tokens.extend((0..left).map(|_| Token::Length(run[0])));
    }
}
