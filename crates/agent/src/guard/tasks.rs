//! stat(2) and its like, of the directory of this process's threads: ours are not told.

use uzswap_sys::guard::Call;
use uzswap_sys::procfs::{self, Told};

use crate::guest::hook::{SYS_NEWFSTATAT, SYS_STATX};

const SYS_STAT: usize = 4;
const SYS_LSTAT: usize = 6;

/// After a call that was made, and did not fail.
pub(super) fn hide_threads(call: &Call) {
    let [first, second, third, _, fifth, _] = call.args;
    match call.number {
        SYS_STAT | SYS_LSTAT => procfs::hide_threads(first, Told::Stat, second),
        SYS_NEWFSTATAT => procfs::hide_threads(second, Told::Stat, third),
        SYS_STATX => procfs::hide_threads(second, Told::Statx, fifth),
        _ => {}
    }
}
