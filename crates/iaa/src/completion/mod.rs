//! The 64-byte completion record: its fields, and what they mean for a page (data sheet A6).
//!
//! The device writes the first byte last. Who polls reads that byte with acquire order; once it is
//! not 0 he reads the record once, and decides from his copy.

mod status;
mod verdict;

pub use status::{ErrorCode, Status};
pub use verdict::{Direction, Verdict};

use crate::bits::le;
use core::mem::offset_of;

/// Bytes of a completion record, and their alignment in memory.
pub const COMPLETION_BYTES: usize = 64;

/// Where the fields are. Only offsets are taken from it.
#[repr(C)]
struct Layout {
    status: u8,
    error_code: u8,
    fault_info: u8,
    reserved_3: u8,
    bytes_completed: u32,
    fault_addr: u64,
    invalid_flags: u32,
    reserved_20: u32,
    output_size: u32,
    output_bits: u8,
    reserved_29: u8,
    xor: u16,
    crc: u32,
    min: u32,
    max: u32,
    sum: u32,
    reserved_48: [u8; 16],
}

const _: () = {
    assert!(size_of::<Layout>() == COMPLETION_BYTES);
    assert!(offset_of!(Layout, status) == 0 && offset_of!(Layout, error_code) == 1);
    assert!(offset_of!(Layout, fault_info) == 2 && offset_of!(Layout, bytes_completed) == 4);
    assert!(offset_of!(Layout, fault_addr) == 8 && offset_of!(Layout, invalid_flags) == 16);
    assert!(offset_of!(Layout, output_size) == 24 && offset_of!(Layout, output_bits) == 28);
    assert!(offset_of!(Layout, xor) == 30 && offset_of!(Layout, crc) == 32);
    assert!(offset_of!(Layout, min) == 36 && offset_of!(Layout, max) == 40);
    assert!(offset_of!(Layout, sum) == 44 && offset_of!(Layout, reserved_48) == 48);
};

/// What the device said of a descriptor. Sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// How it ended.
    pub status: Status,
    /// Which analytics error.
    pub error_code: ErrorCode,
    /// Of a fault: bit 0, the address is masked; bits 3:1, which operand.
    pub fault_info: u8,
    /// Bytes of the source that were consumed.
    pub bytes_completed: u32,
    /// Of a fault: where.
    pub fault_addr: u64,
    /// Of [`Status::FLAGS`]: which. Their encoding is not known.
    pub invalid_flags: u32,
    /// Bytes written.
    pub output_size: u32,
    /// Valid bits of the last byte written.
    pub output_bits: u8,
    /// XOR of the words of 16 bits of the uncompressed data; a last odd byte counts as a word.
    pub xor: u16,
    /// CRC-32 of the uncompressed data.
    pub crc: u32,
    /// Least or first element.
    pub min: u32,
    /// Greatest or last element, or the low half of a CRC of 64 bits.
    pub max: u32,
    /// Sum or population count, or the high half of a CRC of 64 bits.
    pub sum: u32,
}

impl Completion {
    /// The record in `bytes`. Reserved bytes are ignored.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; COMPLETION_BYTES]) -> Self {
        let u32_at = |offset| u32::from_le_bytes(le::get(bytes, offset));
        Self {
            status: Status(bytes[offset_of!(Layout, status)]),
            error_code: ErrorCode(bytes[offset_of!(Layout, error_code)]),
            fault_info: bytes[offset_of!(Layout, fault_info)],
            bytes_completed: u32_at(offset_of!(Layout, bytes_completed)),
            fault_addr: u64::from_le_bytes(le::get(bytes, offset_of!(Layout, fault_addr))),
            invalid_flags: u32_at(offset_of!(Layout, invalid_flags)),
            output_size: u32_at(offset_of!(Layout, output_size)),
            output_bits: bytes[offset_of!(Layout, output_bits)],
            xor: u16::from_le_bytes(le::get(bytes, offset_of!(Layout, xor))),
            crc: u32_at(offset_of!(Layout, crc)),
            min: u32_at(offset_of!(Layout, min)),
            max: u32_at(offset_of!(Layout, max)),
            sum: u32_at(offset_of!(Layout, sum)),
        }
    }

    /// The bytes of a record, for devices made of software.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; COMPLETION_BYTES] {
        let mut bytes = [0; COMPLETION_BYTES];
        bytes[offset_of!(Layout, status)] = self.status.0;
        bytes[offset_of!(Layout, error_code)] = self.error_code.0;
        bytes[offset_of!(Layout, fault_info)] = self.fault_info;
        bytes[offset_of!(Layout, output_bits)] = self.output_bits;
        le::put(
            &mut bytes,
            offset_of!(Layout, fault_addr),
            self.fault_addr.to_le_bytes(),
        );
        le::put(&mut bytes, offset_of!(Layout, xor), self.xor.to_le_bytes());
        let words = [
            (offset_of!(Layout, bytes_completed), self.bytes_completed),
            (offset_of!(Layout, invalid_flags), self.invalid_flags),
            (offset_of!(Layout, output_size), self.output_size),
            (offset_of!(Layout, crc), self.crc),
            (offset_of!(Layout, min), self.min),
            (offset_of!(Layout, max), self.max),
            (offset_of!(Layout, sum), self.sum),
        ];
        for (offset, word) in words {
            le::put(&mut bytes, offset, word.to_le_bytes());
        }
        bytes
    }

    /// The result of CRC64.
    #[must_use]
    pub const fn crc64(&self) -> u64 {
        self.max as u64 | (self.sum as u64) << 32
    }

    /// Of a fault: where, unless the device masks the address.
    #[must_use]
    pub const fn fault_address(&self) -> Option<u64> {
        if self.fault_info & 1 == 0 {
            Some(self.fault_addr)
        } else {
            None
        }
    }

    /// Of a fault: the number of the operand.
    #[must_use]
    pub const fn fault_operand(&self) -> u8 {
        self.fault_info >> 1 & 0b111
    }
}

#[cfg(test)]
mod test;
