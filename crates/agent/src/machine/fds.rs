//! What the pager has open.

use alloc::ffi::CString;
use alloc::vec::Vec;

use lock_api::Mutex;
use uzswap_backing::Seal;
use uzswap_sys::file::WakeEvent;
use uzswap_sys::futex::RawLock;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::shared::Leases;
use uzswap_sys::uffd::Uffd;
use uzswap_sys::{AsFd, Errno, OwnedFd, closed, keep};

use super::isolation::Isolation;
use super::opening;
use super::swap_file::Swap;
use crate::pager::missing::Missing;
use crate::pager::record::Recorder;

/// Everything that lives in the pager's descriptor table. A forked child makes its own.
pub(crate) struct Fds {
    /// To be closed for the descriptor of a forked child, when no other can be had. Its number is
    /// the lowest, for a program that lowers its limit.
    spare: Mutex<RawLock, Option<WakeEvent>>,
    /// Open as long as any of the pager's threads lives (`uzswap_sys::keep`).
    lifeline: Mutex<RawLock, Option<OwnedFd>>,
    pub(crate) managed: Uffd,
    pub(crate) isolation: Isolation,
    pub(crate) proc: ProcSelf,
    pub(crate) wake: WakeEvent,
    pub(crate) leases: Leases,
    pub(crate) swap: Option<Swap>,
    pub(crate) recorder: Option<Recorder>,
    /// Swap files of the processes that we were forked from, by device number less one, each with
    /// the byte that our lease on it locks.
    pub(crate) inherited: Vec<(Swap, u64)>,
    /// The seals of files that were inherited, and that no word names any more.
    pub(crate) spare_seals: Vec<Seal>,
}

impl Fds {
    /// Open what every pager needs. `copies`: pages are not moved, even if they can be.
    ///
    /// # Errors
    /// The step that failed and what the system answered.
    pub(crate) fn open(group_path: &core::ffi::CStr, copies: bool) -> Result<Self, Missing> {
        let spare = WakeEvent::new().ok();
        let opened = opening::open(copies)?;
        Ok(Self {
            spare: Mutex::new(spare),
            lifeline: Mutex::new(None),
            managed: opened.managed,
            isolation: opened.isolation,
            proc: opened.proc,
            wake: opened.wake,
            leases: Leases::open(group_path).map_err(|e| Missing::named("the group file", e))?,
            swap: None,
            recorder: None,
            inherited: Vec::new(),
            spare_seals: Vec::new(),
        })
    }

    /// Have the launcher keep the userfaultfd, before the program goes on. It may have ended with
    /// CMD: then nobody does. What is closed reads as zeros for nobody.
    pub(crate) fn have_kept(&self, group_path: &core::ffi::CStr) {
        *self.lifeline.lock() = self.managed.waits_on().and_then(|managed| {
            let keeper = keeper(group_path)?;
            keep::hand_over(&keeper, managed).ok()
        });
    }

    /// Have missing pages of the program's memory reported, or close them.
    ///
    /// # Errors
    /// As [`Uffd::register`].
    pub(crate) fn register(&self, start: usize, end: usize) -> Result<(), Errno> {
        match closed::is_on() {
            true => closed::register(self.managed.as_fd(), &self.proc, start, end),
            false => self.managed.register(start, end - start),
        }
    }

    /// In a forked child: nothing of this is protected any more, where that was inherited.
    pub(crate) fn unprotect_inherited(&self, start: usize, end: usize) {
        if self.managed.protects() {
            // Where it is not registered for that, nothing is.
            let _ = self.managed.unprotect(start, end - start);
        }
    }

    /// All memory is back: the launcher need not keep any of it.
    pub(crate) fn let_go(&self) {
        self.lifeline.lock().iter().for_each(keep::let_go);
    }

    /// Give up the spare descriptor. False: it is given up already.
    pub(crate) fn give_spare(&self) -> bool {
        self.spare.lock().take().is_some()
    }

    /// Have one again.
    pub(crate) fn renew_spare(&self) {
        let mut spare = self.spare.lock();
        *spare = spare.take().or_else(|| WakeEvent::new().ok());
    }
}

/// Where the launcher of the group can be reached.
pub(crate) fn keeper(group_path: &core::ffi::CStr) -> Option<CString> {
    CString::new(uzswap_ctl::keeper_path(group_path.to_bytes())).ok()
}
