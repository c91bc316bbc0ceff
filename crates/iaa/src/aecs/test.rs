use super::code::{counts, first_codes};
use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

/// `stream` inflated by a library that had no part in writing it.
fn inflate(stream: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(stream).expect("a deflate stream")
}

#[test]
fn fixed_tables_are_the_data_sheets_words() {
    let tables = Tables::fixed();
    for (symbol, code) in tables.ll.iter().enumerate() {
        let i = symbol as u32;
        let expected = match i {
            0..=143 => 0x40030 + i,
            144..=255 => 0x48190 + (i - 144),
            256..=279 => 0x38000 + (i - 256),
            _ => 0x400c0 + (i - 280),
        };
        assert_eq!(code.0, expected, "symbol {symbol}");
    }
    for (symbol, code) in tables.d.iter().enumerate() {
        assert_eq!(code.0, 0x28000 + symbol as u32, "distance {symbol}");
    }
}

#[test]
fn the_fixed_aecs_has_its_words_at_the_data_sheets_offsets() {
    let aecs = CompressAecs {
        crc: 0x1234_5678,
        xor: 0xabcd,
        ..CompressAecs::fixed()
    };
    let bytes = aecs.to_bytes();
    let word = |offset: usize| u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap());
    assert_eq!(bytes.len(), 0x620);
    assert_eq!((word(0), word(4)), (0x1234_5678, 0xabcd));
    assert_eq!((word(28), bytes[32]), (3, 0x03));
    assert_eq!(
        (word(288), word(288 + 4 * 144), word(288 + 4 * 256)),
        (0x40030, 0x48190, 0x38000)
    );
    assert_eq!(word(288 + 4 * 285), 0x400c5);
    assert_eq!((word(1440), word(1440 + 4 * 29)), (0x28000, 0x2801d));
    let reserved = [8..28, 33..288, 1432..1440, 1560..1568];
    assert!(reserved.into_iter().flatten().all(|i| bytes[i] == 0));
}

#[test]
fn literals_with_fixed_tables_are_the_golden_bytes() {
    let encoded = Tables::fixed().encode_literals(Prefix::FIXED_FINAL, b"uzswap");
    assert_eq!(encoded, [0x2b, 0xad, 0x2a, 0x2e, 0x4f, 0x2c, 0x00, 0x00]);
    assert_eq!(inflate(&encoded), b"uzswap");
}

/// A histogram in which symbols are as rare as real ones: many of 0, some of thousands.
fn any_histogram() -> impl Strategy<Value = Histogram> {
    let count = prop_oneof![3 => Just(0), 3 => 1..100u32, 1 => 0..5_000_000u32, 1 => Just(u32::MAX)];
    proptest::collection::vec(count, LL_SYMBOLS + D_SYMBOLS).prop_map(|counts| Histogram {
        ll: counts[..LL_SYMBOLS].try_into().unwrap(),
        d: counts[LL_SYMBOLS..].try_into().unwrap(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn canned_tables_are_complete_and_decodable(
        histogram in any_histogram(), data in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let tables = Tables::canned(&histogram);
        let lengths = [&tables.ll_lengths()[..], &tables.d_lengths()[..]];
        for lengths in lengths {
            prop_assert_eq!(kraft(lengths), 1 << LENGTH_MAX);
            prop_assert!(lengths.iter().all(|length| (1..=LENGTH_MAX).contains(length)));
        }
        let body = tables.encode_literals(Prefix::NONE, &data);
        prop_assert_eq!(inflate(&tables.header().stream(&body)), data);
    }

    #[test]
    fn packed_numbers_are_unpacked(numbers: [u32; 15]) {
        let mut fitting = [0; 16];
        (0..15).for_each(|i| fitting[i + 1] = numbers[i] & ((1 << (i + 2)) - 1));
        prop_assert_eq!(unpack(&pack(&fitting)), fitting);
    }
}

#[test]
fn shorter_codes_go_to_more_frequent_symbols() {
    assert_eq!(limited_lengths(&[5, 0, 1, 2, 1], 15), [1, 0, 3, 2, 3]);
    // Without a limit the rarest symbol of these would have 4 bits.
    assert_eq!(limited_lengths(&[1, 1, 2, 4, 8], 15), [4, 4, 3, 2, 1]);
    assert_eq!(kraft(&limited_lengths(&[1, 1, 2, 4, 8], 3)), 1 << LENGTH_MAX);
    assert_eq!(limited_lengths(&[1, 1, 2, 4, 8], 3).iter().max(), Some(&3));
}

#[test]
fn the_limit_holds_where_fibonacci_would_break_it() {
    let mut frequencies = [1; LL_SYMBOLS];
    (2..40).for_each(|i| frequencies[i] = frequencies[i - 1] + frequencies[i - 2]);
    let lengths = limited_lengths(&frequencies, LENGTH_MAX);
    assert_eq!(lengths.iter().max(), Some(&LENGTH_MAX));
    assert_eq!(kraft(&lengths), 1 << LENGTH_MAX);
}

#[test]
fn canonical_codes_are_those_of_the_rfc() {
    // RFC 1951 3.2.2: A to H with lengths 3, 3, 3, 3, 3, 2, 4, 4.
    let codes = canonical(&[3, 3, 3, 3, 3, 2, 4, 4]);
    let values = [0b010, 0b011, 0b100, 0b101, 0b110, 0b00, 0b1110, 0b1111];
    assert_eq!(codes.map(Code::code), values);
}

/// The bits of a header, lowest first.
struct Bits<'a>(&'a Header, usize);

impl Bits<'_> {
    fn take(&mut self, count: usize) -> usize {
        let bit = |i: usize| usize::from(self.0.bytes()[i / 8] >> (i % 8) & 1);
        let value = (0..count).map(|i| bit(self.1 + i) << i).sum();
        self.1 += count;
        value
    }
}

/// How many code lengths each token of a header stands for.
fn lengths_by_token(header: &Header) -> Vec<usize> {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let mut bits = Bits(header, 0);
    assert_eq!((bits.take(3), bits.take(5), bits.take(5)), (0b101, 29, 29));
    let written = bits.take(4) + 4;
    let mut cl_lengths = [0; 19];
    for &symbol in &ORDER[..written] {
        cl_lengths[symbol] = bits.take(3) as u8;
    }
    let codes = canonical(&cl_lengths);
    let mut counts = Vec::new();
    while bits.1 < header.bits() {
        let (mut code, mut length) = (0, 0);
        let symbol = loop {
            code = code << 1 | bits.take(1) as u32;
            length += 1;
            let is_it = |found: &Code| (found.code(), found.length()) == (code, length);
            if let Some(symbol) = codes.iter().position(is_it) {
                break symbol;
            }
        };
        counts.push(if symbol == 16 { bits.take(2) + 3 } else { 1 });
    }
    assert_eq!(bits.1, header.bits());
    counts
}

#[test]
fn the_two_tables_of_a_header_share_no_repetition() {
    // The last lengths of one table are those of all the other: a run would cross.
    let mut ll = [9; LL_SYMBOLS];
    ll[..226].fill(8);
    ll[LL_SYMBOLS - 20..].fill(5);
    let counts = lengths_by_token(&Header::new(&ll, &[5; D_SYMBOLS]));
    let mut sum = 0;
    let ends: Vec<usize> = counts
        .iter()
        .map(|count| {
            sum += count;
            sum
        })
        .collect();
    assert!(ends.contains(&LL_SYMBOLS) && ends.last() == Some(&(LL_SYMBOLS + D_SYMBOLS)));
    let first_distance = ends.iter().position(|&end| end > LL_SYMBOLS).unwrap();
    assert_eq!(counts[first_distance], 1, "a length of its own");
}

#[test]
fn a_header_and_its_body_meet_within_a_byte() {
    let mut histogram = Histogram {
        ll: [0; LL_SYMBOLS],
        d: [0; D_SYMBOLS],
    };
    let mut paddings = [false; 8];
    for round in 0..64 {
        histogram.ll[round * 4] = 1000 << (round % 20);
        let tables = Tables::canned(&histogram);
        let header = tables.header();
        paddings[header.padding() as usize] = true;
        let body = tables.encode_literals(Prefix::NONE, b"header kept aside");
        assert_eq!(inflate(&header.stream(&body)), b"header kept aside");
    }
    assert!(paddings.iter().filter(|&&seen| seen).count() >= 4, "{paddings:?}");
}

#[test]
fn a_histogram_has_two_more_entries_than_symbols() {
    let mut bytes = [0; HISTOGRAM_BYTES];
    bytes[4 * 285] = 7;
    bytes[4 * 288] = 8;
    bytes[4 * (288 + 29) + 1] = 1;
    let mut histogram = Histogram::from_bytes(&bytes);
    assert_eq!((histogram.ll[285], histogram.d[0], histogram.d[29]), (7, 8, 256));
    histogram.add(&histogram.clone());
    assert_eq!(histogram.ll[285], 14);
}

#[test]
fn literals_only_has_the_data_sheets_first_lengths() {
    // The greatest number that each field holds, as the data sheet gives it for literals only.
    let all = core::array::from_fn(|length| if length == 0 { 0 } else { (1 << (length + 1)) - 1 });
    let expected = [0x07ff_ffff, 0x07ff_ffff, 0x007f_ffff, 0x07ff_ffff, 0x7fff_ffff];
    assert_eq!(pack(&all), expected);
}

#[test]
fn packed_codes_are_counts_first_codes_and_indexes() {
    let lengths = Tables::fixed().ll_lengths();
    let [num_codes, first_code, first_tbl_idx] = packed_codes(&lengths);
    let at = |dwords: &[u32; 5], length: usize| unpack(dwords)[length];
    // 24 codes of 7 bits, 150 of 8 without the two unused ones, 112 of 9.
    assert_eq!([7, 8, 9].map(|length| at(&num_codes, length)), [24, 150, 112]);
    assert_eq!([7, 8].map(|length| at(&first_code, length)), [0, 0x30]);
    assert_eq!([7, 8, 9].map(|length| at(&first_tbl_idx, length)), [0, 24, 174]);
    assert_eq!(first_codes(&counts(&lengths))[8], 0x30);
}

#[test]
fn the_state_says_whether_the_device_has_read_the_header() {
    let mut aecs = [0; 1088];
    let mut of = |number: u8| {
        aecs[1076] = number;
        DecompressState::of(&aecs)
    };
    assert_eq!(of(4), DecompressState::Symbol { is_final: true });
    assert_eq!(of(0), DecompressState::Symbol { is_final: false });
    assert_eq!((of(1), of(8)), (DecompressState::Header, DecompressState::Stopped));
    assert_eq!(of(6), DecompressState::Stored { is_final: true });
    assert_eq!(of(9), DecompressState::Unknown(9));
}

#[test]
fn sizes_are_the_data_sheets() {
    let sizes = [
        DecompressAecs::Filter,
        DecompressAecs::Format1,
        DecompressAecs::Format2,
        DecompressAecs::WithHistory,
    ];
    assert_eq!(sizes.map(DecompressAecs::bytes), [0x20, 0x440, 0x4e0, 0x1500]);
}
