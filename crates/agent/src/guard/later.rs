//! Calls that reach memory by what nobody sees: later than they are made, or by addresses in what
//! they are given. [`blocking`] has the kernel wait for pages then.

use uzswap_sys::guard::Call;

use super::word_at;
use crate::guest::hook::SYS_IOCTL;
use crate::pager::blocking;

const SYS_BPF: usize = 321;
/// Calls after which the kernel reaches memory when nobody knows: io_setup, io_uring_setup.
pub(super) const CALLS: [usize; 2] = [206, 425];

/// `_IOW(0xaf, 0x03, struct vhost_memory)`: a thread of the kernel's reaches it from then on.
const VHOST_SET_MEM_TABLE: usize = 0x4008_af03;

/// Before a call that is not refused, whoever waits.
pub(super) fn before(call: &Call) {
    if call.number == SYS_IOCTL && call.args[1] as u32 as usize == VHOST_SET_MEM_TABLE {
        let _ = blocking::begin();
    }
}

/// Whether a call that has met what was not there may have met it by an address in what it was
/// given, of which nobody knows.
pub(super) fn may_reach_more(call: &Call) -> bool {
    let given = match call.number {
        SYS_IOCTL => call.args[2],
        SYS_BPF => call.args[1],
        _ => return false,
    };
    word_at(given).is_some()
}
