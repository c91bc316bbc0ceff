//! The swap file that a group's settings ask for, and what of it lies elsewhere.

use alloc::ffi::CString;
use core::ffi::CStr;
use core::ops::Range;

use uzswap_backing::{Seal, SwapFile, place};
use uzswap_ctl::{Group, Statistic, Tunable};
use uzswap_mm::machine::IoError;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::file::File;
use uzswap_sys::thread;

use crate::cpu::io_poll::IO_POLL;
use crate::machine::{self, remote::Remote};

/// Our own, or one that we inherited.
pub(crate) struct Swap {
    pub(crate) file: SwapFile,
    /// Where its cold segments go, if anywhere.
    pub(crate) remote: Option<Remote>,
}

/// Make this process's, of up to `slots` slots, in the group whose file is at `group_path`; `spare`
/// are seals that nobody opens any more. `None`: there is none, or it cannot be made, which the
/// group is told.
pub(crate) fn of_group(group: Group, group_path: &'static CStr, slots: u64, spare: Option<Seal>) -> Option<Swap> {
    if !group.is_on(Tunable::Swap) {
        return None;
    }
    make(group, group_path, slots, spare)
        .inspect_err(|errno| group.note(Statistic::SwapError, errno.raw_os_error() as u64 + 1))
        .ok()
}

fn make(group: Group, group_path: &'static CStr, slots: u64, spare: Option<Seal>) -> Result<Swap, Errno> {
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
    let seal = match spare {
        Some(spare) => spare.renewed(),
        None => Seal::new(group.is_on(Tunable::SwapEncrypted), slots),
    }?;
    let file = SwapFile::new(file, seal, machine::keeper(group_path).as_deref());
    let remote = Remote::begin(group, group_path, &file);
    Ok(Swap { file, remote })
}

impl Swap {
    /// Read whole pages as they lie there.
    pub(crate) fn read(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        let slots = slots_of(slot, bytes);
        let mut read = || {
            IO_POLL
                .read(&self.file.file, bytes, place(slot))
                .map_err(|_| IoError::Failed)
        };
        match &self.remote {
            Some(remote) => remote.read(slots, read),
            None => read(),
        }
    }

    /// As [`SwapFile::write`]. What lies elsewhere is in slots that nobody is given to write to.
    pub(crate) fn write(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        if let Some(remote) = &self.remote {
            remote.touch(slots_of(slot, bytes));
        }
        self.file.write(slot, bytes)
    }
}

fn slots_of(first: u32, bytes: &[u8]) -> Range<u32> {
    first..first + (bytes.len() / PAGE_SIZE) as u32
}
