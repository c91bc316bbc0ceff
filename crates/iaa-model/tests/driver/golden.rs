//! The driver's recipes as the model reads them, and the data sheet's vector (A13).

use uzswap_iaa::aecs::{
    CompressAecs, D_SYMBOLS, DecompressAecs, DecompressState, Histogram, LL_SYMBOLS, Prefix, Tables, packed_codes,
    unpack,
};
use uzswap_iaa::buffers::{Area, Buffers, aecs_slot};
use uzswap_iaa::completion::{Completion, Direction, Status};
use uzswap_iaa::descriptor::ComprFlags;
use uzswap_iaa::outcome::Outcome;
use uzswap_iaa::recipe::{self, Job};
use uzswap_iaa::settings::CompressionMode;
use uzswap_iaa_model::completion::Record;
use uzswap_iaa_model::descriptor::{Descriptor, opcode};
use uzswap_iaa_model::device::caps::{Caps, Opcodes};
use uzswap_iaa_model::machine::{Config, Machine};

use crate::adapters::{ME, Resident};
use crate::pages::{canned_tables, crc32, page, xor16};
use crate::world::{Plan, World};

const JOB: Job = Job {
    record: 0x1000,
    source: 0x2000,
    length: 4096,
    destination: 0x4000,
    room: 4095,
};

#[test]
fn the_model_reads_what_the_driver_writes() {
    let header = canned_tables().header();
    let canned = recipe::canned_set_up(0x1000, 0x2000, &header, 0x8000, DecompressAecs::Format2);
    let descriptors = [
        (recipe::noop(0x1000), 0x0000_000c, 0),
        (recipe::fixed_compress(JOB, 0x8000), 0x4301_010c, 0x6),
        (recipe::dynamic_compress(JOB), 0x4300_010c, 0x3006),
        (recipe::decompress(JOB), 0x4200_010c, 0xf),
        (recipe::verify(0x1000, 0x2000, 1300, 0x9000), 0x4200_000c, 0x20f),
        (canned, 0x4244_010c, 0x201 | (header.padding() as u16) << 6),
        (
            recipe::canned_decompress(JOB, 0x8000, DecompressAecs::Format1),
            0x4201_010c,
            0xf,
        ),
    ];
    for (ours, word, operation_flags) in descriptors {
        let bytes = ours.to_bytes();
        assert_eq!(bytes[4..8], u32::to_le_bytes(word), "{ours:?}");
        let theirs = Descriptor::decode(&bytes);
        assert_eq!(
            (theirs.opcode, theirs.operation_flags),
            ((word >> 24) as u8, operation_flags)
        );
        assert_eq!((theirs.src1_addr, theirs.src1_size), (ours.src1_addr, ours.src1_size));
        assert_eq!(
            (theirs.dst_addr, theirs.max_dst_size),
            (ours.dst_addr, ours.max_dst_size)
        );
        assert_eq!((theirs.src2_addr, theirs.src2_size), (ours.src2_addr, ours.src2_size));
        assert_eq!((theirs.completion_addr, theirs.pasid), (0x1000, 0));
        assert_eq!((theirs.filter_flags, theirs.num_inputs, theirs.reserved), (0, 0, 0));
        assert_eq!(theirs.encode(), bytes);
    }
    assert_eq!(
        Descriptor::decode(&recipe::statistics(JOB).to_bytes()).opcode,
        opcode::COMPRESS
    );
}

#[test]
fn the_driver_reads_what_the_model_writes() {
    let record = Record {
        status: 0x83,
        error_code: 25,
        fault_info: 0b101,
        bytes_completed: 0x0102_0304,
        fault_addr: 0x1122_3344_5566_7788,
        invalid_flags: 0x0a0b_0c0d,
        output_size: 0x0506_0708,
        output_bits: 5,
        xor: 0x1234,
        crc: 0x89ab_cdef,
        crc64: 0x0001_0203_0405_0607,
    };
    let read = Completion::from_bytes(&record.encode());
    assert_eq!((read.status.0, read.error_code.0, read.fault_info), (0x83, 25, 0b101));
    assert!(read.status.is_on_write() && read.fault_address().is_none());
    assert_eq!(read.fault_operand(), 2);
    assert_eq!(
        (read.bytes_completed, read.fault_addr),
        (0x0102_0304, 0x1122_3344_5566_7788)
    );
    assert_eq!((read.invalid_flags, read.output_size), (0x0a0b_0c0d, 0x0506_0708));
    assert_eq!((read.output_bits, read.xor, read.crc), (5, 0x1234, 0x89ab_cdef));
    assert_eq!(read.crc64(), 0x0001_0203_0405_0607);
    assert_eq!(read.to_bytes(), record.encode());
}

/// All codes of one side are the other's.
#[test]
fn codes_are_the_same() {
    let errors: Vec<_> = uzswap_iaa_model::status::ErrorCode::ALL
        .iter()
        .map(|code| *code as u8)
        .collect();
    let ours: Vec<_> = uzswap_iaa::completion::ErrorCode::ALL
        .iter()
        .map(|code| code.0)
        .collect();
    assert_eq!(ours, errors);
    let known = |code: u8| Status(code).name().is_some();
    use uzswap_iaa_model::status::Status as Theirs;
    let theirs = [
        Theirs::PageFault,
        Theirs::InvalidResponse,
        Theirs::Analytics,
        Theirs::OutputOverflow,
        Theirs::UnsupportedOpcode,
        Theirs::InvalidFlags,
        Theirs::Reserved,
        Theirs::TransferSize,
        Theirs::Overlap,
        Theirs::IntHandle,
        Theirs::RecordFault,
        Theirs::RecordMisaligned,
        Theirs::AecsMisaligned,
        Theirs::Privilege,
        Theirs::TrafficClass,
        Theirs::ReadbackFault,
        Theirs::HardwareError,
        Theirs::ReadbackError,
        Theirs::Translation,
        Theirs::PageRequestTimeout,
        Theirs::Watchdog,
        Theirs::Pasid,
        Theirs::OperationFlags,
        Theirs::FilterFlags,
        Theirs::InputSize,
    ];
    assert!(theirs.iter().all(|&status| known(status as u8)));
}

/// `uzswap` as literals: the driver's AECS and descriptor, the model's stream and checksums.
#[test]
fn literals_of_uzswap() {
    let memory = Resident::new(1, 2);
    let machine = Machine::inline(Config::default(), memory.regions.clone());
    memory.write(Area::Aecs, aecs_slot::COMPRESS, 0, &CompressAecs::fixed().to_bytes());
    memory.write(Area::Buffer, 0, 0, b"uzswap");
    let job = Job {
        record: memory.address(Area::Record, 0),
        source: memory.address(Area::Buffer, 0),
        length: 6,
        destination: memory.address(Area::Buffer, 1),
        room: 4096,
    };
    let mut descriptor = recipe::fixed_compress(job, memory.address(Area::Aecs, aecs_slot::COMPRESS));
    descriptor.operation_flags |= ComprFlags::GEN_LITS.0;
    let portal = machine.open(ME, 1, 0).unwrap().map(ME).unwrap();
    portal.enqcmd(&descriptor.to_bytes());
    let mut record = [0; 64];
    memory.read(Area::Record, 0, 0, &mut record);
    let completion = Completion::from_bytes(&record);
    assert_eq!(completion.status, Status::SUCCESS);
    assert_eq!(
        (completion.output_size, completion.crc, completion.xor),
        (8, 0x5d98_9fc2, 0x7d67)
    );
    let mut stream = [0; 8];
    memory.read(Area::Buffer, 1, 0, &mut stream);
    assert_eq!(stream, [0x2b, 0xad, 0x2a, 0x2e, 0x4f, 0x2c, 0, 0]);
    assert_eq!(Tables::fixed().encode_literals(Prefix::FIXED_FINAL, b"uzswap"), stream);
    assert_eq!((crc32(b"uzswap"), xor16(b"uzswap")), (0x5d98_9fc2, 0x7d67));
    assert_eq!(page(crate::pages::Kind::Zeros, 0), [0; 4096]);
}

/// A queue is proven, whatever the settings: a NOOP has no flag but the record's.
#[test]
fn a_queue_is_proven() {
    for block_on_fault in [false, true] {
        let mut plan = Plan::default();
        plan.settings.block_on_fault = block_on_fault;
        let world = World::new(plan);
        for queue in world.queues() {
            assert_eq!(
                world.driver.probe(&queue, || world.tick()),
                Ok(()),
                "BOF {block_on_fault}"
            );
        }
    }
}

/// A queue whose op_config has no NOOP is proven by its answer, and does pages.
#[test]
fn a_queue_without_noop_is_proven() {
    let mut plan = Plan::default();
    let codecs = Opcodes::of(&[opcode::COMPRESS, opcode::DECOMPRESS]);
    plan.config.queues.iter_mut().for_each(|queue| queue.op_config = codecs);
    let world = World::new(plan);
    for queue in world.queues() {
        assert_eq!(world.driver.probe(&queue, || world.tick()), Ok(()));
    }
    let pages = [page(crate::pages::Kind::Text, 2)];
    let outcome = world
        .run(&mut world.batch(), Direction::Compress, &pages, 4095)
        .remove(0)
        .0;
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}

/// The AECS that the model writes for canned mode has the driver's arrays, of each code length that
/// occurs. Of those that do not the two say different numbers, which nobody reads.
#[test]
fn code_arrays_are_the_same() {
    let tables = canned_tables();
    let lengths = tables.ll_lengths();
    let of_length = |length: usize| lengths.iter().filter(|&&of| usize::from(of) == length).count();
    for caps in [Caps::generation_1(), Caps::generation_2()] {
        let mut plan = Plan::default();
        plan.config.caps = caps;
        plan.settings.mode = CompressionMode::Canned(Box::new(tables.clone()));
        let world = World::new(plan);
        let mut aecs = [0; 1088];
        world
            .driver
            .buffers()
            .read(Area::Aecs, aecs_slot::DECOMPRESS, 0, &mut aecs);
        assert_eq!(DecompressState::of(&aecs), DecompressState::Symbol { is_final: true });
        let array = |at: usize| {
            let dword = |i: usize| u32::from_le_bytes(aecs[at + 4 * i..at + 4 * i + 4].try_into().unwrap());
            unpack(&std::array::from_fn(dword))
        };
        let ours = packed_codes(&lengths).map(|dwords| unpack(&dwords));
        for (ours, theirs) in ours.iter().zip([500, 520, 480].map(array)) {
            for length in (1..16).filter(|&length| of_length(length) > 0) {
                assert_eq!(ours[length], theirs[length], "codes of {length} bits");
            }
        }
    }
}

/// A repetition across the two tables, which RFC 1951 allows: the driver never writes one, and the
/// model refuses it unless it is told otherwise.
#[test]
fn headers_of_the_driver_need_no_repetition_across_tables() {
    for runs_cross in [false, true] {
        let mut plan = Plan::default();
        plan.config.runs_cross = runs_cross;
        // All codes of one length but for one: the longest run there is, up to the seam.
        plan.settings.mode = CompressionMode::Canned(Box::new(Tables::canned(&Histogram {
            ll: [1; LL_SYMBOLS],
            d: [1; D_SYMBOLS],
        })));
        let world = World::new(plan);
        let pages = [page(crate::pages::Kind::Structured, 2)];
        let outcome = world
            .run(&mut world.batch(), Direction::Compress, &pages, 4096)
            .remove(0)
            .0;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
}
