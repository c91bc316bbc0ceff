//! Corrupt streams, bit by bit: the error codes of data sheet A6 that a stream can cause.

use crate::rig::*;

/// Bits of a stream, first bit first.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn push(mut self, value: u32, count: u32) -> Self {
        self.0.extend((0..count).map(|i| value >> i & 1 == 1));
        self
    }

    /// A code, most significant bit first.
    fn code(mut self, value: u32, count: u32) -> Self {
        self.0.extend((0..count).rev().map(|i| value >> i & 1 == 1));
        self
    }

    /// BFINAL, type 2, counts, and lengths 1 to 4 for symbols of the header's own alphabet.
    fn dynamic(ll: u32, d: u32, cl: &[(usize, u32)]) -> Self {
        const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let mut bits = Self::default()
            .push(0b101, 3)
            .push(ll - 257, 5)
            .push(d - 1, 5)
            .push(15, 4);
        for symbol in ORDER {
            let length = cl.iter().find(|(of, _)| *of == symbol).map_or(0, |(_, length)| *length);
            bits = bits.push(length, 3);
        }
        bits
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.0.chunks(8).map(byte).collect()
    }
}

fn error(bits: Bits) -> u8 {
    let rig = Rig::new();
    let mut bytes = bits.bytes();
    bytes.extend([0; 8]);
    let (record, _) = rig.compress(&bytes, &inflate(bytes.len(), 4096));
    assert_eq!(record.status, 0x0a, "{record:?}");
    record.error_code
}

/// Codes of a header with symbols 0, 1, 16 and 18, two bits each.
const FOUR: [(usize, u32); 4] = [(0, 2), (1, 2), (16, 2), (18, 2)];
const ZERO: u32 = 0;
const ONE: u32 = 1;
const AGAIN: u32 = 2;
const ZEROS: u32 = 3;

/// A header whose literals and lengths, `ll` of them, are zeros but for the last one or two.
fn zeros_then(ll: u32, d: u32, ones: u32) -> Bits {
    let mut bits = Bits::dynamic(ll, d, &FOUR);
    let mut left = ll - ones;
    while left > 0 {
        let run = left.min(138);
        bits = match run {
            11.. => bits.code(ZEROS, 2).push(run - 11, 7),
            _ => (0..run).fold(bits, |bits, _| bits.code(ZERO, 2)),
        };
        left -= run;
    }
    (0..ones).fold(bits, |bits, _| bits.code(ONE, 2))
}

#[test]
fn each_bad_header_has_its_code() {
    assert_eq!(error(Bits::default().push(0b111, 3)), 13);
    assert_eq!(error(Bits::default().push(0b001, 8).push(5, 16).push(5, 16)), 14);
    assert_eq!(error(Bits::dynamic(287, 1, &FOUR)), 35);
    assert_eq!(error(Bits::dynamic(257, 31, &FOUR)), 36);
    assert_eq!(error(Bits::dynamic(257, 1, &[(0, 1), (1, 1), (2, 1)])), 8);
    // Two codes of two bits: 10 and 11 mean nothing.
    assert_eq!(error(Bits::dynamic(257, 1, &[(0, 2), (1, 2)]).code(2, 2)), 2);
    assert_eq!(error(Bits::dynamic(257, 1, &FOUR).code(AGAIN, 2)), 3);
    assert_eq!(error(zeros_then(257, 1, 1).code(AGAIN, 2)), 4);
    assert_eq!(error(zeros_then(257, 1, 0).code(ONE, 2)), 5);
    let run_beyond = |bits: Bits| bits.code(ZEROS, 2).push(127, 7);
    assert_eq!(error(run_beyond(run_beyond(Bits::dynamic(257, 20, &FOUR)))), 6);
    assert_eq!(error(run_beyond(zeros_then(257, 1, 1))), 7);
    assert_eq!(error(zeros_then(257, 1, 3).code(ZERO, 2)), 9);
    let three = (0..3).fold(zeros_then(257, 3, 1), |bits, _| bits.code(ONE, 2));
    assert_eq!(error(three), 10);
}

#[test]
fn a_header_cut_short() {
    let rig = Rig::new();
    let bytes = Bits::dynamic(257, 1, &FOUR).bytes();
    let (record, _) = rig.compress(&bytes, &inflate(bytes.len(), 64));
    assert_eq!((record.status, record.error_code), (0x0a, 1));
}

/// Literals 255 and 256 of one bit each, and one distance code.
#[test]
fn codes_that_mean_nothing() {
    let one = |bits: Bits| bits.code(ONE, 2);
    // Only the end of block has a code, 0: a 1 is none.
    assert_eq!(error(one(zeros_then(257, 1, 1)).push(0xffff, 16)), 11);
    // Length 3 has code 1, and no distance has one.
    assert_eq!(
        error(zeros_then(258, 1, 2).code(ZERO, 2).push(1, 1).push(0xffff, 16)),
        12
    );
}

fn fixed() -> Bits {
    Bits::default().push(0b011, 3)
}

#[test]
fn each_bad_token_has_its_code() {
    // Symbol 286 is 0b11000110 in fixed codes.
    assert_eq!(error(fixed().code(0b1100_0110, 8)), 16);
    // Length 3, distance symbol 30.
    assert_eq!(error(fixed().code(1, 7).code(30, 5)), 12);
    // Length 3 at distance 1 with nothing before.
    assert_eq!(error(fixed().code(1, 7).code(0, 5)), 18);
    // Distance 4097: the first that is too far, whatever was before.
    assert_eq!(error(fixed().code(0x30, 8).code(1, 7).code(24, 5).push(0, 11)), 17);
    // A literal, and then nothing.
    let rig = Rig::new();
    let bytes = fixed().code(0x30, 8).bytes();
    assert_eq!(rig.compress(&bytes, &inflate(bytes.len(), 64)).0.error_code, 15);
}
