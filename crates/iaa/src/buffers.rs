//! Memory that the device reads and writes, behind one trait.
//!
//! The device takes addresses of the submitting process and cannot resolve faults of userfaultfd.
//! So all of this memory is resident, locked, and outside of managed ranges (data sheet A9).
//!
//! S slots and N buffers of B bytes take 64 x S + N x B bytes, and 5 KiB for the rest. With 128
//! slots and 64 buffers of 8 KiB that is about half a MiB.

/// A kind of memory, by what the device does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// Completion records: 64 bytes each, aligned to 64.
    Record,
    /// Pages and streams. The slots are the caller's, who also chooses their size.
    Buffer,
    /// What [`aecs_slot`] lists: aligned to 32.
    Aecs,
    /// One slot of 64 bytes, for jobs that write nothing but need a destination.
    Scratch,
}

/// The slots of [`Area::Aecs`], and the bytes of each.
pub mod aecs_slot {
    use crate::aecs::{CANNED_PAIR_BYTES, COMPRESS_AECS_BYTES};

    /// What compressions start from.
    pub const COMPRESS: u32 = 0;
    /// What canned decompressions start from: two AECS back to back.
    pub const DECOMPRESS: u32 = 1;
    /// The header of canned mode.
    pub const HEADER: u32 = 2;
    /// Room that each slot must have, by its number, in bytes.
    pub const BYTES: [usize; 3] = [COMPRESS_AECS_BYTES, CANNED_PAIR_BYTES, 512];
}

/// The source and the destination of a job, by their buffers' slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The source.
    pub source: u32,
    /// The destination.
    pub destination: u32,
}

/// Reaches the memory. Slots are numbered from 0 in each area.
///
/// The device writes while the driver reads, so implementations copy and never lend.
pub trait Buffers: Send + Sync {
    /// The address of a slot, as a descriptor has it.
    fn address(&self, area: Area, slot: u32) -> u64;

    /// Copy from a slot, beginning at `offset`.
    fn read(&self, area: Area, slot: u32, offset: usize, bytes: &mut [u8]);

    /// Copy to a slot, beginning at `offset`.
    fn write(&self, area: Area, slot: u32, offset: usize, bytes: &[u8]);

    /// The first byte of a completion record, loaded with acquire order. Once it is not 0, the rest
    /// of the record and the output can be read.
    fn status(&self, slot: u32) -> u8;

    /// Make the page at `address` resident: by a load, and by a store of what was there if `write`.
    /// False: the address is in none of these areas, so nothing was touched.
    fn touch(&self, address: u64, write: bool) -> bool;
}
