//! The child's side of a fork: a pager of its own before the program runs on.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use lock_api::{Mutex, RawMutex};
use uzswap_backing::{Seal, SwapFile};
use uzswap_mm::Devices;
use uzswap_mm::machine::Mapper;
use uzswap_mm::zpool::Unlock;
use uzswap_sys::file::File;
use uzswap_sys::futex::RawLock;
use uzswap_sys::{Errno, khugepaged, lent, thread};

use super::fill;
use super::handover::{DESCRIBED, ORPHAN, READY, RELEASED, RELEASED_UNMANAGED, UNMANAGED};
use crate::codec::accel;
use crate::fault::inline;
use crate::guest::{closed, unmanaged, vma};
use crate::machine::Fds;
use crate::machine::remote::{self, Remote};
use crate::machine::swap_file::{self, Swap};
use crate::pager::missing::Missing;
use crate::pager::record::Recorder;
use crate::pager::{self, Pager, blocking, hold};
use crate::{guard, statics};

/// After a fork, in the child: get a pager of our own before anything else runs.
pub(crate) extern "C" fn child() {
    child_of(true);
}

/// After a fork, in the child. `is_own`: it was made by the process that began here. Else that one
/// may be forking as well, and what is prepared is for its child.
pub(crate) fn child_of(is_own: bool) {
    let pager = statics::reset_in_child(is_own);
    if let Some(mask) = hold::end_in_child(is_own) {
        guard::signals::unblock(mask);
    }
    let Some(pager) = pager else {
        closed::unlock_in_child();
        return khugepaged::resume();
    };
    // Signals are blocked since `prepare`: no handler of the program may touch memory before its
    // pager stands.
    let mask = pager.fork.handover.mask.load(Ordering::Relaxed);
    pager.fork.handover.arrive();
    attach(pager);
    closed::unlock_in_child();
    khugepaged::resume();
    guard::signals::unblock(mask);
}

/// A lock that a thread of the parent may have held.
pub(crate) struct Orphaned;

impl Unlock<RawLock> for Orphaned {
    fn unlock<T>(&self, mutex: &Mutex<RawLock, T>) {
        if mutex.is_locked() {
            // SAFETY: the thread that held it (one of the parent's that serve faults, which was
            // serving one without changing the frozen engine) does not exist in this process.
            unsafe { mutex.force_unlock() };
        }
    }
}

/// Open the locks of the pager that were held when the child was copied. False, and nothing is
/// done: the fork had no `prepare`, or it was that of another process.
pub(crate) fn unlock_inherited(pager: &Pager) -> bool {
    if !pager.fork.handover.is_prepared.swap(false, Ordering::SeqCst) {
        return false;
    }
    // SAFETY: locked in `prepare` by the thread that this one is the copy of.
    unsafe { pager.fork.handover.lock.unlock() };
    pager.mm.unlock_all(&Orphaned);
    true
}

/// The child's part.
fn attach(pager: &Pager) {
    blocking::look_in_child();
    lent::to_open(guard::exec::is_filtered(), || {
        let Err(missing) = inline::open().and_then(|()| pager::threads::start_in_child(take_over)) else {
            return;
        };
        if let Err(Missing { part, errno }) = do_without(pager) {
            pager::say(format_args!(
                "uzswap: a forked child lost its pager before it had its own and is stopped: it lacked {part} ({errno})\n"
            ));
            thread::kill_self();
        }
        pager::lose();
        unmanaged::lacks_pager(Some(pager.memcg.path()), missing);
    });
}

/// There is no pager for this child: have all that is out mapped, by the parent where that has the
/// child's userfaultfd, else by this thread.
///
/// # Errors
/// What was missing. Too late: the parent has let go of a child that said it was ready.
fn do_without(pager: &Pager) -> Result<(), Missing> {
    const TOO_LATE: Missing = Missing::named("a part of it, as its parent had let go of it", Errno::AGAIN);
    let handover = &pager.fork.handover;
    if !handover.wait_for_parent(pager, DESCRIBED) {
        return Err(ORPHAN);
    }
    if handover.state() != DESCRIBED {
        return Err(TOO_LATE);
    }
    handover.set_state(UNMANAGED);
    if guard::is_on() {
        lent::close();
        return fill::take(pager);
    }
    match handover.wait_for_parent(pager, RELEASED_UNMANAGED) {
        true => Ok(()),
        false => Err(ORPHAN),
    }
}

/// The child's new fault thread: everything up to serving.
fn take_over() -> Result<&'static Pager, Missing> {
    let pager = pager::inherited().ok_or(Missing::named("the parent's pager", Errno::INVAL))?;
    let handover = &pager.fork.handover;
    if !handover.wait_for_parent(pager, DESCRIBED) {
        return Err(ORPHAN);
    }
    // Where that fails, the thread that forked sees to it.
    let devices = pager.mm.devices_of_child(pager.fds().inherited.len());
    let (mut fds, slot) = equip(pager, &devices)?;
    // Without fork events there is nothing to be had.
    let door = if guard::is_on() { None } else { handover.open_door() };
    handover.set_state(READY);
    if !handover.wait_for_parent(pager, RELEASED) {
        return Err(ORPHAN);
    }
    let memory = door.and_then(|door| handover.receive(&door));
    let was_watched = memory.is_some();
    if let Some(memory) = memory {
        fds.managed = pager.fds().managed.of_child(memory);
    }
    fds.have_kept(pager.memcg.path());
    pager.memcg.set_slot(slot);
    pager.memcg.assume_shared(pager);
    pager.fork.pins.lock().clear();
    pager
        .mm
        .machine()
        .start(fds)
        .map_err(|e| Missing::named("the staging range", e))?;
    pager.mm.start_child(&devices);
    remote::provide(pager);
    accel::renew(pager);
    for change in handover.changes() {
        pager.mm.change(change);
    }
    // What is expected are events of the parent's mappings. They are not ours.
    pager.mm.with_changes(|changes| changes.settle());
    if !vma::register_inherited(pager, pager.fds(), was_watched) {
        return Err(Missing::named("registering inherited memory", Errno::INVAL));
    }
    pager.reclaim.thaw();
    pager.start_kswapd()?;
    Ok(pager)
}

/// All that the child's pager needs and may fail to get.
fn equip(pager: &Pager, devices: &Devices) -> Result<(Fds, usize), Missing> {
    let group = pager.memcg.group();
    let mut fds = Fds::open(pager.memcg.path(), pager.mm.machine().copies())?;
    fds.inherited = inherit_files(pager, devices)?;
    fds.spare_seals = spare_seals(pager.fds(), devices);
    // As many as the parent's: the engine goes on with what it was made for.
    let (pages, spare) = (pager.mm.config().swap_pages, fds.spare_seals.pop());
    fds.swap = swap_file::of_group(group, pager.memcg.path(), pages, spare);
    fds.recorder = Recorder::of_environment();
    let slot = pager::take_slot(&fds, group)?;
    // Before our parent goes on, which then looks at what we share.
    pager.memcg.charge_to_parent(slot);
    Ok((fds, slot))
}

/// The swap files that a child may have to read: all that the parent inherited, then its own.
fn files_of(parent: &Fds) -> impl Iterator<Item = &Swap> {
    parent.inherited.iter().map(|(swap, _)| swap).chain(&parent.swap)
}

/// Those of our copy of the parent's memory that we need no more.
fn spare_seals(parent: &Fds, devices: &Devices) -> Vec<Seal> {
    let files = files_of(parent).enumerate();
    let unread = files
        .filter(|(place, _)| !devices.needs(*place))
        .map(|(_, swap)| swap.file.seal);
    parent.spare_seals.iter().copied().chain(unread).collect()
}

/// Open the swap files that our copy of the swap table points to, and hold a lease on each: who
/// wrote the others may write there again. The seals are those of our copy of the parent's memory.
fn inherit_files(pager: &Pager, devices: &Devices) -> Result<Vec<(Swap, u64)>, Missing> {
    let (handover, parent) = (&pager.fork.handover, pager.fds());
    let swaps: Vec<_> = files_of(parent).collect();
    let pid = handover.parent.load(Ordering::SeqCst);
    let open = |(i, (fd, byte)): (usize, (i32, u64))| {
        let file = File::open_of_thread(pid, handover.parent_tid(), fd)
            .map_err(|e| Missing::named("the parent's swap file", e))?;
        if !file.lock_shared(byte) {
            return Err(Missing::named("a lease on the parent's swap file", Errno::AGAIN));
        }
        let theirs = swaps
            .get(i)
            .ok_or(Missing::named("the parent's swap file", Errno::INVAL))?;
        let remote = theirs.remote.as_ref().map(Remote::inherit);
        let seal = theirs.file.seal;
        let slots = seal.slots();
        let file = SwapFile { file, seal, slots };
        Ok((Swap { file, remote }, byte))
    };
    let files = handover.files().ok_or(Missing::named(
        "room for one more swap file of an ancestor's",
        Errno::OVERFLOW,
    ))?;
    files
        .enumerate()
        .filter(|(place, _)| devices.needs(*place))
        .map(open)
        .collect()
}
