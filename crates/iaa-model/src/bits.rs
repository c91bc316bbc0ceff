//! Bits of a DEFLATE stream: the first one is the lowest of its byte.

/// Writes bits.
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    /// Bits in `word`: fewer than 8 between calls.
    held: u32,
}

impl BitWriter {
    /// Append the low `count` bits of `value`, at most 32.
    pub fn push(&mut self, value: u32, count: u32) {
        debug_assert!(count == 32 || value >> count == 0);
        self.word |= u64::from(value) << self.held;
        self.held += count;
        while self.held >= 8 {
            self.bytes.push(self.word as u8);
            self.word >>= 8;
            self.held -= 8;
        }
    }

    /// Pad with zeros to a whole byte.
    pub fn align(&mut self) {
        if self.held > 0 {
            self.push(0, 8 - self.held);
        }
    }

    /// Bits so far.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8 + self.held as usize
    }

    /// The whole bytes, and the bits that are left with their count below 8.
    pub fn finish(self) -> (Vec<u8>, u8, u32) {
        (self.bytes, self.word as u8, self.held)
    }
}

/// Reads bits of a slice.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> BitReader<'a> {
    /// Reads `bytes` from bit `at` to bit `end`.
    pub fn new(bytes: &'a [u8], at: usize, end: usize) -> Self {
        debug_assert!(end <= bytes.len() * 8);
        Self { bytes, at, end }
    }

    /// The next 32 bits; zeros stand for those beyond the end.
    pub fn peek(&self) -> u32 {
        let from = self.at / 8;
        let word = match self.bytes.get(from..from + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("8 bytes")),
            None => {
                let rest = self.bytes.get(from..).unwrap_or(&[]);
                rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
            }
        };
        let word = word >> (self.at % 8);
        match self.left() {
            left if left < 32 => word as u32 & ((1 << left) - 1),
            _ => word as u32,
        }
    }

    /// Go on by `count` bits, even beyond the end: [`is_overrun`](Self::is_overrun) tells.
    pub fn skip(&mut self, count: u32) {
        self.at += count as usize;
    }

    /// The next `count` bits, at most 31.
    pub fn take(&mut self, count: u32) -> u32 {
        let bits = self.peek() & ((1 << count) - 1);
        self.skip(count);
        bits
    }

    /// Go on to a whole byte.
    pub fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }

    /// Whether more was taken than was there.
    pub fn is_overrun(&self) -> bool {
        self.at > self.end
    }

    /// Bits that are left.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Where the next bit is.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Go back to a position of before.
    pub fn rewind(&mut self, position: usize) {
        self.at = position;
    }
}
