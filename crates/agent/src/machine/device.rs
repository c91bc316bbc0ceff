//! Swap devices, as the engine meets them.

use uzswap_backing::SwapBuffer;
use uzswap_mm::machine::{Device, IoError};
use uzswap_mm::page::PAGE_SIZE;

use super::AgentMachine;
use crate::pager;

impl Device for AgentMachine {
    type Io = SwapBuffer;

    fn io_buffer(&self, pages: usize) -> SwapBuffer {
        SwapBuffer::new(pages)
    }

    fn write_swap(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        let swap = self.fds().swap.as_ref().ok_or(IoError::NoSpace)?;
        let written = match self.fail.write(swap, slot, bytes) {
            Some(error) => Err(error),
            None => swap.write(slot, bytes),
        };
        if let Some(remote) = &swap.remote {
            remote.note_written(written.is_ok());
        }
        written
    }

    fn read_swap(&self, device: u8, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        self.settle_errand();
        let swap = self
            .swap_file(device)
            .filter(|_| !self.fail.read_fails(slot, (bytes.len() / PAGE_SIZE) as u32))
            .ok_or(IoError::Failed)?;
        swap.read(slot, bytes)?;
        self.fail.tear(bytes);
        Ok(())
    }

    fn open_swap(&self, device: u8, slot: u32, page: &mut [u8]) -> bool {
        self.swap_file(device).is_some_and(|swap| swap.file.open(slot, page))
    }

    fn charge_swap(&self, in_use: u64, want: u64) -> u64 {
        pager::inherited().map_or(0, |pager| pager.memcg.charge_swap(in_use, want))
    }

    fn discard_swap(&self, slot: u32, slots: u32) {
        if let Some(swap) = &self.fds().swap {
            swap.file.discard(slot, slots);
        }
    }
}
