//! Mappings that are smaller than those which come under our care in any case.
//!
//! A library has one or two, and to register each of them costs more than it frees. A program that
//! puts a guard behind each of its objects or stacks has them by the ten thousand. Once they are as
//! much as gives a process its pager, all of them are ours, for good.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uzswap_sys::closed;

use super::mapped;
use crate::memcg::deferral::{self, ACTIVATE_BYTES};

/// Bytes of small mappings, as the program's calls tell: less where it unmaps what is none of them.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// They are ours.
static ARE_OURS: AtomicBool = AtomicBool::new(false);

/// Whether small mappings come under our care.
pub(crate) fn are_ours() -> bool {
    ARE_OURS.load(Ordering::Relaxed)
}

/// The program mapped `len` bytes that are not ours. Called in its own thread, which waits for
/// kswapd if this makes them ours and there is little room.
pub(crate) fn note_mapped(len: usize) {
    let bytes = BYTES.fetch_add(len, Ordering::Relaxed) + len;
    if bytes >= ACTIVATE_BYTES && take() {
        deferral::note_unrecorded_growth(bytes);
    }
}

/// The program unmapped `len` bytes.
pub(crate) fn note_unmapped(len: usize) {
    let less = |bytes: usize| Some(bytes.saturating_sub(len));
    let _ = BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// There are `bytes` of them, mapped by whomever. Whether they have become ours by that.
pub(super) fn note_found(bytes: usize) -> bool {
    bytes >= ACTIVATE_BYTES && take()
}

/// Whether they were not ours before. Those that are there already are found by a walk.
///
/// Never where pages that are out are closed: what is closed in parts is small mappings for the
/// kernel, and they are ours already.
fn take() -> bool {
    if closed::is_on() {
        return false;
    }
    let is_first = !ARE_OURS.swap(true, Ordering::Relaxed);
    if is_first {
        mapped::miss();
    }
    is_first
}
