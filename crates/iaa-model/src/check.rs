//! What a device checks before it works, in the order that data sheet A13 assumes.
//!
//! Opcode, flags, reserved fields, the record's alignment, the operation's own flags, sizes, the
//! AECS's alignment, overlap. Translation comes last, when memory is touched.

use crate::completion::Record;
use crate::descriptor::{Descriptor, compr, crc64, decompr, flag, opcode};
use crate::device::caps::{Caps, Opcodes, general, iaa};
use crate::status::Status;

/// Source bytes that a header made in one pass can stand for.
const ONE_PASS_MAX: u32 = 4096;

/// What a queue allows beyond its device's capabilities.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The device's capabilities.
    pub caps: Caps,
    /// The queue's op_config.
    pub op_config: Opcodes,
    /// The queue's block_on_fault.
    pub block_on_fault: bool,
    /// The queue's largest transfer in bytes.
    pub max_transfer: u64,
    /// Whether the queue is dedicated: it has a PASID of its own.
    pub dedicated: bool,
}

/// Why a descriptor is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The record's status.
    pub status: Status,
    /// The record's invalid_flags. The encoding is assumed: a mask of the illegal flag bits.
    pub invalid_flags: u32,
}

impl Refusal {
    /// The record that says so.
    pub fn record(&self) -> Record {
        Record {
            invalid_flags: self.invalid_flags,
            ..Record::of(self.status)
        }
    }
}

fn demand(legal: bool, status: Status) -> Result<(), Refusal> {
    let refusal = Refusal {
        status,
        invalid_flags: 0,
    };
    if legal { Ok(()) } else { Err(refusal) }
}

/// Check `d`; what it says is where memory may be touched.
pub fn check(d: &Descriptor, rules: &Rules) -> Result<(), Refusal> {
    let supported = rules.caps.op_cap.and(&rules.op_config).has(d.opcode);
    demand(supported, Status::UnsupportedOpcode)?;
    check_flags(d, rules)?;
    demand(!d.privileged, Status::Privilege)?;
    check_reserved(d, rules)?;
    let aligned = !d.has(flag::CRAV) || d.completion_addr.is_multiple_of(64);
    demand(aligned, Status::RecordMisaligned)?;
    check_operation_flags(d, &rules.caps)?;
    check_sizes(d, rules)?;
    let aecs = d.reads_aecs() || d.may_write_aecs();
    let aecs_aligned = d.src2_addr.is_multiple_of(32) && d.src2_size.is_multiple_of(32) && d.src2_size > 0;
    demand(!aecs || aecs_aligned, Status::AecsMisaligned)?;
    check_overlap(d, rules)
}

/// Flags that an opcode may have on this queue.
fn legal_flags(d: &Descriptor, rules: &Rules) -> u32 {
    use flag::{BOF, CC, CRAV, CRC32C, DRDBK, RCI, RCR, READ_AECS, TCS, TOGGLE, WRITE_ALWAYS, WRITE_ON_OVERFLOW};
    let record = CRAV | RCR | RCI | TCS;
    let own = match d.opcode {
        opcode::MEMMOVE => BOF | CC | DRDBK,
        opcode::CRC64 => BOF,
        opcode::COMPRESS | opcode::DECOMPRESS => {
            BOF | CC | DRDBK | CRC32C | READ_AECS | WRITE_ALWAYS | WRITE_ON_OVERFLOW | TOGGLE
        }
        _ => 0,
    };
    let mut never = 0;
    let absent = |bit: u64| rules.caps.general & bit == 0;
    if !rules.block_on_fault || absent(general::BLOCK_ON_FAULT) {
        never |= BOF;
    }
    if absent(general::CACHE_CONTROL) {
        never |= CC;
    }
    if absent(general::READBACK) {
        never |= DRDBK;
    }
    if !d.has(CRAV) {
        never |= RCR;
    }
    if d.has(WRITE_ALWAYS | WRITE_ON_OVERFLOW) {
        never |= WRITE_ALWAYS | WRITE_ON_OVERFLOW;
    }
    if !d.may_write_aecs() {
        never |= TOGGLE;
    }
    (record | own) & !never
}

fn check_flags(d: &Descriptor, rules: &Rules) -> Result<(), Refusal> {
    let invalid_flags = d.flags & !legal_flags(d, rules);
    let refusal = Refusal {
        status: Status::InvalidFlags,
        invalid_flags,
    };
    if invalid_flags == 0 { Ok(()) } else { Err(refusal) }
}

fn check_reserved(d: &Descriptor, rules: &Rules) -> Result<(), Refusal> {
    // No interrupt handle is ever given out, so each one that a descriptor names is wrong.
    demand(!d.has(flag::RCI) || d.int_handle == 0, Status::IntHandle)?;
    // ENQCMD fills in the PASID. MOVDIR64B leaves it to the queue, which has its own.
    let pasid = !rules.dedicated || d.pasid == 0;
    let src1 = d.src1_addr == 0 && d.src1_size == 0 && d.operation_flags == 0;
    let src2 = d.src2_addr == 0 && d.src2_size == 0;
    let dst = d.dst_addr == 0 && d.max_dst_size == 0;
    let last = d.filter_flags == 0 && d.num_inputs == 0;
    let own = match d.opcode {
        opcode::NOOP | opcode::DRAIN => src1 && src2 && dst && last,
        opcode::MEMMOVE => src2 && last && d.max_dst_size == 0 && d.operation_flags == 0,
        opcode::CRC64 => src2 && dst,
        _ => d.num_inputs == 0,
    };
    demand(d.reserved == 0 && d.int_handle == 0 && pasid && own, Status::Reserved)
}

fn check_operation_flags(d: &Descriptor, caps: &Caps) -> Result<(), Refusal> {
    let flags = d.operation_flags;
    let legal = match d.opcode {
        opcode::COMPRESS => flags & compr::ABSENT == 0 && header_is_legal(d, caps),
        opcode::DECOMPRESS => {
            let gen_2 = flags & decompr::IGNORE_BIT_3 == 0 || caps.has(iaa::GEN_2);
            flags & decompr::ABSENT == 0 && flags & decompr::ENABLE != 0 && gen_2
        }
        opcode::CRC64 => flags & !(crc64::INVERT | crc64::MSB_FIRST) == 0,
        _ => true,
    };
    demand(legal, Status::OperationFlags)?;
    let filtered = d.opcode == opcode::DECOMPRESS && d.filter_flags != 0;
    demand(!filtered, Status::FilterFlags)
}

/// HDR_GEN and `compression_2_flags`: the first of two passes writes the tables of an AECS.
fn header_is_legal(d: &Descriptor, caps: &Caps) -> bool {
    let two_pass = match compr::hdr_gen(d.operation_flags) {
        0 => false,
        2 | 3 if caps.has(iaa::HEADER_GENERATION) => false,
        5..=7 if caps.has(iaa::HEADER_GENERATION) => true,
        _ => return false,
    };
    let written = d.may_write_aecs() && d.filter_flags == compr::WRITE_TABLES;
    let stats = d.operation_flags & compr::STATS != 0;
    let alone = !stats || compr::hdr_gen(d.operation_flags) == 0;
    alone && if two_pass { written } else { d.filter_flags == 0 }
}

fn check_sizes(d: &Descriptor, rules: &Rules) -> Result<(), Refusal> {
    let most = rules.max_transfer.min(rules.caps.max_transfer());
    let fits = [d.src1_size, d.max_dst_size, d.src2_size]
        .iter()
        .all(|size| u64::from(*size) <= most);
    demand(fits, Status::TransferSize)?;
    let nothing = d.src1_size == 0 && d.src2_size == 0 && d.max_dst_size == 0;
    match d.opcode {
        opcode::NOOP | opcode::DRAIN => Ok(()),
        opcode::MEMMOVE => demand(!nothing, Status::TransferSize),
        opcode::COMPRESS => {
            let one_pass = matches!(compr::hdr_gen(d.operation_flags), 2 | 3);
            let most = if one_pass { ONE_PASS_MAX } else { u32::MAX };
            demand(!nothing && d.src1_size <= most, Status::InputSize)
        }
        _ => demand(!nothing, Status::InputSize),
    }
}

fn check_overlap(d: &Descriptor, rules: &Rules) -> Result<(), Refusal> {
    let reads_src1 = (d.src1_addr, u64::from(d.src1_size));
    let dst = (d.dst_addr, u64::from(d.dst_len()));
    let copies = 1 + u64::from(d.may_write_aecs());
    let has_aecs = d.reads_aecs() || d.may_write_aecs();
    let aecs = (d.src2_addr, u64::from(has_aecs) * copies * u64::from(d.src2_size));
    let record = (d.completion_addr, u64::from(d.has(flag::CRAV)) * 64);
    let overlap = |a: (u64, u64), b: (u64, u64)| {
        a.1 > 0 && b.1 > 0 && a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
    };
    let may_move = d.opcode == opcode::MEMMOVE && rules.caps.general & general::OVERLAP != 0;
    let wrong = (overlap(reads_src1, dst) && !may_move)
        || overlap(dst, aecs)
        || (d.may_write_aecs() && overlap(reads_src1, aecs))
        || [reads_src1, dst, aecs].iter().any(|buffer| overlap(*buffer, record));
    demand(!wrong, Status::Overlap)
}
