//! What is refused, with which status, and in which order.

use uzswap_iaa_model::descriptor::{Descriptor, flag, opcode};
use uzswap_iaa_model::device::QueueConfig;
use uzswap_iaa_model::device::caps::Caps;
use uzswap_iaa_model::machine::Config;
use uzswap_iaa_model::memory::Protection;

use crate::rig::*;

fn good() -> Descriptor {
    reading(codec(opcode::COMPRESS, 0x6, 100, 4096), 1568)
}

fn status(change: impl Fn(&mut Descriptor)) -> u8 {
    let rig = Rig::new();
    rig.memory.store(AECS, &fixed_aecs(true));
    let mut d = good();
    change(&mut d);
    rig.run(&d).status
}

#[test]
fn each_refusal() {
    assert_eq!(status(|_| {}), 0x01);
    for code in [0x01, 0x0a, 0x40, 0x41, 0x48, 0x4c, 0x50, 0x56, 0xff] {
        assert_eq!(status(|d| d.opcode = code), 0x10, "opcode {code:#x}");
    }
    for bits in [
        flag::FENCE,
        0x40,
        flag::DRDBK,
        flag::STORD,
        0x80_0000,
        0xc_0000,
        flag::TOGGLE,
        flag::READ_SECOND,
    ] {
        assert_eq!(status(|d| d.flags |= bits), 0x11, "flags {bits:#x}");
    }
    assert_eq!(status(|d| d.reserved = 1), 0x12);
    assert_eq!(status(|d| d.int_handle = 1), 0x12);
    assert_eq!(status(|d| d.num_inputs = 1), 0x12);
    assert_eq!(status(|d| (d.flags, d.int_handle) = (d.flags | flag::RCI, 3)), 0x19);
    for flags in [0x20, 0x40, 0x400, 0x1006, 0x4006, 0x5006, 0x8006] {
        assert_eq!(status(|d| d.operation_flags = flags), 0x30, "compr_flags {flags:#x}");
    }
    assert_eq!(status(|d| d.filter_flags = 2), 0x30);
    let decompress = |d: &mut Descriptor| {
        (d.opcode, d.operation_flags) = (opcode::DECOMPRESS, 0x1f);
        d.flags &= !flag::READ_AECS;
        (d.src2_addr, d.src2_size) = (0, 0);
    };
    for flags in [0, 0x1e, 0x3f, 0x41f | 0x20, 0x801f] {
        assert_eq!(
            status(|d| {
                decompress(d);
                d.operation_flags = flags
            }),
            0x30,
            "decompr_flags {flags:#x}"
        );
    }
    assert_eq!(
        status(|d| {
            decompress(d);
            d.filter_flags = 1
        }),
        0x31
    );
    assert_eq!(status(|d| d.src1_size = (2 << 20) + 1), 0x13);
    assert_eq!(status(|d| d.max_dst_size = (2 << 20) + 1), 0x13);
    assert_eq!(
        status(|d| {
            decompress(d);
            (d.src1_size, d.max_dst_size) = (0, 0)
        }),
        0x32
    );
    assert_eq!(status(|d| (d.operation_flags, d.src1_size) = (0x3006, 4097)), 0x32);
    assert_eq!(status(|d| d.src2_addr += 16), 0x1c);
    assert_eq!(status(|d| d.src2_size += 16), 0x1c);
    assert_eq!(status(|d| d.src2_size = 0), 0x1c);
    assert_eq!(status(|d| d.dst_addr = d.src1_addr + 99), 0x16);
    assert_eq!(status(|d| d.dst_addr = d.src2_addr), 0x16);
    assert_eq!(status(|d| d.dst_addr = d.completion_addr), 0x16);
}

#[test]
fn the_earlier_check_wins() {
    let worst = |d: &mut Descriptor| {
        d.opcode = 0x50;
        d.flags |= flag::FENCE;
        d.reserved = 1;
        d.operation_flags = 0x8006;
        d.src1_size = u32::MAX;
        d.src2_addr += 16;
        d.dst_addr = d.completion_addr;
    };
    type Repair = fn(&mut Descriptor);
    let repairs: [(u8, Repair); 7] = [
        (0x10, |d| d.opcode = opcode::COMPRESS),
        (0x11, |d| d.flags &= !flag::FENCE),
        (0x12, |d| d.reserved = 0),
        (0x30, |d| d.operation_flags = 6),
        (0x13, |d| d.src1_size = 100),
        (0x1c, |d| d.src2_addr -= 16),
        (0x16, |d| d.dst_addr = DST),
    ];
    for (i, (expected, _)) in repairs.iter().enumerate() {
        let seen = status(|d| {
            worst(d);
            repairs[..i].iter().for_each(|(_, repair)| repair(d));
        });
        assert_eq!(seen, *expected);
    }
}

#[test]
fn illegal_flags_are_named() {
    let rig = Rig::new();
    let mut d = good();
    d.flags |= flag::FENCE | flag::STORD;
    assert_eq!(rig.run(&d).invalid_flags, flag::FENCE | flag::STORD);
}

/// No record can be written there: the error is latched instead.
#[test]
fn a_misaligned_record() {
    let rig = Rig::new();
    let mut d = descriptor(opcode::NOOP);
    d.completion_addr += 32;
    rig.portal.enqcmd(&d.encode());
    assert_eq!(rig.memory.load(RECORDS, 128), [0; 128]);
    let first = rig.machine.read64(rig.device, 0xc0);
    assert_eq!((first & 0xff0f, first >> 8 & 0xff), (0x1b0d, 0x1b));
    assert_eq!(rig.machine.read64(rig.device, 0xd0), RECORDS + 32);
    assert_eq!(rig.file.poll(ME), Ok(true));
    assert_eq!(rig.machine.counters().unrecorded, 1);
    assert_eq!(
        rig.file.write(ME, &[d.encode()]),
        Err(uzswap_iaa_model::machine::Errno::Invalid)
    );
    rig.machine.write64(rig.device, 0xc0, 1);
    assert_eq!(rig.file.poll(ME), Ok(false));
}

#[test]
fn a_queue_that_may_not_block() {
    let caps = Caps::generation_2();
    let queue = QueueConfig {
        block_on_fault: false,
        ..QueueConfig::user(16, &caps)
    };
    let rig = Rig::with(Config {
        queues: vec![queue],
        ..Config::default()
    });
    rig.memory.store(AECS, &fixed_aecs(true));
    let mut d = good();
    assert_eq!(rig.run(&d).status, 1);
    d.flags |= flag::BOF;
    assert_eq!(rig.run(&d).status, 0x11);
}

/// Each buffer, read or written, with and without BOF; the page that comes when it is touched.
#[test]
fn page_faults() {
    let rig = Rig::new();
    rig.memory.store(AECS, &fixed_aecs(true));
    let buffers = [(SRC, false, 1), (DST, true, 2), (AECS, false, 3)];
    for (addr, write, operand) in buffers {
        for (bof, expected) in [(0, 0x03), (flag::BOF, 0x04)] {
            let mut d = good();
            d.flags |= bof;
            rig.memory.protect(addr, 4096, Protection::Absent);
            let record = rig.run(&d);
            assert_eq!(record.status, expected | if write { 0x80 } else { 0 });
            assert_eq!((record.fault_addr, record.fault_info), (addr, operand << 1));
            rig.memory.protect(addr, 4096, Protection::UntilTouched);
            if bof == 0 {
                assert_eq!(rig.run(&d).fault_addr, addr);
                rig.memory.touch(addr);
            }
            assert_eq!(rig.run(&d).status, 1, "the page is there now");
        }
    }
    rig.memory.protect(DST, 4096, Protection::ReadOnly);
    assert_eq!(rig.run(&good()).status, 0x83);
}

/// A second page that faults: the address is that of its first byte.
#[test]
fn a_fault_in_the_middle() {
    let rig = Rig::new();
    rig.memory.protect(SRC + 4096, 4096, Protection::Absent);
    let d = Descriptor {
        src1_addr: SRC + 100,
        src1_size: 8000,
        dst_addr: DST,
        ..descriptor(opcode::MEMMOVE)
    };
    let record = rig.run(&d);
    assert_eq!((record.status, record.fault_addr), (0x03, SRC + 4096));
}
