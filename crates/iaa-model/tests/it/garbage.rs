//! Whatever the bytes are, a descriptor has one outcome, and nothing changes that must not.

use uzswap_iaa_model::aecs::{CompressAecs, DecompressAecs, Position};
use uzswap_iaa_model::descriptor::{Descriptor, flag, opcode};
use uzswap_iaa_model::device::caps::Caps;
use uzswap_iaa_model::random::Random;

use crate::rig::*;

/// Change up to `most` bytes, each by one bit or to anything.
fn spoil(bytes: &mut [u8], random: &mut Random, most: u64) {
    for _ in 0..random.below(most + 1) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(2) {
            0 => bytes[at] ^= 1 << random.below(8),
            _ => bytes[at] = random.bits() as u8,
        }
    }
}

#[test]
fn spoiled_streams_get_a_code() {
    let rig = Rig::new();
    let mut random = Random::new(31);
    let mut codes = std::collections::BTreeSet::new();
    for kind in 0..1500 {
        let plain = page(&mut random, kind, 300);
        let mut stream = match kind % 4 {
            0 => (0..100).map(|_| random.bits() as u8).collect(),
            level => miniz_oxide::deflate::compress_to_vec(&plain, 3 * level as u8),
        };
        spoil(&mut stream, &mut random, 3);
        let room = random.below(600) as usize;
        let (record, output) = rig.compress(&stream, &inflate(stream.len(), room));
        assert!(matches!(record.status, 0x01 | 0x0a | 0x0b), "{record:?}");
        assert_eq!(record.error_code != 0, record.status == 0x0a);
        assert!(record.bytes_completed as usize <= stream.len());
        codes.insert(record.error_code);
        let whole = miniz_oxide::inflate::decompress_to_vec(&stream);
        if let (0x01, Ok(whole)) = (record.status, whole) {
            assert_eq!(output, whole);
        }
    }
    assert!(codes.len() > 12, "{codes:?}");
}

#[test]
fn random_descriptors_get_a_status() {
    let rig = Rig::new();
    let mut random = Random::new(32);
    let mut statuses = std::collections::BTreeSet::new();
    rig.memory.store(SRC, &page(&mut random, 3, 4096));
    for i in 0..20_000u64 {
        rig.memory.store(AECS, &fixed_aecs(i % 3 > 0));
        let code = [
            opcode::COMPRESS,
            opcode::DECOMPRESS,
            opcode::MEMMOVE,
            opcode::CRC64,
            opcode::NOOP,
        ][i as usize % 5];
        let mut d = reading(codec(code, 0x6, 200, 1000), 1568);
        if i % 5 > 1 {
            d = descriptor(code);
        }
        let mut raw = d.encode();
        spoil(&mut raw, &mut random, 4);
        rig.memory.store(RECORDS, &[0; 64]);
        rig.portal.enqcmd(&raw);
        let d = Descriptor::decode(&raw);
        let told = d.has(flag::CRAV | flag::RCR) && d.completion_addr == RECORDS;
        assert!(!told || rig.status(RECORDS) != 0, "{d:?}");
        statuses.insert(rig.status(RECORDS));
    }
    let counters = rig.machine.counters();
    assert!(counters.is_valid() && counters.accepted == 20_000, "{counters:?}");
    assert_eq!(counters.in_flight, 0);
    for expected in [0x01, 0x03, 0x10, 0x11, 0x12, 0x13, 0x16, 0x1c, 0x30] {
        assert!(statuses.contains(&expected), "{expected:#x} is not among {statuses:x?}");
    }
}

#[test]
fn decompress_aecs() {
    let caps = Caps::generation_2();
    let rig = Rig::new();
    let mut random = Random::new(33);
    let lengths = ([8; 288], [5; 32]);
    let mut ll = lengths.0;
    ll[256..].fill(0);
    ll[255] = 9;
    ll[256] = 9;
    for i in 0..1500 {
        let token = i % 2 == 0;
        let is_final = i % 4 < 2;
        let aecs = DecompressAecs {
            input: vec![0xd3, 0xd3, 0xd3, 0xd3, 0x13],
            input_bits: 37,
            position: match token {
                true => Position::Token { is_final },
                false => Position::Stored { is_final, left: 50 },
            },
            lengths: token.then(|| Box::new((ll, lengths.1))),
            history: (0..500).map(|i| i as u8).collect(),
            ..DecompressAecs::default()
        };
        let mut bytes = aecs.encode(5376, &caps).unwrap();
        assert_eq!(DecompressAecs::decode(&bytes, &caps), Ok(aecs));
        spoil(&mut bytes[..1256], &mut random, 3);
        rig.memory.store(AECS, &bytes);
        let source: Vec<_> = (0..60).map(|_| random.bits() as u8).collect();
        let mut d = reading(codec(opcode::DECOMPRESS, 0x17, source.len(), 500), 5376);
        d.flags |= flag::WRITE_ALWAYS;
        let (record, _) = rig.compress(&source, &d);
        assert!(matches!(record.status, 0x01 | 0x0a | 0x0b), "{record:?}");
    }
}

#[test]
fn compress_aecs() {
    let rig = Rig::new();
    let mut random = Random::new(34);
    for _ in 0..1500 {
        let mut bytes = fixed_aecs(true);
        spoil(&mut bytes, &mut random, 3);
        if let Ok(aecs) = CompressAecs::decode(&bytes) {
            let again = CompressAecs::decode(&aecs.encode(1568).unwrap()).unwrap();
            assert_eq!(again, aecs);
        }
        rig.memory.store(AECS, &bytes);
        let (record, _) = rig.compress(b"some bytes", &reading(codec(opcode::COMPRESS, 0x6, 10, 64), 1568));
        assert!(
            record.status == 1 || [22, 25, 30].contains(&record.error_code),
            "{record:?}"
        );
    }
}
