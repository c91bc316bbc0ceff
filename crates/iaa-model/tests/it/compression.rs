//! COMPRESS: whatever it writes, another inflater reads.

use uzswap_iaa_model::descriptor::{Descriptor, compr, flag, opcode};
use uzswap_iaa_model::random::Random;

use crate::rig::*;

/// Fixed codes have at most 9 bits for a literal.
fn room(page: &[u8]) -> usize {
    2 * page.len() + 512
}

/// Pages of all kinds, an empty one among them.
fn pages() -> Vec<Vec<u8>> {
    let mut random = Random::new(11);
    let mut pages: Vec<_> = (0..60)
        .map(|kind| {
            let len = [4096, 1, 2, 3, 257, 4095, 65536, 9000][kind as usize % 8];
            page(&mut random, kind, len)
        })
        .collect();
    pages.extend([
        vec![],
        vec![0; 4096],
        vec![0; 70_000],
        (0..=255).cycle().take(20_000).collect(),
    ]);
    pages
}

#[test]
fn fixed_codes() {
    let rig = Rig::new();
    let aecs = fixed_aecs(true);
    rig.memory.store(AECS, &aecs);
    for page in pages() {
        for literals in [0, compr::GEN_LITS] {
            let d = reading(codec(opcode::COMPRESS, 0x6 | literals, page.len(), room(&page)), 1568);
            let (record, output) = rig.compress(&page, &d);
            assert_eq!(record.status, 1);
            assert_eq!((record.crc, record.xor), (crc32(&page), xor16(&page)));
            assert_eq!(record.bytes_completed as usize, page.len());
            assert_eq!(oracle(&output), page);
            assert_eq!(
                rig.memory.load(AECS, 1568),
                aecs,
                "the AECS changed without the write flag"
            );
        }
    }
}

#[test]
fn headers_in_one_pass() {
    let rig = Rig::new();
    let (mut dynamic, mut fixed) = (0, 0);
    rig.memory.store(AECS, &fixed_aecs(true));
    for page in pages().into_iter().filter(|page| page.len() <= 4096) {
        let d = codec(opcode::COMPRESS, 0x3006, page.len(), room(&page));
        let (record, output) = rig.compress(&page, &d);
        assert_eq!((record.status, record.crc), (1, crc32(&page)));
        assert_eq!(oracle(&output), page);
        dynamic += output.len();
        let d = reading(codec(opcode::COMPRESS, 0x6, page.len(), room(&page)), 1568);
        fixed += rig.compress(&page, &d).1.len();
    }
    assert!(
        dynamic < fixed,
        "{dynamic} bytes with headers of their own, {fixed} with fixed codes"
    );
}

#[test]
fn headers_in_two_passes() {
    let rig = Rig::new();
    for page in pages() {
        let first = Descriptor {
            filter_flags: compr::WRITE_TABLES,
            dst_addr: 0,
            ..writing(codec(opcode::COMPRESS, 0x7002, page.len(), 0), 1568)
        };
        rig.memory.store(SRC, &page);
        if page.is_empty() {
            continue;
        }
        let record = rig.run(&first);
        assert_eq!((record.status, record.output_size), (1, 0));
        assert_eq!(record.crc, crc32(&page));
        let second = reading(codec(opcode::COMPRESS, 0x6, page.len(), room(&page)), 1568);
        let (record, output) = rig.compress(&page, &second);
        assert_eq!((record.status, record.crc), (1, crc32(&page)));
        assert_eq!(oracle(&output), page);
    }
}

#[test]
fn ends_of_block() {
    let rig = Rig::new();
    let mut aecs = fixed_aecs(true);
    aecs[32] = 0x02; // a block that is not the last
    rig.memory.store(AECS, &aecs);
    let (_, ended) = rig.compress(b"abcabcabcabc", &reading(codec(opcode::COMPRESS, 0xe, 12, 64), 1568));
    assert_eq!(oracle(&ended), b"abcabcabcabc");
    assert_eq!(ended[ended.len() - 4..], [0, 0, 0xff, 0xff]);
    let (_, open) = rig.compress(b"abcabcabcabc", &reading(codec(opcode::COMPRESS, 0xa, 12, 64), 1568));
    let joined = [&open[..], &ended].concat();
    assert_eq!(oracle(&joined), b"abcabcabcabcabcabcabcabc");
}

/// Two descriptors write one stream: the AECS carries bits and checksums from the first.
#[test]
fn bits_wait_in_the_aecs() {
    let rig = Rig::new();
    let whole = page(&mut Random::new(3), 5, 4096);
    rig.memory.store(AECS, &fixed_aecs(true));
    let flags = flag::WRITE_ALWAYS;
    let mut first = reading(codec(opcode::COMPRESS, 0, 1001, 4096), 1568);
    first.flags |= flags;
    let (record, mut stream) = rig.compress(&whole[..1001], &first);
    assert_eq!(record.crc, crc32(&whole[..1001]));
    assert_eq!(
        rig.memory.load(AECS, 1568),
        fixed_aecs(true),
        "the first copy is the one that is read"
    );
    let mut second = reading(codec(opcode::COMPRESS, 0x6, whole.len() - 1001, 4096), 1568);
    second.flags |= flags | flag::TOGGLE;
    let (record, rest) = rig.compress(&whole[1001..], &second);
    stream.extend(rest);
    assert_eq!(record.crc, crc32(&whole));
    assert_eq!(oracle(&stream), whole);
}

#[test]
fn statistics_have_a_distance_for_each_length() {
    let rig = Rig::new();
    for page in pages().into_iter().filter(|page| !page.is_empty()) {
        let d = codec(opcode::COMPRESS, 0x1, page.len(), 1280);
        let (record, output) = rig.compress(&page, &d);
        assert_eq!((record.status, record.output_size), (1, 1280));
        let words: Vec<_> = output
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let (ll, d) = (&words[..286], &words[288..318]);
        assert_eq!(
            ll[257..].iter().sum::<u32>(),
            d.iter().sum::<u32>(),
            "a distance for each length"
        );
        assert_eq!(
            (ll[256], words[286], words[287], words[318], words[319]),
            (0, 0, 0, 0, 0)
        );
    }
    let literals = codec(opcode::COMPRESS, 0x11, 6, 1280);
    let (_, output) = rig.compress(b"aabbbb", &literals);
    assert_eq!((output[4 * 97], output[4 * 98]), (2, 4));
}

#[test]
fn what_does_not_fit() {
    let rig = Rig::new();
    let mut random = Random::new(4);
    let noise: Vec<_> = (0..4096).map(|_| random.bits() as u8).collect();
    rig.memory.store(AECS, &fixed_aecs(true));
    for room in [0, 1, 100, 2000] {
        let (record, output) = rig.compress(&noise, &reading(codec(opcode::COMPRESS, 0x6, 4096, room), 1568));
        assert_eq!((record.status, record.error_code), (0x0a, 25));
        assert_eq!(output.len(), room);
    }
}

#[test]
fn symbols_without_codes() {
    let rig = Rig::new();
    let mut aecs = fixed_aecs(true);
    aecs[288 + 4 * 97..][..4].fill(0);
    rig.memory.store(AECS, &aecs);
    let d = reading(codec(opcode::COMPRESS, 0x6, 3, 64), 1568);
    assert_eq!(rig.compress(b"bcd", &d).0.status, 1);
    let (record, output) = rig.compress(b"bad", &d);
    assert_eq!((record.status, record.error_code, output.len()), (0x0a, 30, 0));
}

#[test]
fn an_aecs_that_is_none() {
    let rig = Rig::new();
    let spoil: [(usize, u8); 5] = [(29, 0xff), (8, 1), (1432, 1), (289, 0x7f), (291, 0xff)];
    for (at, value) in spoil {
        let mut aecs = fixed_aecs(true);
        aecs[at] = value;
        rig.memory.store(AECS, &aecs);
        let d = reading(codec(opcode::COMPRESS, 0x6, 3, 64), 1568);
        assert_eq!(rig.compress(b"abc", &d).0.error_code, 22, "byte {at}");
    }
    let short = reading(codec(opcode::COMPRESS, 0x6, 3, 64), 1536);
    assert_eq!(rig.compress(b"abc", &short).0.error_code, 22);
}

#[test]
fn castagnoli_and_seeds() {
    let rig = Rig::new();
    let mut aecs = fixed_aecs(true);
    let seed = crc32(b"1234");
    aecs[..4].copy_from_slice(&seed.to_le_bytes());
    aecs[4..6].copy_from_slice(&0xabcdu16.to_le_bytes());
    rig.memory.store(AECS, &aecs);
    let mut d = reading(codec(opcode::COMPRESS, 0x6, 5, 64), 1568);
    let (record, _) = rig.compress(b"56789", &d);
    assert_eq!((record.crc, record.xor), (0xcbf4_3926, 0xabcd ^ xor16(b"56789")));
    rig.memory.store(AECS, &fixed_aecs(true));
    d.flags |= flag::CRC32C;
    d.src1_size = 9;
    assert_eq!(rig.compress(b"123456789", &d).0.crc, 0xe306_9283);
}

#[test]
fn memmove_and_crc64() {
    let rig = Rig::new();
    rig.memory.store(SRC, b"123456789");
    let d = Descriptor {
        src1_addr: SRC,
        src1_size: 9,
        dst_addr: SRC + 4,
        ..descriptor(opcode::MEMMOVE)
    };
    assert_eq!(rig.run(&d).status, 1);
    assert_eq!(rig.memory.load(SRC, 14), b"1234123456789\0");
    rig.memory.store(SRC, b"123456789");
    let d = Descriptor {
        src1_addr: SRC,
        src1_size: 9,
        operation_flags: 0x8000,
        filter_flags: 0xa9ea_3693,
        num_inputs: 0x42f0_e1eb,
        ..descriptor(opcode::CRC64)
    };
    assert_eq!(rig.run(&d).crc64, 0x6c40_df5f_0b49_7347);
    assert_eq!(
        rig.memory.load(RECORDS + 40, 4),
        0x0b49_7347u32.to_le_bytes(),
        "the low word comes first"
    );
}

/// The match finder is greedy, as zlib's is at level 3: with the same window their sizes are alike.
#[test]
fn sizes_beside_those_of_zlib() {
    let rig = Rig::new();
    rig.memory.store(AECS, &fixed_aecs(true));
    let plain = oracle(include_bytes!("vectors/structs_fixed.bin"));
    let d = reading(codec(opcode::COMPRESS, 0x6, plain.len(), room(&plain)), 1568);
    let fixed = rig.compress(&plain, &d).1.len();
    assert!(
        (3900..4300).contains(&fixed),
        "{fixed}: zlib's Z_FIXED makes 4061 of it"
    );
    let plain = oracle(include_bytes!("vectors/page_text.bin"));
    let d = codec(opcode::COMPRESS, 0x3006, plain.len(), room(&plain));
    let dynamic = rig.compress(&plain, &d).1.len();
    assert!(
        (1600..1750).contains(&dynamic),
        "{dynamic}: zlib's level 1 makes 1705 of it"
    );
}
