//! Literals, lengths and distances as DEFLATE's symbols (RFC 1951, 3.2.5).

/// Symbols of literals, end of block and lengths.
pub const LL: usize = 286;
/// Symbols of distances.
pub const D: usize = 30;
/// End of block.
pub const EOB: usize = 256;
/// The longest match.
pub const MATCH_MAX: usize = 258;
/// The farthest distance that the device writes or reads.
pub const HISTORY: usize = 4096;

/// First length of each length symbol from 257, and its extra bits.
pub const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// First distance of each distance symbol, and its extra bits.
pub const DISTANCES: [(u16, u8); D] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// The order in which a header gives the lengths of its own alphabet.
pub const CL_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// What a block is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// One byte.
    Literal(u8),
    /// A copy of `length` bytes from `distance` bytes before.
    Match {
        /// 3 to 258.
        length: u16,
        /// 1 to 4096.
        distance: u16,
    },
}

fn symbol_of(table: &[(u16, u8)], value: u16) -> (usize, u32, u32) {
    let at = table.partition_point(|(first, _)| *first <= value) - 1;
    let (first, extra) = table[at];
    (at, u32::from(value - first), u32::from(extra))
}

/// The symbol of a length, its extra bits' value and their count.
pub fn length_symbol(length: u16) -> (usize, u32, u32) {
    let (at, value, count) = symbol_of(&LENGTHS, length);
    (EOB + 1 + at, value, count)
}

/// The symbol of a distance, its extra bits' value and their count.
pub fn distance_symbol(distance: u16) -> (usize, u32, u32) {
    symbol_of(&DISTANCES, distance)
}

/// Code lengths of fixed blocks, the two symbols that mean nothing included.
pub fn fixed_lengths() -> ([u8; 288], [u8; 32]) {
    let length = |symbol: usize| match symbol {
        0..144 => 8,
        144..256 => 9,
        256..280 => 7,
        _ => 8,
    };
    (std::array::from_fn(length), [5; 32])
}
