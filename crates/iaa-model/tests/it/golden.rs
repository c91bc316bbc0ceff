//! Data sheet A13's golden words, byte for byte.

use uzswap_iaa_model::descriptor::{Descriptor, opcode};

use crate::rig::*;

#[test]
fn words_at_offset_4() {
    let word = |flags, code| {
        let d = Descriptor {
            flags,
            opcode: code,
            ..Descriptor::default()
        };
        let bytes = d.encode();
        u32::from_le_bytes(bytes[4..8].try_into().unwrap())
    };
    assert_eq!(word(0x1010c, opcode::COMPRESS), 0x4301_010c);
    assert_eq!(word(0x10c, opcode::DECOMPRESS), 0x4200_010c);
    assert_eq!(word(0xc, opcode::NOOP), 0x0000_000c);
    assert_eq!(word(0x44_010c, opcode::DECOMPRESS), 0x4244_010c);
}

#[test]
fn each_field_has_its_place() {
    let bytes: [u8; 64] = std::array::from_fn(|i| i as u8 + 0x41);
    let d = Descriptor::decode(&bytes);
    assert_eq!((d.flags, d.opcode), (0x47_4645, 0x48));
    assert_eq!(d.pasid, 0x4_4342 << 8 & 0xf_ffff | 0x41);
    assert_eq!(d.completion_addr, 0x504f_4e4d_4c4b_4a49);
    assert_eq!(d.src1_addr, 0x5857_5655_5453_5251);
    assert_eq!(d.dst_addr, 0x605f_5e5d_5c5b_5a59);
    assert_eq!(
        (d.src1_size, d.int_handle, d.operation_flags),
        (0x6463_6261, 0x6665, 0x6867)
    );
    assert_eq!(d.src2_addr, 0x706f_6e6d_6c6b_6a69);
    assert_eq!((d.max_dst_size, d.src2_size), (0x7473_7271, 0x7877_7675));
    assert_eq!((d.filter_flags, d.num_inputs), (0x7c7b_7a79, 0x807f_7e7d));
    assert_eq!(d.encode(), bytes);
}

/// The descriptor, the AECS and the record are bytes here, at the offsets of A5, A6 and A7.
#[test]
fn literals_of_uzswap() {
    let rig = Rig::new();
    rig.memory.store(SRC, b"uzswap");
    rig.memory.store(AECS, &fixed_aecs(true));
    let mut d = [0u8; 64];
    d[4..8].copy_from_slice(&0x4301_010cu32.to_le_bytes());
    d[8..16].copy_from_slice(&RECORDS.to_le_bytes());
    d[16..24].copy_from_slice(&SRC.to_le_bytes());
    d[24..32].copy_from_slice(&DST.to_le_bytes());
    d[32..36].copy_from_slice(&6u32.to_le_bytes());
    d[38..40].copy_from_slice(&0x16u16.to_le_bytes());
    d[40..48].copy_from_slice(&AECS.to_le_bytes());
    d[48..52].copy_from_slice(&4096u32.to_le_bytes());
    d[52..56].copy_from_slice(&1568u32.to_le_bytes());
    rig.portal.enqcmd(&d);
    let record = rig.memory.load(RECORDS, 64);
    assert_eq!((record[0], record[1]), (0x01, 0), "status and error_code");
    assert_eq!(record[4..8], 6u32.to_le_bytes(), "bytes_completed");
    assert_eq!(record[24..28], 8u32.to_le_bytes(), "output_size");
    assert_eq!(record[28], 2, "58 bits: two in the last byte");
    assert_eq!(record[30..32], 0x7d67u16.to_le_bytes(), "xor");
    assert_eq!(record[32..36], 0x5d98_9fc2u32.to_le_bytes(), "crc");
    assert_eq!(
        rig.memory.load(DST, 9),
        [0x2b, 0xad, 0x2a, 0x2e, 0x4f, 0x2c, 0x00, 0x00, 0x00]
    );
    assert_eq!(oracle(&rig.memory.load(DST, 8)), b"uzswap");
}
