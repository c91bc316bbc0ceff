use super::*;
use proptest::prelude::*;

prop_compose! {
    fn any_descriptor()(
        opcode: u8, flags in 0..=Flags::MASK, pasid in 0..=PASID_MASK, privileged: bool,
        addresses: [u64; 4], sizes: [u32; 5], int_handle: u16, operation_flags: u16,
    ) -> Descriptor {
        Descriptor {
            opcode: Opcode(opcode),
            flags: Flags(flags),
            pasid,
            privileged,
            completion_addr: addresses[0],
            src1_addr: addresses[1],
            src1_size: sizes[0],
            dst_addr: addresses[2],
            max_dst_size: sizes[1],
            src2_addr: addresses[3],
            src2_size: sizes[2],
            int_handle,
            operation_flags,
            filter_flags: sizes[3],
            num_inputs: sizes[4],
        }
    }
}

proptest! {
    #[test]
    fn a_descriptor_is_read_back_from_its_bytes(descriptor in any_descriptor()) {
        prop_assert_eq!(Descriptor::from_bytes(&descriptor.to_bytes()), Ok(descriptor));
    }

    #[test]
    fn bytes_are_either_refused_or_written_again(bytes in proptest::array::uniform32(any::<[u8; 2]>())) {
        let bytes: [u8; 64] = bytes.concat().try_into().unwrap();
        match Descriptor::from_bytes(&bytes) {
            Ok(descriptor) => prop_assert_eq!(descriptor.to_bytes(), bytes),
            Err(flaw) => prop_assert_eq!(flaw.field, "pasid"),
        }
    }
}

#[test]
fn each_field_lies_where_the_data_sheet_says() {
    let descriptor = Descriptor {
        opcode: Opcode(0x43),
        flags: Flags(0x65_4321),
        pasid: 0xf_edcb,
        privileged: true,
        completion_addr: 0x0807_0605_0403_0201,
        src1_addr: 0x1817_1615_1413_1211,
        dst_addr: 0x2827_2625_2423_2221,
        src1_size: 0x3433_3231,
        int_handle: 0x4241,
        operation_flags: 0x5251,
        src2_addr: 0x6867_6665_6463_6261,
        max_dst_size: 0x7473_7271,
        src2_size: 0x8483_8281,
        filter_flags: 0x9493_9291,
        num_inputs: 0xa4a3_a2a1,
    };
    let expected: [u8; 64] = [
        0xcb, 0xed, 0x0f, 0x80, 0x21, 0x43, 0x65, 0x43, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, //
        0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x51, 0x52, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, //
        0x71, 0x72, 0x73, 0x74, 0x81, 0x82, 0x83, 0x84, 0x91, 0x92, 0x93, 0x94, 0xa1, 0xa2, 0xa3, 0xa4, //
    ];
    assert_eq!(descriptor.to_bytes(), expected);
}

#[test]
fn a_broken_rule_is_named_with_its_value() {
    let good = Descriptor::new(Opcode::COMPRESS, 0x40).source(0x1000, 4096);
    assert_eq!(good.check(), Ok(()));
    let says = |descriptor: Descriptor| alloc::format!("{}", descriptor.check().unwrap_err());
    let record = Descriptor {
        completion_addr: 0x48,
        ..good
    };
    assert_eq!(says(record), "completion_addr is 0x48: must be a multiple of 64");
    assert_eq!(
        says(good.aecs(0x10, 1568, Flags::RD_SRC2_AECS)),
        "src2_addr is 0x10: an AECS begins at a multiple of 32"
    );
    assert_eq!(
        says(good.aecs(0x20, 1567, Flags::WR_SRC2_ALWAYS)),
        "src2_size is 0x61f: an AECS has a multiple of 32 bytes"
    );
    assert_eq!(
        says(good.flags(Flags::AECS_TOGGLE)),
        "flags is 0x40000c: the AECS toggle needs an AECS that is written"
    );
    assert_eq!(
        says(good.flags(Flags(0x40))),
        "flags is 0x4c: bits without a name must be 0"
    );
    assert_eq!(
        says(Descriptor { int_handle: 3, ..good }),
        "int_handle is 0x3: must be 0 without RCI"
    );
    let empty = Descriptor::new(Opcode::DECOMPRESS, 0);
    assert_eq!(
        says(empty),
        "src1_size is 0x0: all but NOOP and DRAIN need a size that is not 0"
    );
    assert_eq!(Descriptor::new(Opcode::NOOP, 0).check(), Ok(()));
}

#[test]
fn opcodes_keep_numbers_without_a_name() {
    assert_eq!(Opcode(0x43).name(), Some("COMPRESS"));
    assert_eq!(alloc::format!("{:?}", Opcode(0x77)), "opcode 0x77");
}
