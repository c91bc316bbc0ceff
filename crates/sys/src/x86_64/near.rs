//! Code beside the program's: memory for stubs within reach of it, and jumps to them.

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::PAGE_SIZE;

/// Memory for stubs, within reach of the code in `[start, end)`.
pub struct Near {
    addr: usize,
    len: usize,
}

/// How far from the code it is looked for at most: a jump reaches twice as far.
const REACH: usize = 1 << 30;
const STEP: usize = 1 << 20;

impl Near {
    /// `len` bytes.
    ///
    /// # Errors
    /// ENOMEM: nothing is free there.
    pub fn reserve(start: usize, end: usize, len: usize) -> Result<Self> {
        let len = len.next_multiple_of(PAGE_SIZE);
        // As a rule libraries lie where the kernel maps next, and this is near them.
        // SAFETY: a fresh mapping.
        let next = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        if next.addr().abs_diff(start) < REACH && next.addr().abs_diff(end) < REACH {
            return Ok(Self {
                addr: next.expose_provenance(),
                len,
            });
        }
        // SAFETY: the mapping just made.
        unsafe { munmap(next, len)? };
        let below = (1..).map(|n| start.checked_sub(len.next_multiple_of(STEP) + n * STEP));
        let above = (1..).map(|n| Some(end.next_multiple_of(STEP) + n * STEP));
        let hints = below
            .zip(above)
            .flat_map(|(below, above)| [below, above])
            .flatten()
            .map(|hint| hint & !(STEP - 1));
        for hint in hints.take_while(|hint| hint.abs_diff(start) < REACH && *hint > REACH / 1024) {
            let place = core::ptr::with_exposed_provenance_mut(hint);
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: a fresh mapping, where nothing is mapped.
            match unsafe { mmap_anonymous(place, len, ProtFlags::READ | ProtFlags::WRITE, flags) } {
                Ok(found) if found == place => return Ok(Self { addr: hint, len }),
                // A kernel that takes the address for a hint (before Linux 4.17).
                // SAFETY: the mapping just made.
                Ok(found) => drop(unsafe { munmap(found, len) }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::NOMEM)
    }

    /// Where it is.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Let `stubs` run from it, for good.
    ///
    /// # Errors
    /// EACCES, EPERM: the system lets nothing run that was written.
    pub fn seal(self, stubs: &[u8]) -> Result<()> {
        assert!(stubs.len() <= self.len);
        let place = core::ptr::with_exposed_provenance_mut::<u8>(self.addr);
        // SAFETY: a mapping of our own, of `len` bytes, which nobody else knows yet.
        unsafe {
            core::ptr::copy_nonoverlapping(stubs.as_ptr(), place, stubs.len());
            mprotect(place.cast(), self.len, MprotectFlags::READ | MprotectFlags::EXEC)
        }
    }
}

/// Write jumps over code: pairs of an address and the bytes there.
///
/// # Errors
/// EACCES, EPERM: the system forbids changing program text. Nothing was changed then.
///
/// # Safety
/// 1. `code` is program text, which stays, and all jumps lie in it;
/// 2. no thread is executing what is written over, now;
/// 3. whoever comes there afterwards may as well be where the jumps lead.
pub unsafe fn write_jumps(code: &'static [u8], jumps: &[(usize, [u8; 5])]) -> Result<()> {
    let (Some(first), Some(last)) = (
        jumps.iter().map(|(at, _)| *at).min(),
        jumps.iter().map(|(at, _)| *at + 5).max(),
    ) else {
        return Ok(());
    };
    let range = code.as_ptr_range();
    assert!(range.start as usize <= first && last <= range.end as usize);
    let start = first & !(PAGE_SIZE - 1);
    let (pages, len) = (
        core::ptr::with_exposed_provenance_mut(start),
        last.next_multiple_of(PAGE_SIZE) - start,
    );
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    // SAFETY: whole pages of program text, which stay readable and executable.
    unsafe { mprotect(pages, len, writable)? };
    for (at, jump) in jumps {
        let place = core::ptr::with_exposed_provenance_mut::<u8>(*at);
        // SAFETY: writable now, inside the code (asserted above); promises 2 and 3.
        unsafe { core::ptr::copy_nonoverlapping(jump.as_ptr(), place, jump.len()) };
    }
    // SAFETY: as above.
    unsafe { mprotect(pages, len, MprotectFlags::READ | MprotectFlags::EXEC) }
}
