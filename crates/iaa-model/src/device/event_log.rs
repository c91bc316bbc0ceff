//! The event log: records that a device could not write (data sheet A9, A10).

use std::collections::VecDeque;

use crate::completion::Record;
use crate::fault::KernelCopy;
use crate::status::Status;

/// Entries that fit: the smallest log.
const SIZE: usize = 64;
/// Bytes of an entry: a header and the record, 64 each.
const ENTRY_LEN: usize = 128;

/// A record that could not be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// The record as it should have been.
    pub record: Record,
    /// Where.
    pub addr: u64,
    /// For whom.
    pub pasid: u32,
    /// The queue that the descriptor came through.
    pub queue: u8,
    /// The descriptor's opcode.
    pub operation: u8,
    /// What the kernel does about it.
    pub kernel: KernelCopy,
}

impl LogEntry {
    /// The entry's bytes. The header's layout is assumed to be that of SWERR.
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let error = super::SwError {
            error: Status::RecordFault as u8,
            is_write: true,
            queue: self.queue,
            operation: self.operation,
            pasid: self.pasid,
            fault_addr: self.addr,
            ..super::SwError::default()
        };
        let mut bytes = [0; ENTRY_LEN];
        for (i, word) in error.encode().iter().enumerate() {
            bytes[8 * i..8 * i + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[64..].copy_from_slice(&self.record.encode());
        bytes
    }
}

/// The ring of events that the kernel has not served.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    entries: VecDeque<LogEntry>,
    head: usize,
    lost: u64,
}

impl EventLog {
    /// False: there was no room, and the record is lost.
    pub(crate) fn push(&mut self, entry: LogEntry) -> bool {
        if self.entries.len() + 1 >= SIZE {
            self.lost += 1;
            return false;
        }
        self.entries.push_back(entry);
        true
    }

    /// The oldest event, for the kernel to serve.
    pub(crate) fn pop(&mut self) -> Option<LogEntry> {
        let entry = self.entries.pop_front()?;
        self.head = (self.head + 1) % SIZE;
        Some(entry)
    }

    /// Events that are not served yet.
    pub fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Entries that fit.
    pub fn size(&self) -> usize {
        SIZE
    }

    /// EVLSTATUS: head in 15:0, tail in 47:32.
    pub fn status(&self) -> u64 {
        let tail = (self.head + self.entries.len()) % SIZE;
        self.head as u64 | (tail as u64) << 32
    }
}
