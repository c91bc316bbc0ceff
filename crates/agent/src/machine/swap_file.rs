//! A swap file: a nameless file of slots, each sealed by itself.

use alloc::ffi::CString;
use core::ffi::CStr;

use uzswap_ctl::{Group, Statistic, Tunable};
use uzswap_mm::machine::{IoBuffer, IoError};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::file::{AlignedBuf, File};
use uzswap_sys::thread;

use super::seal::Seal;
use crate::cpu::io_poll::IO_POLL;
use crate::machine;

/// Our own, or one that we inherited.
pub(crate) struct SwapFile {
    pub(crate) file: File,
    pub(crate) seal: Seal,
    /// Slots that it can have.
    pub(crate) slots: u64,
}

/// Where a slot begins.
fn place(slot: u32) -> u64 {
    u64::from(slot) * PAGE_SIZE as u64
}

impl SwapFile {
    /// Make this process's, of up to `slots` slots, in the group whose file is at `group_path`.
    /// `None`: there is none, or it cannot be made, which the group is told.
    pub(crate) fn of_group(group: Group, group_path: &CStr, slots: u64) -> Option<Self> {
        if !group.is_on(Tunable::Swap) {
            return None;
        }
        Self::make(group, group_path, slots)
            .inspect_err(|errno| group.note(Statistic::SwapError, errno.raw_os_error() as u64 + 1))
            .ok()
    }

    fn make(group: Group, group_path: &CStr, slots: u64) -> Result<Self, Errno> {
        let mut path = group.swap_path();
        let is_file = group.is_on(Tunable::SwapPathIsFile);
        if is_file {
            // Each process has a file of its own beside the one that was named.
            path.extend_from_slice(alloc::format!(".{}", thread::pid()).as_bytes());
        }
        let path = CString::new(path).map_err(|_| Errno::INVAL)?;
        let file = if is_file {
            File::create_at(&path)
        } else {
            File::create_unnamed(&path)
        }?;
        let seal = Seal::new(group.is_on(Tunable::SwapEncrypted), slots)?;
        // Before the program can limit what may be written to files; if it has and there is no
        // launcher, the rest is the pool's.
        let len = seal.slots() * PAGE_SIZE as u64;
        let slots = file.lengthen(len, machine::keeper(group_path).as_deref()) / PAGE_SIZE as u64;
        Ok(Self { file, seal, slots })
    }

    /// Slots that it can have.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Seal whole pages, which encrypts them in place, and write them from slot `slot` on.
    pub(crate) fn write(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        let mut pages = (slot..).zip(bytes.chunks_exact_mut(PAGE_SIZE));
        if !pages.all(|(slot, page)| self.seal.seal(slot, page)) {
            return Err(IoError::NoSpace);
        }
        let written = match self.file.write_at(bytes, place(slot)) {
            Err(Errno::FBIG) => self.file.write_mapped(bytes, place(slot)),
            written => written,
        };
        written.map_err(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::OPNOTSUPP => IoError::NoSpace,
            _ => IoError::Failed,
        })
    }

    /// Read whole pages as they lie there.
    pub(crate) fn read(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        IO_POLL
            .read(&self.file, bytes, place(slot))
            .map_err(|_| IoError::Failed)
    }

    /// Open a page that was read. False: it is not what was written.
    pub(crate) fn open(&self, slot: u32, page: &mut [u8]) -> bool {
        self.seal.open(slot, page)
    }

    /// Give the space of slots back to the filesystem.
    pub(crate) fn discard(&self, slot: u32, slots: u32) {
        self.file.punch(place(slot), place(slots));
    }
}

/// A buffer for direct I/O.
pub(crate) struct SwapBuffer(AlignedBuf);

impl SwapBuffer {
    pub(crate) fn new(buffer: AlignedBuf) -> Self {
        Self(buffer)
    }
}

impl IoBuffer for SwapBuffer {
    fn bytes(&self, len: usize) -> &[u8] {
        self.0.bytes(len)
    }

    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        self.0.bytes_mut(len)
    }
}
