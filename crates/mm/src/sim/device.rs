//! The disk of the simulated machine.

use alloc::vec;

use super::ledger::Call;
use super::{GARBAGE, SimMachine, VecIo, boxed, seal};
use crate::machine::{Device, IoError};
use crate::page::PAGE_SIZE;

impl Device for SimMachine {
    type Io = VecIo;

    fn io_buffer(&self, pages: usize) -> VecIo {
        VecIo(vec![0; pages * PAGE_SIZE])
    }

    fn write_swap(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        self.ledger.note(Call::WriteSwap, [slot.into(), bytes.len() as u64]);
        if self.disk_fails.get() {
            return Err(IoError::NoSpace);
        }
        let failed = self.fail.should_fail().is_some();
        for (slot, page) in (slot..).zip(bytes.chunks_exact_mut(PAGE_SIZE)) {
            seal(slot, page);
            let page = boxed(if failed { &GARBAGE } else { page });
            self.disk.borrow_mut().insert(slot, page);
        }
        if failed { Err(IoError::Failed) } else { Ok(()) }
    }

    fn read_swap(&self, _: u8, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        self.ledger.note(Call::ReadSwap, [slot.into(), bytes.len() as u64]);
        self.clock.set(self.clock.get() + self.read_ns.get());
        // A page that cannot be read twice is lost, so no read fails that has just failed.
        let again = self.failed_read.replace(None) == Some(slot);
        if !again && self.fail.should_fail().is_some() {
            self.failed_read.set(Some(slot));
            bytes.fill(GARBAGE[0]);
            return Err(IoError::Failed);
        }
        for (i, page) in bytes.chunks_exact_mut(PAGE_SIZE).enumerate() {
            page.copy_from_slice(&self.disk.borrow().get(&(slot + i as u32)).ok_or(IoError::Failed)?[..]);
        }
        Ok(())
    }

    fn open_swap(&self, _: u8, slot: u32, page: &mut [u8]) -> bool {
        self.ledger.note(Call::OpenSwap, [slot.into()]);
        seal(slot, page);
        true
    }

    fn charge_swap(&self, in_use: u64, want: u64) -> u64 {
        self.ledger.note(Call::ChargeSwap, [in_use, want]);
        want
    }

    fn discard_swap(&self, slot: u32, slots: u32) {
        self.ledger.note(Call::DiscardSwap, [slot.into(), slots.into()]);
        self.disk
            .borrow_mut()
            .retain(|at, _| !(slot..slot + slots).contains(at));
    }
}
