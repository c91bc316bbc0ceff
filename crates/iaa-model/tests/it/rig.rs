//! A machine with memory and an open queue.

use std::sync::Arc;

use uzswap_iaa_model::completion::Record;
use uzswap_iaa_model::descriptor::{Descriptor, flag, opcode};
use uzswap_iaa_model::device::caps::Caps;
use uzswap_iaa_model::machine::{Clock, Config, File, Machine, Portal, Process, Real, Submission, Virtual};
use uzswap_iaa_model::memory::Regions;
use uzswap_iaa_model::random::Random;

pub const RECORDS: u64 = 0x10_0000;
pub const SRC: u64 = 0x20_0000;
pub const DST: u64 = 0x40_0000;
pub const AECS: u64 = 0x60_0000;
/// What the destination holds before.
pub const UNTOUCHED: u8 = 0xa5;
const BUFFER: usize = 0x10_0000;
pub const ME: Process = Process(100);

pub struct Rig<C: Clock> {
    pub memory: Arc<Regions>,
    pub machine: Machine<C>,
    pub portal: Portal,
    pub file: File,
    pub device: u32,
}

pub fn memory() -> Arc<Regions> {
    let memory = Arc::new(Regions::new());
    for addr in [RECORDS, SRC, DST, AECS] {
        memory.map(addr, BUFFER);
    }
    memory
}

impl Rig<Real> {
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    pub fn generation_1() -> Self {
        Self::with(Config {
            caps: Caps::generation_1(),
            ..Config::default()
        })
    }

    pub fn with(config: Config) -> Self {
        let memory = memory();
        let machine = Machine::inline(config, memory.clone());
        Self::of(memory, machine)
    }

    pub fn threads(config: Config, threads: usize) -> Self {
        let memory = memory();
        let machine = Machine::threads(config, memory.clone(), threads);
        Self::of(memory, machine)
    }
}

impl Rig<Virtual> {
    pub fn virtual_time(config: Config) -> Self {
        let memory = memory();
        let machine = Machine::<Virtual>::new(config, memory.clone());
        Self::of(memory, machine)
    }
}

impl<C: Clock> Rig<C> {
    fn of(memory: Arc<Regions>, machine: Machine<C>) -> Self {
        let device = machine.devices()[0];
        let file = machine.open(ME, device, 0).unwrap();
        let portal = file.map(ME).unwrap();
        Self {
            memory,
            machine,
            portal,
            file,
            device,
        }
    }

    pub fn record(&self, addr: u64) -> Record {
        Record::decode(&self.memory.load(addr, 64).try_into().unwrap())
    }

    pub fn status(&self, addr: u64) -> u8 {
        self.memory.load(addr, 1)[0]
    }

    /// Submit `d` with a cleared record; what the record says afterwards.
    pub fn run(&self, d: &Descriptor) -> Record {
        self.memory.store(d.completion_addr & !63, &[0; 64]);
        assert_eq!(self.portal.enqcmd(&d.encode()), Submission::Accepted);
        self.record(d.completion_addr)
    }

    /// Compress `source` from [`SRC`] to a destination that was filled before.
    pub fn compress(&self, source: &[u8], d: &Descriptor) -> (Record, Vec<u8>) {
        self.memory.store(SRC, source);
        self.memory.store(DST, &vec![UNTOUCHED; d.max_dst_size as usize + 64]);
        let record = self.run(d);
        let whole = self.memory.load(DST, d.max_dst_size as usize + 64);
        let (output, beyond) = whole.split_at(record.output_size as usize);
        assert!(
            beyond.iter().all(|byte| *byte == UNTOUCHED),
            "bytes beyond output_size changed"
        );
        (record, output.to_vec())
    }
}

/// A descriptor with a record at [`RECORDS`].
pub fn descriptor(code: u8) -> Descriptor {
    Descriptor {
        opcode: code,
        flags: flag::CRAV | flag::RCR,
        completion_addr: RECORDS,
        ..Descriptor::default()
    }
}

/// A (de)compression of `len` bytes at [`SRC`] to at most `room` bytes at [`DST`].
pub fn codec(code: u8, flags: u16, len: usize, room: usize) -> Descriptor {
    Descriptor {
        flags: flag::CRAV | flag::RCR | flag::CC,
        src1_addr: SRC,
        src1_size: len as u32,
        dst_addr: DST,
        max_dst_size: room as u32,
        operation_flags: flags,
        ..descriptor(code)
    }
}

/// A decompression that stops at the final block's end and checks for it.
pub fn inflate(len: usize, room: usize) -> Descriptor {
    codec(opcode::DECOMPRESS, 0x1f, len, room)
}

/// The compress AECS of fixed codes by data sheet A7, byte for byte; `header` has BFINAL and BTYPE.
pub fn fixed_aecs(header: bool) -> Vec<u8> {
    let mut aecs = vec![0; 1568];
    if header {
        aecs[28] = 3;
        aecs[32] = 0x03;
    }
    for i in 0..286u32 {
        let word = match i {
            0..144 => 0x40030 + i,
            144..256 => 0x48190 + (i - 144),
            256..280 => 0x38000 + (i - 256),
            _ => 0x400c0 + (i - 280),
        };
        let at = 288 + 4 * i as usize;
        aecs[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    for i in 0..30u32 {
        let at = 1440 + 4 * i as usize;
        aecs[at..at + 4].copy_from_slice(&(0x28000 + i).to_le_bytes());
    }
    aecs
}

/// With the AECS at [`AECS`] read.
pub fn reading(d: Descriptor, len: u32) -> Descriptor {
    Descriptor {
        flags: d.flags | flag::READ_AECS,
        src2_addr: AECS,
        src2_size: len,
        ..d
    }
}

/// With an AECS written at [`AECS`].
pub fn writing(d: Descriptor, len: u32) -> Descriptor {
    Descriptor {
        flags: d.flags | flag::WRITE_ALWAYS | flag::TOGGLE,
        src2_addr: AECS,
        src2_size: len,
        ..d
    }
}

/// Bytes that compress more or less, by `kind`.
pub fn page(random: &mut Random, kind: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        let fresh = random.below(10) < kind % 10;
        if fresh || bytes.len() < 8 {
            (0..=random.below(12)).for_each(|_| bytes.push((random.bits() >> (56 + kind % 8)) as u8));
        } else {
            let distance = 1 + random.below(bytes.len().min(5000) as u64) as usize;
            let from = bytes.len() - distance;
            (0..3 + random.below(80) as usize).for_each(|i| bytes.push(bytes[from + i]));
        }
    }
    bytes.truncate(len);
    bytes
}

pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1)));
    }
    !crc
}

pub fn xor16(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
    bytes.chunks(2).map(word).fold(0, |a, b| a ^ b)
}

/// What another implementation makes of a stream.
pub fn oracle(stream: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(stream).expect("miniz_oxide reads the stream")
}
