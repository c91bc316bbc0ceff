//! DECOMPRESS: reads what zlib writes with window 12, whole and in pieces.

use uzswap_iaa_model::descriptor::{Descriptor, compr, flag, opcode};
use uzswap_iaa_model::machine::{Clock, Config};
use uzswap_iaa_model::random::Random;

use crate::rig::*;

/// Written by zlib 1.2.13 with wbits -12: levels 9 and 6, many blocks, Z_FIXED, stored.
const STREAMS: [(&str, &[u8]); 6] = [
    ("a page", include_bytes!("vectors/page_text.bin")),
    ("many blocks", include_bytes!("vectors/text_blocks.bin")),
    ("fixed codes", include_bytes!("vectors/structs_fixed.bin")),
    ("far references", include_bytes!("vectors/far_references.bin")),
    ("stored", include_bytes!("vectors/stored.bin")),
    ("runs", include_bytes!("vectors/runs.bin")),
];

fn decompress<C: Clock>(rig: &Rig<C>, stream: &[u8], d: &Descriptor) -> (u8, u8, Vec<u8>) {
    let (record, output) = rig.compress(stream, d);
    (record.status, record.error_code, output)
}

#[test]
fn zlib_with_window_12() {
    for rig in [Rig::new(), Rig::generation_1()] {
        for (name, stream) in STREAMS {
            let plain = oracle(stream);
            let (record, output) = rig.compress(stream, &inflate(stream.len(), plain.len()));
            assert_eq!((record.status, record.error_code), (1, 0), "{name}");
            assert_eq!(output, plain, "{name}");
            assert_eq!((record.crc, record.xor), (crc32(&plain), xor16(&plain)), "{name}");
            assert_eq!(record.bytes_completed as usize, stream.len(), "{name}");
        }
    }
}

#[test]
fn pages_of_miniz_oxide() {
    let rig = Rig::with(Config {
        runs_cross: true,
        ..Config::default()
    });
    let mut random = Random::new(21);
    for kind in 0..200 {
        let plain = page(&mut random, kind, 4096);
        let stream = miniz_oxide::deflate::compress_to_vec(&plain, (kind % 11) as u8);
        let (status, error, output) = decompress(&rig, &stream, &inflate(stream.len(), 4096));
        assert_eq!((status, error), (1, 0));
        assert_eq!(output, plain);
    }
}

#[test]
fn distances_beyond_the_history() {
    let rig = Rig::new();
    let mut random = Random::new(8);
    let noise = page(&mut random, 9, 5000);
    let plain = [&noise[..], &noise[..600]].concat();
    let stream = miniz_oxide::deflate::compress_to_vec(&plain, 9);
    let (status, error, output) = decompress(&rig, &stream, &inflate(stream.len(), plain.len()));
    assert_eq!((status, error), (0x0a, 17));
    assert_eq!(output, plain[..output.len()]);
}

/// Only the first of several blocks is read when any end of block stops (0xf).
#[test]
fn where_to_stop() {
    let rig = Rig::new();
    let (_, stream) = STREAMS[1];
    let plain = oracle(stream);
    let with = |flags, len| codec(opcode::DECOMPRESS, flags, len, plain.len());
    let (record, first) = rig.compress(stream, &with(0xf, stream.len()));
    assert_eq!(record.status, 1);
    assert!(first.len() < plain.len() && first == plain[..first.len()]);
    assert!((record.bytes_completed as usize) < stream.len());
    let (_, _, all) = decompress(&rig, stream, &with(0x17, stream.len()));
    assert_eq!(all, plain);
    let cut = stream.len() - 40;
    assert_eq!(rig.compress(&stream[..cut], &with(0x1f, cut)).0.error_code, 15);
    let (status, _, part) = decompress(&rig, &stream[..cut], &with(0x17, cut));
    assert_eq!((status, &part[..]), (1, &plain[..part.len()]), "no CHECK: no error");
}

/// Without STOP the bits after the final block are a header, unless they are ignored.
#[test]
fn ignored_end_bits() {
    for (rig, most) in [(Rig::generation_1(), 7), (Rig::new(), 15)] {
        rig.memory.store(AECS, &fixed_aecs(true));
        for len in 1..20 {
            let plain: Vec<u8> = (0..len).map(|i| i * 13).collect();
            let d = reading(codec(opcode::COMPRESS, 0x16, plain.len(), 64), 1568);
            let (record, stream) = rig.compress(&plain, &d);
            let spare = (8 - record.output_bits as u16) % 8;
            for extra in [0, 1] {
                let stream = [&stream[..], &vec![0xff; extra]].concat();
                let bits = spare + 8 * extra as u16;
                let flags = 0x1b | (bits & 7) << 6 | (bits & 8) << 11;
                let (record, output) = rig.compress(&stream, &codec(opcode::DECOMPRESS, flags, stream.len(), 64));
                if bits > most {
                    assert_eq!(record.status, 0x30);
                } else {
                    assert_eq!((record.status, record.error_code, output), (1, 0, plain.clone()));
                }
            }
        }
    }
}

#[test]
fn verification_writes_nothing() {
    let rig = Rig::new();
    for (name, stream) in STREAMS {
        let plain = oracle(stream);
        let d = codec(opcode::DECOMPRESS, 0x21f, stream.len(), 1);
        let (record, output) = rig.compress(stream, &d);
        assert_eq!((record.status, output.len()), (1, 0), "{name}");
        assert_eq!((record.crc, record.xor), (crc32(&plain), xor16(&plain)), "{name}");
    }
}

/// Small inputs and small outputs: the AECS carries the stream from one descriptor to the next.
#[test]
fn pieces_by_the_aecs() {
    for rig in [Rig::new(), Rig::generation_1()] {
        for (i, (name, stream)) in STREAMS.iter().enumerate() {
            for seed in 0..3 {
                let plain = oracle(stream);
                let (output, crc) = in_pieces(&rig, stream, &mut Random::new(seed + 100 * i as u64));
                assert!(output == plain, "{name}, seed {seed}");
                assert_eq!(crc, crc32(&plain), "{name}, seed {seed}");
            }
        }
    }
}

fn in_pieces<C: Clock>(rig: &Rig<C>, stream: &[u8], random: &mut Random) -> (Vec<u8>, u32) {
    const LEN: u32 = 5376;
    let (mut output, mut at, mut crc) = (Vec::new(), 0, 0);
    let mut toggled = false;
    for step in 0.. {
        let len = (1 + random.below(1500) as usize).min(stream.len() - at);
        let mut d = codec(opcode::DECOMPRESS, 0x16 | 1, len, 258 + random.below(3000) as usize);
        d.flags |= flag::WRITE_ALWAYS;
        (d.src2_addr, d.src2_size) = (AECS, LEN);
        if step > 0 {
            d.flags |= flag::READ_AECS;
        }
        if toggled {
            d.flags |= flag::TOGGLE;
        }
        toggled = !toggled;
        let (record, piece) = rig.compress(&stream[at..at + len], &d);
        assert!(matches!(record.status, 1 | 0x0b), "{record:?}");
        output.extend(piece);
        at += record.bytes_completed as usize;
        crc = record.crc;
        let written = AECS + if toggled { u64::from(LEN) } else { 0 };
        let state = rig.memory.load(written + 1076, 2);
        if state == [8, 0] {
            break;
        }
    }
    assert_eq!(at, stream.len());
    (output, crc)
}

#[test]
fn overflow_without_an_aecs() {
    let rig = Rig::new();
    let (_, stream) = STREAMS[0];
    let plain = oracle(stream);
    for room in [0, 1, 100, 4095] {
        let (record, output) = rig.compress(stream, &inflate(stream.len(), room));
        assert_eq!((record.status, record.error_code), (0x0b, 0));
        assert!(output.len() <= room && output.len() + 258 > room);
        assert_eq!(output, plain[..output.len()]);
        assert_eq!(record.crc, crc32(&output));
    }
}

/// The AECS is written on overflow only, if that is what was asked for.
#[test]
fn aecs_on_overflow_only() {
    let rig = Rig::new();
    let (_, stream) = STREAMS[0];
    let plain = oracle(stream);
    let before = vec![0x77; 2 * 5376];
    rig.memory.store(AECS, &before);
    let mut d = inflate(stream.len(), plain.len());
    d.flags |= flag::WRITE_ON_OVERFLOW;
    (d.src2_addr, d.src2_size) = (AECS, 5376);
    assert_eq!(decompress(&rig, stream, &d).2, plain);
    assert_eq!(rig.memory.load(AECS, before.len()), before);
    d.max_dst_size = 2000;
    let (record, mut output) = rig.compress(stream, &d);
    assert_eq!(record.status, 0x0b);
    assert_eq!(rig.memory.load(AECS, 5376), before[..5376]);
    let rest = &stream[record.bytes_completed as usize..];
    let mut d = inflate(rest.len(), 4096);
    d.flags |= flag::WRITE_ON_OVERFLOW | flag::READ_AECS | flag::TOGGLE;
    (d.src2_addr, d.src2_size) = (AECS, 5376);
    let (record, more) = rig.compress(rest, &d);
    output.extend(more);
    assert_eq!((record.status, record.crc), (1, crc32(&plain)));
    assert_eq!(output, plain);
}

/// Data sheet A8: tables from a sample, no header in the output, the header read once.
#[test]
fn a_header_read_once_serves_many_pages() {
    for (rig, len) in [(Rig::new(), 1248), (Rig::generation_1(), 1088)] {
        let sample: Vec<u8> = (0..=255).chain(page(&mut Random::new(1), 4, 3800)).collect();
        let (compress_aecs, header) = trained(&sample);
        let setup = Descriptor {
            dst_addr: 0,
            ..writing(
                codec(opcode::DECOMPRESS, 0x201 | header.ignored << 6, header.bytes.len(), 0),
                len,
            )
        };
        rig.memory.store(SRC, &header.bytes);
        let record = rig.run(&setup);
        assert_eq!((record.status, record.error_code), (1, 0));
        let aecs = rig.memory.load(AECS, len as usize);
        assert_eq!(
            u16::from_le_bytes([aecs[1076], aecs[1077]]),
            0,
            "at a token of a block that is not the last"
        );
        for seed in 0..20 {
            let plain = page(&mut Random::new(seed), 4, 4096);
            rig.memory.store(AECS, &compress_aecs);
            let d = reading(codec(opcode::COMPRESS, 0x16, plain.len(), 8192), 1568);
            let (record, stream) = rig.compress(&plain, &d);
            assert_eq!((record.status, record.error_code), (1, 0));
            rig.memory.store(AECS, &aecs);
            let d = reading(codec(opcode::DECOMPRESS, 0xf, stream.len(), 4096), len);
            let (record, output) = rig.compress(&stream, &d);
            assert_eq!((record.status, record.crc), (1, crc32(&plain)));
            assert_eq!(output, plain);
            assert_eq!(rig.memory.load(AECS, aecs.len()), aecs);
        }
    }
}

struct Header {
    bytes: Vec<u8>,
    ignored: u16,
}

/// Two passes give tables and header; the header is taken out of the AECS.
fn trained(sample: &[u8]) -> (Vec<u8>, Header) {
    let rig = Rig::new();
    rig.memory.store(SRC, sample);
    let first = Descriptor {
        filter_flags: compr::WRITE_TABLES,
        dst_addr: 0,
        ..writing(codec(opcode::COMPRESS, 0x6012, sample.len(), 0), 1568)
    };
    assert_eq!(rig.run(&first).status, 1);
    let mut aecs = rig.memory.load(AECS, 1568);
    let bits = u32::from_le_bytes(aecs[28..32].try_into().unwrap()) as usize;
    let bytes = aecs[32..32 + bits.div_ceil(8)].to_vec();
    aecs[28..288].fill(0);
    let ignored = (8 * bytes.len() - bits) as u16;
    (aecs, Header { bytes, ignored })
}
