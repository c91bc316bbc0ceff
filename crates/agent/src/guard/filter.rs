//! The program is about to have its calls filtered (seccomp).

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_guard::seccomp;
use uzswap_sys::Errno;
use uzswap_sys::guard::Call;

use super::bring::read;
use super::word_at;
use crate::fault::inline;
use crate::pager::{self, retire};

pub(super) const SYS_SECCOMP: usize = 317;
const SYS_PRCTL: usize = 157;
const PR_SET_SECCOMP: usize = 22;
/// SECCOMP_FILTER_FLAG_TSYNC.
const TSYNC: usize = 1;

/// Before a call, which may be one that sets a filter.
///
/// One for all threads would decide over those of a pager as well, and may end them. Where it does
/// not let them do what they do, the process goes on without a pager. Other filters are set by
/// helpers, which stay small and execute another program (`man`).
///
/// # Errors
/// ENOMEM: the pager cannot end. No filter may be set then.
pub(super) fn before(call: &Call) -> Result<(), Errno> {
    let [first, second, third, ..] = call.args;
    let begins = match call.number {
        SYS_SECCOMP => is_filter(call.args),
        SYS_PRCTL => first == PR_SET_SECCOMP && !is_probe(second, third),
        _ => false,
    };
    if !begins {
        return Ok(());
    }
    let forbids = !lets_pagers(third);
    let is_for_all = call.number == SYS_SECCOMP && second & TSYNC != 0;
    // A vfork child's are for its own threads, of which the pager's are none.
    if !pager::is_vfork_child() {
        // Filters add up, and all threads get those of this one.
        if is_for_all && (forbids || FORBIDS.load(Ordering::Relaxed)) {
            retire::for_good()?;
        }
        if forbids {
            FORBIDS.store(true, Ordering::Relaxed);
        }
    }
    inline::begin_filtering();
    Ok(())
}

/// A filter that some thread has asked for forbids what a pager does.
static FORBIDS: AtomicBool = AtomicBool::new(false);

/// Whether setting a filter that is nowhere only asks if there are any: `mode` is prctl(2)'s.
fn is_probe(mode: usize, filter: usize) -> bool {
    const SECCOMP_MODE_FILTER: usize = 2;
    mode == SECCOMP_MODE_FILTER && filter == 0
}

/// Whether a seccomp(2) filters calls from then on. Libraries ask in this way what there is, with
/// what the kernel refuses: no filter, or flags where none may be (libseccomp).
fn is_filter([operation, flags, filter, ..]: [usize; 6]) -> bool {
    const STRICT: usize = 0;
    const FILTER: usize = 1;
    match operation {
        STRICT => flags == 0 && filter == 0,
        FILTER => filter != 0,
        _ => false,
    }
}

/// Whether the filter at `program` (`struct sock_fprog`) lets a pager do what it does. False as
/// well if it cannot be read.
///
/// It is read where it lies: another thread may be forking, and nothing is allocated then.
fn lets_pagers(program: usize) -> bool {
    let (Some(len), Some(first)) = (word_at(program), word_at(program.wrapping_add(8))) else {
        return false;
    };
    // The first two bytes say how many.
    let len = len & 0xffff;
    seccomp::lets_pagers(|n| (n < len).then(|| read::<u64>(first.wrapping_add(8 * n))).flatten())
}
