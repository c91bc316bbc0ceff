//! How a userfaultfd is opened, or what does the same.

use core::ffi::c_void;

use linux_raw_sys::general as raw;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Opcode, opcode};

use super::{API, FEATURE_WP, UFFDIO, Uffd};
use crate::proc_mem::ProcMem;
use crate::thread::syscall;

const NEW: Opcode = opcode::none(UFFDIO, 0);

/// `USERFAULTFD_IOC_NEW` on `/dev/userfaultfd`: an integer argument, a descriptor as the result.
struct NewUffd(usize);

// SAFETY: the request takes flags by value, reads no memory of ours and answers with a descriptor
// number.
unsafe impl ioctl::Ioctl for NewUffd {
    type Output = i32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        NEW
    }

    fn as_ptr(&mut self) -> *mut c_void {
        core::ptr::without_provenance_mut(self.0)
    }

    unsafe fn output_from_ptr(out: ioctl::IoctlOutput, _: *mut c_void) -> Result<i32> {
        Ok(out)
    }
}

/// Closed on exec, never blocking in reads.
const FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK);

fn new_by_device() -> Result<OwnedFd> {
    let device = rustix::fs::open(c"/dev/userfaultfd", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: NewUffd describes this request of this device.
    let fd = unsafe { ioctl::ioctl(&device, NewUffd(FLAGS.bits() as usize))? };
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// UFFD_USER_MODE_ONLY (Linux 5.11): the kernel itself gets EFAULT where the program would wait.
const USER_MODE_ONLY: u32 = 1;

/// Without `USER_MODE_ONLY` among `more` it needs CAP_SYS_PTRACE or vm.unprivileged_userfaultfd.
fn new_by_syscall(more: u32) -> Result<OwnedFd> {
    let flags = FLAGS.bits() | more;
    // SAFETY: takes flags, touches no memory of ours.
    let fd = unsafe { syscall(raw::__NR_userfaultfd as usize, [flags as usize, 0, 0, 0, 0, 0])? };
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

impl Uffd {
    /// Open with exactly `features`, closed on exec, never blocking in reads.
    ///
    /// # Errors
    /// ENOENT: no `/dev/userfaultfd`; EACCES, EPERM: not allowed to open it, or not allowed one of
    /// the features (EVENT_FORK without CAP_SYS_PTRACE); EINVAL: this kernel lacks one of the
    /// features.
    pub fn open(features: u64) -> Result<Self> {
        let fd = match new_by_device() {
            // Linux before 6.1, or nobody made the device, or not for us.
            Err(error @ (Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::NXIO)) => {
                new_by_syscall(0).map_err(|errno| match errno {
                    Errno::PERM | Errno::NOSYS | Errno::ACCESS => error,
                    errno => errno,
                })?
            }
            fd => fd?,
        };
        Self::with_features(fd, features)
    }

    /// As [`open`](Self::open), for any user: faults of the program are served, and the kernel gets
    /// EFAULT where it meets one.
    ///
    /// # Errors
    /// EPERM, ENOSYS: a filter of system calls; EINVAL: Linux before 5.11, or this kernel lacks one
    /// of the features.
    pub fn open_for_user(features: u64) -> Result<Self> {
        Self::with_features(new_by_syscall(USER_MODE_ONLY)?, features)
    }

    fn with_features(fd: OwnedFd, features: u64) -> Result<Self> {
        let uffd = Self::opened(fd, features & FEATURE_WP != 0);
        let mut api = raw::uffdio_api {
            api: u64::from(raw::UFFD_API),
            features,
            ioctls: 0,
        };
        uffd.update::<API, _>(&mut api)?;
        Ok(uffd)
    }

    /// What does the same where none can be had: memory is [`closed`](crate::closed).
    ///
    /// # Errors
    /// As for [`ProcMem::open`].
    pub fn open_closing() -> Result<Self> {
        ProcMem::open_to_write().map(|memory| Self::closing(memory.into_fd()))
    }
}
