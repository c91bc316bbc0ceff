//! Memory of a vector, at addresses that are no pointers.

use crate::buffers::{Area, Buffers};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use parking_lot::Mutex;

/// Address of the first byte.
const BASE: u64 = 0x10_0000;
const RECORDS: usize = 128;
const AECS_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 8192;
const AECS_AT: usize = RECORDS * 64;
const SCRATCH_AT: usize = AECS_AT + 3 * AECS_BYTES;
const BUFFERS_AT: usize = SCRATCH_AT + 64;

/// The memory that driver and device share.
pub(crate) struct Memory(Mutex<Vec<u8>>);

impl Memory {
    pub fn new(buffers: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![0; BUFFERS_AT + buffers * BUFFER_BYTES])))
    }

    fn at(area: Area, slot: u32) -> usize {
        let slot = slot as usize;
        match area {
            Area::Record => slot * 64,
            Area::Aecs => AECS_AT + slot * AECS_BYTES,
            Area::Scratch => SCRATCH_AT,
            Area::Buffer => BUFFERS_AT + slot * BUFFER_BYTES,
        }
    }

    pub fn load(&self, address: u64, len: usize) -> Vec<u8> {
        let at = (address - BASE) as usize;
        self.0.lock()[at..at + len].to_vec()
    }

    pub fn store(&self, address: u64, bytes: &[u8]) {
        let at = (address - BASE) as usize;
        self.0.lock()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Buffers for Arc<Memory> {
    fn address(&self, area: Area, slot: u32) -> u64 {
        BASE + Memory::at(area, slot) as u64
    }

    fn read(&self, area: Area, slot: u32, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.load(self.address(area, slot) + offset as u64, bytes.len()));
    }

    fn write(&self, area: Area, slot: u32, offset: usize, bytes: &[u8]) {
        self.store(self.address(area, slot) + offset as u64, bytes);
    }

    fn status(&self, slot: u32) -> u8 {
        self.0.lock()[Memory::at(Area::Record, slot)]
    }

    fn touch(&self, address: u64, _write: bool) -> bool {
        let end = BASE + self.0.lock().len() as u64;
        (BASE..end).contains(&address)
    }
}
