//! Mappings that were read together.

use alloc::vec::Vec;

use uzswap_sys::Errno;
use uzswap_sys::procfs::Vma;

use crate::machine::Fds;

/// Where they are text (Linux before 6.11) each question reads all of it up to the answer. No
/// thread of the program runs meanwhile.
#[derive(Default)]
pub(super) struct Window {
    vmas: Vec<Vma>,
    /// It says what lies from here on, up to the end of the last.
    start: usize,
}

impl Window {
    const MAPPINGS: usize = 512;

    /// The mapping that covers `addr` or else the next one above.
    pub(super) fn at_or_after(&mut self, fds: &Fds, addr: usize) -> Result<Option<Vma>, Errno> {
        let next = self.vmas.partition_point(|vma| vma.end <= addr);
        if let Some(vma) = self.vmas.get(next).filter(|_| self.start <= addr) {
            return Ok(Some(*vma));
        }
        self.vmas = fds.proc.vmas_from(addr, Self::MAPPINGS)?;
        self.start = addr;
        Ok(self.vmas.first().copied())
    }
}
