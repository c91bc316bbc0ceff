//! What the driver is told: mode, limits and mitigations.

use crate::aecs::Tables;
use crate::completion::Direction;
use alloc::boxed::Box;

/// Which codes a compression uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompressionMode {
    /// Deflate's fixed codes (`deflate-iaa`).
    Fixed,
    /// Codes that the device makes for each page (`deflate-iaa-dynamic`). It needs header
    /// generation and sources of at most 4096 bytes.
    Dynamic,
    /// These codes, whose header no stream has (`deflate-iaa-canned`).
    Canned(Box<Tables>),
}

/// How often a page tries for a slot and a queue before it is mitigated.
///
/// Each poll of the batch is a try of the first page that waits. The numbers are those of the
/// kernel's batching series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Of a compression with fixed or canned codes.
    pub compress: u32,
    /// Of a decompression.
    pub decompress: u32,
    /// Of a compression with dynamic codes.
    pub dynamic: u32,
}

impl Default for Tries {
    fn default() -> Self {
        Self {
            compress: 1000,
            decompress: 500,
            dynamic: 2000,
        }
    }
}

/// What becomes of a page whose compression no queue took. Decompressions always go to software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mitigation {
    /// Software compresses it.
    #[default]
    Software,
    /// It goes on as incompressible, as the kernel has it.
    Incompressible,
}

/// How many pages of a batch are under way at a time (`sync_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// As many as the queues take.
    #[default]
    Async,
    /// One: the next is submitted when that is settled.
    Sync,
}

/// What the driver is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which codes compressions use.
    pub mode: CompressionMode,
    /// Have each compression read back by the device, and compare checksums (`verify_compress`).
    pub verify: bool,
    /// How many pages of a batch are under way at a time (`sync_mode`).
    pub sync_mode: SyncMode,
    /// Have descriptors block on faults, where the queue allows it. Buffers are resident, so a
    /// fault is a mistake that is found sooner without.
    pub block_on_fault: bool,
    /// Nanoseconds that a descriptor may take, and that a page may wait for a slot and a queue.
    pub deadline_ns: u64,
    /// How often a page tries.
    pub tries: Tries,
    /// What becomes of a page whose compression no queue took.
    pub mitigation: Mitigation,
}

impl Default for Settings {
    /// Fixed codes, verified, side by side, 5 ms.
    fn default() -> Self {
        Self {
            mode: CompressionMode::Fixed,
            verify: true,
            sync_mode: SyncMode::default(),
            block_on_fault: false,
            deadline_ns: 5_000_000,
            tries: Tries::default(),
            mitigation: Mitigation::default(),
        }
    }
}

impl Settings {
    /// How often a page of this direction tries.
    #[must_use]
    pub fn tries_of(&self, direction: Direction) -> u32 {
        match (direction, &self.mode) {
            (Direction::Decompress, _) => self.tries.decompress,
            (Direction::Compress, CompressionMode::Dynamic) => self.tries.dynamic,
            (Direction::Compress, _) => self.tries.compress,
        }
    }
}
