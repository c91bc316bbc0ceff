//! The program's memory, whatever the program may do there.

use core::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::BorrowedFd;
use rustix::io::{self, Errno, Result};

use crate::PAGE_SIZE;

/// Faults that the kernel has counted for pages that were copied in or out.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// How many they are, beginning anywhere: no thread of the program waited for them.
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// So many pages were copied: each copy is a new page, which the kernel counts a fault for.
pub fn note_faults(pages: usize) {
    FAULTS.fetch_add(pages as u64, Ordering::Relaxed);
}

/// Write to memory, closed or not. No page is there.
pub(super) fn write(memory: BorrowedFd<'_>, addr: usize, bytes: &[u8]) -> Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match io::pwrite(memory, &bytes[written..], (addr + written) as u64) {
            Ok(0) => return Err(Errno::FAULT),
            Ok(n) => written += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    note_faults(bytes.len() / PAGE_SIZE);
    Ok(())
}
