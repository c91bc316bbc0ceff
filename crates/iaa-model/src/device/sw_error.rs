//! SWERR: the first error that no completion record could tell of (data sheet A10).

use super::queue::Entry;

/// What the register says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwError {
    /// The status code; 0 for a descriptor that a full dedicated queue lost: no code is documented.
    pub error: u8,
    /// There was another one that is not told of.
    pub overflow: bool,
    /// The fault was on a write.
    pub is_write: bool,
    /// The queue.
    pub queue: u8,
    /// The descriptor's opcode.
    pub operation: u8,
    /// For whom.
    pub pasid: u32,
    /// The descriptor's illegal flags.
    pub invalid_flags: u32,
    /// The address that faulted, or of the record.
    pub fault_addr: u64,
}

impl SwError {
    /// A descriptor that a queue had no room for.
    pub(crate) fn lost(queue: u8, entry: &Entry) -> Self {
        Self {
            queue,
            operation: entry.raw[7],
            pasid: entry.pasid,
            ..Self::default()
        }
    }

    /// The register's four quadwords.
    pub fn encode(&self) -> [u64; 4] {
        let descriptor_and_queue_valid = 0b1100;
        let first = 1
            | u64::from(self.overflow) << 1
            | descriptor_and_queue_valid
            | u64::from(self.is_write) << 5
            | u64::from(self.error) << 8
            | u64::from(self.queue) << 16
            | u64::from(self.operation) << 32
            | u64::from(self.pasid) << 40;
        [first, u64::from(self.invalid_flags) << 32, self.fault_addr, 0]
    }
}
