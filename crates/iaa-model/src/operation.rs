//! What an engine does with a descriptor that was taken from a queue.
//!
//! An operation reads memory at once. What it writes is kept as [`Effects`] until the descriptor
//! completes, so that one which is aborted before leaves nothing behind.

use crate::aecs::{CompressAecs, DecompressAecs};
use crate::check::{Refusal, Rules, check};
use crate::checksum::{Checksums, crc_64};
use crate::completion::Record;
use crate::compress::compress;
use crate::decompress::{Decompressed, Request, decompress};
use crate::descriptor::{Descriptor, compr, decompr, flag, opcode};
use crate::memory::{Access, Memory, PageFault};
use crate::status::{ErrorCode, Status, WRITE_FAULT};

/// Pages that one descriptor may request of one buffer: more means that nobody brings them.
const PAGE_REQUESTS_MAX: usize = 1 << 20;

/// Operands as fault_info names them. The numbers are assumed.
#[derive(Clone, Copy)]
enum Operand {
    Src1 = 1,
    Dst = 2,
    Src2 = 3,
}

/// A write that waits for its descriptor to complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Write {
    /// Where.
    pub addr: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// What a descriptor changes when it completes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// The destination.
    pub output: Write,
    /// The AECS, if it is written.
    pub aecs: Option<Write>,
    /// The completion record.
    pub record: Record,
    /// Uncompressed bytes that went through the engine: what its time depends on.
    pub bytes: usize,
}

impl Effects {
    /// A record and nothing else.
    pub fn of(record: Record) -> Self {
        Self {
            record,
            ..Self::default()
        }
    }
}

/// How an engine that lies does so: for faults that only a reader's checksum can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tamper {
    /// Not at all.
    #[default]
    None,
    /// Works on a source with other bytes, and gives the checksums of the right one.
    Data,
    /// The output has room for half of what there is.
    HalfRoom,
    /// The output has no room.
    NoRoom,
}

fn fault_record(fault: PageFault, operand: Operand, bof: bool) -> Record {
    let status = if bof {
        Status::InvalidResponse
    } else {
        Status::PageFault
    };
    let write = if fault.access == Access::Write { WRITE_FAULT } else { 0 };
    Record {
        status: status as u8 | write,
        fault_info: (operand as u8) << 1,
        fault_addr: fault.addr,
        ..Record::default()
    }
}

/// The record of a page fault that was made up: `write` on the destination, else on the source.
pub(crate) fn made_up_fault(d: &Descriptor, write: bool) -> Record {
    let (addr, access, operand) = match write {
        true => (d.dst_addr, Access::Write, Operand::Dst),
        false => (d.src1_addr, Access::Read, Operand::Src1),
    };
    fault_record(PageFault { addr, access }, operand, d.has(flag::BOF))
}

/// Run `step` until it does not fault, if the descriptor may block on faults and someone brings the
/// pages.
fn blocking<T>(
    d: &Descriptor,
    memory: &dyn Memory,
    operand: Operand,
    mut step: impl FnMut() -> Result<T, PageFault>,
) -> Result<T, Record> {
    let bof = d.has(flag::BOF);
    let mut requests = 0;
    loop {
        match step() {
            Ok(done) => return Ok(done),
            Err(fault) if bof && requests < PAGE_REQUESTS_MAX && memory.page_request(fault) => requests += 1,
            Err(fault) => return Err(fault_record(fault, operand, bof)),
        }
    }
}

fn fetch(d: &Descriptor, memory: &dyn Memory, operand: Operand, addr: u64, len: u32) -> Result<Vec<u8>, Record> {
    let mut bytes = vec![0; len as usize];
    blocking(d, memory, operand, || memory.read(addr, &mut bytes))?;
    Ok(bytes)
}

/// Write the destination and the AECS. On a fault the record says so instead.
pub(crate) fn apply(d: &Descriptor, effects: &mut Effects, memory: &dyn Memory) {
    let writes = [
        (Operand::Dst, Some(&effects.output)),
        (Operand::Src2, effects.aecs.as_ref()),
    ];
    for (operand, write) in writes {
        let Some(write) = write.filter(|write| !write.bytes.is_empty()) else {
            continue;
        };
        if let Err(record) = blocking(d, memory, operand, || memory.write(write.addr, &write.bytes)) {
            effects.record = record;
            return;
        }
    }
}

/// Check and run a descriptor. All that can go wrong is a record.
pub(crate) fn execute(d: &Descriptor, rules: &Rules, memory: &dyn Memory, tamper: Tamper, runs_cross: bool) -> Effects {
    let done = check(d, rules)
        .map_err(|refusal: Refusal| refusal.record())
        .and_then(|()| match d.opcode {
            opcode::MEMMOVE => memmove(d, memory, tamper),
            opcode::CRC64 => crc64(d, memory),
            opcode::COMPRESS => run_compress(d, memory, tamper),
            opcode::DECOMPRESS => run_decompress(d, rules, memory, tamper, runs_cross),
            _ => Ok(Effects::of(Record::of(Status::Success))),
        });
    done.unwrap_or_else(Effects::of)
}

/// Other bytes in place of `bytes`: the same length, so that nothing else gives them away.
fn falsify(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    bytes.iter_mut().skip(middle).take(8).for_each(|byte| *byte = !*byte);
}

fn memmove(d: &Descriptor, memory: &dyn Memory, tamper: Tamper) -> Result<Effects, Record> {
    let mut bytes = fetch(d, memory, Operand::Src1, d.src1_addr, d.src1_size)?;
    if tamper == Tamper::Data {
        falsify(&mut bytes);
    }
    Ok(Effects {
        bytes: bytes.len(),
        output: Write {
            addr: d.dst_addr,
            bytes,
        },
        aecs: None,
        record: Record {
            bytes_completed: d.src1_size,
            output_size: d.src1_size,
            ..Record::of(Status::Success)
        },
    })
}

fn crc64(d: &Descriptor, memory: &dyn Memory) -> Result<Effects, Record> {
    let bytes = fetch(d, memory, Operand::Src1, d.src1_addr, d.src1_size)?;
    let record = Record {
        bytes_completed: d.src1_size,
        crc64: crc_64(&bytes, d.polynomial(), d.operation_flags),
        ..Record::of(Status::Success)
    };
    Ok(Effects {
        bytes: bytes.len(),
        ..Effects::of(record)
    })
}

/// Whether the AECS is written when an operation ends with `status`.
fn writes_aecs(d: &Descriptor, status: Status) -> bool {
    match status {
        Status::Success => d.has(flag::WRITE_ALWAYS),
        Status::OutputOverflow => d.may_write_aecs(),
        _ => false,
    }
}

fn with_sums(record: Record, sums: Checksums) -> Record {
    Record {
        crc: sums.crc,
        xor: sums.xor,
        ..record
    }
}

fn run_compress(d: &Descriptor, memory: &dyn Memory, tamper: Tamper) -> Result<Effects, Record> {
    let mut aecs = CompressAecs::default();
    if d.reads_aecs() {
        let bytes = fetch(d, memory, Operand::Src2, d.aecs_read_addr(), d.src2_size)?;
        aecs = CompressAecs::decode(&bytes).map_err(Record::error)?;
    }
    let mut source = fetch(d, memory, Operand::Src1, d.src1_addr, d.src1_size)?;
    let seeds = aecs.sums;
    let mut sums = seeds;
    sums.update(&source, d.has(flag::CRC32C));
    if tamper == Tamper::Data {
        falsify(&mut source);
    }
    let mut made = compress(&source, d.operation_flags, aecs, d.max_dst_size as usize);
    // The second of two passes reads the same source again: it needs the seeds.
    let first_pass = compr::hdr_gen(d.operation_flags) >= 5;
    made.aecs.sums = if first_pass { seeds } else { sums };
    let mut effects = Effects {
        bytes: source.len(),
        ..Effects::default()
    };
    effects.record = match made.error {
        Some(code) => Record::error(code),
        None => Record {
            bytes_completed: d.src1_size,
            output_bits: made.output_bits,
            ..with_sums(Record::of(Status::Success), sums)
        },
    };
    effects.record.output_size = made.output.len() as u32;
    effects.output = Write {
        addr: d.dst_addr,
        bytes: made.output,
    };
    if made.error.is_none() && writes_aecs(d, Status::Success) {
        let bytes = made.aecs.encode(d.src2_size as usize).map_err(Record::error)?;
        let addr = d.aecs_write_addr();
        effects.aecs = Some(Write { addr, bytes });
    }
    Ok(effects)
}

fn run_decompress(
    d: &Descriptor,
    rules: &Rules,
    memory: &dyn Memory,
    tamper: Tamper,
    runs_cross: bool,
) -> Result<Effects, Record> {
    let mut aecs = DecompressAecs::default();
    if d.reads_aecs() {
        let bytes = fetch(d, memory, Operand::Src2, d.aecs_read_addr(), d.src2_size)?;
        aecs = DecompressAecs::decode(&bytes, &rules.caps).map_err(Record::error)?;
    }
    let source = fetch(d, memory, Operand::Src1, d.src1_addr, d.src1_size)?;
    let within = |room: usize| {
        decompress(Request {
            source: &source,
            flags: d.operation_flags,
            aecs: aecs.clone(),
            room,
            castagnoli: d.has(flag::CRC32C),
            carries: d.has(flag::WRITE_ALWAYS),
            runs_cross,
        })
    };
    let mut made = match tamper {
        Tamper::NoRoom => within(0),
        _ => within(d.max_dst_size as usize),
    };
    if tamper == Tamper::HalfRoom {
        made = within(made.made / 2);
    }
    if tamper == Tamper::Data {
        falsify(&mut made.output);
    }
    finish_decompress(d, rules, made)
}

fn finish_decompress(d: &Descriptor, rules: &Rules, made: Decompressed) -> Result<Effects, Record> {
    let mut record = match made.error {
        Some(code) => Record::error(code),
        None => Record::of(made.status),
    };
    record.bytes_completed = made.consumed as u32;
    record.output_size = made.output.len() as u32;
    let mut effects = Effects {
        record: with_sums(record, made.aecs.sums),
        bytes: made.made,
        output: Write {
            addr: d.dst_addr,
            bytes: made.output,
        },
        aecs: None,
    };
    if writes_aecs(d, made.status) {
        let encoded = made.aecs.encode(d.src2_size as usize, &rules.caps);
        let bytes = encoded.map_err(Record::error)?;
        let addr = d.aecs_write_addr();
        effects.aecs = Some(Write { addr, bytes });
    }
    Ok(effects)
}

/// Whether an operation suppresses its output: then there is nothing to falsify.
pub(crate) fn is_suppressed(d: &Descriptor) -> bool {
    d.opcode == opcode::DECOMPRESS && d.operation_flags & decompr::SUPPRESS != 0
}

/// The record of a compression that does not fit.
pub(crate) fn does_not_fit() -> Record {
    Record::error(ErrorCode::DoesNotFit)
}
