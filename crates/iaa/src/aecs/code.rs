//! Canonical Huffman codes of deflate, at most 15 bits long, and the words that hold them (data
//! sheet A7, RFC 1951 3.2.2).

use alloc::vec::Vec;

/// The longest code that deflate and the table words can hold, in bits.
pub const LENGTH_MAX: u8 = 15;

const LENGTH_SHIFT: u32 = 15;
const CODE_MASK: u32 = 0x7fff;

/// A symbol's code in an AECS table: its value in bits 14:0, its length in bits 18:15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// The code of `length` bits whose value is `code`, highest bit first as in RFC 1951.
    #[must_use]
    pub const fn new(code: u32, length: u8) -> Self {
        assert!(length <= LENGTH_MAX, "a code has at most 15 bits");
        assert!(code >> length == 0, "a code is shorter than its length");
        Self((length as u32) << LENGTH_SHIFT | code)
    }

    /// The value.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.0 & CODE_MASK
    }

    /// The length in bits; 0: the symbol has no code.
    #[must_use]
    pub const fn length(self) -> u8 {
        (self.0 >> LENGTH_SHIFT & 0xf) as u8
    }
}

/// Room that codes of these lengths take of all codes of 15 bits: at most 2^15, equal if complete.
#[must_use]
pub fn kraft(lengths: &[u8]) -> u32 {
    let used = lengths.iter().filter(|&&length| length != 0);
    used.map(|&length| 1 << (LENGTH_MAX - length)).sum()
}

/// How many codes there are of each length; those of length 0 are not counted.
#[must_use]
pub fn counts(lengths: &[u8]) -> [u32; 16] {
    let mut counts = [0; 16];
    lengths.iter().for_each(|&length| counts[usize::from(length)] += 1);
    counts[0] = 0;
    counts
}

/// The first code of each length.
#[must_use]
pub fn first_codes(counts: &[u32; 16]) -> [u32; 16] {
    let mut first = [0; 16];
    for length in 1..16 {
        first[length] = (first[length - 1] + counts[length - 1]) << 1;
    }
    first
}

/// The canonical codes of symbols with these lengths, in the order of symbols.
///
/// # Panics
/// There are more codes than fit.
#[must_use]
pub fn canonical<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    assert!(kraft(lengths) <= 1 << LENGTH_MAX, "the codes are over-subscribed");
    let mut next = first_codes(&counts(lengths));
    lengths.map(|length| {
        if length == 0 {
            return Code::default();
        }
        let code = next[usize::from(length)];
        next[usize::from(length)] += 1;
        Code::new(code, length)
    })
}

/// A coin of the package-merge algorithm: a weight, and the symbols that pay it.
#[derive(Clone)]
struct Coin {
    weight: u64,
    symbols: Vec<u16>,
}

/// Lengths of a best code for symbols of these frequencies, none longer than `limit`. A symbol of
/// frequency 0 gets length 0.
///
/// It is the package-merge algorithm of Larmore and Hirschberg. It runs once a table, so it is
/// written to be read.
///
/// # Panics
/// There are fewer than two symbols, or more than `limit` bits can tell apart.
#[must_use]
pub fn limited_lengths<const N: usize>(frequencies: &[u32; N], limit: u8) -> [u8; N] {
    let coin = |(symbol, &frequency): (usize, &u32)| Coin {
        weight: u64::from(frequency),
        symbols: Vec::from([symbol as u16]),
    };
    let used = frequencies.iter().enumerate().filter(|&(_, &frequency)| frequency != 0);
    let mut leaves: Vec<Coin> = used.map(coin).collect();
    assert!(leaves.len() >= 2, "{} symbols need no code", leaves.len());
    assert!(
        limit <= LENGTH_MAX && leaves.len() <= 1 << limit,
        "{} symbols do not fit {limit} bits",
        leaves.len()
    );
    leaves.sort_by_key(|coin| coin.weight);
    let mut coins = leaves.clone();
    for _ in 1..limit {
        let pair = |pair: &[Coin]| Coin {
            weight: pair[0].weight + pair[1].weight,
            symbols: [&pair[0].symbols[..], &pair[1].symbols[..]].concat(),
        };
        let mut merged: Vec<Coin> = coins.chunks_exact(2).map(pair).collect();
        merged.extend_from_slice(&leaves);
        merged.sort_by_key(|coin| coin.weight);
        coins = merged;
    }
    let mut lengths = [0; N];
    let bought = coins.iter().take(2 * leaves.len() - 2);
    bought
        .flat_map(|coin| &coin.symbols)
        .for_each(|&symbol| lengths[usize::from(symbol)] += 1);
    lengths
}
