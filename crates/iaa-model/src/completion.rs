//! Completion records: 64 bytes, aligned to 64, status written last (data sheet A6).

use crate::memory::{Memory, PageFault};
use crate::status::{ErrorCode, Status};

/// Bytes of a record, and its alignment.
pub const LEN: usize = 64;

/// The fields of a completion record. Sizes are in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// [`Status`], with [`WRITE_FAULT`](crate::status::WRITE_FAULT) in bit 7.
    pub status: u8,
    /// [`ErrorCode`] if the status is [`Status::Analytics`], else 0.
    pub error_code: u8,
    /// Bit 0: the address is masked; bits 3:1: the operand.
    pub fault_info: u8,
    /// Source bytes consumed.
    pub bytes_completed: u32,
    /// The address that faulted.
    pub fault_addr: u64,
    /// The illegal bits, if the status is [`Status::InvalidFlags`].
    pub invalid_flags: u32,
    /// Destination bytes written.
    pub output_size: u32,
    /// Valid bits of the last byte; 0: all eight.
    pub output_bits: u8,
    /// XOR of the uncompressed data's 16-bit words.
    pub xor: u16,
    /// CRC-32 or CRC-32C of the uncompressed data.
    pub crc: u32,
    /// Bytes 40..48: the result of CRC64.
    pub crc64: u64,
}

impl Record {
    /// A record that says `status` and nothing else.
    pub fn of(status: Status) -> Self {
        Self {
            status: status as u8,
            ..Self::default()
        }
    }

    /// A record of an analytics error.
    pub fn error(code: ErrorCode) -> Self {
        Self {
            error_code: code as u8,
            ..Self::of(Status::Analytics)
        }
    }

    /// The record's bytes, status included.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.status;
        bytes[1] = self.error_code;
        bytes[2] = self.fault_info;
        bytes[4..8].copy_from_slice(&self.bytes_completed.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.fault_addr.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.invalid_flags.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.output_size.to_le_bytes());
        bytes[28] = self.output_bits;
        bytes[30..32].copy_from_slice(&self.xor.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.crc.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.crc64.to_le_bytes());
        bytes
    }

    /// The fields of `bytes`.
    pub fn decode(bytes: &[u8; LEN]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Self {
            status: bytes[0],
            error_code: bytes[1],
            fault_info: bytes[2],
            bytes_completed: u32_at(4),
            fault_addr: u64_at(8),
            invalid_flags: u32_at(16),
            output_size: u32_at(24),
            output_bits: bytes[28],
            xor: u16::from_le_bytes([bytes[30], bytes[31]]),
            crc: u32_at(32),
            crc64: u64_at(40),
        }
    }

    /// Write 63 bytes, then publish the status. On a fault nothing is published.
    pub fn write(&self, memory: &dyn Memory, addr: u64) -> Result<(), PageFault> {
        let bytes = self.encode();
        memory.write(addr + 1, &bytes[1..])?;
        memory.publish(addr, bytes[0]);
        Ok(())
    }
}
