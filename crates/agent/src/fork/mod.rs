//! Forking: the child gets its own pager before it runs, and until then the parent's serves it.
//!
//! ```text
//! forking thread    kswapd           fault thread             child's only thread
//! prepare: FREEZE -> no reclaim,
//!                    engine frozen
//!        <-- FROZEN  waits
//! fork(2)                            serves, changes nothing
//!   the kernel copies memory         FORK event: child's uffd
//!                                    serves both              child: starts a fault thread,
//!                                                               which opens its own uffds
//!                                    sends the child's  <--- READY
//!                                    RELEASED  -------------> serves itself with it,
//! parent: waits <-THAWED-- FORKED -- thaws                      adopts what is mapped, goes on
//! ```
//! The userfaultfd that the FORK event brings is that of the child's memory: who holds it serves
//! that, and all that is registered in the parent is registered there. The parent's fault thread
//! does until the child's is READY, and sends it then. So a missing page of the child waits for one
//! of the two at any moment, also where another process reads it (a debugger).
//!
//! Where nothing arrives (no socket can be had, or no descriptor) the kernel closes it, and the
//! child registers all anew. Until it has a missing page reads as zeros, but only another process
//! could ask for one: the child's only thread of the program waits in [`child`], on a stack whose
//! pages are mapped. What that process had mapped is dropped (`guest::strays`). khugepaged, which
//! would fill such pages as well, is kept off until then.
//!
//! The parent does not return from `fork` before RELEASED, so a parent that exits at once (a
//! daemon) leaves a child that stands on its own. If the parent is killed before RELEASED, the
//! child may have met missing pages that nobody served: it is stopped.
//!
//! A child that cannot have a pager says UNMANAGED instead of READY; the parent then maps all that
//! is swapped out into it ([`populate`]), or tells it that ([`fill`]), and it runs on unmanaged. A
//! fork that did not come through libc, which has no `prepare`, is populated.
//!
//! `prepare` also takes the program's turn to change mappings (`order::InOrder`). So every change
//! made before the fork has had its event read, and the words that the child inherits are those of
//! the memory that it inherits. Only raw system calls of other threads can still fall in between.
//! Others wait for the turn under locks of libc's, so the fork has those by then: it is prepared in
//! libc's `_Fork`, or where the guard sees the call.

mod child;
mod fill;
mod handover;
mod parent;
mod populate;
mod served;

use alloc::vec::Vec;

use lock_api::Mutex;
use uzswap_mm::PinId;
use uzswap_sys::futex::RawLock;

pub(crate) use child::{child, child_of, unlock_inherited};
pub(crate) use handover::Handover;
pub(crate) use parent::{
    ForkServer, add_wiped, begin, freeze_until_forked, parent, parent_of, prepare, prepare_in_order, release_pins,
    while_none_forks,
};
pub(crate) use populate::populate;

/// What forks leave in a pager.
pub(crate) struct Fork {
    pub(crate) handover: Handover,
    /// Swap slots that forked relatives read, each with the byte of the swap file that their leases
    /// lock.
    pub(crate) pins: Mutex<RawLock, Vec<(PinId, u64)>>,
}

impl Default for Fork {
    fn default() -> Self {
        Self {
            handover: Handover::new(),
            pins: Mutex::new(Vec::new()),
        }
    }
}
