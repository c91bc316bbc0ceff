//! Calls that reach memory by what nobody sees: later than they are made, or by addresses in what
//! they are given. [`blocking`] has the kernel wait for pages then.

use super::word_at;
use crate::guest::hook::SYS_IOCTL;
use crate::pager::blocking;

const SYS_BPF: usize = 321;
/// Calls after which the kernel reaches memory when nobody knows: io_setup, io_uring_setup.
pub(super) const CALLS: [usize; 2] = [206, 425];

/// `_IOW(0xaf, 0x03, struct vhost_memory)`: a thread of the kernel's reaches it from then on.
const VHOST_SET_MEM_TABLE: usize = 0x4008_af03;

/// Before a call that is not refused, whoever waits.
pub(super) fn before(number: usize, args: &[usize; 6]) {
    if number == SYS_IOCTL && args[1] as u32 as usize == VHOST_SET_MEM_TABLE {
        let _ = blocking::begin();
    }
}

/// A call has met what was not there, and perhaps by an address in what it was given, of which
/// nobody knows. Whether the kernel waits from now on, so that it is to be made again: once, as it
/// may have done half of its work.
pub(super) fn waits_after(number: usize, args: &[usize; 6]) -> bool {
    let given = match number {
        SYS_IOCTL => args[2],
        SYS_BPF => args[1],
        _ => return false,
    };
    // Another thread may have the kernel wait since.
    (!blocking::is_on() || blocking::is_recent()) && word_at(given).is_some() && blocking::begin()
}
