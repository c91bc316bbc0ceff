//! Pages that another process had mapped in a forked child's memory before anybody served that: it
//! read them, by process_vm_readv or as a debugger, and found zeros.

use alloc::vec::Vec;

use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_sys::mapping::drop_pages;
use uzswap_sys::{Errno, closed};

use crate::machine::Fds;
use crate::pager::Pager;

/// Of `[start, end)`, which is registered by now: give up pages of zeros whose contents are out.
/// Whatever was filled from contents is a page of its own, so those were never ours. True: there
/// were some, and all of it is to be registered anew. Until it is somebody may read there again.
///
/// # Errors
/// They cannot be given up (EPERM: sealed): what is out of it is lost.
pub(super) fn drop_strays(pager: &Pager, fds: &Fds, start: usize, end: usize) -> Result<bool, Errno> {
    // There the kernel reads what it may not, or nothing.
    if closed::is_on() {
        return Ok(false);
    }
    let mut strays = Vec::new();
    // Not before Linux 6.7.
    let _ = fds.proc.for_each_zero(start, end, |start, end| {
        let range = PageRange::of_bytes(start, end);
        pager.mm.with_changes(|changes| strays.extend(changes.absent_in(range)));
    });
    if strays.is_empty() {
        return Ok(false);
    }
    // Where it is registered, who drops something waits for this very thread.
    fds.managed.unregister(start, end - start)?;
    for page in strays {
        drop_pages(page.addr(), PAGE_SIZE)?;
    }
    Ok(true)
}
