//! The swap file that a group's settings ask for.

use alloc::ffi::CString;
use core::ffi::CStr;

use uzswap_backing::{SwapFile, place};
use uzswap_ctl::{Group, Statistic, Tunable};
use uzswap_mm::machine::IoError;
use uzswap_sys::Errno;
use uzswap_sys::file::File;
use uzswap_sys::thread;

use crate::cpu::io_poll::IO_POLL;
use crate::machine;

/// Make this process's, of up to `slots` slots, in the group whose file is at `group_path`. `None`:
/// there is none, or it cannot be made, which the group is told.
pub(crate) fn of_group(group: Group, group_path: &CStr, slots: u64) -> Option<SwapFile> {
    if !group.is_on(Tunable::Swap) {
        return None;
    }
    make(group, group_path, slots)
        .inspect_err(|errno| group.note(Statistic::SwapError, errno.raw_os_error() as u64 + 1))
        .ok()
}

fn make(group: Group, group_path: &CStr, slots: u64) -> Result<SwapFile, Errno> {
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
    let is_encrypted = group.is_on(Tunable::SwapEncrypted);
    SwapFile::new(file, is_encrypted, slots, machine::keeper(group_path).as_deref())
}

/// Read whole pages as they lie there.
pub(crate) fn read(swap: &SwapFile, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
    IO_POLL
        .read(&swap.file, bytes, place(slot))
        .map_err(|_| IoError::Failed)
}
